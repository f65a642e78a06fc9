"""The rate limiter against simulated servers, in virtual time, next to a client that only retries with jitter.

    .venv/bin/python tests/bench/limiter_simulation.py [--quick] [--document]        # about 2 minutes; --quick: one

The limiter is the real one (`mas/llm/rate_limiter.py`) on an event loop whose clock jumps. 64 workers send one request
at a time; a request is on its way for 1 to 20 ms, a reply takes 200 ms, a refusal nothing. A refused request is sent
again after `Retry-After`, else after full jitter, by both clients. `--document` writes the tables into
docs/explanation/rate-limits.md.
"""

import argparse
import asyncio
import enum
import math
import random
import statistics
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(ROOT)

from mas.llm.rate_limiter import RateLimiter  # noqa: E402
from tests.bench.tables import Table, write_document  # noqa: E402
from tests.mas.llm.virtual_time import run_in_virtual_time  # noqa: E402

DOCUMENT = ROOT / "docs" / "explanation" / "rate-limits.md"
CEILING = 1_000  # requests in flight, as in the profiles
WORKERS, LATENCY_SECONDS = 64, 0.2

Rule = Callable[[float], float]  # time, never decreasing → 0 if a request is accepted, else the seconds until it were


def build_bucket(rate_at: Callable[[float], float], burst: float) -> Rule:
    """Return a token bucket, full at first, whose rate may change; `burst` are its tokens for a rate of 1."""
    level, last = rate_at(0) * burst, 0.0

    def take(now: float) -> float:
        nonlocal level, last
        rate = rate_at(now)
        level, last = min(rate * burst, level + (now - last) * rate), now
        if level >= 1:
            level -= 1
            return 0.0
        return (1 - level) / rate

    return take


def build_window(requests: int, seconds: float) -> Rule:
    """Return fixed windows with so many requests in each, counted from 0."""
    used: dict[int, int] = {}

    def take(now: float) -> float:
        number = int(now / seconds)
        used[number] = used.get(number, 0) + 1
        return 0.0 if used[number] <= requests else (number + 1) * seconds - now

    return take


def build_chance(share: float, seed: int, inner: Rule = lambda now: 0.0) -> Rule:
    """Return a rule that refuses a share of the requests whatever their rate, and hands the others on."""
    draw = random.Random(seed)
    return lambda now: 1.0 if draw.random() < share else inner(now)


def build_shared(inner: Rule, neighbour_per_second: float, seed: int) -> Rule:
    """Return a rule that a neighbour uses as well, who sends at random times and never slows down."""
    draw, next_at = random.Random(seed), 0.0

    def take(now: float) -> float:
        nonlocal next_at
        while next_at <= now:
            inner(next_at)
            next_at += draw.expovariate(neighbour_per_second)
        return inner(now)

    return take


class Client(enum.Enum):
    PLAIN = "plain retries"
    LIMITER = "rate limiter"


class Unlimited:
    """A limiter that lets everything pass."""

    async def acquire(self, tokens: int) -> Any:
        return nullcontext(self)

    def record_success(self) -> None: ...

    def record_rate_limit(self, retry_after_seconds: float | None) -> None: ...


@dataclass
class Ran:
    seconds: float = 0.0
    good: int = 0
    refused: int = 0

    @property
    def percent_wasted(self) -> float:
        return 100 * self.refused / max(1, self.good)


def simulate(
    client: Client, rule: Rule, *, calls: int = 10**9, until: float = 5_000.0, says_when: bool = False, seed: int = 1
) -> Ran:
    """Send requests until so many were answered, or so many (virtual) seconds are over."""
    ran, draw = Ran(), random.Random(seed)
    limiter: Any = RateLimiter(CEILING) if client is Client.LIMITER else Unlimited()

    async def send_all() -> None:
        loop, left = asyncio.get_running_loop(), iter(range(calls))
        began = loop.time()

        async def attempt(tried: int) -> float | None:
            """Return the seconds to wait before the next attempt; None: it was answered."""
            with await limiter.acquire(1) as permit:
                await asyncio.sleep(draw.uniform(0.001, 0.02))
                wait = rule(loop.time() - began)
                if not wait:
                    await asyncio.sleep(LATENCY_SECONDS)
                    permit.record_success()
                    ran.good += 1
                    return None
                retry_after = float(math.ceil(wait)) if says_when else None
                permit.record_rate_limit(retry_after)
                ran.refused += 1
            return draw.uniform(0, min(10.0, 0.5 * 2.0**tried)) if retry_after is None else retry_after

        async def work() -> None:
            for _ in left:
                tried = 0
                while (wait := await attempt(tried)) is not None:
                    await asyncio.sleep(wait)
                    tried += 1

        try:
            async with asyncio.timeout(until):
                await asyncio.gather(*[work() for _ in range(WORKERS)])
        except TimeoutError:
            pass
        ran.seconds = loop.time() - began

    run_in_virtual_time(send_all())
    return ran


def tabulate_chance(calls: int, seeds: int) -> Table:
    columns = ["refused", "Retry-After", "plain s", "limiter s", "limiter / plain throughput", "worst"]
    table = Table(f"Refusals by chance: {calls:,} calls, median of {seeds}; goal 0.4", columns)
    for says_when in (False, True):
        for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.33):
            pairs = [
                [
                    simulate(client, build_chance(share, seed), calls=calls, says_when=says_when, seed=seed).seconds
                    for client in Client
                ]
                for seed in range(1, seeds + 1)
            ]
            plain, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
            worst = min(each[0] / each[1] for each in pairs)
            when = "1 s" if says_when else "none"
            table.add([f"{share:.0%}", when, f"{plain:.1f}", f"{ours:.1f}", f"{plain / ours:.2f}", f"{worst:.2f}"])
    return table


# name → replies a second that are fair, and the rule of a seed
LIMITS: dict[str, tuple[float, Callable[[int], Rule]]] = {
    "bucket 50/s, burst 50": (50, lambda seed: build_bucket(lambda now: 50, 1)),
    "bucket 50/s, burst 2": (50, lambda seed: build_bucket(lambda now: 50, 0.04)),
    "bucket 5/s, burst 5": (5, lambda seed: build_bucket(lambda now: 5, 1)),
    "window 1 s, 50": (50, lambda seed: build_window(50, 1)),
    "window 10 s, 500": (50, lambda seed: build_window(500, 10)),
    "window 60 s, 3,000": (50, lambda seed: build_window(3_000, 60)),
    "bucket and 10 % by chance": (50, lambda seed: build_chance(0.1, seed, build_bucket(lambda now: 50, 1))),
    "50, 10, 50/s, 20 s each": (36.7, lambda seed: build_bucket(lambda now: 10 if 20 <= now < 40 else 50, 1)),
    "neighbour sends 40/s": (10, lambda seed: build_shared(build_bucket(lambda now: 50, 1), 40, seed)),
    "neighbour sends 200/s": (10, lambda seed: build_shared(build_bucket(lambda now: 50, 1), 200, seed)),
}


def tabulate_limits(seconds: float, seeds: int) -> Table:
    columns = ["limit", "Retry-After", "fair/s", "plain/s", "wasted %", "limiter/s", "wasted %", "worst/s"]
    table = Table(f"Limits: good replies a second over {seconds:.0f} s, median of {seeds}; goal 85 %, 5 %", columns)
    for name, (fair, build) in LIMITS.items():
        for says_when in (False, True):
            cells: list[str] = []
            until = 60.0 if "each" in name else seconds
            for client in Client:
                runs = [
                    simulate(client, build(seed), until=until, says_when=says_when, seed=seed)
                    for seed in range(1, (seeds if client is Client.LIMITER else 1) + 1)
                ]
                cells.append(f"{statistics.median(each.good for each in runs) / until:.3g}")
                cells.append(f"{statistics.median(each.percent_wasted for each in runs):.1f}")
            worst = f"{min(each.good for each in runs) / until:.3g}"
            table.add([name, "given" if says_when else "none", f"{fair:g}", *cells, worst])
    return table


def tabulate(quick: bool) -> list[Table]:
    seeds = 1 if quick else 5
    return [tabulate_chance(3_000 if quick else 10_000, seeds), tabulate_limits(60.0 if quick else 200.0, seeds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--document", action="store_true")
    given = parser.parse_args()
    text = "\n".join(table.markdown() for table in tabulate(given.quick))
    print(text)
    if given.document:
        write_document(DOCUMENT, text)


if __name__ == "__main__":
    main()
