"""The rate limiter against simulated servers, in virtual time, next to a client that only retries with jitter.

    .venv/bin/python tests/bench/limiter_simulation.py [--quick] [--document]        # about 3 minutes; --quick: one

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(ROOT)

from mas.llm.rate_limiter import RateLimiter  # noqa: E402
from tests.bench.tables import Table  # noqa: E402
from tests.mas.llm.virtual_time import run_in_virtual_time  # noqa: E402
from tests.servers.refusals import Bucket, Chance, Changing, Rule, Shared, Window  # noqa: E402

DOCUMENT = ROOT / "docs" / "explanation" / "rate-limits.md"
MARKS = ("<!-- figures: written by tests/bench/limiter_simulation.py --document -->", "<!-- end of figures -->")
CEILING = 1_000  # requests in flight, as in the profiles


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
    good_at: list[float] = field(default_factory=list)

    @property
    def percent_wasted(self) -> float:
        return 100 * self.refused / max(1, self.good)


def simulate(
    client: Client,
    rule: Rule,
    *,
    calls: int = 10**9,
    until: float = 5_000.0,
    workers: int = 64,
    latency_seconds: float = 0.2,
    refusal_seconds: float = 0.0,
    says_when: bool = False,
    seed: int = 1,
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
                wait = rule.take(loop.time() - began)
                if not wait:
                    await asyncio.sleep(latency_seconds)
                    permit.record_success()
                    ran.good += 1
                    ran.good_at.append(loop.time() - began)
                    return None
                if refusal_seconds:
                    await asyncio.sleep(refusal_seconds)
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
                await asyncio.gather(*[work() for _ in range(workers)])
        except TimeoutError:
            pass
        ran.seconds = loop.time() - began

    run_in_virtual_time(send_all())
    return ran


def measure_rise(rule: Changing, says_when: bool = False) -> float:
    """Return the seconds from a rise of the limit until 90 % of it is used, over 2 s."""
    rise_at, per_second = rule.rates[-1]
    ran = simulate(Client.LIMITER, rule, until=rise_at + 60, says_when=says_when)
    replies = [at - rise_at - 0.2 for at in ran.good_at]
    ends = [step / 2 for step in range(4, 118)]
    return next((end for end in ends if sum(end - 2 <= at < end for at in replies) >= 1.8 * per_second), math.inf)


def tabulate_chance(calls: int, seeds: int) -> Table:
    columns = ["refused", "Retry-After", "plain s", "limiter s", "limiter / plain throughput", "worst"]
    table = Table(f"Refusals by chance: {calls:,} calls, median of {seeds}; goal 0.4", columns)
    for says_when in (False, True):
        for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.33):
            pairs = [
                [
                    simulate(
                        client, Chance(share, draw=random.Random(seed)), calls=calls, says_when=says_when, seed=seed
                    ).seconds
                    for client in Client
                ]
                for seed in range(1, seeds + 1)
            ]
            plain, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
            worst = min(each[0] / each[1] for each in pairs)
            when = "1 s" if says_when else "none"
            table.add([f"{share:.0%}", when, f"{plain:.1f}", f"{ours:.1f}", f"{plain / ours:.2f}", f"{worst:.2f}"])
    return table


def tabulate_slow_model(calls: int) -> Table:
    table = Table(
        f"The same with a slow model: 3 s, 16 workers, {calls} calls",
        ["refused", "Retry-After", "plain s", "limiter s"],
    )
    for says_when in (False, True):
        for share in (0.05, 0.2, 0.33):
            slow: dict[str, Any] = {"calls": calls, "workers": 16, "latency_seconds": 3.0, "says_when": says_when}
            rules = (Chance(share, draw=random.Random(1)) for _ in Client)
            seconds = [simulate(client, rule, **slow).seconds for client, rule in zip(Client, rules, strict=True)]
            table.add([f"{share:.0%}", "1 s" if says_when else "none", *(f"{each:.0f}" for each in seconds)])
    return table


# name → (replies a second that are fair, rule, refusals take as long as replies)
LIMITS: dict[str, tuple[float, Callable[[int], Rule], bool]] = {
    "bucket 50/s, burst 50": (50, lambda seed: Bucket(50, 50), False),
    "bucket 50/s, burst 2": (50, lambda seed: Bucket(50, 2), False),
    "bucket 250/s, burst 250": (250, lambda seed: Bucket(250, 250), False),
    "bucket 5/s, burst 5": (5, lambda seed: Bucket(5, 5), False),
    "bucket 0.5/s, burst 30": (0.5, lambda seed: Bucket(0.5, 30), False),
    "window 1 s, 50": (50, lambda seed: Window(50, 1), False),
    "window 10 s, 500": (50, lambda seed: Window(50, 10), False),
    "window 60 s, 3,000": (50, lambda seed: Window(50, 60), False),
    "window 10 s, refusals take 200 ms": (50, lambda seed: Window(50, 10), True),
    "bucket, refusals take 200 ms": (50, lambda seed: Bucket(50, 50), True),
    "bucket and 10 % by chance": (50, lambda seed: Chance(0.1, Bucket(50, 50), draw=random.Random(seed)), False),
    "50, 10, 50/s, 20 s each": (36.7, lambda seed: Changing(((0, 50), (20, 10), (40, 50))), False),
    "neighbour sends 40/s": (10, lambda seed: Shared(Bucket(50, 50), 40, draw=random.Random(seed)), False),
    "neighbour sends 200/s": (10, lambda seed: Shared(Bucket(50, 50), 200, draw=random.Random(seed)), False),
}


def tabulate_limits(seconds: float, seeds: int) -> Table:
    columns = ["limit", "Retry-After", "fair/s", "plain/s", "wasted %", "limiter/s", "wasted %", "worst/s"]
    table = Table(f"Limits: good replies a second over {seconds:.0f} s, median of {seeds}; goal 85 %, 5 %", columns)
    for name, (fair, build, is_slow) in LIMITS.items():
        for says_when in (False, True):
            cells: list[str] = []
            until = 60.0 if "each" in name else seconds
            for client in Client:
                runs = [
                    simulate(
                        client,
                        build(seed),
                        until=until,
                        says_when=says_when,
                        seed=seed,
                        refusal_seconds=0.2 if is_slow else 0.0,
                    )
                    for seed in range(1, (seeds if client is Client.LIMITER else 1) + 1)
                ]
                cells.append(f"{statistics.median(each.good for each in runs) / until:.3g}")
                cells.append(f"{statistics.median(each.percent_wasted for each in runs):.1f}")
            worst = f"{min(each.good for each in runs) / until:.3g}"
            table.add([name, "given" if says_when else "none", f"{fair:g}", *cells, worst])
    return table


def tabulate_rise() -> Table:
    table = Table("A limit that rises from 10 to 50/s: seconds until 90 % is used; goal 60", ["rise after s", "s"])
    for rise_at in (30.3, 33.0, 41.0, 55.5, 70.0):
        table.add([f"{rise_at:g}", f"{measure_rise(Changing(((0, 10), (rise_at, 50)))):g}"])
    return table


def tabulate(quick: bool) -> list[Table]:
    seeds = 1 if quick else 5
    return [
        tabulate_chance(3_000 if quick else 10_000, seeds),
        tabulate_slow_model(300),
        tabulate_limits(60.0 if quick else 200.0, seeds),
        tabulate_rise(),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--document", action="store_true")
    given = parser.parse_args()
    text = "\n".join(table.markdown() for table in tabulate(given.quick))
    print(text)
    if given.document:
        page = DOCUMENT.read_text(encoding="utf-8")
        before, _, rest = page.partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        DOCUMENT.write_text(f"{before}{MARKS[0]}\n\n{text.strip()}\n\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
