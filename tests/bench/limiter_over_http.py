"""Five rows of the limiter's simulation over HTTP, in real time, against `tests/servers/rate_limited_llm.py`.

    .venv/bin/python tests/bench/limiter_over_http.py [--quick]      # about 4 minutes; --quick: two

Each row is printed once it is measured, next to what the simulation says for the same server. The server and both
clients are slow, so that a busy machine can serve them as well; `plain` only retries with jitter. Load (last column:
processes that wanted a core in the last minute) above the number of cores may still slow both down.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(ROOT)

import httpx  # noqa: E402

from mas.llm.rate_limiter import RateLimiter  # noqa: E402
from tests.bench.limiter_simulation import CEILING, Client, Unlimited, simulate  # noqa: E402
from tests.bench.tables import Table  # noqa: E402
from tests.servers.refusals import Bucket, Chance, Rule, Window  # noqa: E402

PER_SECOND, WORKERS, LATENCY_SECONDS = 15.0, 24, 0.8
CALLS, MAX_SECONDS = 400, 40.0
QUICK, TRIES = (150, 12.0), 20


@dataclass(frozen=True)
class Row:
    name: str
    options: tuple[str, ...]  # of the server
    build_rule: Callable[[], Rule]  # the same for the simulation
    says_when: bool = False


ENOUGH = ("--requests-per-second=100000", "--burst=100000")
ROWS = (
    Row("5 % by chance", (*ENOUGH, "--chance=0.05"), lambda: Chance(0.05)),
    Row("33 % by chance, Retry-After", (*ENOUGH, "--chance=0.33"), lambda: Chance(0.33), says_when=True),
    Row("bucket 15/s, burst 2", ("--burst=2",), lambda: Bucket(PER_SECOND, 2)),
    Row("window 1 s, 15, Retry-After", ("--window-seconds=1",), lambda: Window(PER_SECOND, 1), says_when=True),
    Row("bucket 15/s and 10 % by chance", ("--burst=15", "--chance=0.1"), lambda: Chance(0.1, Bucket(PER_SECOND, 15))),
)


@contextmanager
def serve(row: Row) -> Iterator[str]:
    fixed = ["--port=0", f"--requests-per-second={PER_SECOND:g}", f"--latency-seconds={LATENCY_SECONDS}"]
    command = [sys.executable, str(ROOT / "tests/servers/rate_limited_llm.py"), *fixed, *row.options]
    command += ["--retry-after"] * row.says_when
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def run(url: str, limiter: RateLimiter | Unlimited, calls: int, max_seconds: float) -> tuple[float, int, int]:
    """Send the calls; return seconds, good and refused."""
    limits = httpx.Limits(max_connections=WORKERS, max_keepalive_connections=WORKERS)
    async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:
        await client.post(url.removesuffix("/v1") + "/reset")
        began, left = time.monotonic(), iter(range(calls))
        try:
            async with asyncio.timeout(max_seconds):
                await asyncio.gather(*[worker(client, url, limiter, left) for _ in range(WORKERS)])
        except TimeoutError:
            pass
        seconds = time.monotonic() - began
        stats = (await client.get(url.removesuffix("/v1") + "/stats")).json()
    return seconds, int(stats["good"]), int(stats["rejected"])


async def worker(client: httpx.AsyncClient, url: str, limiter: RateLimiter | Unlimited, left: Iterator[int]) -> None:
    """Send one request after the other."""
    for _ in left:
        await ask(client, url, limiter)


async def ask(client: httpx.AsyncClient, url: str, limiter: RateLimiter | Unlimited) -> None:
    """Send a request until it is answered, after refusals as long apart as the server says, else with full jitter."""
    body = {"model": "fixed", "messages": [{"role": "user", "content": "What is 6 * 7?"}]}
    for tried in range(TRIES):
        with await limiter.acquire(11) as permit:
            reply = await client.post(url + "/chat/completions", json=body)
            header = reply.headers.get("retry-after")
            wait = None if header is None else float(header)
            if reply.status_code == 200:
                permit.record_success()
                return
            permit.record_rate_limit(wait)
        await asyncio.sleep(random.uniform(0, min(10.0, 0.5 * 2**tried)) if wait is None else wait)


def tabulate_over_http(quick: bool) -> Table:
    calls, max_seconds = QUICK if quick else (CALLS, MAX_SECONDS)
    table = Table(
        f"Over HTTP: good replies a second, {WORKERS} workers, {LATENCY_SECONDS:g} s a reply, {calls} calls or "
        f"{max_seconds:g} s",
        ["refusals", "plain/s", "simulated", "limiter/s", "simulated", "wasted %", "simulated", "load"],
    )
    for row in ROWS:
        cells: list[str] = []
        for client in Client:
            limiter = RateLimiter(CEILING) if client is Client.LIMITER else Unlimited()
            with serve(row) as url:
                seconds, good, refused = asyncio.run(run(url, limiter, calls, max_seconds))
            simulated = simulate(
                client,
                row.build_rule(),
                calls=calls,
                until=max_seconds,
                workers=WORKERS,
                latency_seconds=LATENCY_SECONDS,
                says_when=row.says_when,
            )
            cells += [f"{good / seconds:.1f}", f"{simulated.good / simulated.seconds:.1f}"]
        wasted = f"{100 * refused / max(1, good):.1f}", f"{simulated.percent_wasted:.1f}"
        table.add([row.name, *cells, *wasted, f"{os.getloadavg()[0]:.1f}"])
        print(*table.rows[-1], sep=" | ", file=sys.stderr, flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    print(tabulate_over_http(parser.parse_args().quick).markdown())


if __name__ == "__main__":
    main()
