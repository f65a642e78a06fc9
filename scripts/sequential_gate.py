"""Measure by simulation what looks at a sealed test save, and what they cost in power.

Each gate draws the answers of parent and winner to all sealed questions and judges them twice: at the end, as the
gate does, and with looks, by the function that the tuning command decides with (`optimize.gate.gate.decide_look`). The
planned gain is the one that the power analysis says 80 of 100 tests show.

    python scripts/sequential_gate.py                 # 10,000 gates a line, in about ten minutes of CPU time
    python scripts/sequential_gate.py --document      # and writes the table into docs/explanation/sequential-test.md
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

from eval.analysis.comparison.comparison import Comparison, Side
from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test
from optimize.gate.gate import ASSUMED_ACCURACY, CONTINUE, SUCCESS, compute_smallest_gain, decide_look, plan_looks
from optimize.gate.sealed_log import FIRST_LEVEL
from scripts.interval_coverage import Cell, draw_right, write_tables

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "sequential-test.md"
SIZES = ((30, 1), (53, 1), (53, 5), (165, 1), (165, 5))  # questions, answers of each side to every one
PARTS_OF_GAIN = (0.0, 0.5, 1.0, 1.5)  # of the planned gain
LOOKS = 4
GATES = 10_000
CORRELATION = 0.7  # of the latent values; answers to one question then correlate by about 0.5


@dataclass(frozen=True)
class Situation:
    """Questions, answers and the true gain of one line."""

    n: int
    epochs: int
    gain: float
    looks: int = LOOKS


@dataclass(frozen=True)
class Outcome:
    """Counts of the gates of one line."""

    gates: int
    passed_at_end: int  # judged once, with all answers
    passed_with_looks: int
    share_used: float  # of the answers, with looks


def simulate(situation: Situation, gates: int, seed: int = 1) -> Outcome:
    """Judge the gates of a situation with and without looks."""
    n = situation.n
    random = np.random.default_rng([seed, n, situation.epochs, round(1000 * situation.gain), situation.looks])
    plan = plan_looks(situation.looks, FIRST_LEVEL)
    cell = Cell(n, situation.epochs, CORRELATION, situation.gain, ASSUMED_ACCURACY)
    at_end = with_looks = used = 0
    for _ in range(gates):
        first, second = draw_right(random, cell)
        pairs = [Pair(a, b) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
        whole = run_paired_test(pairs)
        at_end += decide_look(build_comparison(whole), plan_looks(1, FIRST_LEVEL)[0]) == SUCCESS
        for look in plan:
            n_asked = look.count_questions(n)
            found = whole if n_asked == n else run_paired_test(pairs[:n_asked])
            if (decision := decide_look(build_comparison(found), look)) != CONTINUE:
                break
        with_looks += decision == SUCCESS
        used += n_asked
    return Outcome(gates, at_end, with_looks, used / (gates * n))


def build_comparison(score: PairedResult) -> Comparison:
    """Return a comparison in which nothing differs but the score."""
    side = Side(accuracy=0.0, ci95=None, score=0.0, score_ci95=None, errors_by_class={})
    return Comparison(metric="accuracy", score=score, first=side, second=side, cost_usd=None, seconds=None, tokens=None)


def list_situations() -> list[Situation]:
    found = []
    for n, epochs in SIZES:
        planned = compute_smallest_gain(n, epochs) or 1 - ASSUMED_ACCURACY
        found += [Situation(n, epochs, part * planned) for part in PARTS_OF_GAIN]
    return found


def tabulate(gates: int) -> Iterator[str]:
    yield "| questions | answers each | true gain | passes at the end | passes with looks | answers used |"
    yield "|---|---|---|---|---|---|"
    situations = list_situations()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for number, found in enumerate(pool.map(simulate, situations, [gates] * len(situations))):
            each, part = situations[number], PARTS_OF_GAIN[number % len(PARTS_OF_GAIN)]
            gain = {0.0: "none", 1.0: f"{100 * each.gain:.1f} points, as planned"}.get(
                part, f"{100 * each.gain:.1f} points"
            )
            shares = (found.passed_at_end / gates, found.passed_with_looks / gates)
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            yield f"| {each.n} | {each.epochs} | {gain} | {cells} | {100 * found.share_used:.0f} % |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--document", action="store_true", help=f"write the table into {PAGE.name}")
    parser.add_argument("--gates", type=int, default=GATES)
    given = parser.parse_args()
    write_tables(tabulate(given.gates), PAGE, "looks", given.document)


if __name__ == "__main__":
    main()
