"""One server that allows 50 requests a second, and four workers that share the limiter of the run's process.

    python -m tests.bench.shared_rate

The limiter, the messages and the pairs of sockets are the real ones; the server is a token bucket in this process, so
that a busy machine does not decide the figures. The workers are unequal: they want 40, 8, 8 and 1 requests at once.
"""

import asyncio
import socket
import time
from typing import cast

from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.execution.executors.channel import Channel, Permitted, Start
from eval.execution.executors.contract import SampleHooks
from eval.execution.executors.processes import Host, Pool, _Worker, start_process
from eval.execution.executors.shared_limiter import SharedLimiters
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import ModelProfile
from mas.llm.rate_limiter import Limiter
from tests.bench.tables import Table
from tests.servers.refusals import Bucket

RATE, LATENCY_SECONDS, SECONDS = 50.0, 0.2, 40.0
AT_ONCE = (40, 8, 8, 1)
HERE = ("http://127.0.0.1:1/v1", None)
COLUMNS = ("rate", "% of the limit", "refused, % of the answered", "answered by worker")


async def share(*options: str) -> tuple[list[int], int, float]:
    """Return the requests that each worker got answered, the refused ones, and the seconds."""
    chosen = ["system=toy", "data=toy", "model=openai_compatible", f"model.base_url={HERE[0]}", *options]
    model = read_config(compose_config(chosen)).model
    assert isinstance(model, ModelProfile)
    start = Start({}, None, RunInfo(), "", ())
    pool = Pool(lambda: start_process(start), start, {"": model}, SampleHooks(), StopController())
    bucket, answered, refused = Bucket(RATE, RATE), [0] * len(AT_ONCE), [0]
    ends = time.monotonic() + SECONDS
    channels, tasks = [], []
    for number, at_once in enumerate(AT_ONCE):
        ours, theirs = socket.socketpair()
        worker = _Worker(cast(Host, None), await Channel.open(ours), share=at_once)
        channel = await Channel.open(theirs)
        shared = SharedLimiters(channel.send)
        channels += [worker.channel, channel]
        tasks += [asyncio.create_task(_serve(pool, worker)), asyncio.create_task(_listen(channel, shared))]
        limiter = shared.for_model("")(HERE)
        tasks += [asyncio.create_task(_ask(limiter, bucket, answered, refused, number, ends)) for _ in range(at_once)]
    await asyncio.sleep(SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for each in channels:
        await each.close()
    return answered, refused[0], SECONDS


async def _serve(pool: Pool, worker: _Worker) -> None:
    async for message in worker.channel:
        pool._handle(worker, message)


async def _listen(channel: Channel, shared: SharedLimiters) -> None:
    async for message in channel:
        assert isinstance(message, Permitted)
        shared.permit(message)


async def _ask(
    limiter: Limiter, bucket: Bucket, answered: list[int], refused: list[int], number: int, ends: float
) -> None:
    while time.monotonic() < ends:
        with await limiter.acquire(0) as permit:
            wait = bucket.take(time.monotonic())
            await asyncio.sleep(LATENCY_SECONDS)
            if wait == 0:
                answered[number] += 1
                permit.record_success()
            else:
                refused[0] += 1
                permit.record_rate_limit(None)


def shared_rate() -> Table:
    table = Table("A server that takes 50 requests a second, four unequal workers, one limiter, 40 s each", COLUMNS)
    for name, options in (("configured", ["model.rate.requests_per_minute=3000"]), ("learnt", [])):
        answered, refused, seconds = asyncio.run(share(*options))
        used = sum(answered) / (RATE * seconds)
        by_worker = " · ".join(
            f"{number:,} ({at_once} at once)" for number, at_once in zip(answered, AT_ONCE, strict=True)
        )
        table.add([name, f"{used:.1%}", f"{refused / sum(answered):.1%}", by_worker])
        table.keep(name, 4, {"answered": answered, "refused": refused, "seconds": seconds})
    return table


if __name__ == "__main__":
    print(shared_rate().markdown())
