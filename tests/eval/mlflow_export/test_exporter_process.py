"""The exporter over a real local store; the processes and the failures around it: test_exporter_launcher.py."""

import io
import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.config.tracking import LocalTracking
from eval.mlflow_export.completeness import count_in_mlflow
from eval.mlflow_export.exporter_launcher import ExportRequest, RunEnd
from eval.mlflow_export.exporter_process import Exporter
from eval.mlflow_export.run_export import RunExport
from eval.mlflow_export.tracked_run import HEARTBEAT_TAG, Sent, TrackedRun
from eval.runs.logs import open_log
from eval.runs.mlflow_state import read_link, read_state
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet, write_prompt_set
from tests.eval.mlflow_export.exporting import a_run, everything, exported, in_mlflow, own_records

EQUAL = {"traces": 2, "spans": 22, "assessments": 8}


def test_a_whole_run_arrives_and_is_counted(tmp_path: Path, local: LocalTracking) -> None:
    origin = {"mlflow.source.git.commit": "8159276", "harness.pid": "7"}
    folder = a_run(tmp_path / "run", local, own_records("q1", "q2"), origin=origin, prompts={"prompts": "given"})
    write_prompt_set(folder / "prompts", PromptSet("given", "toy", {"planner": "Plan."}, tmp_path))
    state = exported(folder, local)
    assert (state.complete, state.warning, state.status) == (True, None, "FINISHED")
    assert {name: state.counts[name] for name in EQUAL} == {n: {"store": k, "mlflow": k} for n, k in EQUAL.items()}
    assert read_state(folder) == state
    assert state.cpu_seconds > 0
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["mlflow"] == read_link(folder)

    run = in_mlflow(local, state)
    shown = run.client.get_run(run.run_id)
    assert shown.data.metrics["accuracy"] == summary["accuracy"] == 1.0
    assert shown.data.metrics["agents/planner_calls"] == 2
    assert shown.data.params["system.name"] == "toy"
    assert shown.data.tags["mlflow.source.git.commit"] == "8159276"
    assert "planner" in shown.data.tags["mlflow.linkedPrompts"]
    files = {each.path for each in run.client.list_artifacts(run.run_id)}
    assert {"summary.json", "answers.jsonl", "records.jsonl", "report.html", "logs", "prompts"} <= files
    uploaded = local.path() / "mlflow-artifacts" / run.run_id / "artifacts" / "summary.json"
    assert json.loads(uploaded.read_text())["mlflow"] == read_link(folder)


def test_sending_it_again_changes_nothing(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_run(tmp_path / "run", local, own_records("q1", "q2"))
    first = exported(folder, local)
    before = everything(in_mlflow(local, first))
    again = exported(folder, local, live=False)
    assert again.complete
    assert everything(in_mlflow(local, again)) == before


def test_a_resumed_run_goes_on_as_the_same_run_and_each_attempt_is_a_trace(
    tmp_path: Path, local: LocalTracking
) -> None:
    (failed,) = own_records("q1", error="it broke", error_class="infrastructure", score=None)
    folder = a_run(tmp_path / "run", local, [failed], finished=False, planned=["q1", "q2"])
    first = exported(folder, local)
    assert (first.status, first.complete) == ("KILLED", True)
    with RunStore(folder / "run.db") as store:
        for record in own_records("q1", "q2", run_id=failed.run_id):
            store.write(replace(record, attempt=2 if record.sample_id == "q1" else 1))
        store.write_state(replace(store.read_state(), finished=True))
    second = exported(folder, local)
    assert (second.run_id, second.status, second.complete) == (first.run_id, "FINISHED", True)
    run = in_mlflow(local, second)
    assert count_in_mlflow(run) == Sent(3, 33, 11)  # the try that was replaced has lost its verdict
    assert mean_verdict(run) == run.client.get_run(run.run_id).data.metrics["accuracy"] == 1.0
    (folder / "mlflow.json").unlink()
    assert exported(folder, local, live=False).counts["assessments"] == {"store": 11, "mlflow": 11}


def mean_verdict(run: TrackedRun) -> float:
    """As MLflow's own pages average it."""
    traces = run.tracing.search_traces(locations=[run.experiment_id], run_id=run.run_id, max_results=500)
    verdicts = [each.value for trace in traces for each in trace.info.assessments if each.name == "correct"]
    return sum(verdicts) / len(verdicts)


def test_verdicts_of_replaced_tries_that_are_there_already_are_taken_away(tmp_path: Path, local: LocalTracking) -> None:
    (failed,) = own_records("q1", error="it broke", error_class="infrastructure", score=None)
    folder = a_run(tmp_path / "run", local, [failed, replace(own_records("q1", run_id=failed.run_id)[0], attempt=2)])
    export = RunExport(folder, local, str)
    export.run.send(export.store.records())  # as a crash between the two calls leaves it
    export.close()
    state = exported(folder, local, live=False)
    assert state.complete
    assert mean_verdict(in_mlflow(local, state)) == 1.0


def test_a_run_whose_process_died_is_killed_with_what_it_had(tmp_path: Path, local: LocalTracking) -> None:
    session = {"started_at": "2026-11-21T08:00:00+00:00", "ended_at": None, "stopped": None}
    kept = own_records("q1")
    folder = a_run(tmp_path / "run", local, kept, planned=["q1", "q2"], finished=False, sessions=[session])
    state = exported(folder, local, last_words="")
    assert (state.status, state.complete) == ("KILLED", True)
    run = in_mlflow(local, state).client.get_run(state.run_id)
    assert run.data.metrics["accuracy"] == 0.5  # the question that was not reached counts
    assert run.info.end_time > run.info.start_time


def test_records_come_while_the_run_goes_on(tmp_path: Path, local: LocalTracking) -> None:
    first, second = own_records("q1", "q2")
    folder = a_run(tmp_path / "run", local, [first], planned=["q1", "q2"], finished=False)
    reader = Told()
    export, (log, file) = RunExport(folder, local, str), open_log(folder, "mlflow")
    exporter = Exporter(export, RunEnd(reader), 30.0, log)  # type: ignore[arg-type]  # only read a line at a time
    thread = threading.Thread(target=exporter.run)
    thread.start()
    try:
        run = in_mlflow(local, waited_for(folder))
        until(lambda: count_in_mlflow(run).traces == 1)
        assert run.status() == "RUNNING"
        assert HEARTBEAT_TAG in run.client.get_run(run.run_id).data.tags
        with RunStore(folder / "run.db") as store:
            store.write(second)
            until(lambda: count_in_mlflow(run).traces == 2)
            store.write_state(replace(store.read_state(), finished=True))
    finally:
        reader.say("finished\n")
        thread.join()
        export.close()
        file.close()
    state = read_state(folder)
    assert state is not None
    assert (state.complete, run.status()) == (True, "FINISHED")


class Told:
    """A standard input that says its line when it is told to."""

    def __init__(self) -> None:
        self._said, self._line = threading.Event(), ""

    def say(self, line: str) -> None:
        self._line = line
        self._said.set()

    def readline(self) -> str:
        self._said.wait()
        return self._line


def waited_for(folder: Path) -> Any:
    until(lambda: read_state(folder) is not None)
    return read_state(folder)


def until(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_record_that_is_refused_keeps_no_other_from_coming(
    tmp_path: Path, local: LocalTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.mlflow_export.exporter_process.MAX_PAUSE_SECONDS", 0.1)
    kept = own_records("q1", "bad", "q3")
    kept[1].started_at = "some day"  # no trace can be made of it
    folder = a_run(tmp_path / "run", local, kept)
    state = exported(folder, local, wait_seconds=60)
    assert not state.complete
    assert state.warning is not None
    assert "2 of 3 traces" in state.warning
    assert "python eval/sync.py" in state.warning
    assert state.status == "FINISHED"  # the run itself has ended well


def test_what_there_was_no_time_for_is_said_and_comes_later(tmp_path: Path, local: LocalTracking) -> None:
    names = [f"q{number}" for number in range(41)]
    folder = a_run(tmp_path / "run", local, own_records(*names))
    state = exported(folder, local, wait_seconds=0)
    assert not state.complete
    assert state.warning is not None
    assert "20 of 41 traces" in state.warning
    run = in_mlflow(local, state)
    page = run.client.get_run(run.run_id).data
    assert page.metrics["agents/planner_calls"] == page.metrics["n"] == 41  # of the whole run, sent or not
    assert page.tags["harness.in_mlflow"] == state.warning
    later = exported(folder, local, live=False)
    assert later.complete
    assert later.counts["traces"] == {"store": 41, "mlflow": 41}
    assert run.client.get_run(run.run_id).data.tags["harness.in_mlflow"] == "complete"


def test_spans_that_a_crash_left_out_are_found_by_counting(
    tmp_path: Path, local: LocalTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_run(tmp_path / "run", local, own_records("q1", "q2"))
    export = RunExport(folder, local, str)
    monkeypatch.setattr(export.run.tracing, "log_spans", crash)
    with pytest.raises(KeyboardInterrupt):
        export.send_new()
    export.close()
    state = exported(folder, local)
    assert state.complete
    assert state.counts["spans"] == {"store": 22, "mlflow": 22}


def crash(*_: Any) -> None:
    raise KeyboardInterrupt


def test_secrets_are_in_no_param_and_no_tag(tmp_path: Path, local: LocalTracking) -> None:
    canary = "canary-6f1c"
    config = {"system": {"name": "toy", "url": f"https://x/?key={canary}"}}
    folder = a_run(tmp_path / "run", local, own_records("q1"), config=config, origin={"who": canary})
    request = ExportRequest({}, local=True, secrets=[canary])
    state = exported(folder, local, redact=request.redact)
    assert state.complete
    run = in_mlflow(local, state).client.get_run(state.run_id)
    assert run.data.params["system.url"] == "https://x/?key=***"
    assert canary not in str(run.to_dictionary())


def test_the_request_says_where_mlflow_is(tmp_path: Path, local: LocalTracking) -> None:
    request = ExportRequest(vars(local), local=True, secrets=["longer secret", "secret"])
    read = ExportRequest(**json.loads(request.to_line()))
    assert read == request
    assert read.build_tracking() == local
    assert read.redact("a longer secret, a secret") == "a ***, a ***"


def test_the_end_of_standard_input_is_the_death_of_the_run() -> None:
    died, ended = RunEnd(io.StringIO("")), RunEnd(io.StringIO("finished\n"))
    assert died.over.wait(5)
    assert ended.over.wait(5)
    assert (died.died, ended.died) == (True, False)
