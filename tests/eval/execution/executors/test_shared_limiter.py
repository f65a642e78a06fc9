"""Tests of the rate limiter that workers share, over a real pair of sockets."""

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.execution.executors.channel import Ask, Channel, Ended, Permitted, Start, receive_start, send_start
from eval.execution.executors.contract import Host, SampleHooks
from eval.execution.executors.places import ThisMachine
from eval.execution.executors.processes import Pool, _Worker
from eval.execution.executors.shared_limiter import SharedLimiters
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import ModelProfile
from mas.llm.rate_limiter import BackoffTooLongError, Limiter, Permit

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


def test_a_request_tells_its_outcome_once() -> None:
    sent: list[Ask | Ended] = []

    async def scenario() -> None:
        shared = SharedLimiters(sent.append)
        limiter = shared.for_model("judge")(HERE)
        outcomes: list[Callable[[Permit], None]] = [
            lambda permit: permit.record_success(),
            lambda permit: permit.record_rate_limit(1.5),
            lambda permit: permit.record_server_error(),
            lambda permit: None,
        ]
        for number, record in enumerate(outcomes, 1):
            asking = asyncio.create_task(limiter.acquire(10 * number, *([lambda: 5.0] if number == 2 else [])))
            await asyncio.sleep(0)
            shared.permit(Permitted(number + 1))  # of no request
            shared.permit(Permitted(number))
            shared.permit(Permitted(number, 60.0))  # too late
            with await asking as permit:
                record(permit)
        assert limiter.answered == 1
        refused = asyncio.create_task(limiter.acquire(1))
        cancelled = asyncio.create_task(limiter.acquire(1))
        await asyncio.sleep(0)
        shared.permit(Permitted(5, 60.0))
        with pytest.raises(BackoffTooLongError, match="60 s"):
            await refused
        cancelled.cancel()
        await asyncio.wait([cancelled])
        shared.permit(Permitted(6))

    asyncio.run(scenario())
    waits = [math.inf, 5.0, math.inf, math.inf]
    ends = [Ended(1, "success"), Ended(2, "rate_limit", 1.5), Ended(3, "server_error"), Ended(4)]
    asks = [Ask(number, "judge", HERE, 10 * number, wait) for number, wait in enumerate(waits, 1)]
    assert sent[:8] == [each for pair in zip(asks, ends, strict=True) for each in pair]
    assert sent[8:] == [*(Ask(number, "judge", HERE, 1, math.inf) for number in (5, 6)), Ended(6)]
