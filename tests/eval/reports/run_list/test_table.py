"""A run's score as the terminal and the index page show it."""

import io
from dataclasses import replace
from pathlib import Path

import pytest

from eval.analysis.run_list.cleaning import CleaningPlan, KeptRun
from eval.analysis.run_list.read_runs import (
    COMPLETE,
    EVALUATION,
    REFUSED,
    STOPPED,
    TUNING,
    RunEntry,
    read_entry,
    read_runs,
)
from eval.execution.console import Console
from eval.reports.run_list.page import write_index
from eval.reports.run_list.table import (
    format_bytes,
    format_cost,
    format_model,
    format_score,
    format_start,
    print_plan,
    print_runs,
)
from tests.eval.analysis.run_list.test_read_runs import finished


@pytest.mark.parametrize("width", [80, 200])
def test_a_part_of_a_proof_is_no_measurement(tmp_path: Path, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    folder = finished(tmp_path / "attribution" / "night" / "expert", gold_informed="expert")
    print_runs([read_entry(folder, EVALUATION)], 1, Console(width=width))
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "no measurement" in shown and "gave expert the right answers" in shown and "50.0%" not in shown


def test_the_index_page_counts_and_names_parts_of_proofs(tmp_path: Path) -> None:
    finished(tmp_path / "eval" / "night")
    finished(tmp_path / "attribution" / "night" / "control", gold_informed="control")
    write_index(tmp_path / "index.html", read_runs([tmp_path]))
    page = (tmp_path / "index.html").read_text("utf-8")
    assert "1 of these runs is no measurement" in page
    assert page.count('"no measurement') == 1 and page.count("50.0%") == 1


def test_a_running_run_says_how_far_it_is() -> None:
    run = RunEntry(folder=Path("r"), kind=EVALUATION, n=9, n_answered=4)
    assert format_score(run) == "4 of 9 answered"


RUN = RunEntry(
    folder=Path("a/run-1"), kind=EVALUATION, state=COMPLETE, system="gaia", model="m", data="own", prompts="mine",
    score_ci95=(0.25, 0.75), n=1_000, cost_usd=0.5, started_at="2026-01-02T03:04:05+02:00", seconds=12.0,
    size_bytes=1_500, score=0.5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("n", "size"),
    [
        (0, "0 B"), (999, "999 B"), (1_000, "1.0 KB"), (99_900, "99.9 KB"), (100_000, "100 KB"), (1_000_000, "1.0 MB"),
        (999_000_000, "999 MB"), (10**9, "1.0 GB"), (10**12, "1000 GB"),
    ],
)  # fmt: skip
def test_a_size_has_the_unit_that_suits_it(n: int, size: str) -> None:
    assert format_bytes(n) == size


def test_a_score_is_shown_with_what_is_known_of_it() -> None:
    assert format_score(RUN) == "50.0% (25.0% to 75.0%)"
    assert format_score(replace(RUN, metric="mean score", score_ci95=None)) == "mean score 50.0%"
    assert format_score(replace(RUN, is_floor=True, score_ci95=None)) == "at least 50.0%"
    assert format_score(replace(RUN, score=None)) == "n/a"
    assert format_score(replace(RUN, score=None, n_answered=0, n=None)) == "0 of 0 answered"


def test_a_tuning_run_shows_its_gain() -> None:
    tuning = replace(RUN, kind=TUNING, gain=0.0, gain_ci95=(-0.125, 0.25))
    assert format_score(tuning) == "+0.0 points (-12.5 to +25.0)"
    assert format_score(replace(tuning, gain=0.05, gain_ci95=None)) == "+5.0 points"
    assert format_score(replace(tuning, gain=None)) == "n/a"


def test_a_simulated_run_costs_nothing_and_starts_are_in_utc() -> None:
    simulated = replace(RUN, simulated=True)
    assert (format_model(RUN), format_model(simulated)) == ("m", "m (simulated)")
    assert (format_cost(RUN), format_cost(simulated)) == ("$0.5000", "nothing")
    assert (format_start(RUN), format_start(replace(RUN, started_at=""))) == ("2026-01-02 01:04", "n/a")


def test_a_table_needs_150_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_runs([RUN], 3, Console(width=149))
    assert capsys.readouterr().out.splitlines() == [
        "complete run-1",
        "    50.0% (25.0% to 75.0%), n = 1,000 · gaia · m · own · prompts mine · cost $0.5000 · 12.0 s · "
        "2026-01-02 01:04 · 1.5 KB",
        "1 of 3 runs, 1.5 KB",
    ]
    print_runs([RUN], 3, Console(width=150))
    table = capsys.readouterr().out
    assert "│ complete │ run-1" in table and table.endswith("1 of 3 runs, 1.5 KB\n")


def test_what_is_unknown_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_runs([RunEntry(folder=Path("x"), kind=EVALUATION, reason="no store")], 1, Console(width=100))
    assert capsys.readouterr().out.splitlines()[1:] == ["    no store · n/a · 0 B", "1 of 1 run, 0 B"]


def output(width: int) -> Console:
    return Console(file=io.StringIO(), width=width)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_every_fact_in_its_column() -> None:
    console = output(230)
    other = replace(RUN, state=STOPPED, reason="a budget", n=None, seconds=None, simulated=True, size_bytes=500)
    print_runs([RUN, other], 1_234, console)
    lines = written(console).splitlines()
    rows = [[cell.strip() for cell in line[1:-1].replace("┃", "│").split("│")] for line in lines if line[0] in "┃│"]
    assert rows == [
        ["state", "run", "score, 95% interval", "n", "model", "data", "prompts", "cost", "began (UTC)", "time", "size"],
        ["complete", "run-1", "50.0% (25.0% to 75.0%)", "1,000", "m", "own", "mine", "$0.5000", "2026-01-02 01:04",
         "12.0 s", "1.5 KB"],
        ["stopped", "run-1", "50.0% (25.0% to 75.0%)", "", "m (simulated)", "own", "mine", "nothing",
         "2026-01-02 01:04", "", "500 B"],
        ["", "a budget", *[""] * 9],
    ]  # fmt: skip
    assert lines[-1] == "2 of 1,234 runs, 2.0 KB"
    header, first, second = (next(line for line in lines if name in line) for name in ("began", "$0.5", "nothing"))
    assert "│  500 B │" in second and "│ $0.5000 │" in first and "│ nothing │" in second and "┃   size ┃" in header
    assert "│ m             │" in first


def test_lines_of_a_run_are_not_broken_on_a_narrow_terminal() -> None:
    console = output(20)
    print_runs([replace(RUN, cost_usd=None, prompts="", n=None, system="", reason="a budget")], 1, console)
    assert written(console).splitlines() == [
        "complete run-1",
        "    a budget · 50.0% (25.0% to 75.0%) · m · own · 12.0 s · 2026-01-02 01:04 · 1.5 KB",
        "1 of 1 run, 1.5 KB",
    ]
    console = output(20)
    print_runs([replace(RUN, folder=Path("x" * 60), state=REFUSED, model="", data="")], 1, console)
    assert written(console).splitlines()[:2] == [
        f"refused {'x' * 60}",
        "    gaia · prompts mine · cost $0.5000 · 12.0 s · 2026-01-02 01:04 · 1.5 KB",
    ]


def test_a_plan_names_what_goes_and_what_stays_with_the_reason() -> None:
    console = output(20)
    gone = [replace(RUN, reason="crashed early"), replace(RUN, folder=Path("b"), started_at="")]
    print_plan(CleaningPlan(gone, [KeptRun(replace(RUN, folder=Path("c" * 30)), "it is running")]), console)
    assert written(console).splitlines() == [
        "delete a/run-1 (1.5 KB, 2026-01-02 01:04, crashed early)",
        "delete b (1.5 KB, n/a, complete)",
        f"keep   {'c' * 30}: it is running",
    ]
