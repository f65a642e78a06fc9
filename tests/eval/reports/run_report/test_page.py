"""The page of a run: numbers, errors, charts, rows, and what opens in them."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.attribution.broken_link import find_broken_link
from eval.analysis.attribution.critics import CriticTally
from eval.analysis.attribution.run_attribution import RunAttribution
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import (
    CriticNumbers,
    LabelNumbers,
    LabelSummary,
    LeakedResult,
    PaceChange,
    RunNames,
    SessionSummary,
    TuningOverlap,
)
from eval.reports.run_report import answers as shown_answers
from eval.reports.run_report import page as report
from eval.reports.run_report.page import write_report
from eval.runs.record import ErrorDetails, HumanVerdict, PlannedQuestion, Record, Usage
from mas.simulation import SIMULATED_NOTICE
from tests.report_file import ReportFile

Make = Callable[..., Record]
VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """The page's texts outside its rows; every tag must be closed by its own."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.report = ReportFile(path)
        self.html, self.open, self.texts = self.report.html, list[str](), list[tuple[str, list[str]]]()
        self.tags: set[str] = set()
        self.scripts = 0
        self.feed(self.html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            assert name != "src" and (name != "href" or str(value).startswith("#")), "nothing is loaded"
        self.scripts += tag == "script" and "type" not in dict(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and not {"style", "script"} & set(self.open):
            self.texts.append((" ".join(data.split()), list(self.open)))

    @property
    def text(self) -> str:
        return " ".join(text for text, _ in self.texts)


def page(
    folder: Path,
    records: list[Record],
    plan: Sequence[PlannedQuestion] = (),
    about: Sequence[tuple[str, str]] = (),
    **facts: Any,
) -> Page:
    write_report(
        folder / "report.html",
        summarise(records, RunDetails(run_id="run-1", **facts)),
        iter(records),
        plan,
        about,
    )
    assert [each.name for each in folder.iterdir()] == ["report.html"]
    return Page(folder / "report.html")


def attribute(records: list[Record]) -> RunAttribution:
    """The links and reviews of these records, as those of a stored run are found."""
    found = RunAttribution({}, CriticTally(None))
    for each in records:
        if (link := find_broken_link(each)) is not None:
            found.links[each.sample_id, each.epoch] = link
        found.critics.add(each, link)
    return found


def test_the_page_loads_nothing_and_lets_no_script_run_but_its_own(tmp_path: Path, record: Make) -> None:
    html = page(tmp_path, [record("a", score=1.0)])
    assert not {"link", "img", "iframe"} & html.tags
    assert not re.search(r"https?:|url\(|@import", html.report.visible)
    scripts = re.findall(r"<script>(.*?)</script>", html.html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    policy = "script-src " + " ".join(f"'sha256-{digest}'" for digest in digests)
    assert len(scripts) == html.scripts > 5
    assert f"default-src 'none'; style-src 'unsafe-inline'; {policy}; base-uri 'none'" in html.html


def test_numbers_stand_with_their_intervals(tmp_path: Path, record: Make) -> None:
    records = [record("a", score=1.0), record("b", level="2"), record("c", level="2", error="x", score=None)]
    text = page(tmp_path, records).text
    assert "accuracy 33.3% 95% interval 1.7% to 93.7%" in text
    assert "all 33.3% 1.7% to 93.7% 1 1 1 3" in text
    assert "level 2 0.0% 0.0% to 84.2% 0 1 1 2" in text
    assert "Accuracy by level as a table name accuracy 95% interval note level 1 100.0%" in text


def test_data_stays_text(tmp_path: Path, record: Make) -> None:
    evil = "</td><script>alert(1)</script>\"'&{{ 7*7 }}"
    names = ("question", "file", "answer", "explanation", "level", "target", "limit", "reasoning_trace", "thread_id")
    step = {"id": 0, "kind": "tool", "name": evil, "inputs": {evil: evil}, "outputs": {"observation": evil}}
    records = [
        record(evil, **dict.fromkeys(names, evil), trajectory=[{**step, "error": evil}]),
        record("b", error=evil, error_class=evil, error_component=evil, score=None),
    ]
    facts: dict[str, Any] = {"stopped": evil, "command": (evil,), "names": RunNames(model=evil)}
    html = page(
        tmp_path,
        records,
        about=[(evil, evil)],
        **facts,
        sessions=[SessionSummary(stopped=evil, changes={evil: evil})] * 2,
    )
    assert html.scripts == page(tmp_path, []).scripts
    assert evil not in html.html and html.text.count(evil) >= 9
    row, details = html.report.rows[0], html.report.details(evil)
    assert [row[name] for name in ("id", "question", "target", "level", "file")] == [evil] * 5
    assert [details[name] for name in ("answer", "scorer", "reasoning", "thread id", "ended by")] == [evil] * 5
    assert evil in details["steps"][0]["title"]


def test_characters_that_turn_text_around_or_fit_no_file_are_spelt_out(tmp_path: Path, record: Make) -> None:
    made = page(tmp_path, [record("a", answer="x\u202eevil\x00\ud83d z", error="\u202eno", score=None)])
    assert made.report.rows[0]["answer"] == [r"x\u202eevil\u0000\ud83d z"]
    assert made.report.details("a")["answer"] == r"x\u202eevil\u0000\ud83d z"
    assert r"\u202eno" in made.text and "\u202e" not in made.html


def test_the_gold_answer_is_next_to_the_answer_and_the_id_is_small(tmp_path: Path, record: Make) -> None:
    made = page(tmp_path, [record("a"), record("b", target=None, score=None)])
    row = made.report.rows[0]
    assert (row["question"], row["target"], row["answer"]) == ("Which?", "SECRET-GOLD", ["another"])
    assert made.report.rows[1]["target"] is None
    assert "SECRET-GOLD" not in made.report.visible, "it is in the rows alone"


def test_each_epoch_of_a_question_shows_its_last_attempt(tmp_path: Path, record: Make) -> None:
    records = [
        record("a", epoch=2, answer="second", score=1.0, explanation="as expected"),
        record("a", epoch=1, answer=None, score=None, error="it broke", error_class="infrastructure"),
        record("a", epoch=1, attempt=2, answer="first", limit="tokens"),
        record("b", epoch=1, answer=None, score=None, error="the run stopped", error_class="not_run"),
    ]
    made = page(tmp_path, records, epochs=2)
    names = ("epoch", "mark", "line", "attempt", "limit")
    shown = [[each[name] for name in names] for each in made.report.answers("a")]
    assert shown == [[1, "wrong", "first", 2, "tokens"], [2, "right", "second", 1, ""]]
    assert made.report.details("a", 2)["scorer"] == "as expected"
    (missing,) = made.report.answers("b")
    assert (missing["mark"], missing["why"]) == ("not run", "not_run: the run stopped")
    assert "it broke" not in str(made.report.rows)


def test_a_failure_shows_where_it_happened_and_its_stack(tmp_path: Path, record: Make) -> None:
    details = ErrorDetails(
        "OSError", "tools.x:3 in read\nOSError: <gone>", "expert", "expert", {"planner": 0, "expert": 2}
    )
    failed = {"error": "OSError: <gone>", "error_class": "tool", "error_component": "read_file"}
    made = page(tmp_path, [record("a", score=None, answer=None, error_details=details, **failed)])
    opened = made.report.details("a")
    assert opened["failed in"] == "read_file; step expert; rejections expert 2"
    assert opened["stack"] == "tools.x:3 in read\nOSError: <gone>"
    assert opened["error"] == "tool: OSError: <gone>"


def planned(*ids: str, **tags: dict[str, str]) -> list[PlannedQuestion]:
    return [PlannedQuestion(each, "Which?", tags=tags.get(each, {})) for each in ids]


def test_questions_stand_in_the_datasets_order(tmp_path: Path, record: Make) -> None:
    made = page(tmp_path, [record("late"), record("early"), record("other")], planned("early", "unseen", "late"))
    assert made.report.ids == ["early", "late", "other"]


def test_tags_and_kinds_of_attachments_are_filters_and_charts(tmp_path: Path, record: Make) -> None:
    plan = planned("a", "b", a={"source": "web", "expected": "x"}, b={"source": "mail"})
    tags = {each.id: each.tags for each in plan}
    made = page(tmp_path, [record("a", file="x.csv", score=1.0), record("b")], plan, tags=tags)
    assert [(row["tag source"], row["kind"]) for row in made.report.rows] == [("web", "table"), ("mail", "none")]
    assert "Accuracy by source" in made.text and "Accuracy by attachment" in made.text
    assert "expected" not in made.report.rows[0]


def test_long_texts_are_cut_and_say_so_but_prompts_are_whole(tmp_path: Path, record: Make) -> None:
    step = {"id": 0, "kind": "agent", "name": "planner", "outputs": {"plan": "y" * 1_000_000}}
    prompt = "p" * 100_000
    call = {"id": 1, "parent": 0, "kind": "lm", "name": "m", "inputs": {"system": prompt}, "outputs": {}}
    made = page(tmp_path, [record("a", answer="x" * 1_000_000, trajectory=[step, call])])
    assert (
        made.report.text.count("… 998,000 characters more in records.jsonl") == 3
    )  # in the answer, its search, the plan
    assert made.report.prompts("a")["1"]["messages"] == [["system", prompt]]
    assert made.report.details("a")["steps"][0]["calls"] == [1]
    assert len(made.report.visible) < 40_000


def test_equal_errors_are_one_at_the_top_with_their_full_message(tmp_path: Path, record: Make) -> None:
    long = f"The server said {'no ' * 200}at last"
    failed = [record(f"q{n}", score=None, answer=None, error=f"{long} after {n} s", error_class="x") for n in range(3)]
    other = record("o", score=None, answer=None, error="the key was refused", error_class="authentication")
    records = [*failed, other]
    text = page(tmp_path, records, attribution=attribute(records)).text
    assert "No question was answered 3 \N{MULTIPLICATION SIGN} x show them" in text
    assert f"{long} after 0 s" in text and "2 more messages differ from it in numbers only." in text
    parts = ["3 \N{MULTIPLICATION SIGN} x", "show them the key was refused", "Where points are lost"]
    assert parts == sorted(parts, key=text.index)
    assert "No question was answered" not in page(tmp_path, [*failed, record("a")]).text


def test_a_critic_that_approved_a_wrong_answer_is_marked(tmp_path: Path, record: Make) -> None:
    def judged(decision: str) -> list[dict[str, object]]:
        first = {"id": 0, "kind": "agent", "name": "critic_planner", "outputs": {"decision": "approve"}}
        return [first, {"id": 1, "kind": "agent", "name": "critic_expert", "outputs": {"decision": decision}}]

    records = [
        record("wrong", trajectory=judged("approve")),
        record("right", trajectory=judged("approve"), score=1.0),
        record("rejected", trajectory=judged("reject")),
    ]
    made = page(tmp_path, records)
    assert [made.report.answers(name)[0]["approved"] for name in made.report.ids] == ["critic_expert", "", ""]
    assert made.report.rows[0]["critic"] == ["critic_expert approved a wrong answer"]
    assert [step.get("misled", False) for step in made.report.details("wrong")["steps"]] == [False, True]


def test_a_critic_that_approved_a_right_draft_is_not_blamed_for_what_became_of_it(tmp_path: Path, record: Make) -> None:
    def drafted(answer: str) -> list[dict[str, object]]:
        return [
            {"id": 0, "kind": "agent", "name": "expert", "outputs": {"expert_answer": answer}},
            {"id": 1, "kind": "agent", "name": "critic_expert", "outputs": {"decision": "approve"}},
            {"id": 2, "kind": "agent", "name": "finalizer", "outputs": {"final_answer": "spoilt"}},
        ]

    records = [record("right draft", trajectory=drafted("418"), target="418", answer="spoilt")]
    records.append(record("wrong draft", trajectory=drafted("18"), target="418", answer="spoilt"))
    made = page(tmp_path, records)
    assert {name: made.report.answers(name)[0]["approved"] for name in made.report.ids} == {
        "right draft": "",
        "wrong draft": "critic_expert",
    }
    assert not any(step.get("misled") for step in made.report.details("right draft")["steps"])


def test_points_lost_are_shown_by_cause(tmp_path: Path, record: Make) -> None:
    records = [
        record("a"),
        record("b", score=0.25),
        record("c", limit="tokens"),
        record("d", score=None, answer=None, error="down", error_class="infrastructure"),
        record("e", score=1.0),
        record("f", target=None, score=None),
        record("g", target=None, score=None, answer=None, error="down", error_class="infrastructure"),
    ]
    text = page(tmp_path, records, attribution=attribute(records)).text
    assert "Most points are lost at program: 35.0 of 100 (95% interval " in text and "; next is " in text
    titles = "name points lost 95% interval note"
    assert f"Points lost of 100, by the first broken link as a table {titles} program 35 " in text  # 1.75 of 5
    assert "to" in text.partition("program 35 ")[2].partition(" 2 answers")[0]
    assert "error infrastructure 20 " in text and "limit tokens 20 " in text


def test_critics_are_shown_with_what_they_found_and_what_they_cost(tmp_path: Path, record: Make) -> None:
    numbers: dict[str, Any] = {
        **{"judges": ("expert",), "is_exact": False, "n_reviews": 50, "approved_right": 20, "misses": 6},
        **{"false_alarms": 2, "hits": 12, "n_unknown": 10, "precision": 12 / 14, "precision_ci95": (0.6, 0.96)},
        **{"recall": 12 / 18, "recall_ci95": (0.4, 0.85), "n_rejecting": 11, "n_recovered": 5, "lm_calls": 50},
        **{"input_tokens": 900, "output_tokens": 100, "cost_usd": 0.25, "seconds": 7.5},
    }
    records = [record(f"q{n}") for n in range(20)]
    summary = replace(
        summarise(records, RunDetails(run_id="r")),
        critics={"critic_expert": CriticNumbers(**numbers), "idle": CriticNumbers(**{**numbers, "is_exact": True})},
    )
    write_report(tmp_path / "report.html", summary, records)
    text = Page(tmp_path / "report.html").text
    assert "critic_expert expert 50 6 of 18 2 of 22 5 of 11 answers $0.2500 1,000 7.5 s" in text
    assert "critic_expert wrong work that it rejected 66.7% 40.0% to 85.0% 12 of 18" in text
    assert "critic_expert rejections that were justified 85.7% 60.0% to 96.0% 12 of 14" in text
    assert "Of critic_expert nobody knows" in text
    assert "critic_expert took 1,000 tokens. Work was wrong: it rejected 12 of 18 times." in text
    assert "Work was right: it rejected 2 of 22 times; of 10 reviews nobody knows which it was. 5 of 20 answers" in text
    assert re.search(
        r"gained at most 25\.0 points of 100 \(95% interval \d+\.\d to \d+\.\d\), \$0\.0500 for each", text
    )
    assert "Are the critics" not in page(tmp_path, records).text


def test_spending_is_set_against_points(tmp_path: Path, record: Make) -> None:
    records = [
        record(f"q{n}", score=float(n < 6), usage=Usage(1, cost_usd=0.01 * (n + 1)), seconds_by_agent={"solve": n})
        for n in range(8)
    ]
    text = page(tmp_path, records).text
    assert "quarters of the answers' cost, the cheapest first" in text and "$0.01 to $0.03 100.0%" in text
    assert "$0.07 to $0.08 0.0%" in text
    assert "Cost of each answer, by verdict" in text and "right $0.0100" in text
    assert "Seconds of each agent, mean of all answers as a table name seconds note solve 3.5 s 10 % over" in text
    assert "cost $0.3600 $0.0600 for each right answer" in text


@pytest.mark.parametrize("epochs", [1, 4])
def test_as_many_questions_as_there_is_room_for_are_on_the_page(
    tmp_path: Path, record: Make, epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MAX_ANSWERS", 200)

    def stream() -> Iterator[Record]:
        for n in range(300 // epochs):
            for epoch in range(1, epochs + 1):
                yield record(f"q{n}", epoch=epoch, answer="y" * 10_000)

    summary = summarise(stream(), RunDetails(run_id="run-1", epochs=epochs))
    write_report(tmp_path / "report.html", summary, stream())
    made = ReportFile(tmp_path / "report.html")
    assert sum(len(row["answers"]) for row in made.rows) == 200
    assert f"{100 // epochs:,} more questions are not shown here" in made.visible
    assert len(made.html) < 700_000


def test_repeats_have_their_numbers(tmp_path: Path, record: Make) -> None:
    text = page(tmp_path, [record("a"), record("a", epoch=2, score=1.0)], epochs=2).text
    assert "Repeats: 2 epochs of each question" in text


def test_a_question_opens_to_all_that_is_known_of_it(tmp_path: Path, record: Make) -> None:
    usage = Usage(lm_calls=3, tool_calls=1, input_tokens=1_200, output_tokens=34, cost_usd=0.5)
    step = {"id": 0, "kind": "agent", "name": "planner", "inputs": {"request": "Plan!"}, "outputs": {"plan": "One."}}
    question = "Which? " * 60
    wrong = record(
        "a", question=question, file="towns.csv", explanation="expected a number", reasoning_trace="I looked.",
        usage=usage, wall_seconds=12.34, trajectory=[{**step, "start_seconds": 1.0, "end_seconds": 3.5}],
    )  # fmt: skip
    made = page(tmp_path, [wrong]).report
    opened = made.details("a")
    assert opened["steps"] == [
        {"kind": "agent", "title": "planner", "facts": "2.5 s", "asked": "Plan!", "said": [["plan", "One."]], "span": 0}
    ]
    assert {name: opened[name] for name in ("question", "target", "scorer", "reasoning", "spent", "thread id")} == {
        "question": question, "target": "SECRET-GOLD", "scorer": "expected a number", "reasoning": "I looked.",
        "spent": "12.3 s, 3 model calls, 1 tool call, 1,234 tokens, $0.5000", "thread id": "thread-a",
    }  # fmt: skip
    assert made.rows[0]["file"] == "towns.csv" and made.rows[0]["rest"] == question


def test_steps_of_right_answers_give_way_to_those_of_wrong_ones(
    tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = {name: hashlib.sha512(name.encode()).hexdigest() * 4 for name in "abcde"}

    def made(name: str, score: float) -> Record:
        step = {"id": 0, "kind": "agent", "name": f"agent-{name}", "outputs": {"said": noise[name]}}
        call = {"id": 1, "parent": 0, "kind": "lm", "name": "m", "inputs": {"system": noise[name][::-1]}}
        return record(name, score=score, trajectory=[step, call])

    records = [made("a", 1.0), made("b", 0.0), made("c", 1.0), made("d", 0.0), made("e", 0.0)]
    everything = page(tmp_path, records)
    assert all(everything.report.details(name) and everything.report.prompts(name) for name in "abcde")
    assert "There was no room" not in everything.report.visible
    monkeypatch.setattr("eval.reports.html.blocks.BLOCK_BYTES", 1)
    monkeypatch.setattr(shown_answers, "MAX_BLOCK_BYTES", 2_700)
    full = page(tmp_path, records)
    assert [name for name in "abcde" if full.report.details(name)] == ["b", "d", "e"]
    assert not full.report.prompts("a")
    assert "There was no room for the steps of 2 of 5 answers, right ones first" in full.text


def test_a_run_that_stopped_says_what_was_not_asked_and_claims_no_interval(tmp_path: Path, record: Make) -> None:
    records = [
        record("a", score=1.0),
        record("b", score=None, answer=None, error="down", error_class="infrastructure"),
        record("c", score=None, answer=None, error="the run stopped", error_class="not_run"),
    ]
    text = page(tmp_path, records, stopped="interrupted").text
    assert "not complete: interrupted. Of 3 questions: 1 answered, 1 in error, 1 not run." in text
    assert "accuracy at least 33.3% not complete: no interval" in text
    assert "1 in error, 1 by infrastructure, 1 not run" in text
    assert "all at least 33.3% 1 0 1 1 3" in text
    assert "Accuracy by" not in text or "so far" in text
    assert "95% interval" not in text


def test_the_head_says_what_was_measured(tmp_path: Path, record: Make) -> None:
    text = page(tmp_path, [record("a")], about=[("questions", "sample, split val: 1"), ("command", "python x")]).text
    assert "questions sample, split val: 1 command python x" in text


def test_the_course_of_the_run_is_told(tmp_path: Path, record: Make) -> None:
    sessions = [
        SessionSummary(started_at="2026-11-20T10:00:00.5"),
        SessionSummary(started_at="2026-11-20T11:00:00", ended_at="2026-11-20T11:05:00", changes={"limit": "3 → 5"}),
    ]
    history = [
        PaceChange(seconds=0.0, pace=500.0, reason="start"),
        PaceChange(seconds=2.5, pace=3.25, reason="rate limit"),
    ]
    text = page(
        tmp_path, [record("a")], sessions=sessions, pace_history=history, simulated=True, names=RunNames(model="m-1")
    ).text
    assert "2026-11-20 10:00:00 \N{EN DASH} killed, or still going on none" in text
    assert "2026-11-20 11:00:00 2026-11-20 11:05:00 no limit: 3 → 5" in text
    assert "2.5 3.25 rate limit" in text
    assert "limited once by the server" in text
    assert SIMULATED_NOTICE in text


def test_a_run_without_records_has_a_page(tmp_path: Path) -> None:
    assert "n/a" in page(tmp_path, []).text


def test_a_page_that_cannot_be_made_leaves_the_old_one(tmp_path: Path, record: Make) -> None:
    before = page(tmp_path, [record("a")]).html
    summary = summarise([record("a")], RunDetails(run_id="run-1"))
    broken = replace(summary, pace_history=(None,))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        write_report(tmp_path / "report.html", broken, [record("a")])
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before


def test_a_run_that_stopped_at_its_last_question_is_complete(tmp_path: Path, record: Make) -> None:
    failed = record("b", score=None, answer=None, error="down", error_class="malformed")
    text = page(tmp_path, [record("a", score=1.0), failed], stopped="run.fail_fast is on").text
    assert "not complete" not in text and "95% interval" in text
    assert "stopped run.fail_fast is on" in text


def test_each_column_is_drawn_searched_filtered_and_exported_as_it_should_be(tmp_path: Path, record: Make) -> None:
    plan = planned("a", "b", a={"source": "web"}, b={"source": "mail"})
    html = page(tmp_path, [record("a"), record("b")], plan).html
    found = re.search(
        r'data-rows="questions">\s*<script type="application/json" class="data">(.*?)</script>', html, re.S
    )
    assert found is not None
    columns = json.loads(found[1])["columns"]
    hidden = [each["key"] for each in columns if each["kind"] == "hidden"]
    drawn = {
        "question": "text",
        "target": "text",
        "answer": "text",
        "lost": "text",
        "cost": "usd",
        "seconds": "seconds",
    }
    assert {each["key"]: each["kind"] for each in columns if each["kind"] != "hidden"} == drawn
    assert hidden == [
        "mark", "cause", "error", "critic", "people", "level", "kind", "tag source", "file", "why", "tokens", "rest",
        "answers",
    ]  # fmt: skip
    assert [each["key"] for each in columns if each["menu"]] == ["lost", *hidden[:8]]
    assert [each["key"] for each in columns if each["find"]] == [
        "question", "target", "answer", "lost", "cost", "seconds", "error", "critic", "tag source", "file", "why",
        "rest",
    ]  # fmt: skip
    assert [each["key"] for each in columns if not each["export"]] == ["rest", "answers"]


def test_a_row_sums_up_the_answers_of_all_epochs(tmp_path: Path, record: Make) -> None:
    usage = Usage(1, input_tokens=3, output_tokens=4, cost_usd=0.1)
    verdict = HumanVerdict("1", "wrong_gold", "ada", "2026", "night")
    records = [
        record(
            "a", answer="x", usage=usage, wall_seconds=1.5, explanation="no", human=[verdict], level="2", file="a.csv"
        ),
        record("a", epoch=2, score=1.0, answer="y", usage=replace(usage, cost_usd=0.2), wall_seconds=2.0),
        record("a", epoch=3, answer=None, score=None, error="down", error_class="model", usage=usage),
    ]
    (row,) = page(tmp_path, records, epochs=3).report.rows
    answers = row.pop("answers")
    assert row == {
        "id": "a", "question": "Which?", "target": "SECRET-GOLD", "answer": ["x", "y", ""],
        "lost": ["program", "error model"], "cause": ["agent", "error"], "cost": 0.4, "seconds": 3.5,
        "mark": ["wrong", "right", "error", "not right"], "error": ["model"], "critic": [], "people": ["wrong gold"],
        "level": "2", "kind": "table", "file": "a.csv", "why": ["no", "model: down"], "tokens": 21, "rest": "",
    }  # fmt: skip
    assert [list(each.values()) for each in answers] == [
        [1, 1, 1, "wrong", "x", "no", "program", "", "", 1.5, 7, 0.1, "wrong gold"],
        [2, 2, 1, "right", "y", "", "", "", "", 2.0, 7, 0.2, ""],
        [3, 3, 1, "error", "", "model: down", "error model", "", "", 0.0, 7, 0.1, ""],
    ]
    unknown = page(tmp_path, [record("a", usage=usage), record("a", epoch=2, usage=Usage(1))], epochs=2)
    assert unknown.report.rows[0]["cost"] is None
    right = page(tmp_path, [record("a", score=1.0)]).report.rows[0]
    assert (right["mark"], right["lost"], right["cost"]) == (["right"], [], 0.0)


def labelled(n: int, tmp_path: Path, record: Make) -> str:
    numbers = LabelNumbers(
        n=1, n_given=1, precision=0.5, precision_ci95=None, recall=0.25, recall_ci95=None, f1=0.125, f1_ci95=None
    )
    labels = LabelSummary(
        macro_f1=0.5, macro_f1_ci95=None, n_other=0, n_no_answer=0, by_label={f"l{at}": numbers for at in range(n)},
        confusion={"l0": {"l0": 3}},
    )  # fmt: skip
    summary = replace(summarise([record("a")], RunDetails(run_id="r")), labels=labels)
    write_report(tmp_path / "report.html", summary, [record("a")])
    return Page(tmp_path / "report.html").text


def test_a_confusion_matrix_is_shown_up_to_thirty_labels(tmp_path: Path, record: Make) -> None:
    text = labelled(30, tmp_path, record)
    assert "Confusion matrix" in text and f"target ↓ answer → {' '.join(f'l{at}' for at in range(30))} " in text
    assert "l0 50.0% n/a 25.0% n/a 12.5% n/a 1 1" in text
    text = labelled(31, tmp_path, record)
    assert "There are too many labels to show the confusion matrix here" in text


def test_five_messages_are_at_the_top_and_the_others_folded(tmp_path: Path, record: Make) -> None:
    def text(n: int) -> str:
        failed = [record(f"q{at}", score=None, answer=None, error="abcdefgh"[at], error_class="x") for at in range(n)]
        return page(tmp_path, failed).text

    assert "more messages" not in text(5) and "1 more messages 1 \N{MULTIPLICATION SIGN} x show them f" in text(6)


def test_room_for_questions_depends_on_the_epochs() -> None:
    assert [report.limit_questions(epochs) for epochs in (0, 1, 3, 10_000, 20_000)] == [10_000, 10_000, 3_333, 1, 1]


def test_what_must_be_known_before_the_number_stands_at_the_top(tmp_path: Path, record: Make) -> None:
    overlap = TuningOverlap(
        accuracy_without=None, accuracy_without_ci95=None, n_without=0, prompts="mine", n_questions=0, n_all=1,
        n_unscored=0, edited=(), n_learnt_from=0, n_picked_by=0,
    )  # fmt: skip

    def caveats(about: list[tuple[str, str]], **changes: Any) -> list[str]:
        summary = replace(summarise([record("a")], RunDetails(run_id="r")), **changes)
        write_report(tmp_path / "report.html", summary, [record("a")], facts=about)
        found = re.search(r'<dl class="caveats">(.*?)</dl>', (tmp_path / "report.html").read_text("utf-8"), re.S)
        return re.findall(r"<dt>(.*?)</dt>", found[1]) if found else []

    assert caveats([]) == []
    assert caveats([("answers", "scored again"), ("model", "m")], n_bad_rows=1, n_unscored=2, n_outside_plan=1) == [
        "unscored", "left out", "skipped", "answers"
    ]  # fmt: skip
    assert caveats([], used_to_tune=overlap) == [], "none of the questions was used"
    assert caveats([], used_to_tune=replace(overlap, edited=("mine",))) == ["tuned on"]
    assert caveats([], used_to_tune=replace(overlap, n_questions=1)) == ["tuned on"]


def test_of_pages_that_give_the_benchmark_away_and_of_changes_of_pace_the_page_has_so_many(
    tmp_path: Path, record: Make
) -> None:
    def shown(n_leaks: int, n_paces: int) -> str:
        results = tuple(LeakedResult(sample_id="a", epoch=1, tool="t", source=f"s{n}.x") for n in range(n_leaks))
        summary = summarise([record("a")], RunDetails(run_id="r"))
        history = tuple(PaceChange(seconds=n, pace=n + 0.5, reason=f"r{n}") for n in range(n_paces))
        summary = replace(summary, leaks=replace(summary.leaks, results=results), pace_history=history)
        write_report(tmp_path / "report.html", summary, [record("a")])
        return Page(tmp_path / "report.html").text

    text = shown(200, 100)
    assert "more are in summary.json" not in text and "Requests per second: 100 changes seconds" in text
    text = shown(201, 101)
    assert "1 more are in summary.json" in text and "s199.x" in text and "s200.x" not in text
    assert "101 changes, the last 100 shown" in text and " r0 " not in text and " r100" in text
