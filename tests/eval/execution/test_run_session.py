import asyncio
import io
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import CacheSettings, EvalConfig
from eval.execution import run_session
from eval.execution.console import Console, MissingServices
from eval.execution.executors.contract import Executor, PendingSample, SampleHooks
from eval.execution.run_session import (
    SILENT,
    RunSession,
    SessionRecorder,
    begin_session,
    read_spent_usd,
    run_to_end,
)
from eval.execution.termination import StopController
from eval.runs.call_log import CallLog, Signer
from eval.runs.logs import RunLogs
from eval.runs.record import PlannedQuestion, Record, Usage
from eval.runs.run_info import RunInfo, RunState, SessionInfo, SweepJob, TuningUse
from eval.runs.store import RunStore, StoreError
from mas.prompt_sets.prompt_set import PromptSet
from mas.prompt_sets.tuned_on import TunedOn
from mas.runtime.sample_context import KeptResult, Payment, RunBudget, SampleContext, SampleKey, SampleLimits
from tests.eval.stored_run import answered


async def fail(error: Exception) -> None:
    raise error


async def wait(stop: StopController) -> None:
    await stop.supervise([asyncio.create_task(asyncio.sleep(0))])


def test_a_store_that_cannot_be_written_is_the_reason_of_the_stop() -> None:
    assert run_to_end([fail(StoreError("run.db cannot be written"))], StopController()) == "run.db cannot be written"
    with pytest.raises(ValueError, match="a defect"):
        run_to_end([fail(ValueError("a defect"))], StopController())


def test_a_run_that_comes_to_its_end_has_no_reason_and_one_that_was_stopped_has_its_own() -> None:
    assert run_to_end([wait(StopController())], StopController()) is None
    stop = StopController()
    stop.drain("enough")
    assert run_to_end([wait(stop), wait(stop)], stop) == "enough"


def test_a_session_is_recorded_as_it_begins_and_ends(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        first = begin_session(tmp_path, store, RunInfo(), [])
        began = store.read_info()
        assert began.run_id and began.started_at
        assert [each.ended_at for each in store.read_state().sessions] == [None]
        first.note_unfinished({"lm_calls": 1})
        assert store.read_state().unfinished == {"lm_calls": 1}
        first.note_unfinished(None)
        assert store.read_state().unfinished is None
        first.end("enough", [{"limit": 3}])
        (session,) = store.read_state().sessions
        assert (session.stopped, store.read_state().finished) == ("enough", False)
        assert session.ended_at is not None and session.peak_memory_mb
        assert store.read_state().pace_history == [{"limit": 3}]
        second = begin_session(tmp_path, store, RunInfo(run_id="another"), [], changes={"limit": "1 → 2"})
        assert (store.read_info().run_id, store.read_info().started_at) == (began.run_id, began.started_at)
        assert store.read_state().sessions[1].changes == {"limit": "1 → 2"}
        second.end(None, [])
        assert (len(store.read_state().sessions), store.read_state().finished) == (2, True)
    assert (tmp_path / "config.yaml").read_text() == "{}\n"


def test_a_session_that_was_killed_is_closed_by_the_next_one(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        begin_session(tmp_path, store, RunInfo(), [])
        store.write(answered("q1", "17"))
        begin_session(tmp_path, store, RunInfo(), [])
        killed, now = store.read_state().sessions
        assert (killed.stopped, killed.ended_at) == (SILENT, store.last_finished_at())
        assert now.ended_at is None


def test_what_a_run_has_spent_includes_samples_without_a_record(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write(answered("q1", "17"))
        assert read_spent_usd(store, tmp_path) == 0.5
        log = CallLog(tmp_path / "calls.db")
        log.pay(SampleKey("q1"), Payment(1, 0, 1, cost_usd=4.0))  # it has a record: counted there
        log.pay(SampleKey("q2"), Payment(1, 0, 1, cost_usd=0.25))
        log.close()
        assert read_spent_usd(store, tmp_path) == 0.75


@pytest.mark.parametrize(("simulated", "printed"), [(False, "note: no search\n"), (True, "")])
def test_a_missing_service_is_noted_once_unless_the_model_is_simulated(
    simulated: bool, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = MissingServices(simulated)
    missing.note("no search")
    assert capsys.readouterr().err == ""
    missing.print_notes()
    missing.print_notes()
    assert capsys.readouterr().err == printed


START, LATER = "2026-11-22T08:00:00+00:00", "2026-11-22T08:00:09+00:00"
SWEEP = SweepJob("s", "sweep", "t", "here", 7, 0, [])


def test_the_first_session_gives_the_run_its_id_and_a_later_one_keeps_what_is_known(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        first = SessionRecorder.begin(store, RunInfo(run_id="mine", sweep=SWEEP), {"limit": "1 → 2"})
        began = store.read_info()
        assert (began.run_id, began.sweep, first.info) == ("mine", SWEEP, began)
        (session,) = store.read_state().sessions
        expected = SessionInfo(began.started_at, None, None, os.getpid(), socket.gethostname(), {"limit": "1 → 2"})
        assert (session, store.read_state().finished) == (expected, False)
        other = replace(SWEEP, id="other")
        SessionRecorder.begin(store, RunInfo(run_id="another", model="m"), {})
        assert store.read_info() == replace(began, model="m")
        SessionRecorder.begin(store, RunInfo(sweep=other), {})
        assert (store.read_info().sweep, len(store.read_state().sessions)) == (other, 3)
    with RunStore(tmp_path / "new" / "run.db") as store:
        SessionRecorder.begin(store, RunInfo(), {})
        assert len(store.read_info().run_id) == 12 and int(store.read_info().run_id, 16) >= 0


@pytest.mark.parametrize(
    ("last_answer", "ended_at", "seconds"),
    [(LATER, LATER, 9.0), (None, START, 0.0), ("2026-11-22T07:59:00+00:00", START, 0.0)],
)
def test_a_killed_session_took_until_its_last_answer(
    last_answer: str | None, ended_at: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunStore(tmp_path / "run.db") as store:
        done = SessionInfo("2026-11-21T08:00:00+00:00", "2026-11-21T09:00:00+00:00")
        store.write_state(RunState(sessions=[done, SessionInfo(START)], wall_seconds=3600.0))
        monkeypatch.setattr(store, "last_finished_at", lambda: last_answer)
        SessionRecorder.begin(store, RunInfo(), {})
        state = store.read_state()
        assert state.sessions[:2] == [done, SessionInfo(START, ended_at, SILENT)]
        assert (state.wall_seconds, len(state.sessions), state.finished) == (3600.0 + seconds, 3, False)


def test_a_session_that_ends_adds_its_time_and_its_pace_to_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=50.0)
    monkeypatch.setattr(run_session, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(run_session, "measure_peak_memory_mb", lambda: 99.5)
    with RunStore(tmp_path / "run.db") as store:
        done = SessionInfo(START, LATER)
        store.write_state(RunState(sessions=[done], wall_seconds=9.0, pace_history=[{"limit": 1}]))
        recorder = SessionRecorder.begin(store, RunInfo(), {})
        clock.now = 53.5
        recorder.end(None, [{"limit": 2}, {"limit": 3}])
        state = store.read_state()
        assert (state.wall_seconds, state.finished) == (12.5, True)
        assert state.pace_history == [{"limit": 1}, {"limit": 2}, {"limit": 3}]
        assert (state.sessions[0], state.sessions[1].stopped, state.sessions[1].peak_memory_mb) == (done, None, 99.5)
        assert state.sessions[1].ended_at and state.sessions[1].ended_at >= state.sessions[1].started_at


def test_a_session_writes_what_it_is_made_of_before_its_first_sample(tmp_path: Path) -> None:
    samples = [Sample("q1", "One?", target="17"), Sample("q2", "Two?")]
    marks = TunedOn(frozenset({"x"}), frozenset())
    prompts = PromptSet("mine", "toy", {"solve": "Solve."}, tmp_path / "mine", tuned_on=marks)
    with RunStore(tmp_path / "run.db") as store:
        store.write_plan([PlannedQuestion("old", "?")])
        begin_session(tmp_path, store, RunInfo(config={"b": 1, "a": "é"}), samples, prompts, {"x": "y"})
        assert store.read_plan() == list(map(PlannedQuestion.of, samples))
        info = store.read_info()
        assert (info.prompts, info.tuning_use) == ({"prompts": "mine"}, TuningUse("mine", [], [], {}))
        assert store.read_state().sessions[0].changes == {"x": "y"}
        assert (tmp_path / "config.yaml").read_text("utf-8") == "b: 1\na: é\n"
        begin_session(tmp_path, store, RunInfo(), samples[:1])
        assert store.list_planned_ids() == ["q1"]
        assert (store.read_info().prompts, store.read_info().tuning_use) == (info.prompts, info.tuning_use)


Play = Callable[[SampleHooks, PendingSample], Record | None]


class Played:
    """An Executor: a sample is answered by a function of the test."""

    def __init__(self, play: Play, hooks: SampleHooks | None = None) -> None:
        self.play, self.hooks = play, hooks
        self.runs: list[tuple[str, list[str]]] = []

    def with_hooks(self, hooks: SampleHooks) -> "Played":
        self.hooks = hooks
        return self

    async def run(
        self, info: RunInfo, pending: Sequence[PendingSample], on_record: Callable[[Record], None], stop: StopController
    ) -> None:
        self.runs.append((info.run_id, [key.sample_id for _, key in pending]))
        for each in pending:
            assert self.hooks is not None
            if (record := self.play(self.hooks, each)) is not None:
                on_record(record)


class Scene:
    """A run's folder with the questions a and b, and one session of it."""

    def __init__(self, folder: Path, store: RunStore, tools: str = "run", max_cost_usd: float | None = None) -> None:
        self.folder, self.store, self.screen = folder, store, io.StringIO()
        self.stop, self.limits = StopController(say=lambda line: None), SampleLimits(lm_calls=5)
        samples = [Sample(name, "?") for name in "ab"]
        self.pending = [(sample, SampleKey(sample.id)) for sample in samples]
        self.recorder = begin_session(folder, store, RunInfo(run_id="r"), samples)
        config: Any = SimpleNamespace(
            run=SimpleNamespace(max_cost_usd=max_cost_usd, concurrency=2, epochs=1),
            cache=CacheSettings(lm="off", tools=tools), limits=self.limits, redact=lambda text: text,
            list_traffic=list,
        )  # fmt: skip
        self.logs = RunLogs(folder)
        console = Console(file=self.screen, width=200)
        self.session = RunSession(cast(EvalConfig, config), self.recorder, folder, self.logs, console, self.stop)

    def run(self, executor: Played, after_first: Callable[[Record], None] | None = None) -> str | None:
        return self.session.run(cast(Executor, executor), self.pending, after_first)

    def log(self) -> list[dict[str, Any]]:
        self.logs.close()
        return [json.loads(line) for line in (self.folder / "logs" / "entry_point.log").read_text().splitlines()]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    with RunStore(tmp_path / "run.db") as store:
        yield lambda **settings: Scene(tmp_path, store, **settings)


def answer(hooks: SampleHooks, pending: PendingSample) -> Record | None:
    """Pay for a request whose reply is kept, and one of which nobody knows."""
    _, key = pending
    context = hooks.open_context(key)
    assert context.call_log is not None and context.tool_log is not None
    context.budget.reserve()
    context.budget.settle(Payment(10, 0, 5, cost_usd=0.25))
    context.call_log.put("request", f"reply to {key.sample_id}")
    context.tool_log.keep("call", KeptResult("result"))
    assert hooks.read_replies(key) == {"request": f"reply to {key.sample_id}"}
    hooks.open_listener("thread", key)("info", "agent started", {})
    return answered(key.sample_id, "17", usage=Usage(), trajectory=[])


def test_a_session_keeps_each_record_with_its_cost_and_leaves_no_caches_behind(scene: Callable[..., Scene]) -> None:
    made = scene()
    executor = Played(answer)
    assert made.run(executor) is None
    assert executor.runs == [("r", ["a", "b"])]
    found = list(made.store.records())
    paid = Usage(lm_calls=1, input_tokens=10, output_tokens=5, cost_usd=0.25, known_cost_usd=0.25)
    assert [(each.sample_id, each.usage) for each in found] == [("a", paid), ("b", paid)]
    assert made.store.read_state().unfinished is None
    assert not [each.name for each in made.folder.iterdir() if each.name.startswith(("calls.db", "tools.db"))]
    assert [line["event"] for line in made.log()] == ["question started", "question finished"] * 2
    assert made.screen.getvalue().splitlines()[-1].startswith("2/2 done, 2 correct, 0 errors, $0.5000, ")
    assert made.session.budget.spent_usd == 0.5
    hooks = executor.hooks
    assert hooks is not None and (hooks.folder, hooks.asks_budget) == (made.folder, False)


def test_what_is_paid_for_samples_without_a_record_is_noted_and_their_replies_are_kept(
    scene: Callable[..., Scene],
) -> None:
    made = scene()

    def answer_one(hooks: SampleHooks, pending: PendingSample) -> Record | None:
        record = answer(hooks, pending)
        return record if pending[1].sample_id == "a" else None

    assert made.run(Played(answer_one)) is None
    unfinished = made.store.read_state().unfinished
    assert unfinished is not None and (unfinished["lm_calls"], unfinished["known_cost_usd"]) == (1, 0.25)
    assert (made.folder / "calls.db").exists() and (made.folder / "tools.db").exists()
    assert read_spent_usd(made.store, made.folder) == 0.5
    log = CallLog(made.folder / "calls.db")
    assert log.read_replies(SampleKey("b")) == {"request": "reply to b"}, "only a tuning run signs its replies"
    log.close()
    again = Scene(made.folder, made.store)
    assert again.session.budget.spent_usd == 0.5
    again.pending = again.pending[1:]
    replayed: list[dict[str, str]] = []

    def replay(hooks: SampleHooks, pending: PendingSample) -> Record:
        replayed.append(dict(hooks.read_replies(pending[1])))
        assert made.store.read_state().unfinished is None, "they are being answered"
        return answered("b", "17", usage=Usage(), trajectory=[])

    again.run(Played(replay))
    assert replayed == [{"request": "reply to b"}]
    assert not (made.folder / "tools.db").exists()


@pytest.mark.parametrize(("error_class", "kept"), [("infrastructure", True), ("internal", False)])
def test_an_answer_that_may_be_tried_again_keeps_the_results_of_tools(
    error_class: str, kept: bool, scene: Callable[..., Scene]
) -> None:
    made = scene()

    def fail(hooks: SampleHooks, pending: PendingSample) -> Record | None:
        record = answer(hooks, pending)
        return record and replace(record, error="broken", error_class=error_class, score=None)

    made.run(Played(fail))
    assert (made.folder / "tools.db").exists() is kept


@pytest.mark.parametrize("stops", [True, False])
def test_the_first_sample_runs_alone_and_may_stop_the_run(stops: bool, scene: Callable[..., Scene]) -> None:
    made, seen = scene(), list[tuple[str, int]]()

    def look(record: Record) -> None:
        seen.append((record.sample_id, len(list(made.store.records()))))
        if stops:
            made.stop.drain("enough")

    executor = Played(answer)
    assert made.run(executor, look) == ("enough" if stops else None)
    assert executor.runs == [("r", ["a"]), *([] if stops else [("r", ["b"])])]
    assert seen == [("a", 1)]


def test_a_run_that_has_spent_its_budget_is_cancelled(scene: Callable[..., Scene]) -> None:
    made = scene(max_cost_usd=0.25)
    assert made.run(Played(answer)) == "the run has spent $0.2500 (run.max_cost_usd=0.25)"


def test_samples_have_the_caches_limits_and_budget_of_the_session(scene: Callable[..., Scene]) -> None:
    made, contexts = scene(tools="off"), list[SampleContext]()
    own = cast(RunBudget, SimpleNamespace(name="of a trial"))

    def look(hooks: SampleHooks, pending: PendingSample) -> None:
        assert hooks.asks_budget
        contexts.append(hooks.open_context(pending[1]))

    def open_budget(context: SampleContext) -> RunBudget:
        assert context.budget is not own
        return own

    async def run() -> None:
        executor = cast(Executor, Played(look))
        with made.session.open_execution(executor, made.pending, print, open_budget) as work:
            await work

    asyncio.run(run())
    assert [(each.key, each.budget, each.limits) for each in contexts] == [
        (SampleKey(name), own, made.limits) for name in "ab"
    ]
    assert [(each.shared_cache, each.tool_log) for each in contexts] == [(None, None)] * 2


def test_an_execution_that_is_not_awaited_is_closed(scene: Callable[..., Scene]) -> None:
    made = scene()
    with (
        pytest.raises(ZeroDivisionError),
        made.session.open_execution(cast(Executor, Played(answer)), made.pending, print) as work,
    ):
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="cannot reuse already awaited"):
        asyncio.run(work)


def test_a_store_whose_answers_are_signed_has_signed_replies(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene()
    monkeypatch.setattr(RunStore, "signs_answers", True)

    def pay_only(hooks: SampleHooks, pending: PendingSample) -> None:
        answer(hooks, pending)

    made.run(Played(pay_only))
    for signer, replies in ((Signer("r"), {"request": "reply to a"}), (Signer("other"), {})):
        log = CallLog(made.folder / "calls.db", lambda line: None, signer)
        assert log.read_replies(SampleKey("a")) == replies
        log.close()


def test_logs_that_cannot_be_written_stop_the_run(scene: Callable[..., Scene]) -> None:
    made = scene()
    made.session._stop_for_logs(OSError("no room"))
    assert made.stop.reason is not None and (made.stop.reason.kind, str(made.stop.reason)) == (
        "storage", "the run's logs cannot be written (no room): check that the disk has room"
    )  # fmt: skip


async def interrupt(*given: str) -> None:
    raise KeyboardInterrupt(*given)


@pytest.mark.parametrize(("given", "said"), [(("SIGTERM",), "interrupted by SIGTERM"), ((), "interrupted by Ctrl-C")])
def test_an_interrupt_ends_the_waiting_and_its_signal_is_the_reason(given: tuple[str, ...], said: str) -> None:
    stop = StopController(say=lambda line: None)
    assert run_to_end([interrupt(*given)], stop) == said
    assert stop.interrupted
    stop = StopController(say=lambda line: None)
    stop.drain("enough")
    assert run_to_end([interrupt(*given)], stop) == "enough"


def test_several_runs_end_together() -> None:
    ended = []

    async def one(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        ended.append(name)

    assert run_to_end([one("a", 0.001), one("b", 0)], StopController()) is None
    assert ended == ["b", "a"]
