"""One run compared with another, sample by sample: the metric, cost, time, tokens, and which answers flipped.

    first, second = read_answers(store), read_answers(other)
    find_obstacle(first, second)                                   # None, or "their scorers differ"
    made = compare_answers(first, second)
    made.metric, made.score.difference, made.cost_usd.ci95
    compare_answers(*map(build_answers, (parent_records, winner_records)))      # records without their store

Differences are the second's minus the first's. Cost, time and tokens are per answer, all attempts included.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean

from eval.analysis.statistics.intervals import Interval, compute_metric_interval
from eval.analysis.statistics.paired_tests import MeanDifference, Pair, PairedResult, compare_means, run_paired_test
from eval.analysis.summary.measures import Key, add_usage, get_key, shorten_record
from eval.runs.record import Record
from eval.runs.run_info import digest_questions
from eval.runs.store import RunStore
from eval.scorers.score import join_metrics, name_metric, read_scorer_name
from mas.runtime.text import format_count

_Asked = Sequence[tuple[Sequence[Record], Sequence[Record]]]  # both sides' answers to each question


@dataclass(frozen=True)
class Answers:
    """The answers of a run, and the task that they belong to."""

    questions: Mapping[str, object]  # those with a target, by id
    given: Mapping[Key, Record]
    epochs: int
    scorer: object = None  # its configuration
    questions_sha256: str = ""  # of texts, targets and attachments, in any order
    n_missing: int = 0  # answers that the run has not come to

    def list_given(self, sample_id: str) -> list[Record]:
        """Return the answers to a sample that there are, by epoch."""
        keys = ((sample_id, epoch) for epoch in range(1, self.epochs + 1))
        return [self.given[key] for key in keys if key in self.given]


def read_answers(store: RunStore) -> Answers:
    """Return the answers of a run; raise StoreError if its store cannot be read."""
    info, planned = store.read_info(), store.read_plan()
    return Answers(
        questions={each.id: each for each in planned if each.target is not None},
        given=collect_answers(store.records(without_trajectory=True)),
        epochs=info.epochs,
        scorer=info.config.get("scorer"),
        questions_sha256=digest_questions(planned, info.task.file_sha256),
        n_missing=sum(len(store.list_missing(epoch)) for epoch in range(1, info.epochs + 1)),
    )


def build_answers(records: Iterable[Record], scorer: object = None) -> Answers:
    """Return the answers of a finished run from its records, and the configuration of its scorer if it is known."""
    kept = list(records)
    questions = {each.sample_id: each.question for each in kept if each.target is not None}
    return Answers(questions, collect_answers(kept), max((each.epoch for each in kept), default=1), scorer)


def collect_answers(records: Iterable[Record]) -> dict[Key, Record]:
    """Return the last attempts, each with the usage and the seconds of all attempts: all were paid for."""
    found: dict[Key, Record] = {}
    for answer in map(shorten_record, records):
        key = get_key(answer)
        if (before := found.get(key)) is not None:
            before, answer = sorted((before, answer), key=lambda each: each.attempt)
            answer.usage = add_usage(answer.usage, before.usage)
            answer.wall_seconds += before.wall_seconds
            answer.waited_seconds += before.waited_seconds
        found[key] = answer
    return found


def find_obstacle(first: Answers, second: Answers) -> str | None:
    """Return why the two runs cannot be compared; None if they can."""
    if first.questions.keys() != second.questions.keys():
        n_both, n_either = len(first.questions.keys() & second.questions), len({**first.questions, **second.questions})
        return f"their questions differ: {n_both} of {n_either} are in both"
    if first.scorer != second.scorer:
        return "their scorers differ"
    if first.questions_sha256 != second.questions_sha256:
        return "their questions, gold answers or attached files differ"
    if missing := first.n_missing + second.n_missing:
        return f"{format_count(missing, 'answer')} {'is' if missing == 1 else 'are'} still missing"
    return None if first.questions else "no question has a gold answer"


def read_cost(answer: Record) -> float | None:
    """Return the US dollars of an answer; None: unknown."""
    return answer.usage.cost_usd if answer.usage.lm_calls else 0.0


def measure_seconds(answer: Record) -> float:
    """Return the seconds of work, without waiting for rate limits, free places and retries."""
    return max(answer.wall_seconds - answer.waited_seconds, 0.0)


def count_tokens(answer: Record) -> int:
    return answer.usage.input_tokens + answer.usage.output_tokens


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two runs, on the samples that are compared."""

    accuracy: float  # share of right answers, mean over samples
    ci95: Interval | None
    score: float  # mean value of the answers, mean over samples; where all are right or wrong, the accuracy
    score_ci95: Interval | None
    errors_by_class: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The second run compared with the first."""

    metric: str  # name of what the scores of both are: see `eval.scorers.score`
    score: PairedResult
    first: Side
    second: Side
    cost_usd: MeanDifference | None  # over the samples whose cost is known on both sides; None: there are none
    seconds: MeanDifference | None
    tokens: MeanDifference | None
    differences: Mapping[str, float] = field(default_factory=dict)  # in the score, of each sample by its id

    @property
    def flips(self) -> dict[str, float]:
        """The differences of the samples on which one of the runs is better, the largest first."""
        found = {id: difference for id, difference in self.differences.items() if difference}
        return dict(sorted(found.items(), key=lambda item: -abs(item[1])))

    def to_dict(self) -> dict[str, object]:
        means = {name: (each := getattr(self, name)) and asdict(each) for name in ("cost_usd", "seconds", "tokens")}
        sides = {"first": asdict(self.first), "second": asdict(self.second)}
        flips = [{"id": id, "difference": difference} for id, difference in self.flips.items()]
        return {"metric": self.metric, **self.score.to_dict(), **sides, **means, "flips": flips}


def compare_answers(first: Answers, second: Answers, ids: Sequence[str] | None = None) -> Comparison:
    """Return the differences of the second run, which is comparable (see `find_obstacle`), against the first.

    `ids`: the samples to compare; None: all with a gold answer. Raise ValueError if there are none.
    """
    chosen = list(first.questions) if ids is None else ids
    asked = [(first.list_given(each), second.list_given(each)) for each in chosen]
    scores = [Pair(*([each.value for each in side] for side in sides)) for sides in asked]
    values = [value for pair in scores for side in pair for value in side]
    return Comparison(
        metric=join_metrics(name_metric(read_scorer_name(each.scorer), values) for each in (first, second)),
        score=run_paired_test(scores),
        first=_measure_side([given for given, _ in asked]),
        second=_measure_side([given for _, given in asked]),
        cost_usd=_compare_amounts(asked, read_cost),
        seconds=_compare_amounts(asked, measure_seconds),
        tokens=_compare_amounts(asked, count_tokens),
        differences={id: pair.difference for id, pair in zip(chosen, scores, strict=True)},
    )


def _measure_side(given: Sequence[Sequence[Record]]) -> Side:
    answers = [each for epochs in given for each in epochs]
    right = [[float(each.correct) for each in epochs] for epochs in given]
    scores = [[each.value for each in epochs] for epochs in given]
    errors = Counter(each.error_class for each in answers if each.error_class is not None)
    return Side(
        accuracy=fmean(map(fmean, right)),
        ci95=compute_metric_interval(right),
        score=fmean(map(fmean, scores)),
        score_ci95=compute_metric_interval(scores),
        errors_by_class=dict(errors.most_common()),
    )


def _compare_amounts(asked: _Asked, read: Callable[[Record], float | None]) -> MeanDifference | None:
    """Compare over the samples whose amounts are all known.

    A caller that decides by it must look at `n_questions`: the other samples may be those that took most.
    """
    pairs = []
    for sides in asked:
        first, second = ([amount for each in side if (amount := read(each)) is not None] for side in sides)
        if (len(first), len(second)) == (len(sides[0]), len(sides[1])):
            pairs.append((fmean(first), fmean(second)))
    return compare_means(pairs)
