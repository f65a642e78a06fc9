"""Five rows of the limiter's simulation over HTTP, in real time, against `tests/servers/rate_limited_llm.py`.

.venv/bin/python tests/bench/limiter_over_http.py          # about 3 minutes; the machine should be free
"""

import asyncio
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
WORKERS, CALLS, MAX_SECONDS = 64, 1_500, 40.0


@contextmanager
def serve(options: list[str]) -> Iterator[str]:
    command = [sys.executable, str(ROOT / "tests/servers/rate_limited_llm.py"), "--port=0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def run(url: str, limiter: RateLimiter | Unlimited) -> tuple[float, int, int]:
    """Send the calls; return seconds, good and refused."""
    limits = httpx.Limits(max_connections=WORKERS, max_keepalive_connections=WORKERS)
    async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:
        await client.post(url.removesuffix("/v1") + "/reset")
        began, left = time.monotonic(), iter(range(CALLS))
        try:
            async with asyncio.timeout(MAX_SECONDS):
                await asyncio.gather(*[worker(client, url, limiter, left) for _ in range(WORKERS)])
        except TimeoutError:
            pass
        seconds = time.monotonic() - began
        stats = (await client.get(url.removesuffix("/v1") + "/stats")).json()
    return seconds, int(stats["good"]), int(stats["rejected"])


def main() -> None:
    columns = ["refusals", "plain/s", "wasted %", "limiter/s", "wasted %"]
    table = Table(f"Over HTTP: good replies a second, {CALLS:,} calls or {MAX_SECONDS:g} s", columns)
    for name, options in ROWS.items():
        cells: list[str] = []
        for limiter in (Unlimited(), RateLimiter(CEILING)):
            with serve(options) as url:
                seconds, good, refused = asyncio.run(run(url, limiter))
            cells += [f"{good / seconds:.1f}", f"{100 * refused / max(1, good):.1f}"]
        table.add([name, *cells])
    print(table.markdown())


if __name__ == "__main__":
    main()
