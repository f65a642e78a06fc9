"""One run compared with another, sample by sample: the metric, cost, time, tokens, format, and which answers flipped.

    made = compare_answers(read_answers(store), read_answers(other))
    made.metric, made.score.difference, made.cost_usd.ci95, made.format_losses.difference
    compare_answers(*map(build_answers, (parent_records, winner_records)))      # records without their store

Differences are the second's minus the first's. Cost, time and tokens are per answer, all attempts included.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from eval.analysis.comparison.answers import Answers, GivenAnswer, pair_scores
from eval.analysis.statistics.intervals import Interval, compute_metric_interval
from eval.analysis.statistics.paired_tests import MeanDifference, Pair, PairedResult, compare_means, run_paired_test
from eval.runs.record import NOT_RUN, PlannedQuestion
from eval.scorers.score import join_metrics, name_metric, read_scorer_name


@dataclass(frozen=True)
class Side:
    """One of the two runs, on the samples that are compared."""

    accuracy: float  # share of right answers, mean over samples
    ci95: Interval | None
    n_answers: int
    n_correct: int
    errors_by_class: dict[str, int]
    tokens: int
    cost_usd: float | None  # None: unknown for some answer
    cached_calls: int  # that cost nothing, since another run had paid for them
    score: float  # mean value of the answers, mean over samples; where all are right or wrong, the accuracy
    score_ci95: Interval | None


@dataclass(frozen=True)
class Flip:
    """A sample on which one of the runs is better."""

    id: str
    level: str | None
    question: str
    target: str
    difference: float
    first: tuple[GivenAnswer | None, ...]  # by epoch; None: missing
    second: tuple[GivenAnswer | None, ...]


@dataclass(frozen=True)
class Comparison:
    """The second run compared with the first."""

    metric: str  # name of what the scores of both are: see `eval.scorers.score`
    score: PairedResult
    first: Side
    second: Side
    cost_usd: MeanDifference | None  # over the samples whose cost is known on both sides; None: there are none
    seconds: MeanDifference | None
    tokens: MeanDifference | None
    format_losses: MeanDifference  # share of answers that could not be read, or were wrong in their format alone
    unreadable: MeanDifference  # share of answers that could not be read
    flips: list[Flip]  # the largest difference first
    pairs: Mapping[str, Pair] = field(default_factory=dict)  # id of each sample → its scores

    def to_dict(self) -> dict[str, object]:
        means = {name: getattr(self, name) for name in ("cost_usd", "seconds", "tokens", "format_losses", "unreadable")}
        return {
            "metric": self.metric,
            **self.score.to_dict(),
            "first": asdict(self.first),
            "second": asdict(self.second),
            **{name: each.to_dict() if each else None for name, each in means.items()},
            "flips": [asdict(each) for each in self.flips],
        }


def compare_answers(first: Answers, second: Answers, ids: Sequence[str] | None = None) -> Comparison:
    """Return the differences of the second run against the first.

    Args:
        first: the answers to compare with.
        second: its answers must be comparable with the first's (see `find_obstacle`).
        ids: the samples to compare; None: all with a gold answer, and missing answers count as wrong.

    Raises:
        ValueError: no question is left.
    """
    scores = pair_scores(first, second, ids)
    chosen = list(first.questions) if ids is None else list(ids)
    list_answers: Callable[[Answers, str], _Epochs] = Answers.list_epochs if ids is None else Answers.list_given
    asked = [(list_answers(first, each), list_answers(second, each)) for each in chosen]
    return Comparison(
        metric=join_metrics(
            name_metric(read_scorer_name(each.scorer), _list_values(scores)) for each in (first, second)
        ),
        score=run_paired_test(scores),
        first=_side([pair.first for pair in scores], [given for given, _ in asked]),
        second=_side([pair.second for pair in scores], [given for _, given in asked]),
        cost_usd=_means(asked, lambda each: each.cost_usd),
        seconds=_means(asked, lambda each: each.seconds),
        tokens=_means(asked, lambda each: each.tokens),
        format_losses=_share(asked, lambda each: each.format_lost),
        unreadable=_share(asked, lambda each: each.unreadable),
        flips=_flips([first.questions[each] for each in chosen], scores, asked),
        pairs=dict(zip(chosen, scores, strict=True)),
    )


def _list_values(scores: Sequence[Pair]) -> list[float]:
    return [value for pair in scores for side in pair for value in side]


def _average(scores: Sequence[Sequence[float]]) -> float:
    """Return the mean over samples of each sample's mean."""
    return sum(sum(each) / len(each) for each in scores) / len(scores) if scores else 0.0


def _average_sides(scores: Sequence[Pair]) -> tuple[float, float]:
    return _average([pair.first for pair in scores]), _average([pair.second for pair in scores])


_Epochs = Sequence[GivenAnswer | None]
_Asked = Sequence[tuple[_Epochs, _Epochs]]  # both sides' answers to each question


def _side(scores: Sequence[Sequence[float]], given: Sequence[_Epochs]) -> Side:
    answers = [each for epochs in given for each in epochs]
    there = [each for each in answers if each is not None]
    costs = [each.cost_usd for each in there]
    right = [[float(value == 1) for value in values] for values in scores]
    errors = Counter(NOT_RUN if each is None else each.error_class for each in answers)
    return Side(
        accuracy=_average(right),
        ci95=compute_metric_interval(right),
        score=_average(scores),
        score_ci95=compute_metric_interval(scores),
        n_answers=len(answers),
        n_correct=sum(each.correct for each in there),
        errors_by_class={name: count for name, count in errors.most_common() if name is not None},
        tokens=sum(each.tokens for each in there),
        cost_usd=None if None in costs else sum(each for each in costs if each is not None),
        cached_calls=sum(each.cached_calls for each in there),
    )


def _means(asked: _Asked, amount: Callable[[GivenAnswer], float | None]) -> MeanDifference | None:
    """Compare over the samples that both sides have answered in part at least, and whose amounts are all known.

    A caller that decides by it must look at `n_questions`: the other samples may be those that took most.
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
    tested = run_paired_test(lost)
    return MeanDifference(len(lost), *_average_sides(lost), tested.difference, tested.ci95)


def _flips(questions: Sequence[PlannedQuestion], scores: Sequence[Pair], asked: _Asked) -> list[Flip]:
    found = [
        Flip(each.id, each.level, each.question, each.target or "", pair.difference, tuple(sides[0]), tuple(sides[1]))
        for each, pair, sides in zip(questions, scores, asked, strict=True)
        if pair.difference
    ]
    return sorted(found, key=lambda each: -abs(each.difference))
