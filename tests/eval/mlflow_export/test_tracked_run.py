import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Barrier
from typing import Any

import pytest

from eval.config.tracking import LocalTracking, ServerTracking
from eval.mlflow_export import tracked_run
from eval.mlflow_export.tracked_run import Sent, TrackedRun, open_run
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
