import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import PaceChange, RunNames, SessionSummary
from eval.reports import question_rows as shown_answers
from eval.reports.html.templates import load_template
from eval.reports.html_report import MAX_ANSWERS, write_report
from eval.reports.step_tree import build_steps
from eval.runs.record import ErrorDetails, Record, Usage
from mas.simulation import SIMULATED_NOTICE

Make = Callable[..., Record]
STEPS = Path(shown_answers.__file__).with_name("steps.html.jinja")
VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """The page's texts, each with the tags around it; every tag must be closed by its own."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.open, self.texts = html, list[str](), list[tuple[str, list[str]]]()
        self.tags: set[str] = set()
        self.scripts = 0
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}, "nothing is loaded"
        self.scripts += tag == "script"
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
    sample_ids: tuple[str, ...] = (),
    about: Sequence[tuple[str, str]] = (),
    **facts: Any,
) -> Page:
    write_report(
        folder / "report.html",
        summarise(records, RunDetails(run_id="run-1", **facts)),
        iter(records),
        sample_ids,
        about,
    )
    assert [each.name for each in folder.iterdir()] == ["report.html"]
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_the_page_loads_nothing_and_lets_no_script_run_but_its_own(tmp_path: Path, record: Make) -> None:
    html = page(tmp_path, [record("a", score=1.0)])
    assert not {"link", "img", "iframe"} & html.tags
    assert not re.search(r"https?:|url\(|@import", html.html)
    (script,) = re.findall(r"<script>(.*?)</script>", html.html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in html.html


def test_numbers_stand_with_their_intervals(tmp_path: Path, record: Make) -> None:
    records = [record("a", score=1.0), record("b", level="2"), record("c", level="2", error="x", score=None)]
    text = page(tmp_path, records).text
    assert "all 33.3% 1.7% to 93.7% 1 1 1 3" in text
    assert "level 2 0.0% 0.0% to 84.2% 0 1 1 2" in text


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
    assert html.scripts == 1
    assert html.text.count(evil) >= 20


def test_characters_that_turn_text_around_or_fit_no_file_are_spelt_out(tmp_path: Path, record: Make) -> None:
    html = page(tmp_path, [record("a", answer="x\u202eevil\x00\ud83d z")])
    assert r"x\u202eevil\u0000\ud83d z" in html.text


def test_gold_answers_are_folded_away(tmp_path: Path, record: Make) -> None:
    html = page(tmp_path, [record("a")])
    around = [tags for text, tags in html.texts if "SECRET-GOLD" in text]
    assert len(around) == 1
    assert "details" in around[0]


def test_each_epoch_of_a_question_shows_its_last_attempt(tmp_path: Path, record: Make) -> None:
    records = [
        record("a", epoch=2, answer="second", score=1.0, explanation="as expected"),
        record("a", epoch=1, answer=None, score=None, error="it broke", error_class="infrastructure"),
        record("a", epoch=1, attempt=2, answer="first", limit="tokens"),
        record("b", epoch=1, answer=None, score=None, error="the run stopped", error_class="not_run"),
    ]
    text = page(tmp_path, records, epochs=2).text
    assert "1 ✗ wrong first \N{EN DASH} ended by tokens try 2 0.0 s 0 $0.0000 2 ✓ right second as expected" in text
    assert "1 \N{EN DASH} not run \N{EN DASH} not_run: the run stopped" in text
    assert "it broke" not in text


def test_a_failure_shows_where_it_happened_and_its_stack(tmp_path: Path, record: Make) -> None:
    details = ErrorDetails(
        "OSError", "tools.x:3 in read\nOSError: <gone>", "expert", "expert", {"planner": 0, "expert": 2}
    )
    failed = {"error": "OSError: <gone>", "error_class": "tool", "error_component": "read_file"}
    text = page(tmp_path, [record("a", score=None, answer=None, error_details=details, **failed)]).text
    assert "failed in read_file; step expert; rejections expert 2 stack tools.x:3 in read OSError: <gone>" in text


def test_questions_stand_in_the_datasets_order(tmp_path: Path, record: Make) -> None:
    text = page(tmp_path, [record("late"), record("early"), record("other")], ("early", "unseen", "late")).text
    places = [text.index(f"{name} Which?") for name in ("early", "late", "other")]
    assert places == sorted(places)


def test_long_texts_are_cut_and_say_so(tmp_path: Path, record: Make) -> None:
    step = {"id": 0, "kind": "agent", "name": "planner", "outputs": {"plan": "y" * 1_000_000}}
    html = page(tmp_path, [record("a", answer="x" * 1_000_000, trajectory=[step])])
    assert html.text.count("… 998,000 characters more in records.jsonl") == 2
    assert len(html.html) < 40_000


@pytest.mark.parametrize("epochs", [1, 4])
def test_ten_thousand_questions_fit_on_a_page(tmp_path: Path, record: Make, epochs: int) -> None:
    def stream() -> Iterator[Record]:
        for n in range(10_000 // epochs):
            for epoch in range(1, epochs + 1):
                yield record(f"q{n}", epoch=epoch, answer="y" * 10_000)

    summary = summarise(stream(), RunDetails(run_id="run-1", epochs=epochs))
    write_report(tmp_path / "report.html", summary, stream())
    html = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert html.html.count('<span class="answer">') == MAX_ANSWERS
    left_out = (10_000 - MAX_ANSWERS) // epochs
    assert f"{left_out:,} more questions are not shown here" in html.text


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
    html = page(tmp_path, [wrong])
    opened = " ".join(text for text, tags in html.texts if "details" in tags and "summary" not in tags)
    for expected in (
        question.strip(), "attachment towns.csv", "answer another", "scorer expected a number", "reasoning I looked.",
        "spent 12.3 s, 3 model calls, 1 tool call, 1,234 tokens, $0.5000", "thread id thread-a",
        "planner 2.5 s asked: Plan! plan: One.",
    ):  # fmt: skip
        assert expected in opened


def test_steps_of_right_answers_give_way_to_those_of_wrong_ones(
    tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(name: str, score: float) -> Record:
        return record(name, score=score, trajectory=[{"id": 0, "kind": "agent", "name": f"agent-{name}"}])

    records = [made("a", 1.0), made("b", 0.0), made("c", 1.0), made("d", 0.0), made("e", 0.0)]
    everything = page(tmp_path, records).text
    assert all(f"agent-{name}" in everything for name in "abcde")
    assert "are left out" not in everything
    one = len(load_template(STEPS).render(steps=build_steps(records[0].trajectory)))
    monkeypatch.setattr(shown_answers, "MAX_STEPS_BYTES", 2 * one)
    text = page(tmp_path, records).text
    assert [name for name in "abcde" if f"agent-{name}" in text] == ["b", "d"]
    assert "those of right answers are left out, and those of 1 more." in text
    assert text.count("Its steps are in records.jsonl") == 3


def test_a_run_that_stopped_says_what_was_not_asked_and_claims_no_interval(tmp_path: Path, record: Make) -> None:
    records = [
        record("a", score=1.0),
        record("b", score=None, answer=None, error="down", error_class="infrastructure"),
        record("c", score=None, answer=None, error="the run stopped", error_class="not_run"),
    ]
    text = page(tmp_path, records, stopped="interrupted").text
    assert "not complete: interrupted. Of 3 questions: 1 answered, 1 in error, 1 not run." in text
    assert "at least 33.3% accuracy" in text
    assert "1 in error, 1 by infrastructure 1 not run" in text
    assert "all at least 33.3% 1 0 1 1 3" in text
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
