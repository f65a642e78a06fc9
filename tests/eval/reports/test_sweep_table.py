"""A sweep as a table: each job, each comparison with the first, and the remarks below."""

import io
from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import Summary, TuningOverlap
from eval.analysis.sweep import JobComparison, JobResult, SweepResult
from eval.execution.console import Console
from eval.reports.notes import describe_tuned_on
from eval.reports.sweep_table import list_remarks, print_sweep, render_markdown
from mas.simulation import SIMULATED_NOTICE


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


OVERLAP = TuningOverlap(
    accuracy_without=None, accuracy_without_ci95=None, n_without=0, prompts="mine", n_questions=2, n_all=10,
    n_unscored=0, edited=(), n_learnt_from=1, n_picked_by=1,
)  # fmt: skip


def test_a_sweep_in_markdown_is_the_same_whole() -> None:
    graded = a_summary(**FULL, metric="mean score", incomplete=True, used_to_tune=OVERLAP, simulated=True)
    jobs = [job(0, summary=graded), job(1, exit_code=1, differs=["a\\b\nc"])]
    told = describe_tuned_on(OVERLAP, True, "mean score")
    assert render_markdown(SweepResult(jobs, [compared(1)])) == (
        f"**{SIMULATED_NOTICE}**\n\n"
        "| job | what differs | mean score | 95% interval | errors | cost | time | run |\n"
        "|---|---|---|---|---|---|---|---|\n"
        "| 0 | seed=1 | at least 50.0% | 40.0% to 60.0% | 2 | n/a | 1,234.5 s | run-0 |\n"
        "| 1 | a\\\\b c | no result |  |  |  |  | run-1 |\n\n"
        "Compared with job 0:\n\n"
        "| job | difference | 95% interval | p | p (Holm) | won/lost/equal | detectable difference |\n"
        "|---|---|---|---|---|---|---|\n"
        "| 1 | +12.5 | -5.0 to +30.0 | <0.001 | 0.010 | 7/2/31 | ±21.1 |\n\n"
        f"job 0: {told}; eval/compare.py compares the others alone\n\n"
        "40 questions with a gold answer; differences in points of mean score; p by McNemar; the interval is clustered "
        "by question\n\n"
        "detectable difference: the smallest true one that these questions would show in 80 of 100 such comparisons\n"
    )


def remarks_on(overlap: TuningOverlap) -> list[str]:
    return list(list_remarks(SweepResult([job(0, summary=a_summary(**FULL, used_to_tune=overlap))], [])))


def test_prompts_that_were_not_tuned_on_these_questions_are_not_remarked_upon() -> None:
    assert remarks_on(replace(OVERLAP, n_questions=0)) == []
    assert len(remarks_on(OVERLAP)) == len(remarks_on(replace(OVERLAP, n_questions=0, edited=("mine",)))) == 1


def test_a_comparison_without_an_adjusted_p_is_no_row() -> None:
    assert "Compared with job 0" not in render_markdown(SweepResult([job(0)], [replace(compared(1), p_holm=None)]))


def test_the_terminal_has_both_tables_and_its_lines_are_not_broken() -> None:
    def printed(width: int, result: SweepResult) -> list[str]:
        console = Console(file=io.StringIO(), width=width)
        print_sweep(result, console)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue().splitlines()

    made = SweepResult([job(0, summary=a_summary(**FULL)), job(1, folder="sweeps/" + "r" * 60)], [compared(1)])
    lines = printed(140, made)
    assert [line.strip() for line in lines if line.strip() in ("sweep", "compared with job 0")] == [
        "sweep", "compared with job 0"
    ]  # fmt: skip
    rows = [[cell.strip() for cell in line[1:-1].replace("┃", "│").split("│")] for line in lines if line[:1] in "┃│"]
    assert rows == [
        ["job", "what differs", "accuracy", "95% interval", "errors", "cost", "time"],
        ["0", "seed=1", "50.0%", "40.0% to 60.0%", "2", "n/a", "1,234.5 s"],
        ["1", "seed=1", "no result", "", "", "", ""],
        ["job", "difference", "95% interval", "p", "p (Holm)", "won/lost/equal", "detectable difference"],
        ["1", "+12.5", "-5.0 to +30.0", "<0.001", "0.010", "7/2/31", "±21.1"],
    ]
    first = next(line for line in lines if "1,234.5" in line)
    assert "│   0 │ seed=1       │" in first, "only what differs stands at the left"
    narrow = printed(50, made)
    assert "job 0: run-0" in narrow and f"job 1: {'r' * 60}" in narrow
    assert narrow[-len(list(list_remarks(made))) :] == list(list_remarks(made))
