"""Progress of a search is shown."""

import io
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from rich.console import Console

from optimize.gate.verdict import EarlyVerdictError
from optimize.search.budget import BudgetSettings, Spend
from optimize.session.tuning_run import TuningRun, format_progress, show_progress, write_progress

SPEND = Spend(metric_calls=290, lm_calls=1204, cost_usd=1.2345, seconds=252.4)


def test_the_line_says_what_is_done_and_what_it_has_cost() -> None:
    line = format_progress(312, SPEND, BudgetSettings(metric_calls=600))
    assert line == "so far: 312 answers (290 of 600 metric calls), 1,204 requests, $1.2345, 252 s"
    assert len(line) < 80
    free = format_progress(0, Spend(), BudgetSettings(metric_calls=None))
    assert free == "so far: 0 answers (0 metric calls), 0 requests, 0 s"


def watched(terminal: bool, interval_seconds: float, seconds: float) -> str:
    screen, count = io.StringIO(), iter(range(1000))
    console = Console(file=screen, force_terminal=terminal, color_system=None, width=80)
    with show_progress(console, lambda: f"at {next(count)}", interval_seconds):
        console.print("a proposal")
        time.sleep(seconds)
    return screen.getvalue()


def test_a_log_gets_a_line_now_and_then() -> None:
    assert watched(False, 30.0, 0.05) == "a proposal\n"
    lines = watched(False, 0.05, 0.5).splitlines()
    assert lines[:2] == ["a proposal", "  at 0"] and 3 <= len(lines) <= 11


def test_a_terminal_has_one_live_line_below_what_is_printed() -> None:
    screen = watched(True, 30.0, 1.3)
    assert "at 0" in screen and "at 1" in screen
    assert screen.index("a proposal") < screen.rindex("at 1")


def test_it_ends_with_the_block_whatever_happens() -> None:
    screen = io.StringIO()
    try:
        with show_progress(Console(file=screen), lambda: "line", 0.01):
            raise ValueError
    except ValueError:
        pass
    before = screen.getvalue()
    time.sleep(0.05)
    assert screen.getvalue() == before


def test_a_page_that_follows_the_run_finds_the_newest_spend(tmp_path: Path) -> None:
    found, count = list[object](), iter(range(1000))
    with write_progress(tmp_path / "progress.json", lambda: {"at": next(count)}, 0.01):
        time.sleep(0.2)
        found.append(json.loads((tmp_path / "progress.json").read_text()))
    assert found[0] != json.loads((tmp_path / "progress.json").read_text()), "once more when the phase ends"
    assert [each.name for each in tmp_path.iterdir()] == ["progress.json"]
    with write_progress(tmp_path / "no such folder" / "progress.json", dict, 0.01):
        pass


def judge(trials: tuple[int, int], objective: tuple[int, int] = (0, 0), share: float = 0.2) -> str | None:
    """Return why a run is ended whose answers failed to be scored that often: (failed, all)."""
    run = SimpleNamespace(
        config=SimpleNamespace(gate=SimpleNamespace(max_metric_error_share=share)),
        trials=SimpleNamespace(n_metric_errors=trials[0], n_completed=trials[1], metric_error="no judge"),
        objective=SimpleNamespace(errors=objective[0], calls=objective[1], first_error="no key"),
    )
    try:
        TuningRun.check_metric(cast(TuningRun, run))
    except EarlyVerdictError as error:
        return f"{error.finish_reason}: {error}"
    return None


def test_answers_that_cannot_be_scored_end_a_run_above_the_share() -> None:
    assert judge((2, 10)) is None
    assert judge((9, 9)) is None  # too few to judge by
    told = "metric_errors: {} answers could not be scored (gate.max_metric_error_share=0.2): {}"
    assert judge((3, 10)) == told.format("3 of 10", "no judge")
    assert judge((0, 10), (3, 10)) == told.format("3 of 10", "no key")
    assert judge((0, 10), (2, 10)) is None and judge((0, 10), (9, 9)) is None
    assert judge((10, 10), share=1.0) is None
