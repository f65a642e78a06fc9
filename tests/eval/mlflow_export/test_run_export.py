"""What an export leaves in MLflow when it is interrupted, refused or kept waiting on its way."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Trace
from mlflow.exceptions import MlflowException
from mlflow.tracing.client import TracingClient

from eval.config.tracking import LocalTracking
from eval.mlflow_export import exporter
from eval.mlflow_export.run_export import RunExport
from eval.mlflow_export.tracked_run import IN_MLFLOW_TAG, TrackedRun
from eval.runs.logs import Log
from tests.eval.mlflow_export.exporting import a_run, exported, in_mlflow, own_records


def test_an_attempt_that_was_replaced_has_no_verdict_after_an_interruption_either(
    tmp_path: Path, local: LocalTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = own_records("q1", error="it broke")
    folder = a_run(tmp_path / "run", local, [first, replace(first, attempt=2, error=None)])

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(TracingClient, "delete_assessment", interrupt)
        with pytest.raises(KeyboardInterrupt):
            exported(folder, local)
    state = exported(folder, local)
    assert state.complete
    run = in_mlflow(local, state)
    traces = run.tracing.search_traces(locations=[run.experiment_id], run_id=run.run_id)
    named = [[each.name for each in trace.info.assessments] for trace in traces]
    assert sorted("correct" in names for names in named) == [False, True]


def test_a_record_that_mlflow_refuses_keeps_no_other_out(
    tmp_path: Path, local: LocalTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, send = a_run(tmp_path / "run", local, own_records("q1", "q2", "q3")), TrackedRun.send

    def refuse(run: TrackedRun, traces: Sequence[Trace]) -> Counter[str]:
        if any(each.info.tags["harness.question_id"] == "q2" for each in traces):
            raise MlflowException("too odd")
        return send(run, traces)

    with monkeypatch.context() as patched:
        patched.setattr(TrackedRun, "send", refuse)
        state = exported(folder, local)
    assert (state.complete, state.counts["traces"]) == (False, {"store": 3, "mlflow": 2})
    assert "2 of 3 traces" in str(state.warning) and "too odd" in str(state.warning)
    run = in_mlflow(local, state).client.get_run(state.run_id)
    assert (run.info.status, run.data.tags[IN_MLFLOW_TAG]) == ("FINISHED", state.warning)
    state = exported(folder, local)
    tags = in_mlflow(local, state).client.get_run(state.run_id).data.tags
    assert (state.complete, tags[IN_MLFLOW_TAG]) == (True, "complete")


def test_failures_while_the_run_goes_on_leave_all_attempts_at_its_end(
    tmp_path: Path, local: LocalTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(exporter, "PAUSE_SECONDS", 0.01)
    folder, (source, run) = a_run(tmp_path / "run", local, own_records("q1")), os.pipe()

    class Unreachable(RunExport):
        calls = 0

        def open_run(self) -> TrackedRun:
            self.calls += 1
            if self.calls == exporter.ATTEMPTS:
                os.close(run)
            if self.calls < 2 * exporter.ATTEMPTS:
                raise ConnectionError("down")
            return super().open_run()

    log = Log(folder, "mlflow")
    with closing(log), os.fdopen(source, "rb") as said, closing(Unreachable(folder, local, log)) as export:
        state = export.export(said)
    assert (state.complete, state.warning) == (True, None)
