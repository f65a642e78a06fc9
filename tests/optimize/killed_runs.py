"""Tuning runs under `kill -9` at random moments, compared with the same run when it is left alone.

left_alone = new_run("left-alone"); began = requests_by_phase(left_alone, server)
compared = compare_killed(left_alone, killed, began, kills=10, seed=5)
compared.requests, compared.repeated        # 520, 7
"""

import random
import time
from dataclasses import dataclass
from typing import Any

from tests.killed_run import Moment, killed
from tests.optimize.tuned import SimulatedServer, TunedRun

CONCURRENCY = 8
IN_FLIGHT = CONCURRENCY + 1  # a reflection beside them
DEAREST_USD = 0.01  # of a request
PHASES = ("baseline", "search", "shortlist", "sealed")


@dataclass(frozen=True)
class Compared:
    """A run that was killed, next to the one that was not."""

    finish_reason: str
    kills: int
    requests: int  # of the run that was left alone
    repeated: int  # requests more of the one that was killed: they were in flight
    metric_calls: int


def requests_by_phase(run: TunedRun, server: SimulatedServer) -> dict[str, int]:
    """An undisturbed run, and how many requests the server had had when each of its phases began."""
    server.counted.clear()
    began: dict[str, int] = {}
    with run.started() as running:
        while running.process.poll() is None:
            if (phase := run.phase) and phase not in began:
                began[phase] = server.asked
            time.sleep(0.005)
    assert running.process.returncode == 0, run.printed[-1]
    return began


def moments(seed: int, number: int, began: dict[str, int], total: int) -> list[Moment]:
    """At random, in each phase about as often; the first while the command starts."""
    draw = random.Random(seed)
    starts = [began[phase] for phase in PHASES if phase in began]
    spans = [(start, max(start + 1, end)) for start, end in zip(starts, [*starts[1:], total], strict=True)]
    drawn = sorted(draw.uniform(*spans[place % len(spans)]) for place in range(number - 1))
    return [Moment(draw.uniform(0.1, 2.0)), *(Moment(draw.uniform(0.0, 0.05), round(at)) for at in drawn)]


def compare_killed(left_alone: TunedRun, run: TunedRun, began: dict[str, int], kills: int, seed: int) -> Compared:
    """Kill a run so many times, go on with it to its end, and check that nothing of it differs."""
    server = left_alone.server
    sent = dict(server.counted)
    server.counted.clear()
    assert killed(run, moments(seed, kills, began, sum(sent.values()))) == kills
    assert run.session() == 0, run.printed[-1]
    check_killed_run(run, kills, left_alone, sent)
    total = sum(sent.values())
    verdict = run.verdict
    return Compared(verdict["finish_reason"], kills, total, server.asked - total, verdict["spend"]["metric_calls"])


def same(verdict: dict[str, Any], left_alone: dict[str, Any]) -> None:
    for name in ("published", "finish_reason", "gain", "p", "gain_ci95", "baseline", "winner", "best_val", "reasons"):
        assert verdict.get(name) == left_alone.get(name), name
    sealed, other = verdict.get("sealed") or {}, left_alone.get("sealed") or {}
    for name in ("n_questions", "wins", "losses", "ties", "opened_before", "look", "stopped", "n_answers"):
        assert sealed.get(name) == other.get(name), name
    assert verdict["spend"]["metric_calls"] == left_alone["spend"]["metric_calls"]


def check_killed_run(run: TunedRun, kills: int, left_alone: TunedRun, sent: dict[bytes, int]) -> None:
    """
    Args:
        run: that was killed so many times and then came to its verdict; the server's count is of it alone.
        left_alone: the same, which was not.
        sent: the requests of that one, by their bodies.
    """
    server = run.server
    same(run.verdict, left_alone.verdict)
    assert run.read("splits") == left_alone.read("splits")
    assert run.read("looks") == left_alone.read("looks")
    assert run.proposals == left_alone.proposals
    assert run.candidates() == left_alone.candidates()
    assert run.published() == left_alone.published()
    assert run.openings() == left_alone.openings()
    assert set(server.counted) == set(sent), "the same requests"
    total = sum(sent.values())
    # A request that two candidates of halving share is sent twice only if both ask at the same moment.
    least = len(sent) if "optimizer=halving" in run.options else total
    assert least <= server.asked <= total + kills * IN_FLIGHT
    spend = run.verdict["spend"]
    # A request is paid for when its reply is there: those in flight at a kill are not, unless it has just come.
    assert least <= spend["lm_calls"] == run.paid() <= server.asked
    alone = left_alone.verdict["spend"]["cost_usd"]
    cheapest, dearest = alone - (total - least) * DEAREST_USD, alone + (spend["lm_calls"] - least) * DEAREST_USD
    assert cheapest - alone * 0.001 <= spend["cost_usd"] <= dearest + alone * 0.001
    assert not list(run.shelf.glob(".*")), "nothing half-made is left on the shelf"
