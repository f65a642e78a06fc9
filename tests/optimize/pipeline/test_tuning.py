"""A stopped tuning run writes its files, however often the user asks it to stop."""

import signal
from pathlib import Path

import pytest

from eval.execution.termination import StopController
from optimize.pipeline.tuning import _ignoring_repeated_signals
from optimize.reports import tuning_page
from tests.optimize.tuning_command import tuning_command

SMALL = (
    *("system=toy", "data=toy", "model=offline", "optimizer=bootstrap", "optimizer.candidates=1", "shortlist.epochs=1"),
    *("data.n_train=8", "data.n_val=6", "data.n_test=20", "gate.epochs=1", "gate.looks=1", "budget.metric_calls=40"),
)


def test_the_first_signal_interrupts_and_those_after_it_are_ignored() -> None:
    stop, before = StopController(), signal.getsignal(signal.SIGTERM)
    reached = False
    with _ignoring_repeated_signals(stop):
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        reached = stop.interrupted
    assert reached and signal.getsignal(signal.SIGTERM) == before


def test_a_signal_while_requests_were_waited_for_is_the_first() -> None:
    stop = StopController()
    stop.interrupted = True
    with _ignoring_repeated_signals(stop):
        signal.raise_signal(signal.SIGINT)


def test_signals_while_a_stopped_run_writes_its_files_do_not_cut_it_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*given: object) -> None:
        signal.raise_signal(signal.SIGINT)

    def write(folder: Path, *more: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        (folder / "page").write_text("whole")

    monkeypatch.setattr("optimize.pipeline.tuning.measure_baseline", stop)
    monkeypatch.setattr(tuning_page, "write_tuning_page", write)
    tuned = tuning_command(tmp_path, *SMALL)
    assert (tuned.folder / "page").read_text() == "whole", tuned.err
    state = tuned.read("tuning")["state"]
    assert state["stopped"] == "interrupted by Ctrl-C" and state["ended_at"]
    assert "stopped: interrupted by Ctrl-C" in tuned.err and "continue with: python" in tuned.err
