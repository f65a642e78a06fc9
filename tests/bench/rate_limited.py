"""How much of a server's rate gets used, and how much is wasted on refusals: with the rate limiter, and without it.

    .venv/bin/python tests/bench/rate_limited.py [--requests 1000] [--workers 64] [--repeats 3] [--burst 50 10]

The server (`tests/servers/rate_limited_llm.py`, its own process) takes 50 requests a second and answers after 200 ms.
Every client is asyncio + httpx and repeats a refused request up to 20 times, waiting as long as the server says, else
with full jitter; the peer does only that. Medians of the repeats. `% of limit` = good replies a second, from the first
request to the last good reply as the server saw them, in % of its rate (a bucket that is full at the start allows
somewhat more than 100); `wasted` = refusals in % of good replies; `failed` = refused for good, over all repeats.
`declared` keeps close to 100 on a machine that is free: where it does not, the client lacked CPU time (`load` above
the number of cores) and the figures next to it say nothing.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mas.llm.rate_limiter import RateLimiter  # noqa: E402

PER_SECOND, LATENCY_SECONDS, TRIES = 50.0, 0.2, 20


class Unlimited:
    """The peer: whoever wants to send, sends."""

    history: tuple[dict[str, Any], ...] = ()

    async def acquire(self, tokens: int) -> Any:
        return nullcontext(self)

    def record_success(self) -> None: ...

    def record_rate_limit(self, retry_after_seconds: float | None) -> None: ...


@dataclass
class Result:
    percent_of_limit: float
    percent_wasted: float
    failed: int
    episodes: int
    load: float  # processes that wanted a core in the last minute; above the number of cores the client starves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--burst", type=int, nargs="+", default=[50])
    parser.add_argument("--refusal-seconds", type=float, nargs="+", default=[0.0])
    given = parser.parse_args()
    print("429 says  after s  burst  client      % of limit  wasted %  failed  episodes  load")
    for burst in given.burst:
        for refusal_seconds in given.refusal_seconds:
            for says_when in (True, False):
                with server(burst, refusal_seconds, says_when) as url:
                    results = compare(url, given.requests, given.workers, given.repeats)
                when = "1 s" if says_when else "nothing"
                for name, runs in results.items():
                    print(f"{when:8}  {refusal_seconds:7.1f}  {burst:5}  {name:10}  {row(runs)}", flush=True)


def compare(url: str, requests: int, workers: int, repeats: int) -> dict[str, list[Result]]:
    """One after the other, and again: what else the machine does meets them all."""
    results: dict[str, list[Result]] = {"learnt": [], "declared": [], "unlimited": []}
    for _ in range(repeats):
        for name, runs in results.items():
            runs.append(asyncio.run(run(url, name, requests, workers)))
    return results


def row(runs: list[Result]) -> str:
    of_limit = statistics.median(run.percent_of_limit for run in runs)
    wasted = statistics.median(run.percent_wasted for run in runs)
    episodes = statistics.median(run.episodes for run in runs)
    load = statistics.median(run.load for run in runs)
    failed = sum(run.failed for run in runs)
    return f"{of_limit:10.1f}  {wasted:8.1f}  {failed:6}  {episodes:8.0f}  {load:4.1f}"


@contextmanager
def server(burst: int, refusal_seconds: float, says_when: bool) -> Iterator[str]:
    options = {"port": 0, "requests-per-second": PER_SECOND, "burst": burst, "latency-seconds": LATENCY_SECONDS}
    command = [sys.executable, str(ROOT / "tests/servers/rate_limited_llm.py"), f"--refusal-seconds={refusal_seconds}"]
    command += [f"--{name}={value}" for name, value in options.items()] + ["--retry-after"] * says_when
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def run(url: str, name: str, requests: int, workers: int) -> Result:
    made = {
        "learnt": lambda: RateLimiter(workers),
        "declared": lambda: RateLimiter(workers, requests_per_minute=PER_SECOND * 60),
    }
    limiter = made.get(name, Unlimited)()
    limits = httpx.Limits(max_connections=workers, max_keepalive_connections=workers)
    async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:
        await client.post(url.removesuffix("/v1") + "/reset")
        left = iter(range(requests))
        failed = await asyncio.gather(*[worker(client, url, limiter, left) for _ in range(workers)])
        stats = (await client.get(url.removesuffix("/v1") + "/stats")).json()
    rate = stats["good"] / (stats["last"] - stats["first"])
    episodes = sum(entry["reason"] == "rate limit" for entry in limiter.history)
    return Result(
        100 * rate / PER_SECOND, 100 * stats["rejected"] / stats["good"], sum(failed), episodes, os.getloadavg()[0]
    )


async def worker(client: httpx.AsyncClient, url: str, rate_limiter: Any, left: Iterator[int]) -> int:
    """Ask one request after the other; how many failed for good."""
    return sum([not await ask(client, url, rate_limiter) for _ in left])


async def ask(client: httpx.AsyncClient, url: str, rate_limiter: Any) -> bool:
    body = json.dumps({"model": "fixed", "messages": [{"role": "user", "content": "What is 6 * 7?"}]}).encode()
    for tried in range(TRIES):
        with await rate_limiter.acquire(11) as permit:
            reply = await client.post(url + "/chat/completions", content=body)
            header = reply.headers.get("retry-after")
            wait = None if header is None else float(header)
            if reply.status_code == 200:
                permit.record_success()
                return True
            permit.record_rate_limit(wait)
        await asyncio.sleep(wait if wait is not None else random.uniform(0, min(10.0, 0.5 * 2**tried)))
    return False


if __name__ == "__main__":
    main()
