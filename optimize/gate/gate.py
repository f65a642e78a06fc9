"""The publishing gate: decides from the results of the sealed test whether a set is published, and its power.

    comparison = compare_answers(*map(build_answers, (parent_records, winner_records)))
    verdict = judge(settings, comparison, Look.only(level=0.03))
    verdict.published, verdict.finish_reason, verdict.reasons

    compute_smallest_gain(53, epochs=5)            # 0.137: a true gain of 14 points passes the gate in 80 of 100 cases
    compute_smallest_gain(10, epochs=1)            # None: not even always right instead of 40 %

| objective | published if |
|---|---|
| score | the gain's interval lies above `min_gain`, and p is at most the level |
| cost | the gain's interval lies above -`margin`, and that of the cost per answer below 0; every cost is known |

Both intervals have the level of the sealed test: 0.03 (a 97% interval) for the first test with its questions, and less
for later ones (`optimize.gate.sealed_log`). Intervals of 95% are shown in addition. A test that is looked at several
times has that level for all looks together: p and intervals are held against the level of the look, and are then
repeated confidence intervals (`optimize.gate.sequential`).

Both require no new format losses; leaks and long prompts were excluded from the shortlist. The interval is that of
`eval.analysis.statistics.paired_interval`, which contains 0 unless p is at most its level.

Format losses are answers that could not be read (parse errors, truncated replies). They already count as wrong in the
metric; they are new if the winner has more of them than the parent beyond chance (the interval of the difference lies
above 0), and refuse the set even if the metric rises (docs/explanation/decisions.md 29a). With objective=score, answers
that are wrong only in their format do not count here: the more answers are right in content, the more can be wrong only
in form. With objective=cost they do: the metric need not rise there, and a cheaper prompt that omits instructions about
the form must not pass within the margin.

Power: with n questions, k answers per question and side, and accuracies p and q, the variance of a question's
difference is

    v = r·(p(1-p) + q(1-q) - 2·c·√(p(1-p)·q(1-q)))  +  (1-r)·(p(1-p) + q(1-q))/k

the first part from questions that gain more or less than others, the second from chance. r is the correlation between
answers to one question (0: all equally hard; 1: each always right or always wrong), c that between the questions'
difficulty for the one prompt set and for the other, taken to be 0.8. The smallest gain is then that of
`eval.analysis.statistics.paired_tests.compute_smallest_difference`, and half a step of the exact test more: 1/(n·k).

Source: E. Miller, "Adding Error Bars to Evals" (arXiv 2411.00640, 2024), section 5, for binary answers whose chances
vary by question (J. G. Skellam, J. Royal Statistical Society B 10, 1948). Checked against simulation in
`tests/optimize/gate/test_gate.py`: there, such a gain passed in 77 to 88 of 100 cases.
"""

import json
import math
from dataclasses import dataclass
from typing import Literal

from eval.analysis.comparison.comparison import Comparison
from eval.analysis.statistics.intervals import CRITICAL, Interval
from eval.analysis.statistics.paired_interval import ALPHA
from eval.analysis.statistics.paired_means import MeanDifference
from eval.analysis.statistics.paired_tests import PairedResult, compute_smallest_difference
from eval.analysis.statistics.shrinkage import shrink_gain
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.text import format_count
from optimize.gate.sealed_log import FIRST_LEVEL
from optimize.gate.sequential import Look

FinishReason = Literal[
    "improved",  # published
    "not_significant",
    "no_accepted_candidate",
    "budget",
    "leak_blocked",
    "too_long",
    "format_loss",
    "metric_errors",
    "reflection_unparsable",
]

OBJECTIVES = ("score", "cost")
MAX_LOOKS = 10  # more save next to nothing

# Assumptions of the power analysis
ACCURACY = 0.4  # of the prompts that a search begins with, as long as nothing is measured
CORRELATION = 0.5  # of answers to one question
CORRELATIONS = (0.3, 0.5, 0.8)  # published for GAIA: 0.30 to 0.77 (arXiv 2512.06710)
SHARED_DIFFICULTY = 0.8  # no measurement; prompts for the same model find mostly the same questions hard
_EXTRA_ANSWERS = 0.5  # as the interval of eval.analysis.statistics.paired_tests has them
_STEPS = 40  # of halving: to 1e-12


@dataclass
class GateSettings:
    """The `gate` section of the configuration."""

    objective: str = "score"  # score: better by more than min_gain | cost: not worse by more than margin, cheaper
    min_gain: float = 0.0  # the gain's interval must lie above it
    margin: float = 0.02  # with objective=cost: how much of the metric may be lost, at the interval's lower end
    epochs: int = 5  # answers to each sealed question, of the parent and of the winner
    looks: int = 4  # at equal shares of the sealed questions; the test may stop at each of them. 1: only at the end
    max_prompt_chars: int = 12_000  # of one agent's prompt with its demos
    max_metric_error_share: float = 0.1  # of 10 answers or more; above it the scorer is considered broken

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: a setting is out of range.
        """
        if self.objective not in OBJECTIVES:
            raise UserError(f"gate.objective={self.objective} is not known; choose one of: {', '.join(OBJECTIVES)}.")
        ranges = (
            (0 <= self.min_gain < 1, "min_gain", "a share from 0 to below 1, such as 0.05 for 5 points"),
            (0 <= self.margin < 1, "margin", "a share from 0 to below 1, such as 0.02 for 2 points"),
            (self.epochs >= 1, "epochs", "at least 1"),
            (1 <= self.looks <= MAX_LOOKS, "looks", f"1 to {MAX_LOOKS}"),
            (self.max_prompt_chars >= 1, "max_prompt_chars", "at least 1"),
            (0 <= self.max_metric_error_share <= 1, "max_metric_error_share", "a share from 0 to 1"),
        )
        for holds, key, expected in ranges:
            if not holds:
                raise UserError(f"gate.{key}={getattr(self, key):g} is out of range; expected {expected}.")


@dataclass(frozen=True)
class GateVerdict:
    """Decision of the gate, with its reasons."""

    published: bool
    finish_reason: FinishReason
    reasons: list[str]  # the failed checks as sentences; of a published set, the passed ones
    checks: list[str]  # all of them, each with its result: "passed: …" or "failed: …"
    gain: float  # in the metric, -1 to 1
    gain_ci95: Interval | None  # adjusted for the looks
    gain_interval: Interval | None  # at `level`, adjusted for the looks: the one that decides
    level: float  # two-sided, of all looks together
    look: Look  # with the largest p that passes
    p: float
    gain_shrunken: float | None  # estimate of the true gain; None: not published, or not for its gain
    smallest_difference: float | None  # that all sealed questions would show at this level in 80 of 100 cases


def judge(settings: GateSettings, comparison: Comparison, look: Look | None = None) -> GateVerdict:
    """Judge the winner, compared with its parent on the sealed questions.

    Args:
        settings: of the gate.
        comparison: of all answers so far.
        look: at which they are judged; None: the only one of a first test.
    """
    look = look or Look.only(FIRST_LEVEL)
    sealed = comparison.score
    checks = _check_gain(settings, comparison, look)
    passed = [sentence for holds, sentence in checks if holds]
    failures: list[tuple[FinishReason, str]] = [("not_significant", each) for holds, each in checks if not holds]
    if sentence := _new_format_losses(settings, comparison):
        failures.append(("format_loss", sentence))
        checks.append((False, sentence))
    published = not failures
    return GateVerdict(
        published=published,
        finish_reason=failures[0][0] if failures else "improved",
        reasons=[sentence for _, sentence in failures] or passed,
        checks=[f"{'passed' if holds else 'failed'}: {sentence}" for holds, sentence in checks],
        gain=sealed.difference,
        gain_ci95=sealed.compute_interval(look.compute_level(ALPHA)),
        gain_interval=sealed.compute_interval(look.level),
        level=look.plan.level,
        look=look,
        p=sealed.p,
        gain_shrunken=_shrink_gain(settings, sealed, look) if published and settings.objective == "score" else None,
        smallest_difference=_find_smallest_difference(sealed, look),
    )


def _find_smallest_difference(sealed: PairedResult, look: Look) -> float | None:
    """Return what the whole test would show, if the questions that it did not need differ as much."""
    if sealed.standard_error is None:
        return None
    error, n_questions = sealed.standard_error * math.sqrt(look.share), round(sealed.n_questions / look.share)
    return compute_smallest_difference(error, n_questions, look.plan.levels[-1])


def find_long_prompts(settings: GateSettings, prompts: PromptSet) -> list[str]:
    """Return the agents whose text and demos (as JSON) are too long together, as "planner (13,204 characters)"."""
    lengths = {agent: len(text) + _chars(prompts.demos.get(agent)) for agent, text in prompts.texts.items()}
    return [
        f"{agent} ({length:,} characters)" for agent, length in lengths.items() if length > settings.max_prompt_chars
    ]


def _chars(demos: object) -> int:
    return len(json.dumps(demos, ensure_ascii=False)) if demos else 0


def _shrink_gain(settings: GateSettings, sealed: PairedResult, look: Look) -> float | None:
    """Return the estimate of the true gain, for which the seen one was selected."""
    deciding = sealed.compute_interval(look.plan.levels[-1])
    if sealed.ci95 is None or deciding is None:
        return None
    error = (sealed.difference - sealed.ci95[0]) / CRITICAL
    half_width = (sealed.difference - deciding[0]) * math.sqrt(look.share)  # of the interval of all answers
    return shrink_gain(sealed.difference, error, settings.min_gain + half_width, look.share)


def _check_gain(settings: GateSettings, comparison: Comparison, look: Look) -> list[tuple[bool, str]]:
    """Return each check of the gain, and with objective=cost of the cost: whether it holds, and a sentence."""
    sealed, metric = comparison.score, comparison.metric
    if settings.objective == "cost":
        cheaper = _cheaper(comparison.cost_usd, sealed.n_questions, look)
        return [_not_worse(settings, sealed, metric, look), cheaper]
    return [_better(settings, sealed, metric, look), _not_by_luck(sealed, look)]


def _better(settings: GateSettings, sealed: PairedResult, metric: str, look: Look) -> tuple[bool, str]:
    holds, interval = _lies_above(sealed, settings.min_gain, look)
    gain = f"The gain in {metric} on the sealed questions is {_describe_gain(sealed, look)}"
    return holds, f"{gain}; {interval} {_points(settings.min_gain)}."


def _not_by_luck(sealed: PairedResult, look: Look) -> tuple[bool, str]:
    holds = sealed.p <= look.level
    below = "at most" if holds else "above"
    where = "" if look.plan.n_looks == 1 else f" at look {look.number} of {look.plan.n_looks}"
    return holds, f"p is {sealed.p:.3g} ({sealed.test}), {below} the required {look.level:.3g}{where}."


def _not_worse(settings: GateSettings, sealed: PairedResult, metric: str, look: Look) -> tuple[bool, str]:
    holds, interval = _lies_above(sealed, -settings.margin, look)
    change = f"The change in {metric} on the sealed questions is {_describe_gain(sealed, look)}"
    return holds, f"{change}; {interval} {_points(-settings.margin)} (gate.margin)."


def _lies_above(sealed: PairedResult, limit: float, look: Look) -> tuple[bool, str]:
    """Return whether the interval at the look's level lies above a limit, and words for it."""
    found = sealed.compute_interval(look.level)
    if found is None:
        return False, "there is no interval that could lie above"
    holds = found[0] > limit
    bounds = f"{_points(found[0])} to {_points(found[1])}"
    return holds, f"the {_name_interval(look)}, {bounds}, {'lies' if holds else 'does not lie'} above"


def _name_interval(look: Look) -> str:
    return f"{100 * (1 - look.plan.level):.4g}% interval"


def _cheaper(cost: MeanDifference | None, n_questions: int, look: Look) -> tuple[bool, str]:
    if cost is None:
        return False, "The cost of the answers is unknown, so none can be called cheaper; set model.prices."
    if unknown := n_questions - cost.n_questions:
        of_them = f"{unknown} of the {n_questions} sealed questions"
        return False, f"The cost of {of_them} is unknown, so the answers cannot be called cheaper."
    interval = cost.compute_interval(look.level)
    holds = interval is not None and interval[1] < 0
    bounds = f" ({_name_interval(look)} {interval[0]:+.5f} to {interval[1]:+.5f})" if interval else ""
    below = f"{'lies' if holds else 'does not lie'} below 0"
    change = f"${cost.first:.5f} before, ${cost.second:.5f} now, {cost.difference:+.5f}{bounds}"
    return holds, f"An answer cost {change}; the interval {below}."


def _new_format_losses(settings: GateSettings, comparison: Comparison) -> str | None:
    judged = [("cannot be read", comparison.unreadable)]
    if settings.objective == "cost":
        judged.append(("cannot be read, or are wrong in their form alone", comparison.format_losses))
    for what, losses in judged:
        if losses.ci95 is not None and losses.ci95[0] > 0:
            before, now = comparison.first.score, comparison.second.score
            return (
                f"More answers {what}: {losses.second:.1%} of the answers, {losses.first:.1%} with the "
                f"parent's prompts; that is beyond chance. Net {comparison.metric}, in which they count as wrong: "
                f"{before:.1%} before, {now:.1%} now ({_points(now - before)} points)."
            )
    return None


def _describe_gain(sealed: PairedResult, look: Look) -> str:
    ci95 = sealed.compute_interval(look.compute_level(ALPHA))
    adjusted = "" if look.plan.n_looks == 1 else ", adjusted for the looks"
    bounds = f"95% interval {_points(ci95[0])} to {_points(ci95[1])}{adjusted}" if ci95 else "no interval"
    return f"{_points(sealed.difference)} points ({bounds}; {_describe_basis(sealed.n_questions, sealed.epochs)})"


def _describe_basis(n_questions: int, epochs: int, kind: str = "question") -> str:
    return f"{format_count(n_questions, kind)}, {format_count(epochs, 'answer')} each"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}" if share else "0"


def compute_smallest_gain(
    n_questions: int,
    epochs: int,
    accuracy: float = ACCURACY,
    correlation: float = CORRELATION,
    min_gain: float = 0.0,
    level: float = FIRST_LEVEL,
) -> float | None:
    """Return the true gain, 0 to 1, that passes the gate in 80 of 100 cases; None if even an accuracy of 1 would not.

    Args:
        n_questions: sealed; at least 2.
        epochs: answers of each side to every one.
        accuracy: of the prompts that the search begins with.
        correlation: of answers to one question.
        min_gain: above which the gate wants the interval to lie.
        level: of the sealed test, two-sided.
    """
    _check(n_questions, epochs, accuracy, correlation)

    def is_shown(gain: float) -> bool:
        least = compute_smallest_difference(
            _standard_error(gain, n_questions, epochs, accuracy, correlation), n_questions, level
        )
        return least is not None and gain >= min_gain + least + 1 / (n_questions * epochs)

    low, high = 0.0, 1 - accuracy
    if not is_shown(high):
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high


def compute_smallest_margin(
    n_questions: int,
    epochs: int,
    accuracy: float = ACCURACY,
    correlation: float = CORRELATION,
    level: float = FIRST_LEVEL,
) -> float | None:
    """Return the margin (objective=cost) with which equally good prompts pass in 80 of 100 cases."""
    _check(n_questions, epochs, accuracy, correlation)
    error = _standard_error(0.0, n_questions, epochs, accuracy, correlation)
    return compute_smallest_difference(error, n_questions, level)


def describe_power(
    n_questions: int,
    epochs: int,
    accuracy: float | None = None,
    min_gain: float = 0.0,
    level: float = FIRST_LEVEL,
) -> str:
    """Return a sentence about the smallest gain that the sealed set can show.

    Args:
        n_questions: sealed; at least 2.
        epochs: answers of each side to every one.
        accuracy: measured on validation; None: not yet.
        min_gain: as for `compute_smallest_gain`.
        level: as for `compute_smallest_gain`.
    """
    known = ACCURACY if accuracy is None else accuracy
    likely, *range_ = (
        compute_smallest_gain(n_questions, epochs, known, each, min_gain, level)
        for each in (CORRELATION, *CORRELATIONS)
    )
    basis = f"assuming that {known:.0%} are right now" if accuracy is None else f"with {known:.0%} right on validation"
    asked = _describe_basis(n_questions, epochs, "sealed question")
    if likely is None:
        return f"power: {asked}: too few to show any gain reliably ({basis}); seal more, or raise gate.epochs"
    gains = [1 - known if each is None else each for each in range_]
    low, high = round(100 * min(gains)), round(100 * max(gains))
    between = f"{low} to {high}" if low < high else "the same"
    return (
        f"power: {asked}: a true gain of {round(100 * likely)} points passes the gate in 80 of 100 cases ({basis}; "
        f"{between} for answers to one question that are less or more alike)"
    )


def describe_margin(
    n_questions: int, epochs: int, margin: float, accuracy: float | None = None, level: float = FIRST_LEVEL
) -> str:
    """Return the same sentence for objective=cost."""
    known = ACCURACY if accuracy is None else accuracy
    needed = compute_smallest_margin(n_questions, epochs, known, level=level)
    asked = _describe_basis(n_questions, epochs, "sealed question")
    if needed is None or needed > margin:
        more = "" if needed is None else f"; {round(100 * needed, 1):g} would do"
        return (
            f"power: {asked}: prompts exactly as good will mostly fail a margin of {round(100 * margin, 1):g} "
            f"points{more}; seal more questions, or raise gate.epochs or gate.margin"
        )
    return (
        f"power: {asked}: prompts exactly as good pass with a margin of {round(100 * margin, 1):g} points in 80 of 100 "
        "cases or more"
    )


def power_table() -> str:
    """Return a Markdown table of the smallest gains in points, for the documentation."""
    lines = [
        "| sealed questions | answers each | " + " | ".join(f"correlation {each}" for each in CORRELATIONS) + " |",
        "|---" * (2 + len(CORRELATIONS)) + "|",
    ]
    for n_questions in (20, 26, 53, 100, 165, 250, 500):
        for epochs in (1, 3, 5, 10):
            gains = (compute_smallest_gain(n_questions, epochs, correlation=each) for each in CORRELATIONS)
            cells = ("none" if each is None else f"{100 * each:.1f}" for each in gains)
            lines.append(f"| {n_questions} | {epochs} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _standard_error(gain: float, n_questions: int, epochs: int, accuracy: float, correlation: float) -> float:
    """Return the standard error that `compute_standard_error` will probably find."""
    before, after = accuracy * (1 - accuracy), (accuracy + gain) * (1 - accuracy - gain)
    after = max(after, 0.0)  # a gain up to 1 may miss it by a rounding error
    questions = before + after - 2 * SHARED_DIFFICULTY * math.sqrt(before * after)
    variance = correlation * questions + (1 - correlation) * (before + after) / epochs
    return math.sqrt((variance + _EXTRA_ANSWERS / epochs / (n_questions - 1)) / n_questions)


def _check(n_questions: int, epochs: int, accuracy: float, correlation: float) -> None:
    if n_questions < 2 or epochs < 1 or not 0 <= accuracy <= 1 or not 0 <= correlation <= 1:
        raise ValueError(
            f"n_questions={n_questions}, epochs={epochs}, accuracy={accuracy}, correlation={correlation}; expected at "
            "least 2, at least 1, and 0 to 1"
        )
