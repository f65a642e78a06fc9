"""Trials of a tuning run in workers: each has its own prompts, and all of them end with the session."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.executors.channel import Answer, Answered, Cancel, Prompts, Ready, Start
from eval.execution.executors.contract import SampleHooks
from eval.execution.executors.trial_workers import Trial, TrialWorkers
from eval.execution.termination import StopController, StopReason
from eval.execution.traced_program import AnsweredTrial
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import SampleContext, SampleKey
from tests.eval.execution.executors.played_workers import PlayedPlace, let_others_run
from tests.eval.stored_run import answered

START = Start({}, None, RunInfo(run_id="r"), "/folder", ())
PROMPTS = PromptSet("mine", "toy", {"solve": "Solve."}, Path("mine"))


class Scene:
    """Workers of a session with so many trials at once."""

    def __init__(self, n_workers: int, concurrency: int) -> None:
        self.place = PlayedPlace(n_workers)
        self.stop = StopController(say=lambda line: None)
        run = SimpleNamespace(concurrency=concurrency)
        config = cast(EvalConfig, SimpleNamespace(run=run, model=None, judges={}))
        self.workers = TrialWorkers(config, START, SampleHooks(), self.stop, self.place)

    def ask(self, *names: str) -> list["asyncio.Task[AnsweredTrial]"]:
        return [asyncio.create_task(self.workers.answer(trial(name))) for name in names]


def trial(name: str) -> Trial:
    return Trial(Sample(name, "?"), SampleKey(name), PROMPTS, "digest", SampleContext, lambda key: {"k": key.sample_id})


@asynccontextmanager
async def scene(n_workers: int = 1, concurrency: int = 2) -> AsyncIterator[Scene]:
    made = Scene(n_workers, concurrency)
    yield made
    await made.workers.close()


def run(play: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(cast(Any, play()), 30))


def test_a_trial_is_answered_with_its_prompts_and_its_calls_come_back() -> None:
    calls = [("solve", {"question": "?"}, "outputs")]

    async def play() -> None:
        async with scene() as made:
            first, second = made.ask("a", "b")
            (worker,) = await made.place.wait_for(1)
            assert made.place.starts == [START]
            await worker.say(Ready(7, "here"))
            assert worker.sent == [
                Prompts("digest", PROMPTS),
                Answer(1, Sample("a", "?"), SampleKey("a"), {"k": "a"}, "digest"),
                Answer(2, Sample("b", "?"), SampleKey("b"), {"k": "b"}, "digest"),
            ]
            records = [answered(name, "17") for name in "ba"]
            await worker.say(Answered(2, records[0]), Answered(1, records[1], pickle.dumps(calls)))
            assert await asyncio.gather(first, second) == [
                AnsweredTrial(records[1], calls),  # type: ignore[arg-type]
                AnsweredTrial(records[0], []),
            ]
            (third,) = made.ask("c")
            await let_others_run()
            assert worker.leases == {"a": 1, "b": 2, "c": 3}, "the worker stays"
            third.cancel()

    run(play)


@pytest.mark.parametrize(("n_workers", "concurrency", "shares"), [(2, 5, [3, 2]), (4, 2, [1, 1]), (1, 3, [3])])
def test_workers_share_the_trials_at_once(n_workers: int, concurrency: int, shares: list[int]) -> None:
    async def play() -> None:
        async with scene(n_workers, concurrency) as made:
            made.ask(*"abcdefgh")
            workers = await made.place.wait_for(len(shares))
            for worker in workers:
                await worker.say(Ready(7, "here"))
            assert [len(worker.leases) for worker in workers] == shares

    run(play)


def test_a_trial_that_is_cancelled_ends_all_workers_and_later_ones_start_again() -> None:
    async def play() -> None:
        async with scene() as made:
            first, second = made.ask("a", "b")
            (worker,) = await made.place.wait_for(1)
            await worker.say(Ready(7, "here"))
            first.cancel()
            await asyncio.wait([first, second])
            assert first.cancelled() and second.cancelled()
            assert (worker.sent[3:], worker.n_closed, worker.ended_within) == ([Cancel()], 1, [2.0])
            (third,) = made.ask("c")
            _, again = await made.place.wait_for(2)
            await again.say(Ready(7, "here"), Answered(1, answered("c", "17")))
            assert (await third).record.sample_id == "c"
            assert made.stop.reason is None

    run(play)


def test_closing_ends_what_waits_and_nothing_is_started_for_it() -> None:
    async def play() -> None:
        async with scene() as made:
            await made.workers.close()
            assert made.place.starts == []
            (waiting,) = made.ask("a")
            (worker,) = await made.place.wait_for(1)
            await made.workers.close()
            await asyncio.wait([waiting])
            assert waiting.cancelled() and worker.n_closed == 1
            assert len(made.place.starts) == 1

    run(play)


def test_a_place_without_workers_ends_the_session_and_its_trials() -> None:
    async def play() -> None:
        async with scene() as made:
            made.place.refusal = "the cluster has ended."
            waiting = made.ask("a", "b")
            await asyncio.wait(waiting)
            assert all(each.cancelled() for each in waiting)
            assert made.stop.reason == StopReason("errors", "the cluster has ended.")

    run(play)


def test_a_defect_in_what_keeps_workers_ends_the_session_with_its_words() -> None:
    async def play() -> None:
        async with scene() as made:

            async def fail(start: Start) -> Any:
                raise ValueError("a defect")

            made.place.start_worker = fail  # type: ignore[method-assign]
            (waiting,) = made.ask("a")
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            assert made.stop.reason == StopReason("errors", "worker processes cannot be kept: a defect")

    run(play)
