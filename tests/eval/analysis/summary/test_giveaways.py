"""What a run met of the benchmark on the web, in summary, lines, page and MLflow's numbers."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import LeakedResult, Summary
from eval.mlflow_export.run_page import build_page
from eval.reports.notes import list_notes
from eval.reports.run_report.page import MAX_LEAKS, write_report
from eval.runs.record import Record
from eval.runs.run_info import RunInfo

Make = Callable[..., Record]
URL = "https://answers.example.org/17"
LEAK = [{"tool": "read_page", "source": URL}]


def summary_of(*records: Record, **facts: Any) -> Summary:
    return summarise(records, RunDetails(run_id="run-1", **facts))


def test_without_any_there_is_no_line_and_no_second_accuracy(record: Make) -> None:
    summary = summary_of(record("a", score=1.0), record("b"))
    assert asdict(summary.leaks) == {
        "n_questions": 0, "results": (), "accuracy_without": None, "accuracy_without_ci95": None, "score_without": None,
        "score_without_ci95": None, "n_without": 2,
    }  # fmt: skip
    assert asdict(summary.blocked_pages) == {"n": 0, "hosts": {}}
    assert not {"benchmark leaks", "blocked pages"} & set(dict(list_notes(summary)))


def test_a_question_that_met_one_in_any_epoch_is_left_out_as_a_whole(record: Make) -> None:
    records = [
        record("a", epoch=1, score=1.0, leaks=LEAK),
        record("a", epoch=2, score=1.0),
        record("b", epoch=1, score=1.0),
        record("b", epoch=2),
        record("c", epoch=1, target=None, score=None),
    ]
    summary = summary_of(*records, epochs=2)
    found = summary.leaks
    assert (summary.accuracy, found.accuracy_without, found.n_without) == (0.75, 0.5, 2)
    assert found.results == (LeakedResult(sample_id="a", epoch=1, tool="read_page", source=URL),)
    line = dict(list_notes(summary))["benchmark leaks"]
    assert line.startswith(f"1 question met a page that gives the benchmark away: {URL}; accuracy without it: 50.0% of")


def test_where_every_question_met_one_nothing_is_left_to_count(record: Make) -> None:
    summary = summary_of(record("a", score=1.0, leaks=LEAK), record("b", leaks=[*LEAK, {**LEAK[0], "source": "x"}]))
    assert (summary.leaks.n_questions, summary.leaks.accuracy_without) == (2, None)
    assert dict(list_notes(summary))["benchmark leaks"].endswith(f"{URL}; x; accuracy without them: n/a of 0")


def test_of_a_question_tried_again_the_last_attempt_counts_but_every_block(record: Make) -> None:
    first = record("a", score=None, error="x", error_class="tool", leaks=LEAK, blocked_pages={"hf.co": 2, "x.org": 1})
    summary = summary_of(first, record("a", attempt=2, score=1.0, blocked_pages={"hf.co": 1}))
    assert summary.leaks.n_questions == 0
    assert asdict(summary.blocked_pages) == {"n": 4, "hosts": {"hf.co": 3, "x.org": 1}}
    assert dict(list_notes(summary))["blocked pages"] == "4: hf.co 3, x.org 1"


def test_many_sources_are_cut_in_the_line_and_on_the_page(tmp_path: Path, record: Make) -> None:
    many = [{"tool": "read_page", "source": f"https://x.example/{n}/\x1b[31m"} for n in range(MAX_LEAKS + 5)]
    records = [record("a", leaks=many)]
    summary = summary_of(*records)
    line = dict(list_notes(summary))["benchmark leaks"]
    assert f"{MAX_LEAKS + 2} more; accuracy" in line and "\x1b" not in line
    write_report(tmp_path / "report.html", summary, records)
    html = (tmp_path / "report.html").read_text("utf-8")
    assert html.count("<td>read_page</td>") == MAX_LEAKS
    assert "5 more are in summary.json." in html


def test_records_of_older_runs_have_none(record: Make) -> None:
    old = {key: value for key, value in record().to_dict().items() if key not in ("leaks", "blocked_pages")}
    assert (Record.from_dict(old).leaks, Record.from_dict(old).blocked_pages) == ([], {})


def test_mlflow_gets_the_numbers(record: Make) -> None:
    met = build_page(
        RunInfo(), summary_of(record("a", score=1.0, leaks=LEAK, blocked_pages={"hf.co": 2}), record("b"))
    ).metrics
    assert {name: value for name, value in met.items() if name.startswith("leaks/")} == {
        "leaks/questions": 1.0,
        "leaks/blocked_pages": 2.0,
        "leaks/accuracy_without": 0.0,
        "leaks/accuracy_without_ci95_low": 0.0,
        "leaks/accuracy_without_ci95_high": pytest.approx(0.975, abs=1e-3),
    }
    none = build_page(RunInfo(), summary_of(record("a"))).metrics
    assert {name for name in none if name.startswith("leaks/")} == {"leaks/questions", "leaks/blocked_pages"}
