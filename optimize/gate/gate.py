"""The publishing gate: decides from the results of the sealed test whether a set is published.

    comparison = compare_answers(*map(build_answers, (parent_records, winner_records)))
    verdict = judge(settings, comparison)
    verdict.published, verdict.finish_reason, verdict.reasons

| objective | published if |
|---|---|
| accuracy | the gain's 95 % interval lies above `min_gain`, and p is at most 0.05 |
| cost | the gain's 95 % interval lies above -`margin`, and that of the cost per answer below 0; every cost is known |

Both require no new format losses; leaks and long prompts were excluded from the shortlist. The interval alone is not
enough: where the parent never wins and the winner wins few questions, it contains the true gain in less than 95 of 100
cases (`eval.analysis.statistics.paired_tests`); p is exact there.

Format losses are answers that could not be read (parse errors, truncated replies). They already count as wrong in the
accuracy; they are new if the winner has more of them than the parent beyond chance (the interval of the difference lies
above 0). With objective=accuracy, answers that are wrong only in their format do not count here: the more answers are
right in content, the more can be wrong only in form. With objective=cost they do: accuracy need not rise there, and a
cheaper prompt that omits instructions about the form must not pass within the margin.
"""

import json
import math
from dataclasses import dataclass
from typing import Literal

from eval.analysis.comparison.comparison import Comparison
from eval.analysis.statistics.intervals import Interval
from eval.analysis.statistics.paired_means import MeanDifference
from eval.analysis.statistics.paired_tests import PairedResult
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from optimize.gate.power import compute_questions_needed

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

OBJECTIVES = ("accuracy", "cost")
MAX_P = 0.05


@dataclass
class GateSettings:
    """The `gate` section of the configuration."""

    objective: str = "accuracy"  # accuracy: better by more than min_gain | cost: not worse by more than margin, cheaper
    min_gain: float = 0.0  # the gain's 95 % interval must lie above it
    margin: float = 0.02  # with objective=cost: how much accuracy may be lost, at the interval's lower end
    epochs: int = 5  # answers to each sealed question, of the parent and of the winner
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
    gain: float  # in accuracy, -1 to 1
    gain_ci95: Interval | None
    p: float
    questions_needed: int | None  # to show this gain in 80 of 100 cases; None: no gain


def judge(settings: GateSettings, comparison: Comparison) -> GateVerdict:
    """Judge the winner, compared with its parent on the sealed questions."""
    sealed = comparison.accuracy
    passed, failed = _gain(settings, sealed, comparison.cost_usd)
    failures: list[tuple[FinishReason, str]] = [("not_significant", sentence) for sentence in failed]
    if sentence := _new_format_losses(settings, comparison):
        failures.append(("format_loss", sentence))
    return GateVerdict(
        published=not failures,
        finish_reason=failures[0][0] if failures else "improved",
        reasons=[sentence for _, sentence in failures] or passed,
        gain=sealed.difference,
        gain_ci95=sealed.ci95,
        p=sealed.p,
        questions_needed=_questions_needed(sealed),
    )


def find_long_prompts(settings: GateSettings, prompts: PromptSet) -> list[str]:
    """Return the agents whose text and demos (as JSON) are too long together, as "planner (13,204 characters)"."""
    lengths = {agent: len(text) + _chars(prompts.demos.get(agent)) for agent, text in prompts.texts.items()}
    return [
        f"{agent} ({length:,} characters)" for agent, length in lengths.items() if length > settings.max_prompt_chars
    ]


def _chars(demos: object) -> int:
    return len(json.dumps(demos, ensure_ascii=False)) if demos else 0


def _questions_needed(sealed: PairedResult) -> int | None:
    if sealed.standard_error is None or sealed.difference <= 0:
        return None
    return compute_questions_needed(sealed.difference, sd=sealed.standard_error * math.sqrt(sealed.n_questions))


def _gain(settings: GateSettings, sealed: PairedResult, cost: MeanDifference | None) -> tuple[list[str], list[str]]:
    """Return the passed and the failed checks as sentences."""
    if settings.objective == "cost":
        checks = [_not_worse(settings, sealed), _cheaper(cost, sealed.n_questions)]
    else:
        checks = [_better(settings, sealed), _not_by_luck(sealed)]
    return [sentence for holds, sentence in checks if holds], [sentence for holds, sentence in checks if not holds]


def _better(settings: GateSettings, sealed: PairedResult) -> tuple[bool, str]:
    holds = sealed.ci95 is not None and sealed.ci95[0] > settings.min_gain
    above = f"{'lies' if holds else 'does not lie'} above {_points(settings.min_gain)}"
    return holds, f"The gain on the sealed questions is {_describe_gain(sealed)}; the interval {above}."


def _not_by_luck(sealed: PairedResult) -> tuple[bool, str]:
    holds = sealed.p <= MAX_P
    below = "at most" if holds else "above"
    return holds, f"p is {sealed.p:.3g} ({sealed.test}), {below} the required {MAX_P:g}."


def _not_worse(settings: GateSettings, sealed: PairedResult) -> tuple[bool, str]:
    holds = sealed.ci95 is not None and sealed.ci95[0] > -settings.margin
    above = f"{'lies' if holds else 'does not lie'} above {_points(-settings.margin)} (gate.margin)"
    return holds, f"The change in accuracy on the sealed questions is {_describe_gain(sealed)}; the interval {above}."


def _cheaper(cost: MeanDifference | None, n_questions: int) -> tuple[bool, str]:
    if cost is None:
        return False, "The cost of the answers is unknown, so none can be called cheaper; set model.prices."
    if unknown := n_questions - cost.n_questions:
        of_them = f"{unknown} of the {n_questions} sealed questions"
        return False, f"The cost of {of_them} is unknown, so the answers cannot be called cheaper."
    holds = cost.ci95 is not None and cost.ci95[1] < 0
    bounds = f" (95 % interval {cost.ci95[0]:+.5f} to {cost.ci95[1]:+.5f})" if cost.ci95 else ""
    below = f"{'lies' if holds else 'does not lie'} below 0"
    change = f"${cost.first:.5f} before, ${cost.second:.5f} now, {cost.difference:+.5f}{bounds}"
    return holds, f"An answer cost {change}; the interval {below}."


def _new_format_losses(settings: GateSettings, comparison: Comparison) -> str | None:
    judged = [("cannot be read", comparison.unreadable)]
    if settings.objective == "cost":
        judged.append(("cannot be read, or are wrong in their form alone", comparison.format_losses))
    for what, losses in judged:
        if losses.ci95 is not None and losses.ci95[0] > 0:
            return (
                f"More answers {what}: {losses.second:.1%} of the answers, {losses.first:.1%} with the "
                "parent's prompts; that is beyond chance."
            )
    return None


def _describe_gain(sealed: PairedResult) -> str:
    bounds = f"95 % interval {_points(sealed.ci95[0])} to {_points(sealed.ci95[1])}" if sealed.ci95 else "no interval"
    return (
        f"{_points(sealed.difference)} points ({bounds}; {sealed.n_questions} questions, {sealed.epochs} answers each)"
    )


def _points(share: float) -> str:
    return f"{100 * share:+.1f}" if share else "0"
