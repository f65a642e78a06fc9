"""A stopped tuning run writes its files, however often the user asks it to stop."""

import signal
from pathlib import Path

import pytest

from optimize.session.tuning_store import read_tuning
from tests.command import tuning_command

SMALL = (
    *("system=toy", "data=toy", "model=offline", "optimizer=bootstrap", "optimizer.candidates=1", "shortlist.epochs=1"),
    *("data.n_train=8", "data.n_val=6", "data.n_test=20", "gate.epochs=1", "gate.looks=1", "budget.metric_calls=40"),
)


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
    monkeypatch.setattr("optimize.pipeline.tuning.write_tuning_page", write)
    tuned = tuning_command(tmp_path, *SMALL)
    assert (tuned.folder / "page").read_text() == "whole", tuned.err
    session = read_tuning(tuned.folder).state.last_session
    assert session.stopped == "interrupted by Ctrl-C" and session.ended_at
    assert "stopped: interrupted by Ctrl-C" in tuned.err and "continue with: python" in tuned.err
