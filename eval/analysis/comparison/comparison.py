"""One run compared with another, question by question: accuracy, cost, time, tokens, format, and which answers flipped.

    made = comparison(answers_of(store), answers_of(other))
    made.accuracy.difference, made.cost_usd.ci95, made.format_losses.difference
    comparison(*map(answers_from, (parent_records, winner_records)))      # records without their store

Differences are the second's minus the first's. What is said of cost, time and tokens is per answer, all attempts in it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eval.analysis.comparison.given_answer import GivenAnswer
from eval.analysis.comparison.pairing import Answers, pair_scores
from eval.analysis.statistics.intervals import Interval, compute_clustered_interval
from eval.analysis.statistics.paired_means import MeanDifference, compare_means
from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test
from eval.runs.record import NOT_RUN, PlannedQuestion


@dataclass(frozen=True)
class Side:
    """One of the two, on the questions that are compared."""

    accuracy: float  # mean over questions
    ci95: Interval | None
    n_answers: int
    n_correct: int
    errors_by_class: dict[str, int]
    tokens: int
    cost_usd: float | None  # None: not known of all its answers
    cached_calls: int  # that cost nothing, since another run had paid for them
    cached_tool_calls: int = 0  # that another run had made


@dataclass(frozen=True)
class Flip:
    """A question on which one of them is better."""

    id: str
    level: str | None
    question: str
    target: str
    difference: float
    first: tuple[GivenAnswer | None, ...]  # by epoch; None: missing
    second: tuple[GivenAnswer | None, ...]


@dataclass(frozen=True)
class Comparison:
    accuracy: PairedResult
    first: Side
    second: Side
    cost_usd: MeanDifference | None  # over the questions of which both sides' cost is known; None: of none
    seconds: MeanDifference | None
    tokens: MeanDifference | None
    format_losses: MeanDifference  # share of answers that could not be read, or were wrong in their format alone
    unreadable: MeanDifference  # of these, those that could not be read
    flips: list[Flip]  # the largest difference first

    def to_dict(self) -> dict[str, Any]:
        means = {name: getattr(self, name) for name in ("cost_usd", "seconds", "tokens", "format_losses", "unreadable")}
        return {
            **self.accuracy.to_dict(),
            "first": asdict(self.first),
            "second": asdict(self.second),
            **{name: each.to_dict() if each else None for name, each in means.items()},
            "flips": [asdict(each) for each in self.flips],
        }


def compare_answers(first: Answers, second: Answers, ids: Sequence[str] | None = None) -> Comparison:
    """
    Args:
        first: what is compared with.
        second: has no `obstacle` against the first.
        ids: of `in_common`, if it has; None: all questions with a gold answer, and missing answers count as wrong.

    Raises:
        ValueError: no question is left.
    """
    chosen, whole = list(first.questions) if ids is None else list(ids), ids is None
    scores = pair_scores(first, second, ids)
    asked = [(first.of_question(each, whole), second.of_question(each, whole)) for each in chosen]
    questions = [first.questions[each] for each in chosen]
    return Comparison(
        accuracy=run_paired_test(scores),
        first=_side([pair.first for pair in scores], [given for given, _ in asked]),
        second=_side([pair.second for pair in scores], [given for _, given in asked]),
        cost_usd=_means(asked, lambda each: each.cost_usd),
        seconds=_means(asked, lambda each: each.seconds),
        tokens=_means(asked, lambda each: each.tokens),
        format_losses=_share(asked, lambda each: each.format_lost),
        unreadable=_share(asked, lambda each: each.unreadable),
        flips=_flips(questions, scores, asked),
    )


_Epochs = Sequence[GivenAnswer | None]
_Asked = Sequence[tuple[_Epochs, _Epochs]]  # both sides' answers to each question


def _side(scores: Sequence[Sequence[float]], given: Sequence[_Epochs]) -> Side:
    answers = [each for epochs in given for each in epochs]
    there = [each for each in answers if each is not None]
    costs = [each.cost_usd for each in there]
    errors = Counter(NOT_RUN if each is None else each.error_class for each in answers)
    return Side(
        accuracy=sum(sum(each) / len(each) for each in scores) / len(scores),
        ci95=compute_clustered_interval([(round(sum(each)), len(each)) for each in scores]),
        n_answers=len(answers),
        n_correct=sum(each.correct for each in there),
        errors_by_class={name: count for name, count in errors.most_common() if name is not None},
        tokens=sum(each.tokens for each in there),
        cost_usd=None if None in costs else sum(each for each in costs if each is not None),
        cached_calls=sum(each.cached_calls for each in there),
        cached_tool_calls=sum(each.cached_tool_calls for each in there),
    )


def _means(asked: _Asked, amount: Callable[[GivenAnswer], float | None]) -> MeanDifference | None:
    """Over the questions that both sides have answered in part at least, and whose amounts are all known.

    Whoever decides by it has to look at `n_questions`: the others may be those that took most.
    """
    found = [(_mean(first, amount), _mean(second, amount)) for first, second in asked]
    return compare_means([(a, b) for a, b in found if a is not None and b is not None])


def _mean(epochs: _Epochs, amount: Callable[[GivenAnswer], float | None]) -> float | None:
    amounts = [amount(each) for each in epochs if each is not None]
    known = [each for each in amounts if each is not None]
    return sum(known) / len(known) if known and len(known) == len(amounts) else None


def _share(asked: _Asked, lost_by: Callable[[GivenAnswer], bool]) -> MeanDifference:
    lost = [
        Pair(*([float(each is not None and lost_by(each)) for each in epochs] for epochs in sides)) for sides in asked
    ]
    first, second = (sum(sum(pair[side]) / len(pair[side]) for pair in lost) / len(lost) for side in (0, 1))
    tested = run_paired_test(lost)
    return MeanDifference(len(lost), first, second, tested.difference, tested.ci95)


def _flips(questions: Sequence[PlannedQuestion], scores: Sequence[Pair], asked: _Asked) -> list[Flip]:
    found = [
        Flip(each.id, each.level, each.question, each.target or "", pair.difference, tuple(sides[0]), tuple(sides[1]))
        for each, pair, sides in zip(questions, scores, asked, strict=True)
        if pair.difference
    ]
    return sorted(found, key=lambda each: -abs(each.difference))
