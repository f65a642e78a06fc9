"""Samples in this process: how many at once, what is handed over, and what the runner is made of."""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dspy
import pytest

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.contract import PendingSample, SampleHooks
from eval.execution.executors.local import LocalExecutor, create_runner, relax_gc, run_side_by_side
from eval.execution.runner import SampleRunner, ignore_events
from eval.execution.termination import StopController
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, TaskInfo
from eval.scorers.labels import LabelSet
from mas.runtime.sample_context import SampleContext, SampleKey
from mas.system import Program, Resources
from tests.eval.stored_run import answered


class Runner:
    """A SampleRunner that counts its samples in flight."""

    def __init__(self, **errors: str) -> None:
        self.errors, self.begun = errors, list[str]()
        self.in_flight = self.most = 0
        self.ignores_cancellation = False
        self.histories: list[bool] = []

    async def run_sample(self, sample: Sample, key: SampleKey) -> Record:
        self.begun.append(sample.id)
        self.histories.append(dspy.settings.disable_history)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(60 if self.ignores_cancellation else 0)
        except asyncio.CancelledError:
            if not self.ignores_cancellation:
                raise
        self.in_flight -= 1
        kind = self.errors.get(sample.id)
        return answered(sample.id, None if kind else "17", error=kind, error_class=kind)


def pending(names: str) -> list[PendingSample]:
    return [(Sample(name, "?"), SampleKey(name)) for name in names]


def run(
    runner: Runner, names: str, concurrency: int, stop: StopController, keep: Callable[[Record], None] | None = None
) -> list[str]:
    kept: list[str] = []

    def note(record: Record) -> None:
        kept.append(record.sample_id)
        if keep is not None:
            keep(record)

    asyncio.run(run_side_by_side(cast(SampleRunner, runner), pending(names), note, stop, concurrency))
    return kept


def quiet() -> StopController:
    return StopController(say=lambda line: None)


@pytest.mark.parametrize(
    ("names", "concurrency", "most"), [("abcde", 2, 2), ("abcde", 5, 5), ("ab", 9, 2), ("a", 1, 1)]
)
def test_so_many_samples_run_at_once_and_each_is_handed_over_once(names: str, concurrency: int, most: int) -> None:
    runner = Runner()
    assert sorted(run(runner, names, concurrency, quiet())) == list(names)
    assert (runner.most, runner.in_flight, "".join(runner.begun)) == (most, 0, names)
    assert runner.histories == [True] * len(names), "DSPy would keep every call"


def test_nothing_is_begun_without_a_sample_or_after_a_stop() -> None:
    assert run(Runner(), "", 3, quiet()) == []
    stop, runner = quiet(), Runner()
    stop.drain("enough")
    assert run(runner, "abc", 3, stop) == [] and runner.begun == []
    stop = quiet()
    assert run(runner, "abcd", 1, stop, lambda record: stop.drain("enough")) == ["a"]


def test_an_answer_that_a_used_up_quota_refused_is_not_handed_over_and_ends_the_run() -> None:
    stop = quiet()
    assert run(Runner(b="quota_or_key"), "abc", 1, stop) == ["a"]
    assert stop.reason is not None and stop.reason.kind == "server"
    stop = StopController(fail_fast=True)
    assert run(Runner(b="internal"), "abc", 1, stop) == ["a", "b"]
    assert stop.reason is not None and stop.reason.kind == "errors"


def test_an_answer_of_a_program_that_ignores_its_cancellation_is_dropped() -> None:
    stop, runner = quiet(), Runner()
    runner.ignores_cancellation = True

    async def play() -> list[str]:
        kept: list[str] = []
        running = asyncio.create_task(
            run_side_by_side(
                cast(SampleRunner, runner), pending("ab"), lambda record: kept.append(record.sample_id), stop, 1
            )
        )
        await asyncio.sleep(0.01)
        stop.stop_now("enough")
        await running
        return kept

    assert asyncio.run(play()) == []
    assert runner.begun == ["a"]


def config(**more: Any) -> EvalConfig:
    settings = {
        "scorer": "scorer", "extra_scorers": {"other": "one"},
        "run": SimpleNamespace(deadline_seconds=7.0, concurrency=2), "redact": str.upper,
        "needs_model": True, "model": "model", **more,
    }  # fmt: skip
    return cast(EvalConfig, SimpleNamespace(**settings))


@pytest.mark.parametrize(("needs_model", "cost"), [(True, 0.0), (False, None)])
def test_a_runner_has_the_settings_of_the_run_and_the_hooks_of_the_session(
    needs_model: bool, cost: float | None
) -> None:
    def open_listener(thread_id: str, key: SampleKey) -> Any: ...

    def open_context(key: SampleKey) -> SampleContext:
        return SampleContext(key)

    info = RunInfo(run_id="r", task=TaskInfo(labels=["yes", "no"]))
    program = cast(Program, object())
    hooks = SampleHooks(Path("x"), open_context, open_listener)
    runner = create_runner(config(needs_model=needs_model), program, info, hooks)
    assert vars(runner) == {
        "run_id": "r", "program": program, "scorer": "scorer", "extra_scorers": {"other": "one"},
        "deadline_seconds": 7.0, "redact": str.upper, "open_context": open_context, "open_listener": open_listener,
        "cost_without_calls": cost, "labels": LabelSet(("yes", "no")),
        "observer": None,
    }  # fmt: skip


def test_an_executor_builds_its_program_once_and_runs_it_with_the_hooks_of_each_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[tuple[object, ...]] = []

    def build(*given: object) -> str:
        built.append(given)
        return f"program {len(built)}"

    made = config(system=SimpleNamespace(build=build))
    resources = cast(Resources, object())
    executor = LocalExecutor(made, None, resources)
    hooks = SampleHooks(Path("of a session"))
    hooked = executor.with_hooks(hooks)
    assert built == [("model", None, resources)]
    assert (hooked.program, executor.program, hooked is executor) == ("program 1", "program 1", False)
    used: list[tuple[object, ...]] = []

    def note(*given: object) -> Any:
        used.append(given)
        return Runner()

    monkeypatch.setattr("eval.execution.executors.local.create_runner", note)
    kept: list[str] = []
    info = RunInfo(run_id="r")
    for each in (hooked, executor):
        asyncio.run(each.run(info, pending("abc"), lambda record: kept.append(record.sample_id), quiet()))
    assert used == [(made, "program 1", info, hooks), (made, "program 1", info, SampleHooks())]
    assert sorted(kept) == ["a", "a", "b", "b", "c", "c"]


def test_a_session_says_nothing_of_its_own_unless_it_is_given() -> None:
    hooks, key = SampleHooks(), SampleKey("q1")
    assert (hooks.folder, hooks.asks_budget, hooks.open_listener) == (Path(), False, ignore_events)
    assert (hooks.open_context(key).key, hooks.read_replies(key)) == (key, {})
    assert (hooks.note("event", field=1), hooks.log("name", "text")) == (None, None)  # type: ignore[func-returns-value]


def test_garbage_is_collected_more_rarely_while_samples_run() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), relax_gc():
        assert gc.get_threshold() == (20_000, 20, 100)
        raise ZeroDivisionError
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
