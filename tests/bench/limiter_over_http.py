"""Five rows of the limiter's simulation over HTTP, in real time, against `tests/servers/rate_limited_llm.py`.

    .venv/bin/python tests/bench/limiter_over_http.py [--quick]      # about 5 minutes; --quick: one

Each row is printed once it is measured. `plain` only retries with jitter. The machine should be free: load (last
column: processes that wanted a core in the last minute) slows both clients.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(ROOT)

import httpx  # noqa: E402

from mas.llm.rate_limiter import RateLimiter  # noqa: E402
from tests.bench.limiter_simulation import CEILING, Unlimited  # noqa: E402
from tests.bench.rate_limited import worker  # noqa: E402
from tests.bench.tables import Table  # noqa: E402

ENOUGH = ["--requests-per-second=100000", "--burst=100000"]
ROWS = {
    "5 % by chance": [*ENOUGH, "--chance=0.05"],
    "33 % by chance, Retry-After": [*ENOUGH, "--chance=0.33", "--retry-after"],
    "bucket 50/s, burst 2": ["--burst=2"],
    "window 1 s, 50, Retry-After": ["--window-seconds=1", "--retry-after"],
    "bucket 50/s and 10 % by chance": ["--chance=0.1"],
}
WORKERS = 64
CALLS, MAX_SECONDS = 1_500, 40.0
QUICK = (200, 8.0)


@contextmanager
def serve(options: list[str]) -> Iterator[str]:
    command = [sys.executable, str(ROOT / "tests/servers/rate_limited_llm.py"), "--port=0", *options]
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


def tabulate_over_http(quick: bool) -> Table:
    calls, max_seconds = QUICK if quick else (CALLS, MAX_SECONDS)
    columns = ["refusals", "plain/s", "wasted %", "limiter/s", "wasted %", "limiter / plain", "load"]
    table = Table(f"The rate limiter over HTTP: good replies a second, {calls:,} calls or {max_seconds:g} s", columns)
    for name, options in ROWS.items():
        cells, rates, load = [name], [], 0.0
        for limiter in (Unlimited(), RateLimiter(CEILING)):
            with serve(options) as url:
                seconds, good, refused = asyncio.run(run(url, limiter, calls, max_seconds))
            rates.append(good / seconds)
            cells += [f"{rates[-1]:.1f}", f"{100 * refused / max(1, good):.1f}"]
            load = max(load, os.getloadavg()[0])
        table.add([*cells, f"{rates[1] / rates[0]:.2f}", f"{load:.1f}"])
        print(*table.rows[-1], sep=" | ", file=sys.stderr, flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    print(tabulate_over_http(parser.parse_args().quick).markdown())


if __name__ == "__main__":
    main()
