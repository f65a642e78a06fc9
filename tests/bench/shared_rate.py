"""A server that allows 50 requests a second, over HTTP, and four worker processes that share the limiter of the run.

    python -m tests.bench.shared_rate                   # about a minute and a half

The limiter, the messages, the processes and the HTTP requests are real; what a worker does between two requests is left
out. The workers are unequal: they want 40, 8, 8 and 1 requests at once. The share used is that of the seconds in which
all of them send, after the first ones: the server's bucket is full at the start.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import httpx

from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.execution.executors.channel import Channel, Permitted, Start
from eval.execution.executors.contract import Host, SampleHooks
from eval.execution.executors.places import ThisMachine
from eval.execution.executors.processes import Pool, _Worker
from eval.execution.executors.shared_limiter import SharedLimiters
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo
from mas.llm.profiles.profile import ModelProfile
from mas.llm.rate_limiter import Limiter
from tests.bench.measuring import ROOT
from tests.bench.tables import Table
from tests.servers.running import RunningServer, running_llm

RATE, LATENCY_SECONDS = 50.0, 0.2
FIRST_SECONDS, SECONDS = 5.0, 30.0  # before the measured ones
AT_ONCE = (40, 8, 8, 1)
COLUMNS = ("rate", "% of the limit", "refused, % of the answered", "answered by worker", "load")
SERVER = ROOT / "tests" / "servers" / "rate_limited_llm.py"
BODY = b'{"model": "fixed", "messages": [{"role": "user", "content": "What is 6 * 7?"}]}'


@dataclass
class Shared:
    """What came of one configuration."""

    used: float = 0.0  # share of the limit, in the measured seconds
    answered: list[int] = field(default_factory=list)  # by worker, in all
    good: int = 0  # as the server has counted
    refused: int = 0


async def share(server: RunningServer, options: Sequence[str]) -> Shared:
    """Let the workers send until the time is over."""
    chosen = ["system=toy", "data=toy", "model=openai_compatible", f"model.base_url={server.base_url}", *options]
    model = read_config(compose_config(chosen)).model
    assert isinstance(model, ModelProfile)
    start = Start({}, None, RunInfo(), "", ())
    pool = Pool(ThisMachine(1), start, {"": model}, SampleHooks(), StopController())
    workers, processes, tasks, shared = [], [], [], Shared()
    for at_once in AT_ONCE:
        ours, theirs = socket.socketpair()
        with theirs:
            processes.append(await asyncio.to_thread(_start, theirs, server.base_url, at_once))
        workers.append(_Worker(cast(Host, None), await Channel.open(ours), share=at_once))
    ready = [asyncio.Event() for _ in workers]
    for worker, event in zip(workers, ready, strict=True):
        tasks.append(asyncio.create_task(_serve(pool, worker, event)))
    for event in ready:
        await event.wait()
    await asyncio.sleep(FIRST_SECONDS)
    first, began = await asyncio.to_thread(server.stats), time.monotonic()
    await asyncio.sleep(SECONDS)
    last, ended = await asyncio.to_thread(server.stats), time.monotonic()
    shared.used = (last["good"] - first["good"]) / (RATE * (ended - began))
    shared.good, shared.refused = int(last["good"]), int(last["rejected"])
    for worker in workers:
        await worker.channel.close()
        worker.release()
    await asyncio.gather(*tasks)
    shared.answered = [int(process.communicate()[0]) for process in processes]
    return shared


def _start(end: socket.socket, base_url: str, at_once: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.shared_rate", str(end.fileno()), base_url, str(at_once)],
        cwd=ROOT,
        pass_fds=[end.fileno()],
        stdout=subprocess.PIPE,
        text=True,
    )


async def _serve(pool: Pool, worker: _Worker, sends: asyncio.Event) -> None:
    async for message in worker.channel:
        pool._handle(worker, message)
        sends.set()


async def work(end: socket.socket, base_url: str, at_once: int) -> int:
    """Send requests as a worker until the run's process closes the connection; return how many were answered."""
    channel, answered = await Channel.open(end), [0]
    shared = SharedLimiters(channel.send)
    limiter = shared.for_model("")((base_url, None))
    limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:
        tasks = [asyncio.create_task(_ask(client, base_url, limiter, answered)) for _ in range(at_once)]
        async for message in channel:
            assert isinstance(message, Permitted)
            shared.permit(message)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return answered[0]


async def _ask(client: httpx.AsyncClient, base_url: str, limiter: Limiter, answered: list[int]) -> None:
    while True:
        with await limiter.acquire(0) as permit:
            reply = await client.post(f"{base_url}/chat/completions", content=BODY)
            if reply.status_code == 200:
                answered[0] += 1
                permit.record_success()
            else:
                permit.record_rate_limit(None)


def shared_rate() -> Table:
    table = Table(
        f"A server that allows {RATE:g} requests a second over HTTP, four unequal workers, one limiter, {SECONDS:g} s",
        COLUMNS,
    )
    for name, options in (("configured", [f"model.rate.requests_per_minute={60 * RATE:g}"]), ("learnt", [])):
        fixed = (f"--requests-per-second={RATE}", f"--burst={RATE}", f"--latency-seconds={LATENCY_SECONDS}")
        with running_llm(*fixed, script=SERVER) as server:
            done = asyncio.run(share(server, options))
        by_worker = " · ".join(
            f"{number:,} ({at_once} at once)" for number, at_once in zip(done.answered, AT_ONCE, strict=True)
        )
        load = round(os.getloadavg()[0], 1)
        table.add([name, f"{done.used:.1%}", f"{done.refused / done.good:.1%}", by_worker, load])
        table.keep(name, len(AT_ONCE), vars(done))
    return table


if __name__ == "__main__":
    if sys.argv[1:]:
        with socket.socket(fileno=int(sys.argv[1])) as given:
            print(asyncio.run(work(given, sys.argv[2], int(sys.argv[3]))))
    else:
        print(shared_rate().markdown())
