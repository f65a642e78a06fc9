"""Progress of a search is shown."""

import io
import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hydra import compose, initialize_config_dir
from rich.console import Console

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.execution.termination import RunStoppedError
from eval.runs.folder import RunLock
from eval.runs.run_info import TuningInfo, TuningState
from eval.scorers.score import read_scorer_digest
from mas.prompt_sets.prompt_set import digest
from mas.runtime.errors import UserError
from mas.system import read_program_digest
from optimize.gate.verdict import EarlyVerdictError
from optimize.questions.splits import Splits
from optimize.search.budget import BudgetSettings, Spend
from optimize.search.candidate import PARENT
from optimize.session.config import TuningRequest, read_config
from optimize.session.run_files import RunFiles
from optimize.session.tuning_run import (
    TuningRun,
    _build_first,
    begin_session,
    format_progress,
    open_tuning_run,
    show_progress,
    write_progress,
)

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


@pytest.fixture(scope="module")
def request_of_a_run() -> TuningRequest:
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        config = read_config(compose("optimize", ["system=toy", "data=toy", "model=offline", "seed=7", "name=mine"]))
    return TuningRequest(config, {"seed": 7}, config.check(), ["seed=7", "yes=true", "name=mine"])


def splits() -> Splits:
    parts = [tuple(Sample(f"{part}{at}", f"{part} {at}?", target="4") for at in range(3)) for part in ("t", "v", "s")]
    return Splits.of(parts)


def test_a_new_session_writes_what_the_run_is_made_of(request_of_a_run: TuningRequest, tmp_path: Path) -> None:
    files, questions, config = RunFiles(tmp_path), splits(), request_of_a_run.config
    assert begin_session(request_of_a_run, questions, files, {"mlflow.user": "ann"}) == 0.0
    info = files.read_info()
    assert info.is_signed and info.run_id and len(info.run_id) == 12
    assert info.started_at <= info.state.session_started_at <= datetime.now(UTC).isoformat()
    assert (tmp_path / "config.yaml").read_text() == "seed: 7\n"
    assert files.read("splits") == questions.to_dict()
    parent = files.read_candidate(PARENT, ["plan", "solve", "finalize"], "toy")
    assert parent.texts == request_of_a_run.prompts.texts
    expected = TuningInfo(
        run_id=info.run_id,
        started_at=info.started_at,
        config={"seed": 7},
        parent_set="toy_baseline",
        parent_gated=False,
        name="mine",
        system="toy",
        model=config.base.model_name,
        reflection_model=config.base.model_name,
        optimizer="gepa",
        simulated=True,
        seed=7,
        command=["seed=7", "name=mine"],
        split_digest=questions.digest,
        sealed_digest=questions.sealed_digest,
        origin={"mlflow.user": "ann"},
        parent_sha256=digest(parent),
        program_sha256=read_program_digest(config.base.system),
        scorer_sha256=read_scorer_digest(config.base.scorer),
        state=TuningState(session_started_at=info.state.session_started_at),
        signature=info.signature,
    )
    assert info == expected


def test_a_run_that_goes_on_keeps_what_its_first_session_fixed(request_of_a_run: TuningRequest, tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    begin_session(request_of_a_run, splits(), files, {})
    files.write("verdict", {"finish_reason": "budget"})
    files.update_state(ended_at="2026-11-21T10:00:00+00:00", stopped="a budget", spend={"seconds": 12.5}, phase="gate")
    first = files.read_info()
    again = RunFiles(tmp_path)
    named = replace(request_of_a_run, config=replace(request_of_a_run.config, name="yours", reflection_model="strong"))
    assert begin_session(named, splits(), again, {"mlflow.user": "bob"}) == 12.5
    info = again.read_info()
    assert (info.run_id, info.started_at, info.config) == (first.run_id, first.started_at, first.config)
    assert (info.name, info.reflection_model, info.origin) == ("yours", "strong", {"mlflow.user": "bob"})
    assert (info.state.ended_at, info.state.stopped, info.state.phase) == (None, None, "gate")
    assert info.state.session_seconds_before == 12.5 and info.is_signed and again.read("verdict") is None
    with pytest.raises(UserError, match=r"the tuning run has other options \(seed: 7 → 8\)"):
        begin_session(replace(request_of_a_run, resolved={"seed": 8}), splits(), RunFiles(tmp_path), {})
    other = replace(splits(), digest="another")
    with pytest.raises(UserError, match="are not those that the run began with"):
        begin_session(request_of_a_run, other, RunFiles(tmp_path), {})


def test_a_session_that_was_killed_ended_with_its_last_reply(request_of_a_run: TuningRequest, tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    begin_session(request_of_a_run, splits(), files, {})
    files.update_state(session_started_at="2026-11-21T10:00:00+00:00", session_seconds_before=5.0)
    began = datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp()
    for name, after in (("call_log.db", 60), ("trials.db-wal", 90), ("notes.txt", 500)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (began + after, began + after))
    assert begin_session(request_of_a_run, splits(), RunFiles(tmp_path), {}) == 95.0
    files.update_state(session_started_at="2026-11-21T12:00:00+00:00", session_seconds_before=5.0)
    assert begin_session(request_of_a_run, splits(), RunFiles(tmp_path), {}) == 5.0, "it wrote nothing"


def test_of_a_run_that_was_made_elsewhere_neither_options_nor_gate_are_signed(
    request_of_a_run: TuningRequest, tmp_path: Path
) -> None:
    before = TuningInfo(run_id="r1", config={"seed": 1}, parent_gated=True, parent_set="theirs")
    found = _build_first(request_of_a_run, before)
    assert found == replace(before, config={"seed": 7}, parent_gated=False)
    assert _build_first(request_of_a_run, before.sign()) == before.sign()


def test_one_process_at_a_time_uses_a_run(request_of_a_run: TuningRequest, tmp_path: Path) -> None:
    lock = RunLock(tmp_path / "tuning.json")
    lock.take()
    try:
        with (
            pytest.raises(UserError, match=r"another process uses .*; wait for it, or start a new run"),
            open_tuning_run(request_of_a_run, splits(), tmp_path, Console()),
        ):
            pass
    finally:
        lock.release()


def stopped_run(**parts: Any) -> Any:
    facts = {"check": lambda: None, "own_stop_reason": None, "stop_reason": None}
    trials = SimpleNamespace(**{**facts, **parts})
    return SimpleNamespace(
        trials=trials, stop=SimpleNamespace(reason=None), ledger=SimpleNamespace(refusal="the budget is used up")
    )


def test_a_run_is_stopped_by_a_signal_or_a_server_and_a_budget_only_ends_its_search() -> None:
    run = stopped_run()
    TuningRun.check_stopped(run)
    assert TuningRun.get_stop_reason(run) == "the budget is used up" and TuningRun._read_stop(run) is None
    run.trials.stop_reason = "cancelled"
    assert TuningRun.get_stop_reason(run) == "cancelled"
    run.trials.own_stop_reason = "quota exhausted"
    with pytest.raises(RunStoppedError, match="quota exhausted"):
        TuningRun.check_stopped(run)
    run.stop.reason = "interrupted by Ctrl-C"
    with pytest.raises(RunStoppedError, match="interrupted by Ctrl-C"):
        TuningRun.check_stopped(run)
    assert TuningRun._read_stop(run) == "interrupted by Ctrl-C"

    def fail() -> None:
        raise LookupError("a defect")

    with pytest.raises(LookupError):
        TuningRun.check_stopped(stopped_run(check=fail))
