"""A sweep as a table: each job, each comparison with the first, and the remarks below."""

import io
from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import Summary
from eval.analysis.sweep import JobComparison, JobResult, SweepResult
from eval.execution.console import Console
from eval.reports.sweep_table import list_remarks, print_sweep, render_markdown


def job(number: int, **changes: Any) -> JobResult:
    known: dict[str, Any] = {
        "differs": ["seed=1"], "folder": f"sweeps/run-{number}", "run_id": "r", "exit_code": 0, "error": None
    }  # fmt: skip
    return JobResult(job=number, **{**known, **changes})


def compared(number: int, **changes: Any) -> JobComparison:
    figures = {
        "n_questions": 40, "epochs": 1, "difference": 0.125, "ci95": (-0.05, 0.3), "p": 0.0004, "test": "McNemar",
        "wins": 7, "losses": 2, "ties": 31, "smallest_difference": 0.211, **changes,
    }  # fmt: skip
    made = replace(run_paired_test([Pair((1.0,), (0.0,)), Pair((1.0,), (1.0,))]), **figures)
    return JobComparison(job=number, result=made, p_holm=0.01)


def a_summary(**facts: Any) -> Summary:
    return replace(summarise([], RunDetails(run_id="run-1")), **facts)


FULL = {"score": 0.5, "score_ci95": (0.4, 0.6), "n_error": 3, "n_not_run": 1, "wall_seconds": 1234.5}


def rows(result: SweepResult) -> list[str]:
    return [line for line in render_markdown(result).splitlines() if line.startswith("|")]


@pytest.mark.parametrize(
    ("made", "row"),
    [
        (job(0, exit_code=None), "| 0 | seed=1 | not started |  |  |  |  | run-0 |"),
        (job(1, exit_code=None, error="it broke"), "| 1 | seed=1 | no result |  |  |  |  | run-1 |"),
        (job(2, exit_code=1, folder=None), "| 2 | seed=1 | no result |  |  |  |  |  |"),
        (job(3, differs=[], summary=a_summary(**FULL)),
         "| 3 | nothing | 50.0% | 40.0% to 60.0% | 2 | n/a | 1,234.5 s | run-3 |"),
        (job(4, differs=["a=x|y", "b=1"], summary=a_summary(**FULL)),
         "| 4 | a=x\\|y b=1 | 50.0% | 40.0% to 60.0% | 2 | n/a | 1,234.5 s | run-4 |"),
    ],
)  # fmt: skip
def test_a_job_is_a_row(made: JobResult, row: str) -> None:
    assert rows(SweepResult([made], []))[2] == row


def test_a_comparison_is_a_row_and_unknown_figures_are_said_to_be_so() -> None:
    bare = compared(2, ci95=None, smallest_difference=None, p=0.5)
    found = rows(SweepResult([job(0)], [compared(1), bare, JobComparison(job=3, reason="it has no answers")]))
    assert found[-2:] == [
        "| 1 | +12.5 | -5.0 to +30.0 | <0.001 | 0.010 | 7/2/31 | ±21.1 |",
        "| 2 | +12.5 | n/a | 0.500 | 0.010 | 7/2/31 | n/a |",
    ]


def test_the_remarks_name_failures_tests_and_what_several_comparisons_mean() -> None:
    stopped = job(1, summary=a_summary(**FULL, stopped="stopped by SIGINT"))
    one = list(list_remarks(SweepResult([job(0, error="it broke"), stopped], [compared(1)])))
    assert one[:2] == ["job 0: it broke", "job 1: stopped by SIGINT"]
    assert one[2].startswith("40 questions with a gold answer; differences in points of") and "p by McNemar;" in one[2]
    assert len(one) == 4 and one[3].startswith("detectable difference")
    refused = JobComparison(job=2, reason="it has no answers")
    several = list(list_remarks(SweepResult([], [compared(1, epochs=3), refused, compared(3, test="a t test")])))
    assert several[0] == "job 2 is not compared with job 0: it has no answers"
    assert "each answered 3 times" in several[1] and "p by McNemar and a t test;" in several[1]
    assert several[2].startswith("2 comparisons were made")
    assert list(list_remarks(SweepResult([job(0)], []))) == []


@pytest.mark.parametrize("simulated", [True, False])
def test_the_terminal_shows_the_same_and_says_if_a_model_was_simulated(simulated: bool) -> None:
    jobs = [job(0, summary=a_summary(**FULL, simulated=simulated)), job(1, folder=None)]
    console = Console(file=io.StringIO(), width=200)
    result = SweepResult(jobs, [compared(1)])
    print_sweep(result, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("simulated" in shown.lower(), render_markdown(result).startswith("**")) == (simulated, simulated)
    assert "job 0: run-0" in shown and "job 1: " not in shown
    assert "compared with job 0" in shown and "+12.5" in shown
    alone = Console(file=io.StringIO(), width=200)
    print_sweep(SweepResult(jobs, []), alone)
    assert "compared with job 0" not in alone.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80])
def test_nothing_is_cut_in_a_narrow_terminal(width: int) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width)
    print_sweep(SweepResult([job(0, summary=a_summary(**FULL)), job(1)], [compared(1)]), console)
    assert "…" not in file.getvalue() and "+12.5" in file.getvalue()
