"""The exporter over a real local store; the processes and the failures around it: test_exporter_launcher.py."""

import io
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.config.tracking import LocalTracking
from eval.mlflow_export import exporter_process as module
from eval.mlflow_export.completeness import count_in_mlflow
from eval.mlflow_export.exporter_launcher import ExportRequest, RunEnd
from eval.mlflow_export.exporter_process import Counts, Export, Exporter
from eval.mlflow_export.run_export import RunExport
from eval.mlflow_export.tracked_run import HEARTBEAT_TAG, Sent, TrackedRun
from eval.runs.logs import open_log
from eval.runs.mlflow_state import ExportState, read_link, read_state
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


def test_the_exporter_gives_way_to_the_run_until_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.setattr(module.os, "nice", lambda by: asked.append((by,)))
    monkeypatch.setattr(module.os, "sched_param", int)
    monkeypatch.setattr(module.os, "sched_setscheduler", lambda *given: asked.append(given))
    module._lower_priority()
    module._raise_priority()
    assert asked == [(10,), (0, os.SCHED_IDLE, 0), (0, os.SCHED_OTHER, 0)]
    monkeypatch.setattr(module.sys, "platform", "darwin")
    module._lower_priority()
    module._raise_priority()
    assert asked[3:] == [(10,)], "other systems have no such policy"


def test_the_end_of_standard_input_is_the_death_of_the_run() -> None:
    died, ended = RunEnd(io.StringIO("")), RunEnd(io.StringIO("finished\n"))
    assert died.over.wait(5)
    assert ended.over.wait(5)
    assert (died.died, ended.died) == (True, False)


WHOLE: Counts = {"traces": {"store": 2, "mlflow": 2}, "files": {"store": 1, "mlflow": 1}}
FEW: Counts = {"traces": {"store": 2, "mlflow": 1}}
NO_FILE: Counts = {"traces": {"store": 2, "mlflow": 2}, "files": {"store": 1, "mlflow": 0}}


class Steps(Export):
    """Notes its steps. `batches`: what `send_new` returns, or raises; the last one again and again."""

    required_counts = ("traces",)

    def __init__(self, folder: Path, batches: list[Any], counts: list[Counts], broken: tuple[str, ...] = ()) -> None:
        super().__init__(folder, LocalTracking(experiment="e"), lambda text: text.replace("secret", "***"))
        self.done: list[str] = []
        self.batches, self.counts, self.broken = batches, counts, broken

    def note(self, name: str) -> None:
        self.done.append(name)
        if name in self.broken:
            raise ValueError(f"no {name}\nsecond line")

    def open_run(self) -> Any:
        self.note("open")
        steps = {name: lambda name=name: self.note(name) for name in ("beat", "begin")}
        return SimpleNamespace(run_id="r1", experiment_id="7", **steps)

    def show(self) -> None:
        self.note("show")

    def send_new(self) -> int:
        self.done.append("send")
        given = self.batches.pop(0) if len(self.batches) > 1 else self.batches[0]
        if isinstance(given, Exception):
            raise given
        return int(given)

    def note_refusal(self) -> None:
        self.note("refusal")

    def send_all_again(self) -> None:
        self.note("again")

    def end(self) -> None:
        self.note("end")

    def close_run(self) -> None:
        self.note("close")

    def count(self) -> Counts:
        self.note("count")
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]

    def count_sent(self) -> Counts:
        return {"traces": {"store": 2, "mlflow": 0}}

    def show_warning(self, warning: str | None) -> None:
        self.done.append(f"warning {warning}")


class End:
    """The end of a run: it comes after some waits; the clock goes on while somebody waits or sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waits: int = 0, seconds: float = 1.0) -> None:
        self.waits, self.seconds, self.now, self.since, self.died = waits, seconds, 100.0, 0.0, False
        self.over = self
        self.waited: list[float] = []
        self.slept: list[float] = []
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep, process_time=lambda: 1.5)
        monkeypatch.setattr(module, "time", clock)

    @property
    def seconds_since(self) -> float:
        return self.since

    def is_set(self) -> bool:
        return self.waits == 0

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.waits -= 1
        self.now += self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += self.seconds
        self.since += self.seconds


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def info(self, text: str, **fields: object) -> None:
        self.lines.append((text, fields))

    warning = info


Run = Callable[..., tuple[ExportState, list[str], Log]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs an exporter to its end; returns its state, the steps and the log."""
    monkeypatch.setattr(module, "close_dead_runs", lambda _: [])
    monkeypatch.setattr(module, "_raise_priority", lambda: None)

    def go(
        end: End,
        batches: list[Any],
        *counts: Counts,
        broken: tuple[str, ...] = (),
        wait: float = 60.0,
        live: bool = True,
    ) -> tuple[ExportState, list[str], Log]:
        export, log = Steps(tmp_path, batches, list(counts or (WHOLE,)), broken), Log()
        state = Exporter(export, end, wait, log, live, "SYNC").run()  # type: ignore[arg-type]
        assert read_state(tmp_path) == state
        return state, export.done, log

    return go


def test_a_run_that_is_over_is_sent_closed_and_counted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    state, done, log = run(End(monkeypatch), [2, 1, 0])
    assert done == ["open", "beat", "begin", "show", "send", "send", "send", "end", "count", "warning None"]
    assert (state.complete, state.warning, state.counts, state.cpu_seconds) == (True, None, WHOLE, 1.5)
    assert (state.experiment_id, state.run_id, state.experiment, state.seconds_after_the_end) == ("7", "r1", "e", 0.0)
    assert log.lines == [
        ("run found or created in MLflow", {"mlflow_run": "r1"}),
        ("export ended", {"complete": True, "counts": WHOLE, "cpu_seconds": 1.5}),
    ]


def test_a_run_that_is_only_completed_is_not_shown_as_running(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    end = End(monkeypatch)
    end.died = True
    state, done, log = run(end, [0], live=False)
    assert (done, state.complete) == (["open", "send", "end", "count", "warning None"], True)
    assert "the run's process has died" in [text for text, _ in log.lines]


def test_while_a_run_goes_on_it_is_followed_and_its_heart_beats_every_ten_seconds(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = End(monkeypatch, waits=4, seconds=5.0)
    _, done, _ = run(end, [1, 0])
    assert done == [
        *("open", "beat", "begin", "show", "send", "send"),  # at 100 s
        "send",  # at 105 s
        *("send", "beat", "begin"),  # at 110 s
        "send",  # at 115 s
        *("send", "end", "count", "warning None"),
    ]
    assert end.waited == [1.0] * 4


def test_what_is_only_shown_keeps_nothing_from_being_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    state, done, log = run(End(monkeypatch), [0], broken=("show",))
    assert state.complete and done[:5] == ["open", "beat", "begin", "show", "send"]
    assert ("MLflow did not accept it", {"error": "ValueError: no show"}) in log.lines


def test_dead_runs_that_were_closed_are_logged(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "close_dead_runs", lambda found: [found.run_id])
    _, _, log = run(End(monkeypatch), [0])
    assert ("runs closed whose processes had died", {"mlflow_runs": ["r1"]}) in log.lines


def test_everything_is_sent_again_once_if_traces_are_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    state, done, _ = run(End(monkeypatch), [0], FEW, WHOLE)
    assert done[4:] == ["send", "end", "count", "again", "send", "count", "warning None"]
    assert state.complete
    state, done, _ = run(End(monkeypatch), [0], FEW)
    warning = "MLflow has 1 of 2 traces; complete it with: SYNC"
    assert done[4:] == ["send", "end", "count", "again", "send", "count", f"warning {warning}"]
    assert (state.complete, state.warning) == (False, warning)


def test_a_file_that_is_missing_is_said_and_nothing_is_sent_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    state, done, _ = run(End(monkeypatch), [0], NO_FILE)
    assert "again" not in done
    assert state.warning == "MLflow has 0 of 1 files; complete it with: SYNC"


def test_a_record_that_is_refused_is_tried_twenty_times_and_the_run_is_closed_all_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = End(monkeypatch, seconds=0.01)
    state, done, _ = run(end, [ValueError("a secret\nmore")])
    assert (done.count("send"), done.count("refusal"), done[-3:-1]) == (20, 20, ["beat", "end"])
    warning = "MLflow has 0 of 2 traces (ValueError: a ***); complete it with: SYNC"
    assert (done[-1], state.warning, state.counts) == (
        f"warning {warning}",
        warning,
        FEW | {"traces": {"store": 2, "mlflow": 0}},
    )
    assert len(end.slept) == 19 and max(end.slept) <= 3.0
    _, done, _ = run(End(monkeypatch, seconds=0.01), [ValueError("x")], broken=("end",))
    assert done[-4:-1] == ["beat", "end", "close"]


def test_failures_count_anew_when_something_was_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    state, done, _ = run(End(monkeypatch, seconds=0.01), [*[ValueError("x")] * 19, 1, *[ValueError("x")] * 19, 1, 0])
    assert state.complete and done.count("send") == 41


def test_an_mlflow_that_never_worked_is_not_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    end = End(monkeypatch)
    end.since, end.now = 0.5, 101.0
    original = Exporter.__init__

    def older(self: Exporter, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        self._last_success -= 1.0

    monkeypatch.setattr(Exporter, "__init__", older)
    state, done, _ = run(end, [0], broken=("open",))
    assert done == ["open"]
    assert state.warning == "MLflow has nothing of this run (ValueError: no open); complete it with: SYNC"
    assert (end.slept, state.complete, state.seconds_after_the_end) == ([], False, 0.5)


@pytest.mark.parametrize(("wait", "tries"), [(3.0, 5), (60.0, 12)])
def test_an_mlflow_that_worked_is_waited_for_as_long_as_there_is_time_and_patience(
    run: Run, monkeypatch: pytest.MonkeyPatch, wait: float, tries: int
) -> None:
    end = End(monkeypatch)
    original = Exporter._begin

    def begun(self: Exporter) -> None:
        original(self)
        self.export.broken = ("beat",)  # type: ignore[attr-defined]  # it goes down as soon as it has begun

    monkeypatch.setattr(Exporter, "_begin", begun)
    state, done, _ = run(end, [ValueError("x")], wait=wait)
    assert done.count("send") == tries
    assert "refusal" not in done and "end" not in done, "nobody knows whether it is the record's fault"
    assert not state.complete


def test_there_is_an_end_of_sending_when_the_time_is_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    end = End(monkeypatch)
    end.since = 3.0
    _, done, _ = run(end, [1, 1, 0], wait=3.0)
    assert done.count("send") == 3, "the time is not over yet"
    end = End(monkeypatch)
    end.since = 3.5
    state, done, _ = run(end, [1], wait=3.0)
    assert done.count("send") == 1
    assert state.warning == (
        "MLflow has 0 of 2 traces (TimeoutError: the 3 s of tracking.wait_seconds were over); complete it with: SYNC"
    )


class NewConnectionError(Exception):
    """As the network library calls it."""


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError(" a \nb"), "ValueError: a "),
        (ValueError(""), "ValueError: no message"),
        (ValueError("x" * 201), f"ValueError: {'x' * 200}"),
        (NewConnectionError("half a screen"), "URI cannot be reached"),
    ],
)
def test_a_failure_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str) -> None:
    state, _, _ = run(End(monkeypatch, seconds=10.0), [error], wait=1.0)
    shown = sentence.replace("URI", LocalTracking(experiment="e").shown_uri)
    assert state.warning == f"MLflow has 0 of 2 traces ({shown}); complete it with: SYNC"


def test_a_run_that_ends_while_much_is_sent_is_not_followed_any_more(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    end = End(monkeypatch, waits=1)
    seen: list[int] = []

    def send(self: Steps) -> int:
        self.done.append("send")
        seen.append(1)
        end.waits = 0 if len(seen) == 2 else end.waits
        return 1 if len(seen) < 4 else 0

    monkeypatch.setattr(Steps, "send_new", send)
    monkeypatch.setattr(End, "wait", lambda self, seconds: self.waited.append(seconds))
    _, done, _ = run(end, [0])
    assert done == ["open", "beat", "begin", "show", "send", "send", "send", "send", "end", "count", "warning None"]
