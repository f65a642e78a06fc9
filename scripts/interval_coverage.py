"""Measure by simulation how often each interval that is shown to a user contains the true value.

Every cell draws many evaluations with a known truth: numbers of questions and epochs, correlation of the answers to one
question (0: chance alone; 1: a question is always answered the same), and true differences of 0, 2 and 10 points. The
intervals are computed by the functions that the commands use. The goal is 93 to 99.9 %; the standard error of a cell is
a third of a point with 4,000 draws.

    python scripts/interval_coverage.py                 # the tables, in about ten minutes
    python scripts/interval_coverage.py --document      # and writes them into docs/explanation/intervals.md
"""

import argparse
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from eval.analysis.statistics.intervals import (
    Interval,
    compute_clustered_interval,
    compute_mean_interval,
    compute_metric_interval,
)
from eval.analysis.statistics.paired_tests import Pair, compare_means, compute_paired_interval, sum_pairs
from eval.analysis.summary.rare_numbers import estimate_pass_at, estimate_pass_hat

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "intervals.md"
SIZES, EPOCHS, CORRELATIONS, EFFECTS = (20, 53, 165), (1, 5), (0.0, 0.5, 1.0), (0.0, 0.02, 0.10)
ACCURACIES = (0.35, 0.85)
LEAST = 93.0
DRAWS = 4_000
_SHARED_DIFFICULTY = 0.8  # correlation of the questions' difficulty for the two systems
_SPREAD = 0.7  # standard deviation of the logarithm of an amount

Array = npt.NDArray[np.float64]
Random = np.random.Generator


@dataclass(frozen=True)
class Cell:
    """One simulated situation."""

    n: int
    epochs: int
    correlation: float
    effect: float
    accuracy: float

    @property
    def better(self) -> float:
        """Accuracy of the second system."""
        return self.accuracy + self.effect


def draw_latent(random: Random, cell: Cell) -> tuple[Array, Array]:
    """Return standard normal values of two systems, a row a question and a column an epoch: low is a right answer."""
    common = random.standard_normal(cell.n)
    sides = []
    for _ in range(2):
        own = random.standard_normal(cell.n)
        hard = math.sqrt(_SHARED_DIFFICULTY) * common + math.sqrt(1 - _SHARED_DIFFICULTY) * own
        chance = random.standard_normal((cell.n, cell.epochs))
        sides.append(math.sqrt(cell.correlation) * hard[:, None] + math.sqrt(1 - cell.correlation) * chance)
    return sides[0], sides[1]


def draw_right(random: Random, cell: Cell) -> tuple[Array, Array]:
    """Return the right-or-wrong answers of two systems, the second of which is better by the effect."""
    first, second = draw_latent(random, cell)
    return (first < ndtri(cell.accuracy)).astype(float), (second < ndtri(cell.better)).astype(float)


def draw_graded(random: Random, cell: Cell) -> tuple[Array, Array]:
    """Return the same graded: full credit, none, or a part of it where an answer is nearly right."""
    shifts = [find_shift(cell.accuracy), find_shift(cell.better)]
    first, second = (
        np.clip(0.5 + shift - side, 0, 1) for shift, side in zip(shifts, draw_latent(random, cell), strict=True)
    )
    return first, second


@cache
def find_shift(mean: float) -> float:
    """Return the shift of a normal value, cut to 0..1, that has this mean."""
    levels = ndtri((np.arange(2_000) + 0.5) / 2_000)
    return float(brentq(lambda shift: np.clip(0.5 + shift - levels, 0, 1).mean() - mean, -6, 6))


@cache
def find_share_of_two(accuracy: float, correlation: float, any_right: bool) -> float:
    """Return the share of questions to which one of two answers is right, or both are."""
    if correlation == 1:
        return accuracy
    hard = ndtri((np.arange(4_000) + 0.5) / 4_000)
    chance = ndtr((ndtri(accuracy) - math.sqrt(correlation) * hard) / math.sqrt(1 - correlation))
    return float((1 - (1 - chance) ** 2 if any_right else chance**2).mean())


Drawn = tuple[Interval | None, float]  # an interval, and the true value
Draw = Callable[[Random, Cell], Drawn]


def draw_accuracy(random: Random, cell: Cell) -> Drawn:
    rights = draw_right(random, cell)[1].sum(1).astype(int).tolist()
    return compute_clustered_interval([(right, cell.epochs) for right in rights]), cell.better


def draw_score(random: Random, cell: Cell) -> Drawn:
    return compute_metric_interval(draw_graded(random, cell)[1].tolist()), cell.better


def draw_pass(random: Random, cell: Cell, any_right: bool) -> Drawn:
    """Draw pass@2 (one of two answers is right), or pass^2 (both are)."""
    estimate = estimate_pass_at if any_right else estimate_pass_hat
    rights = draw_right(random, cell)[1].sum(1).astype(int).tolist()
    bounds = compute_mean_interval(
        [estimate(right, cell.epochs, 2) for right in rights], max_n=cell.n * cell.epochs / 2
    )
    return bounds, find_share_of_two(cell.better, cell.correlation, any_right)


def compare(sides: tuple[Array, Array], truth: float) -> Drawn:
    """Without the extension to 0 where p is above the level: the shown interval contains the truth as often or more."""
    sums = sum_pairs([Pair(a, b) for a, b in zip(sides[0].tolist(), sides[1].tolist(), strict=True)])
    return sums and compute_paired_interval(sums), truth


def draw_amount(random: Random, cell: Cell, spread: float, factor: float) -> Drawn:
    """Draw costs or times, the second's larger by the factor; `spread`: standard deviation of their logarithm."""
    first, second = (np.exp(spread * side).mean(1) for side in draw_latent(random, cell))
    found = compare_means(list(zip(first.tolist(), (factor * second).tolist(), strict=True)))
    return found and found.ci95, (factor - 1) * math.exp(spread**2 / 2)


INTERVALS: dict[str, Draw] = {
    "accuracy, and by level and tag": draw_accuracy,
    "graded score": draw_score,
    "pass@2": lambda random, cell: draw_pass(random, cell, any_right=True),
    "pass^2": lambda random, cell: draw_pass(random, cell, any_right=False),
    "difference in accuracy": lambda random, cell: compare(draw_right(random, cell), cell.effect),
    "difference in graded score": lambda random, cell: compare(draw_graded(random, cell), cell.effect),
    "difference in cost or time": lambda random, cell: draw_amount(random, cell, _SPREAD, 1 + cell.effect),
}
SEVERAL_EPOCHS_ONLY = ("pass@2", "pass^2")


def never_lose(random: Random, cell: Cell, share: float) -> Drawn:
    """The second wins some questions in all epochs, and never loses."""
    won = (random.random((cell.n, 1)) < share) * np.ones((cell.n, cell.epochs))
    return compare((np.zeros((cell.n, cell.epochs)), won), share)


def fail_rarely(random: Random, cell: Cell) -> Drawn:
    """5 of 100 questions fail, the others have nearly full credit; each epoch is the same."""
    failed = random.random(cell.n) < 0.05
    values = np.where(failed, 0.0, random.uniform(0.9, 1.0, cell.n))
    return compute_metric_interval([[each] * cell.epochs for each in values.tolist()]), 0.95 * 0.95


def lose_rarely(random: Random, cell: Cell) -> Drawn:
    """Nearly all questions gain 5 points, and 3 of 100 lose everything."""
    differences = np.where(random.random(cell.n) < 0.03, -1.0, 0.05)[:, None] * np.ones((cell.n, cell.epochs))
    return compare((np.maximum(-differences, 0), np.maximum(differences, 0)), 0.97 * 0.05 - 0.03)


CORNERS: dict[str, Draw] = {
    "difference, wins 2 %, never loses": lambda random, cell: never_lose(random, cell, 0.02),
    "difference, wins 5 %, never loses": lambda random, cell: never_lose(random, cell, 0.05),
    "graded score, 5 % fail": fail_rarely,
    "graded difference, 3 % lose everything": lose_rarely,
    "cost halved, long tail": lambda random, cell: draw_amount(random, cell, spread=1.0, factor=0.5),
}


def measure(draw: Draw, cell: Cell, draws: int = DRAWS) -> float:
    """Return how many of 100 intervals contain the truth."""
    shares = (cell.correlation, cell.effect, cell.accuracy)
    random = np.random.default_rng([cell.n, cell.epochs, *(round(100 * each) for each in shares)])
    drawn = (draw(random, cell) for _ in range(draws))
    hits = sum(bounds is not None and bounds[0] - 1e-9 <= truth <= bounds[1] + 1e-9 for bounds, truth in drawn)
    return 100 * hits / draws


def tabulate(draws: int = DRAWS) -> Iterator[str]:
    """Yield the table of all intervals: the lowest and highest cell over effects and accuracies."""
    yield "| interval | questions | epochs | " + " | ".join(f"ICC {each:g}" for each in CORRELATIONS) + " |"
    yield "|---" * (3 + len(CORRELATIONS)) + "|"
    for name, draw in INTERVALS.items():
        for n in SIZES:
            for epochs in EPOCHS[name in SEVERAL_EPOCHS_ONLY :]:
                found = [
                    [measure(draw, cell, draws) for cell in list_cells(n, epochs, correlation)]
                    for correlation in CORRELATIONS
                ]
                yield f"| {name} | {n} | {epochs} | {' | '.join(map(format_range, found))} |"


def tabulate_corners(draws: int = DRAWS) -> Iterator[str]:
    """Yield the table of the hard cases, whose epochs always agree."""
    yield "| case | " + " | ".join(f"{n} questions" for n in SIZES) + " |"
    yield "|---" * (1 + len(SIZES)) + "|"
    for name, draw in CORNERS.items():
        found = [measure(draw, Cell(n, 5, 1.0, 0.0, 0.5), draws) for n in SIZES]
        yield f"| {name} | {' | '.join(format_range([each]) for each in found)} |"


def list_cells(n: int, epochs: int, correlation: float) -> Iterator[Cell]:
    for effect in EFFECTS:
        for accuracy in ACCURACIES:
            yield Cell(n, epochs, correlation, effect, accuracy)


def format_range(found: list[float]) -> str:
    low, high = min(found), max(found)
    text = f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"
    return text if low >= LEAST else f"**{text}**"


def write_tables(lines: Iterable[str], page: Path, mark: str, is_documented: bool) -> None:
    """Print lines as they come, and write them into a page between two comments that begin and end with the mark."""
    kept = []
    for line in lines:
        print(line, flush=True)
        kept.append(line)
    if is_documented:
        before, begin, rest = re.split(rf"(<!-- {mark}: .* -->\n)", page.read_text("utf-8"))
        _, end, after = rest.partition(f"<!-- end of {mark} -->")
        page.write_text("".join([before, begin, *(f"{line}\n" for line in kept), end, after]), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--document", action="store_true", help=f"write the tables into {PAGE.name}")
    parser.add_argument("--draws", type=int, default=DRAWS)
    given = parser.parse_args()
    write_tables(chain(tabulate(given.draws), [""], tabulate_corners(given.draws)), PAGE, "coverage", given.document)


if __name__ == "__main__":
    main()
