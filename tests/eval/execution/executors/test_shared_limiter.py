"""Tests of the rate limiter that workers share, over a real pair of sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.execution.executors.channel import Channel, Permitted, Start, receive_start, send_start
from eval.execution.executors.contract import Host, SampleHooks
from eval.execution.executors.places import ThisMachine
from eval.execution.executors.processes import Pool, _Worker
from eval.execution.executors.shared_limiter import SharedLimiters
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import ModelProfile
from mas.llm.rate_limiter import BackoffTooLongError, Limiter

START = Start({}, None, RunInfo(), "", ())
HERE = ("http://127.0.0.1:1/v1", None)


class Connected:
    """The process of a run, and limiters of workers that are connected to it."""

    def __init__(self) -> None:
        options = ["system=toy", "data=toy", "model=openai_compatible", f"model.base_url={HERE[0]}"]
        model = read_config(compose_config([*options, "model.max_connections=2"])).model
        assert isinstance(model, ModelProfile)
        self.stop = StopController()
        self.limiter = model.get_rate_limiter(HERE)
        self.pool = Pool(ThisMachine(1), START, {"": model}, SampleHooks(), self.stop)
        self.workers: list[_Worker] = []
        self.channels: list[Channel] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> Limiter:
        ours, theirs = socket.socketpair()
        worker = _Worker(cast(Host, None), await Channel.open(ours), share=8)
        self.workers.append(worker)
        channel = await Channel.open(theirs)
        shared = SharedLimiters(channel.send)

        async def serve() -> None:
            async for message in worker.channel:
                self.pool._handle(worker, message)

        async def listen() -> None:
            async for message in channel:
                assert isinstance(message, Permitted)
                shared.permit(message)

        self.channels += [worker.channel, channel]
        self.tasks += [asyncio.create_task(serve()), asyncio.create_task(listen())]
        return shared.for_model("")(HERE)


@asynccontextmanager
async def connected() -> AsyncIterator[Connected]:
    made = Connected()
    yield made
    for channel in made.channels:
        await channel.close()
    await asyncio.gather(*made.tasks)


async def settle() -> None:
    await asyncio.sleep(0.02)


def test_all_workers_together_have_one_limit_and_one_pace() -> None:
    async def scenario() -> None:
        async with connected() as run:
            one, other = await run.connect(), await run.connect()
            first, second = await one.acquire(0), await other.acquire(0)
            third = asyncio.create_task(other.acquire(0))
            await settle()
            assert (run.limiter.in_flight, third.done()) == (2, False)
            with first:
                first.record_success()
            with await third, second:
                second.record_rate_limit(None)
            await settle()
            assert (run.limiter.in_flight, run.limiter.answered, run.limiter.policy.refused) == (0, 1, 1)
            assert (one.answered, other.answered) == (1, 0)

    asyncio.run(scenario())


def test_a_request_that_is_cancelled_leaves_the_queue_or_ends() -> None:
    async def scenario() -> None:
        async with connected() as run:
            limiter = await run.connect()
            held = [await limiter.acquire(0) for _ in range(2)]
            waiting = asyncio.create_task(limiter.acquire(0))
            await settle()
            waiting.cancel()
            await settle()
            assert run.limiter.traffic.waiting == 0
            for permit in held:
                with permit:
                    pass
            await settle()
            assert run.limiter.in_flight == 0

    asyncio.run(scenario())


def test_a_pause_longer_than_the_patience_is_refused() -> None:
    async def scenario() -> None:
        async with connected() as run:
            limiter = await run.connect()
            with await limiter.acquire(0):
                pass
            run.limiter.policy.hold_until = run.limiter.now() + 60
            with pytest.raises(BackoffTooLongError):
                await limiter.acquire(0, lambda: 5.0)

    asyncio.run(scenario())


def test_a_worker_that_ends_gives_its_permits_back() -> None:
    async def scenario() -> None:
        async with connected() as run:
            limiter = await run.connect()
            await limiter.acquire(0)
            await limiter.acquire(0)
            waiting = asyncio.create_task(limiter.acquire(0))
            await settle()
            worker = run.workers[0]
            worker.release()
            await settle()
            assert (run.limiter.in_flight, run.limiter.traffic.waiting) == (0, 0)
            waiting.cancel()

    asyncio.run(scenario())


def test_no_request_has_its_turn_once_the_run_is_stopped() -> None:
    async def scenario() -> None:
        async with connected() as run:
            limiter = await run.connect()
            held = [await limiter.acquire(0) for _ in range(2)]
            waiting = asyncio.create_task(limiter.acquire(0))  # it waits when the run stops
            await settle()
            with run.stop.in_flight(run.pool.refuse_requests):
                run.stop.stop_now("the budget is used up")
            for permit in held:
                with permit:
                    permit.record_success()
            later = asyncio.create_task(limiter.acquire(0))  # it asks after that
            await settle()
            assert (waiting.done(), later.done(), run.limiter.in_flight) == (False, False, 0)
            waiting.cancel()
            later.cancel()

    asyncio.run(scenario())


def test_the_first_message_arrives_whole_or_not_at_all() -> None:
    start = Start({"a": "b" * 50_000}, None, RunInfo(run_id="r"), "/f", ("/p",))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_start(ours, start)
        assert receive_start(theirs) == start
        ours.close()
        assert receive_start(theirs) is None
