"""Gate for a build: is a run worse than its baseline by more than a margin? In one metric or several.

    settings = read_gate_settings("score,cost", ["0.02", "cost=0.10"], alpha=0.05)
    judge_runs(base, new, settings).verdict       # "pass", "fail" or "inconclusive"

Pass: the lower bound is above −margin, so the change is no worse than allowed (non-inferiority). Fail: the upper bound
is below −margin, and the difference is one that two runs of the same program would show in at most 1 of 100
comparisons. Anything else is inconclusive, with an estimate of the questions that would decide.

Each bound of a metric's interval is wrong with probability alpha / metrics at most (Bonferroni: O. J. Dunn, "Multiple
comparisons among means", JASA 56, 1961), so that a wrong *fail* in any of them has at most the probability alpha, and
so has a wrong *pass*. One fails: the build fails. All pass: it passes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean, variance
from typing import Literal

from eval.analysis.comparison.compare_runs import ReadRun, explain_refusal, list_untouched
from eval.analysis.comparison.comparison import find_obstacle, measure_seconds, pair_scores, read_cost
from eval.analysis.statistics.intervals import Interval, compute_t_quantile
from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test
from eval.analysis.summary.measures import Answer
from eval.scorers.score import ACCURACY, join_metrics, name_metric, read_scorer_name
from mas.runtime.errors import UserError
from mas.runtime.text import format_count

Verdict = Literal["pass", "fail", "inconclusive"]
PASS: Verdict = "pass"
FAIL: Verdict = "fail"
INCONCLUSIVE: Verdict = "inconclusive"
GATE_VERSION = 1  # of the JSON; increased whenever a field changes its name or its meaning
SCORE, COST, LATENCY = "score", "cost", "latency"
SHARES, RELATIVE = (SCORE, ACCURACY), (COST, LATENCY)
METRICS = (*SHARES, *RELATIVE)
DEFAULT_MARGINS = {**dict.fromkeys(SHARES, 0.02), **dict.fromkeys(RELATIVE, 0.1)}
DEFAULT_ALPHA = 0.05
_EXAMPLE = "such as --margin 0.02 or --margin cost=0.10"
SAME_PROGRAM = 0.005  # level at which equal programs must differ to fail: half of 1 %, since intervals are approximate
DECIDED = 0.8  # of the comparisons, which the estimated number of questions would decide
MIN_QUESTIONS = 2  # below it there is no interval


@dataclass(frozen=True)
class GateSettings:
    """The metrics that decide with the loss that is allowed in each, and the probability of a wrong verdict."""

    margins: Mapping[str, float]
    alpha: float = DEFAULT_ALPHA

    @property
    def level(self) -> float:
        """Probability with which each bound may be wrong."""
        return self.alpha / len(self.margins)


@dataclass(frozen=True)
class JudgedMetric:
    """The verdict on one metric. Differences are new − base in shares, or new / base − 1 where `relative`."""

    metric: str
    name: str  # for people: of the score, what it is the mean of
    relative: bool
    verdict: Verdict
    base: float
    new: float
    difference: float
    lower: float
    upper: float
    margin: float
    by_chance: bool  # worse than the margin, but equal programs would differ so much too often
    n_questions: int
    questions_needed: int | None  # to pass in 80 of 100 comparisons if nothing has changed


@dataclass(frozen=True)
class GateResult:
    """The verdict on a build."""

    verdict: Verdict
    alpha: float
    level: float
    base: Mapping[str, object]  # name, folder, run_id, system, model, prompts, n_answers, n_errors
    new: Mapping[str, object]
    metrics: tuple[JudgedMetric, ...]
    n_questions: int
    n_left_out: int  # questions that the prompts of a run were tuned on
    worse: tuple[str, ...]  # ids of questions on which the new run has a lower score, the largest difference first
    better: tuple[str, ...]
    simulated: bool

    @property
    def confidence(self) -> float:
        """Confidence of the intervals that are shown."""
        return 1 - 2 * self.level

    def to_dict(self) -> dict[str, object]:
        return {"version": GATE_VERSION, **asdict(self)}


def read_gate_settings(
    metrics: str | None = None, margins: Sequence[str] = (), alpha: float | None = None
) -> GateSettings:
    """Read the options of a command line; what is not given has its default.

    Args:
        metrics: names with commas between them.
        margins: each a number, for all shares, or "metric=number"; several with commas between them.
        alpha: probability of a wrong verdict.

    Raises:
        UserError: a name, a margin or alpha is not valid.
    """
    names = [SCORE] if metrics is None else list(dict.fromkeys(each.strip() for each in metrics.split(",")))
    alpha = DEFAULT_ALPHA if alpha is None else alpha
    if unknown := next((name for name in names if name not in METRICS), None):
        raise UserError(
            f"--metrics has {unknown!r}; expected one or more of {', '.join(METRICS)}, with commas between."
        )
    if not 0 < alpha < 0.5:
        raise UserError(f"--alpha is {alpha:g}; expected a probability above 0 and below 0.5, such as 0.05.")
    allowed, own = {name: DEFAULT_MARGINS[name] for name in names}, dict[str, float]()
    for part in ",".join(margins).split(",") if margins else ():
        name, equals, number = (each.strip() for each in part.rpartition("="))
        if equals and name not in names:
            raise UserError(f"--margin {part.strip()}: {name!r} does not decide; add it to --metrics, or leave it out.")
        if not equals and not set(names) & set(SHARES):
            raise UserError(f"--margin {number} is one for shares; name the metric, such as {names[0]}=0.10.")
        margin = _read_margin(number)
        if equals:
            own[name] = margin
        else:
            allowed |= {name: margin for name in names if name in SHARES}
    return GateSettings(allowed | own, alpha)


def _read_margin(text: str) -> float:
    try:
        margin = float(text)
    except ValueError:
        raise UserError(f"--margin {text!r} is no number; expected a share {_EXAMPLE}.") from None
    if not 0 <= margin < 1:
        points = f"; {margin:g} points are {margin / 100:g}" if 1 <= margin < 100 else ""
        raise UserError(f"--margin {text} is not from 0 to below 1; expected a share {_EXAMPLE}{points}.")
    return margin


def judge_runs(base: ReadRun, new: ReadRun, settings: GateSettings) -> GateResult:
    """Judge a run against its baseline, on the questions that the prompts of neither were tuned on.

    Raise UserError if the two cannot be compared, or a metric is not there.
    """
    if reason := find_obstacle(base.answers, new.answers):
        raise UserError(explain_refusal(base, new, reason, intersection_hint=False))
    ids = list_untouched(base, new, list(base.answers.questions))
    n_left_out = len(base.answers.questions) - len(ids)
    if len(ids) < MIN_QUESTIONS:
        left_out = f" ({n_left_out} were used to tune the prompts)" if n_left_out else ""
        raise UserError(f"{format_count(len(ids), 'question')}{left_out} cannot decide; 2 are needed at least.")
    metrics = tuple(_judge(base, new, ids, name, settings) for name in settings.margins)
    found = {each.verdict for each in metrics}
    pairs = zip(ids, pair_scores(base.answers, new.answers, ids), strict=True)
    changes = sorted(((pair.difference, id) for id, pair in pairs), key=lambda change: -abs(change[0]))
    return GateResult(
        verdict=FAIL if FAIL in found else PASS if found == {PASS} else INCONCLUSIVE,
        alpha=settings.alpha,
        level=settings.level,
        base=_describe_run(base, ids),
        new=_describe_run(new, ids),
        metrics=metrics,
        n_questions=len(ids),
        n_left_out=n_left_out,
        worse=tuple(id for change, id in changes if change < 0),
        better=tuple(id for change, id in changes if change > 0),
        simulated=base.info.simulated or new.info.simulated,
    )


def _judge(base: ReadRun, new: ReadRun, ids: Sequence[str], metric: str, settings: GateSettings) -> JudgedMetric:
    margin, is_relative = settings.margins[metric], metric in RELATIVE
    if metric == COST:
        _check_paid(base, ids)
        _check_paid(new, ids)
    name, read = _METRICS[metric]
    pairs = [Pair(*([read(each) for each in run.answers.list_given(id)] for run in (base, new))) for id in ids]
    if metric == SCORE:
        values = [value for pair in pairs for side in pair for value in side]
        name = join_metrics(name_metric(read_scorer_name(run.answers.scorer), values) for run in (base, new))
    try:
        effect = measure_ratio(pairs) if is_relative else measure_shares(pairs)
    except ValueError:
        raise UserError(
            f"{metric} cannot be compared: it is 0 in one of the runs; leave it out of --metrics."
        ) from None
    scaled = math.log1p(margin) if is_relative else margin
    found = judge_effect(effect, scaled, settings.level, SAME_PROGRAM / len(settings.margins))
    difference, (lower, upper) = effect.gain, found.bounds
    if is_relative:
        difference, lower, upper = (math.expm1(-each) for each in (difference, upper, lower))
    return JudgedMetric(
        metric=metric,
        name=name,
        relative=is_relative,
        verdict=found.verdict,
        base=effect.first,
        new=effect.second,
        difference=difference,
        lower=lower,
        upper=upper,
        margin=margin,
        by_chance=found.by_chance,
        n_questions=effect.n_questions,
        questions_needed=found.questions_needed,
    )


_METRICS: dict[str, tuple[str, Callable[[Answer], float]]] = {  # its name, and what an answer has of it
    SCORE: (SCORE, lambda answer: answer.value),
    ACCURACY: (ACCURACY, lambda answer: float(answer.correct)),
    COST: ("cost/answer", lambda answer: read_cost(answer) or 0.0),
    LATENCY: ("time/answer", measure_seconds),
}


def _check_paid(run: ReadRun, ids: Sequence[str]) -> None:
    """Refuse an unknown cost."""
    answers = _list_answers(run, ids)
    unknown = sum(read_cost(each) is None for each in answers)
    if unknown:
        raise UserError(
            f"cost cannot be compared: that of {format_count(unknown, 'answer')} of {run} is unknown; "
            "give the model's prices, or leave cost out of --metrics."
        )


def _list_answers(run: ReadRun, ids: Sequence[str]) -> list[Answer]:
    return [each for id in ids for each in run.answers.list_given(id)]


def _describe_run(run: ReadRun, ids: Sequence[str]) -> dict[str, object]:
    answers, facts = _list_answers(run, ids), run.to_dict()
    n_errors = sum(each.error_class is not None for each in answers)
    named = {name: facts[name] for name in ("name", "folder", "run_id", "system", "model", "prompts")}
    return named | {"n_answers": len(answers), "n_errors": n_errors}


@dataclass(frozen=True)
class Effect:
    """The difference of two runs in one metric; more is better."""

    first: float  # as shown
    second: float
    gain: float
    n_questions: int
    variance: float  # of one question's difference
    paired: PairedResult | None = None  # of shares: their paired test

    def compute_bounds(self, level: float) -> Interval:
        """Return both bounds, each of which is wrong with this probability; there are two questions at least."""
        if self.paired and (found := self.paired.compute_interval(2 * level)):
            return found
        half = compute_t_quantile(1 - level, self.n_questions) * math.sqrt(self.variance / self.n_questions)
        return self.gain - half, self.gain + half


@dataclass(frozen=True)
class Judgement:
    """The verdict on one metric."""

    verdict: Verdict
    bounds: Interval
    by_chance: bool  # the upper bound is below −margin, but equal programs would differ so much too often
    questions_needed: int | None  # to pass in 80 of 100 comparisons if nothing has changed; None: no number would do


def measure_shares(pairs: Sequence[Pair]) -> Effect:
    """Return the difference of the mean scores, from 0 to 1, of two runs."""
    first, second = (fmean([fmean(pair[side]) for pair in pairs]) for side in (0, 1))
    paired, n = run_paired_test(pairs), len(pairs)
    return Effect(first, second, paired.difference, n, (paired.standard_error or 0.0) ** 2 * n, paired)


def measure_ratio(pairs: Sequence[Pair]) -> Effect:
    """Return how much less of an amount the second run takes: minus the logarithm of the ratio of the means.

    A question's contribution is how the logarithm changes if the question is left out (the jackknife; B. Efron and
    R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11), since a few may take most of an amount.

    Raises:
        ValueError: a mean is not positive, or one question takes all of an amount.
    """
    n, sides = len(pairs), [[fmean(pair[side]) for pair in pairs] for side in (0, 1)]
    first, second = map(fmean, sides)
    if first <= 0 or second <= 0:
        raise ValueError(f"the means are {first} and {second}; expected positive amounts")
    less = [[(n - 1) * math.log1p(-own / (n * fmean(side))) for own in side] for side in sides]
    return Effect(first, second, -math.log(second / first), n, variance([b - a for a, b in zip(*less, strict=True)]))


def judge_effect(effect: Effect, margin: float, level: float, same_program: float = SAME_PROGRAM) -> Judgement:
    """Return the verdict.

    Args:
        effect: of two questions at least.
        margin: loss that is allowed, on the scale of the effect's gain.
        level: probability with which each bound may be wrong.
        same_program: share of the comparisons of a program with itself that may fail.
    """
    bounds = effect.compute_bounds(level)
    is_below = bounds[1] < -margin
    differs = is_below and effect.compute_bounds(min(level, same_program))[1] < 0
    verdict = PASS if bounds[0] > -margin else FAIL if differs else INCONCLUSIVE
    return Judgement(verdict, bounds, is_below and not differs, _estimate_questions(effect, margin, level))


def _estimate_questions(effect: Effect, margin: float, level: float) -> int | None:
    """Return the number of questions that lets an unchanged program pass in 80 of 100 comparisons."""
    if margin <= 0:
        return None
    z = NormalDist().inv_cdf(1 - level)
    wanted = (margin / (z + NormalDist().inv_cdf(DECIDED))) ** 2  # variance of the difference
    least = z**2 * (1 - margin) / margin if effect.paired else 0.0  # score interval without any difference
    return math.ceil(max(effect.variance / wanted, least, MIN_QUESTIONS))
