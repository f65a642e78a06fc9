import os
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from eval.config.tracking import LocalTracking, ServerTracking
from eval.mlflow_export import tracked_run
from eval.mlflow_export.tracked_run import Sent, TrackedRun, is_dead, open_run, read_pages, to_ms
from eval.mlflow_export.values import derive_trace_id, get_record_key
from eval.runs.record import Record
from mas.runtime.errors import UserError
from tests.eval.mlflow_export import records

Opened = Callable[..., TrackedRun]
Make = Callable[..., Record]
_runs = count()


@pytest.fixture
def a_record() -> Make:
    """Of a run of the test's own: MLflow moves a trace that is sent again to where it was sent last."""
    return partial(records.a_record, run_id=f"sent {next(_runs)}")


def stored(run: TrackedRun) -> list[Any]:
    """All traces of the run, as MLflow gives them back."""
    found = run.tracing.search_traces(locations=[run.experiment_id], run_id=run.run_id, max_results=500)
    return list(found)


def counted(run: TrackedRun) -> Sent:
    traces = stored(run)
    return Sent(
        len(traces), sum(len(each.data.spans) for each in traces), sum(len(each.info.assessments) for each in traces)
    )


def test_what_was_sent_is_what_mlflow_gives_back(opened: Opened, a_record: Make) -> None:
    run, record = opened(), a_record(level="2")
    assert run.send([record]) == Sent(traces=1, spans=11, assessments=4)
    (found,) = stored(run)
    assert found.info.trace_id == derive_trace_id(get_record_key(record))
    assert found.info.request_preview == "What is 17 * 23? · q1"
    assert (found.info.response_preview, found.info.state.value) == ("391", "OK")
    assert found.info.token_usage["total_tokens"] == 550
    assert found.info.cost["total_cost"] == pytest.approx(0.01)
    assert found.info.tags["mlflow.traceName"] == "q1"
    assert [each.name for each in found.data.spans] == [
        "question", "planner", "gpt-4o-mini", "gpt-4o-mini", "expert", "gpt-4o-mini", "calculator",
        "critic_expert", "gpt-4o-mini", "gpt-4o-mini", "critic_expert",
    ]  # fmt: skip
    names = {each.span_id: each.name for each in found.data.spans}
    assert [names.get(each.parent_id) for each in found.data.spans[:7]] == [
        None, "question", "planner", "planner", "question", "expert", "expert",
    ]  # fmt: skip
    lm, tool = found.data.spans[2], found.data.spans[6]
    assert lm.inputs["messages"][0] == {"role": "system", "content": "Be brief."}
    assert lm.llm_cost["total_cost"] == 0.002
    assert tool.outputs == {"observation": "391"}
    assert {each.name: each.value for each in found.info.assessments} == {
        "expected_response": "391", "correct": True, "format_ok": True, "error_class": "none",
    }  # fmt: skip
    assert {each.run_id for each in found.info.assessments} == {run.run_id}


def test_sending_again_changes_nothing_and_a_new_score_replaces_the_old(opened: Opened, a_record: Make) -> None:
    sent = [a_record("q1"), a_record("q2", epoch=2), a_record("q1", attempt=2)]
    run = opened()
    assert run.send(sent) == counted(run) == Sent(3, 33, 12)
    before = {each.info.trace_id: each.to_dict() for each in stored(run)}
    again = opened()
    assert again.run_id == run.run_id
    assert again.send(sent) == counted(run) == Sent(3, 33, 12)
    assert {each.info.trace_id: each.to_dict() for each in stored(run)} == before

    run.send([a_record("q1", score=0.0, explanation="not so", trajectory=sent[0].trajectory)])
    assert counted(run) == Sent(3, 33, 12)
    changed = run.tracing.get_trace(derive_trace_id(get_record_key(sent[0])))
    correct = next(each for each in changed.info.assessments if each.name == "correct")
    assert (correct.value, correct.rationale) == (False, "not so")


def test_spans_that_a_crash_left_out_come_with_the_next_sending(
    opened: Opened, a_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, record = opened(), a_record()

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.tracing, "log_spans", crash)
    with pytest.raises(KeyboardInterrupt):
        run.send([record])
    monkeypatch.undo()
    assert (
        len(run.tracing.get_trace_info(derive_trace_id(get_record_key(record))).assessments) == 4
    )  # a trace without its spans
    run.send([record])
    assert counted(run) == Sent(1, 11, 4)


def test_many_traces_go_in_few_calls_of_bounded_size(
    opened: Opened, a_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, calls = opened(), []
    real = run.tracing.log_spans

    def noted(location: str, spans: list[Any]) -> Any:
        calls.append(len({span.trace_id for span in spans}))
        return real(location, spans)

    monkeypatch.setattr(run.tracing, "log_spans", noted)
    monkeypatch.setattr(tracked_run, "BATCH_TRACES", 3)
    run.send(a_record(f"q{number}") for number in range(7))
    assert calls == [3, 3, 1]
    calls.clear()
    monkeypatch.setattr(tracked_run, "BATCH_CHARS", 10)  # one trace is more than that already
    run.send(a_record(f"q{number}") for number in range(2))
    assert calls == [1, 1]
    assert counted(run).traces == 7


def test_records_that_no_database_likes_arrive(opened: Opened, a_record: Make) -> None:
    run = opened()
    odd = a_record("id\x00\ud83d", question="\ud83d" * 4000, answer="\x00", target="\ud83d", explanation="a\x00")
    assert run.send([odd]) == counted(run)


def test_a_run_is_found_by_its_id_and_made_once(opened: Opened, local: LocalTracking) -> None:
    run = opened("run-9", host="box")
    assert opened("run-9", host="other").run_id == run.run_id
    assert opened("run-10").run_id != run.run_id
    info = run.client.get_run(run.run_id)
    assert (info.info.run_name, info.info.start_time) == ("run-9", 1_795_000_000_000)
    assert (info.data.tags["host"], info.data.tags[tracked_run.RUN_TAG]) == ("box", f"run-9 of {local.experiment}")
    assert run.link == {"uri": run.shown_uri, "experiment_id": run.experiment_id, "run_id": run.run_id}


def test_a_run_with_traces_stays_in_its_experiment(opened: Opened, local: LocalTracking, a_record: Make) -> None:
    run, record = opened("here"), a_record()
    run.send([record])
    own_id = run.client.get_run(run.run_id).data.tags[tracked_run.RUN_TAG]
    other = replace(local, experiment=f"{local.experiment} b")
    with pytest.raises(UserError, match=rf"here is in the experiment {local.experiment} there already"):
        open_run(other, own_id, name="here", start_ms=0)
    assert counted(run).traces == 1
    parent = open_run(other, own_id, name="here", start_ms=0, has_traces=False)
    assert parent.run_id != run.run_id, "a sweep's parent has no traces that could move"


def test_processes_that_begin_together_make_one_run(
    opened: Opened, local: LocalTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a server, where no lock keeps them apart: both look before either has made its run."""
    monkeypatch.setattr(tracked_run, "_lock_local_store", lambda _: nullcontext())
    opened("warm-up")
    together, real = Barrier(2, timeout=30), tracked_run._check_not_elsewhere

    def at_the_same_moment(*arguments: Any) -> None:
        real(*arguments)
        together.wait()

    monkeypatch.setattr(tracked_run, "_check_not_elsewhere", at_the_same_moment)
    with ThreadPoolExecutor(2) as threads:
        first, second = (each.result() for each in [threads.submit(opened, "twin") for _ in range(2)])
    assert first.run_id == second.run_id
    found = first.client.search_runs([first.experiment_id])
    assert sorted(each.info.run_name for each in found) == ["twin", "warm-up"]


def test_a_run_ends_once_and_can_go_on(opened: Opened) -> None:
    run = opened()
    run.beat("2026-11-20T10:00:00+00:00")
    run.finish("KILLED", 1_795_000_060_000)
    assert run.status() == "KILLED"
    run.begin()
    assert run.status() == "RUNNING"
    run.finish("FINISHED", 1_795_000_090_000)
    run.finish("FINISHED", 1_795_000_090_000)
    found = run.client.get_run(run.run_id)
    assert (found.info.status, found.info.end_time) == ("FINISHED", 1_795_000_090_000)
    assert found.data.tags[tracked_run.HEARTBEAT_TAG] == "2026-11-20T10:00:00+00:00"


def test_artifacts_lie_beside_the_store(opened: Opened, local: LocalTracking) -> None:
    run = opened()
    run.client.log_text(run.run_id, "hello", "a.txt")
    assert local.path() / "mlflow-artifacts" / run.run_id / "artifacts" / "a.txt" in local.path().rglob("a.txt")


def test_a_deleted_experiment_is_one_sentence(opened: Opened) -> None:
    run = opened()
    run.client.delete_experiment(run.experiment_id)
    with pytest.raises(UserError, match=r"tracking\.experiment"):
        opened()


def test_a_server_that_is_down_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ServerTracking(uri="http://127.0.0.1:9")  # the discard port: nothing listens
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    from mlflow import MlflowException

    started = time.monotonic()
    with pytest.raises(MlflowException):
        open_run(settings, "run-1", name="run-1", start_ms=0)
    assert time.monotonic() - started < 15


def test_a_run_is_silent_from_two_minutes_on_and_dead_if_its_process_is_gone() -> None:
    moment = datetime(2026, 11, 21, tzinfo=UTC)
    beat = moment - tracked_run.SILENCE
    here = {tracked_run.HOST_TAG: socket.gethostname()}

    def dead(pid: str | None, last: datetime = beat) -> bool:
        return is_dead({**here, **({} if pid is None else {tracked_run.PID_TAG: pid})}, last, moment)

    assert dead("0") and not dead("0", beat + timedelta(microseconds=1))
    assert [dead(pid) for pid in (None, "", "-5", "x", "²")] == [True] * 5
    assert not dead(str(os.getpid())) and not dead("1") and not dead("9" * 30), "it may go on"
    assert is_dead({tracked_run.PID_TAG: str(os.getpid())}, beat, moment), "of another machine"


def test_moments_are_milliseconds_and_now_has_seconds() -> None:
    assert to_ms("1970-01-01T00:00:01.2345+00:00") == 1_234
    assert to_ms("1970-01-01T01:00:00+01:00") == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", tracked_run.format_now())


def test_numbers_of_what_was_sent_are_added_up() -> None:
    assert Sent(1, 2, 3).plus(Sent(10, 20, 30)) == Sent(11, 22, 33)
    assert Sent() == Sent(0, 0, 0)


def test_pages_are_read_until_there_is_no_token() -> None:
    class Page(list[int]):
        token: str | None = None

    pages = {None: Page([1, 2]), "a": Page([]), "b": Page([3])}
    pages[None].token, pages["a"].token, pages["b"].token = "a", "b", ""
    asked: list[str | None] = []

    def fetch(token: str | None) -> Page:
        asked.append(token)
        return pages[token]

    assert list(read_pages(fetch)) == [1, 2, 3]  # type: ignore[arg-type]
    assert asked == [None, "a", "b"]


class Client:
    """MLflow's, of which only runs and experiments are asked; `found`: what each search for runs returns."""

    def __init__(self, found: list[list[str]], experiments: list[Any] | None = None) -> None:
        self.found, self.experiments, self.done = found, experiments or [], list[Any]()

    def search_runs(self, ids: list[str], condition: str) -> list[Any]:
        self.done.append(("search", ids, condition))
        return [SimpleNamespace(info=SimpleNamespace(run_id=each)) for each in self.found.pop(0)]

    def create_run(self, experiment_id: str, start_time: int, tags: dict[str, str], run_name: str) -> Any:
        self.done.append(("create", experiment_id, start_time, tags, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="mine"))

    def delete_run(self, run_id: str) -> None:
        self.done.append(("delete", run_id))

    def get_experiment_by_name(self, name: str) -> Any:
        return self.experiments.pop(0)

    def create_experiment(self, name: str, location: str | None) -> str:
        self.done.append((name, location))
        raise ValueError("there is one")


def test_a_run_next_to_another_of_the_same_id_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(tracked_run, "time", SimpleNamespace(sleep=pauses.append))

    def create(*found: list[str]) -> tuple[str, list[Any]]:
        client: Any = Client(list(found))
        made = tracked_run._create_run(client, "7", "r", "name", 5, {"a": "b"})
        return made.info.run_id, client.done

    search, made = ("search", ["7"], "tags.`harness.run_id` = 'r'"), ("create", "7", 5, {"a": "b"}, "name")
    assert create(["mine"]) == ("mine", [made, search]) and pauses == []
    assert create(["other", "mine"], ["other"]) == ("other", [made, search, ("delete", "mine"), search])
    twice = create(["mine", "other"], [], ["mine"])
    assert twice == ("mine", [made, search, ("delete", "mine"), search, made, search])
    assert len(pauses) == 2 and all(0 <= each <= 2 for each in pauses)


def test_an_experiment_that_another_run_has_just_made_is_taken() -> None:
    made = SimpleNamespace(experiment_id=7, lifecycle_stage="active")
    client: Any = Client([], [None, made])
    assert tracked_run._get_experiment_id(client, "e", "here") == "7"
    assert client.done == [("e", "here")]
    nothing: Any = Client([], [None, None])
    with pytest.raises(ValueError, match="there is one"):
        tracked_run._get_experiment_id(nothing, "e", None)
    deleted: Any = Client([], [SimpleNamespace(experiment_id=7, lifecycle_stage="deleted")])
    with pytest.raises(UserError, match=r"restore it \(mlflow experiments restore -x 7\)"):
        tracked_run._get_experiment_id(deleted, "e", None)


def test_a_batch_is_full_at_twenty_traces_or_when_its_characters_would_be_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trace(*chars: int) -> Any:
        spans = [SimpleNamespace(_span=SimpleNamespace(attributes={"a": "x" * n, "b": ""})) for n in chars]
        return SimpleNamespace(spans=spans)

    def batches(*traces: Any) -> list[int]:
        return [len(each) for each in tracked_run._batches(traces)]

    assert batches(*[trace(1)] * 41) == [20, 20, 1]
    assert batches() == []
    monkeypatch.setattr(tracked_run, "BATCH_CHARS", 10)
    assert batches(trace(5, 2), trace(3), trace(1)) == [2, 1], "exactly ten fit"
    assert batches(trace(11), trace(10), trace(1)) == [1, 1, 1]


def test_a_beat_without_a_zone_is_in_utc_and_without_one_the_start_counts() -> None:
    def beat(**tags: str) -> datetime:
        run: Any = SimpleNamespace(data=SimpleNamespace(tags=tags), info=SimpleNamespace(start_time=1_500))
        return tracked_run._read_last_beat(run)

    assert beat(**{tracked_run.HEARTBEAT_TAG: "2026-11-21T10:00:00"}) == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert beat(**{tracked_run.HEARTBEAT_TAG: "2026-11-21T10:00:00+01:00"}) == datetime(2026, 11, 21, 9, tzinfo=UTC)
    assert beat() == beat(**{tracked_run.HEARTBEAT_TAG: "odd"}) == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
