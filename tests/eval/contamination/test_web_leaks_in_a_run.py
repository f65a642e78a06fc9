"""Whole runs whose agent reads the web: what gives the benchmark away is in record, summary, table and page."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.eval.command_line import EvalCommand, Finished, question, write_questions
from tests.servers.chat_reply import Call, complete, write_fields
from tests.servers.loopback import Answer, Asked, running
from tests.servers.scripted_llm import Body, scripted_llm
from tests.servers.tavily import KEY, LEAK_URL, TavilyServer
from tests.servers.website import Website

Plan = tuple[Sequence[Call], str]  # calls, all at once; final answer
ASKED = "In which year was the lamp of the lighthouse at Marrow Point first lit by its three keepers?"
PASSAGE = "the lamp of the lighthouse at Marrow Point"
GOLD = "1874"
PAGES: Mapping[str, str] = {
    "/both": f"<h1>Quiz</h1><p>In which year was {PASSAGE} first lit? The answer is {GOLD}.</p>",
    "/gold": f"<h1>Marrow Point</h1><p>Its lamp was first lit in {GOLD}, as its keepers tell.</p>",
    "/words": f"<h1>Quiz</h1><p>In which year was {PASSAGE} first lit? Nobody knows.</p>",
    "/long": f"<p>In which year was {PASSAGE} first lit?</p>{'<p>Nobody had asked.</p>' * 800}<p>Answer: {GOLD}</p>",
    "/hidden": "<h1>QUIZ</h1><p>THE&#32;LAMP OF THE LIGHT&shy;HOUSE AT MARR&#79;W POINT: &#49;874</p>",
}
SEARCHED = "Which peak is 4,218 metres high and was first climbed in 1931?"  # tests/servers/tavily.py has it


class Pages(Website):
    def answer(self, asked: Asked) -> Answer:
        if asked.path in PAGES:
            html = f"<html><head><title>Page</title></head><body><main>{PAGES[asked.path]}</main></body></html>"
            return Answer(html.encode(), 200, {"Content-Type": "text/html; charset=utf-8"})
        return super().answer(asked)


@pytest.fixture(scope="module")
def site() -> Iterator[Pages]:
    with running(Pages()) as server:
        yield server


@pytest.fixture(scope="module")
def tavily() -> Iterator[TavilyServer]:
    with running(TavilyServer()) as server:
        yield server


@pytest.fixture
def web(tavily: TavilyServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    return [
        f"+tools.web.search_base_url={tavily.base_url}",
        *("+tools.web.allow_private_hosts=[127.0.0.1]", "system=single_agent", "model=openai_compatible"),
    ]


def run(
    command: EvalCommand, web: Sequence[str], folder: Path, rows: Mapping[str, tuple[str, str | None, Plan]], *more: str
) -> tuple[Finished, list[str]]:
    """`rows`: id → question, gold, plan. Returns the run, and the bodies that its model was sent."""
    data = write_questions(folder, *(question(id, text, gold) for id, (text, gold, _) in rows.items()))

    def answer(body: Body) -> Body:
        said = json.dumps(body["messages"])
        calls, final = next(plan for text, _, plan in rows.values() if text in said)
        if calls and not any(each["role"] == "tool" for each in body["messages"]):
            return complete(calls=calls)
        return complete(write_fields({"final_answer": final, "final_reasoning_trace": "As it stood there."}))

    with scripted_llm(answer) as model:
        url = f"model.base_url={model.base_url}"
        finished = command(*web, url, "data=jsonl", f"data.path={data}", "run.concurrency=1", *more)
    assert finished.code == 0, finished.err
    return finished, [request.body.decode() for request in model.requests]


def reading(site: Website, *paths: str, final: str = GOLD) -> Plan:
    return [("read_page", {"url": site.base_url + path}) for path in paths], final


def asked(number: int) -> str:
    return f"{ASKED} (Question {number})"


@pytest.mark.slow
def test_what_gives_the_question_away_is_listed_with_its_address_and_counted(
    eval_command: EvalCommand, web: list[str], tmp_path: Path, site: Website
) -> None:
    rows = {
        "both": (asked(1), GOLD, reading(site, "/both")),
        "gold": (asked(2), GOLD, reading(site, "/gold")),
        "words": (asked(3), GOLD, reading(site, "/words", final="1900")),
        "hidden": (asked(4), GOLD, reading(site, "/hidden", "/gold")),
        "halves": (
            asked(7),
            GOLD,
            ([("read_page", {"url": f"{site.base_url}/long", "page": number}) for number in (1, 2)], "1901"),
        ),
        "half": (asked(8), GOLD, reading(site, "/long", final="1901")),
        "unscored": (asked(5), None, reading(site, "/both")),
        "apart": (asked(6), GOLD, reading(site, "/gold", "/words", final="1900")),
        "searched": (
            SEARCHED,
            "Varga Peak",
            ([("tavily_tool", {"query": "Varga Peak"}), ("read_page", {"url": LEAK_URL})], "Varga Peak"),
        ),
    }
    finished, _ = run(eval_command, web, tmp_path / "data", rows)
    leaks = {id: record["leaks"] for id, record in finished.records.items()}
    assert leaks == {
        "both": [{"tool": "read_page", "source": f"{site.base_url}/both"}],
        "hidden": [{"tool": "read_page", "source": f"{site.base_url}/hidden"}],
        "halves": [{"tool": "read_page", "source": f"{site.base_url}/long"}],
        "searched": [{"tool": "tavily_tool", "source": "https://peaks.example.org/varga-peak"}],
        **{id: [] for id in ("gold", "words", "half", "unscored", "apart")},
    }

    summary = finished.summary
    assert (summary["accuracy"], summary["n_scored"]) == (pytest.approx(4 / 8), 8), "the accuracy is over all"
    found = summary["leaks"]
    assert (found["n_questions"], found["without"]["value"], found["without"]["n"]) == (4, pytest.approx(1 / 4), 4)
    assert found["without"]["ci95"][0] < 1 / 4 < found["without"]["ci95"][1]
    assert f"{site.base_url}/both" in found["sources"] and f"{site.base_url}/hidden" in found["sources"]

    out = " ".join(finished.out.split())
    assert f"benchmark leaks: 4 questions met a page that gives the benchmark away: {site.base_url}/both; " in out
    assert "; accuracy without them: 25.0% of 4 (" in out


@pytest.mark.slow
def test_gold_answers_change_the_listing_and_nothing_that_anybody_is_sent(
    eval_command: EvalCommand, web: list[str], tmp_path: Path, site: Website
) -> None:
    def with_gold(name: str, *golds: str) -> tuple[Finished, list[str]]:
        rows = {
            f"q{number}": (asked(number), gold, reading(site, "/both", final=final))
            for number, (gold, final) in enumerate(zip(golds, ("1874", "1901", "1931"), strict=True))
        }
        return run(eval_command, web, tmp_path / name, rows)

    one, sent = with_gold("a", "1874", "1901", "1931")
    other, sent_again = with_gold("b", "1931", "1874", "1901")
    assert [each.summary["leaks"]["n_questions"] for each in (one, other)] == [1, 1]
    assert [id for id, record in one.records.items() if record["leaks"]] == ["q0"]
    assert [id for id, record in other.records.items() if record["leaks"]] == ["q1"]
    assert one.answers and [_said(each) for each in one.answers] == [_said(each) for each in other.answers]
    assert sent == sent_again, "not a byte of a request depends on a gold answer"


def _said(answer: Mapping[str, Any]) -> tuple[str, str]:
    return answer["task_id"], answer["model_answer"]
