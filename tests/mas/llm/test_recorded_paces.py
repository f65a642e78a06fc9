"""The adaptive pace decides as ever, request by request, against a server of each kind.

After a change that is meant to alter its decisions, `PYTHONPATH=. python tests/mas/llm/test_recorded_paces.py` records
them anew; the difference of `recorded_paces.json` shows what is decided now. Whether that is good is for
`tests/bench/limiter_simulation.py`, whose tables are then made again as well.
"""

import heapq
import json
import random
from pathlib import Path

import pytest

from mas.llm.adaptive_pace import AdaptivePace, SentRequest
from tests.servers.refusals import Bucket, Chance, Changing, Closed, Rule, Window

FILE = Path(__file__).with_name("recorded_paces.json")
START = 1_000.0
FAULT = -1.0  # in place of the seconds to wait: the server failed
MOST_CHANGES = 25  # recorded of each history


class Out:
    """Fails or refuses everything for a while, as a server does that is being restarted."""

    def __init__(self, begin: float, end: float, outcome: float, inner: Rule) -> None:
        self.begin, self.end, self.outcome, self.inner = begin, end, outcome, inner

    def take(self, now: float) -> float:
        return self.outcome if self.begin <= now < self.end else self.inner.take(now)


class Thinning:
    """Refuses by chance, at first more than later."""

    def __init__(self, until: float, before: float, after: float) -> None:
        self.until, self.rules = until, [Chance(share, draw=random.Random(3)) for share in (before, after)]

    def take(self, now: float) -> float:
        return self.rules[now >= self.until].take(now)


def list_situations() -> dict[str, tuple[Rule, float, float, bool]]:
    """Return rule, seconds, seconds until a refusal arrives, and whether it names the time to wait."""
    return {
        "bucket": (Bucket(50, 50), 90, 0.05, False),
        "tiny bucket": (Bucket(8, 2), 60, 0.05, False),
        "slow bucket": (Bucket(0.2, 1), 400, 0.05, True),
        "window": (Window(20, 10), 90, 0.02, False),
        "window that is named": (Window(20, 10), 60, 0.02, True),
        "slow refusals": (Bucket(30, 30), 60, 1.5, False),
        "chance": (Chance(0.3, draw=random.Random(1)), 20, 0.05, False),
        "chance and bucket": (Chance(0.15, Bucket(25, 25), draw=random.Random(2)), 120, 0.05, False),
        "less chance later": (Thinning(40.0, 0.4, 0.0), 60, 0.05, False),
        "rise and fall": (Changing(((0, 20), (30, 5), (60, 60))), 120, 0.05, False),
        "closed at first": (Closed(5.0, Bucket(40, 40)), 40, 0.05, False),
        "ten at first": (Bucket(0.5, 10), 60, 0.05, False),
        "faults": (Out(10.0, 12.0, FAULT, Bucket(20, 20)), 60, 0.05, False),
        "closed for a while": (Out(6.0, 7.0, 1.0, Bucket(60, 60)), 30, 2.5, False),
        "idle": (Bucket(10, 5), 60, 0.05, False),
    }


def follow(name: str) -> list[list[float | str]]:
    """Send whenever the pace allows, 48 at once at most, and return its changes and its last state."""
    rule, seconds, refusal_seconds, says_when = list_situations()[name]
    pace, now, replies = AdaptivePace(), START, list[tuple[float, int, SentRequest, float]]()
    pace.begin(now)
    while now < START + seconds:
        idle = name == "idle" and int(now) % 20 >= 15  # nothing is asked for
        sends_at = max(now, pace.next_send_at) if len(replies) < 48 and not idle else float("inf")
        next_at = min(sends_at, replies[0][0] if replies else now + 0.5)
        now = next_at
        if sends_at == next_at:
            sent = pace.record_send(now)
            wait = rule.take(now - START)
            heapq.heappush(replies, (now + (0.2 if wait <= 0 else refusal_seconds), sent.number, sent, wait))
        elif replies:
            _, _, sent, wait = heapq.heappop(replies)
            if wait == FAULT:
                pace.record_server_error(now)
            elif wait:
                pace.record_rate_limit(sent, wait if says_when else None, now)
    history = pace.history
    changes: list[list[float | str]] = [
        [change["seconds"], change["pace"], change["reason"]] for change in [*history[:MOST_CHANGES], history[-1]]
    ]
    last = [pace.pace, pace.background, pace.next_send_at - START, float(pace.refused), float(len(history))]
    return [*changes, [round(each, 6) for each in last]]


@pytest.mark.parametrize("name", list_situations())
def test_the_pace_is_decided_as_it_was_recorded(name: str) -> None:
    recorded = json.loads(FILE.read_text("utf-8"))[name]
    found = follow(name)
    assert [row[2] for row in found[:-1]] == [row[2] for row in recorded[:-1]]
    assert [row[:2] for row in found[:-1]] == [pytest.approx(row[:2], rel=1e-6) for row in recorded[:-1]]
    assert found[-1] == pytest.approx(recorded[-1], rel=1e-6)


if __name__ == "__main__":
    lines = [f'"{name}": {json.dumps(follow(name))}' for name in list_situations()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
