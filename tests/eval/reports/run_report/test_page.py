"""The page of a run: numbers, errors, charts, rows, and what opens in them."""

from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from eval.analysis.attribution.broken_link import RunAttribution, find_broken_link
from eval.reports.run_report.page import write_report
from eval.runs.record import ErrorDetails, PlannedQuestion, Record
from tests.eval.stored_run import summarise_records
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
    about: Mapping[str, str] | None = None,
    **facts: Any,
) -> Page:
    write_report(
        folder / "report.html",
        summarise_records(records, **facts),
        iter(records),
        plan,
        about,
    )
    assert [each.name for each in folder.iterdir()] == ["report.html"]
    return Page(folder / "report.html")


def attribute(records: list[Record]) -> RunAttribution:
    """The links of these records, as those of a stored run are found."""
    links = {(each.sample_id, each.epoch): link for each in records if (link := find_broken_link(each)) is not None}
    return RunAttribution(links)


def test_numbers_stand_with_their_intervals(tmp_path: Path, record: Make) -> None:
    records = [record("a", score=1.0), record("b", level="2"), record("c", level="2", error="x", score=None)]
    made = page(tmp_path, records)
    text = made.text
    assert "accuracy 33.3% 95% interval 1.7% to 93.7%" in text
    assert "all 33.3% 1.7% to 93.7% 1/3 1 1 3" in text
    assert "level 2 0.0% 0.0% to 84.2% 0/2 1 1 2" in text


def test_data_stays_text(tmp_path: Path, record: Make) -> None:
    evil = "</td><script>alert(1)</script>\"'&{{ 7*7 }}"
    names = ("question", "file", "answer", "explanation", "level", "target", "limit", "reasoning_trace", "thread_id")
    step = {"id": 0, "kind": "tool", "name": evil, "inputs": {evil: evil}, "outputs": {"observation": evil}}
    records = [
        record(evil, **dict.fromkeys(names, evil), trajectory=[{**step, "error": evil}]),
        record("b", error=evil, error_class=evil, error_component=evil, score=None),
    ]
    facts: dict[str, Any] = {"stopped": evil, "command": (evil,), "model": evil}
    html = page(
        tmp_path,
        records,
        about={evil: evil},
        **facts,
        sessions=[{"started_at": "", "stopped": evil, "changes": {evil: evil}}] * 2,
    )
    assert html.scripts == page(tmp_path, []).scripts
    assert evil not in html.html and html.text.count(evil) >= 9
    row, details = html.report.rows[0], html.report.details(evil)
    assert [row[name] for name in ("id", "question", "target", "level", "file")] == [evil] * 5
    assert [details[name] for name in ("answer", "scorer", "reasoning", "thread id", "ended by")] == [evil] * 5
    assert evil in details["steps"][0]["title"]


def test_the_gold_answer_is_next_to_the_answer_and_the_id_is_small(tmp_path: Path, record: Make) -> None:
    made = page(tmp_path, [record("a"), record("b", target=None, score=None)])
    row = made.report.rows[0]
    assert (row["question"], row["target"], row["answer"]) == ("Which?", "SECRET-GOLD", ["another"])
    assert made.report.rows[1]["target"] is None
    assert "SECRET-GOLD" not in made.report.visible, "it is in the rows alone"


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
    made = page(tmp_path, records, attribution=attribute(records))
    assert "Points lost of 100, by the first broken link" in made.text
    for label, points in {"program": 35.0, "error infrastructure": 20.0, "limit tokens": 20.0}.items():  # of 5 answers
        assert f"{label} {points} (" in made.text


def test_a_run_that_stopped_says_what_was_not_asked_and_claims_no_interval(tmp_path: Path, record: Make) -> None:
    records = [
        record("a", score=1.0),
        record("b", score=None, answer=None, error="down", error_class="infrastructure"),
        record("c", score=None, answer=None, error="the run stopped", error_class="not_run"),
    ]
    text = page(tmp_path, records, stopped="interrupted").text
    assert "interrupted; 1 right of 1 answered, 1 of 3 not run; what has no answer yet counts as wrong" in text
    assert "accuracy at least 33.3% not complete: no interval" in text
    assert "0 wrong, 1 in error, 1 not run" in text
    assert "all at least 33.3% 1/3 0 1 1 3" in text
    assert "95% interval" not in text
