"""Whether a set is published: what the sealed test has found against what it has to pass. Nothing is read or written.

    made = comparison(*map(answers_from, (parent_records, winner_records)))      # eval.analysis.comparison.comparison
    verdict = judge(settings, made, leaks_blocked=False, too_long=too_long(settings, winner))
    verdict.published, verdict.finish_reason, verdict.reasons

| objective | published if |
|---|---|
| accuracy | the gain's 95 % interval lies above `min_gain`, and p is at most 0.05 |
| cost | the gain's 95 % interval lies above -`margin`, and that of the cost per answer below 0; every cost is known |

Both: no leak, no prompt that is too long, and no new losses by format. The interval alone would not do: where the
parent never wins and the winner wins but few questions, it holds the truth in less than 95 of 100 cases
(`eval.analysis.statistics.paired_tests`); p is exact there.

Losses by format are answers that could not be read (parse errors, cut replies). They count as wrong in the accuracy
already; they are new if the winner has more of them than the parent beyond chance (the difference's interval lies above
0). For accuracy, answers that are wrong in their format alone are not counted here: the more answers are right in
content, the more can be wrong in nothing but form. For cost they are: nothing has to become better there, and a cheaper
prompt that says less of the form must not pass within the margin.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
    """The `gate` part of the configuration."""

    objective: str = "accuracy"  # accuracy: better by more than min_gain | cost: not worse by more than margin, cheaper
    min_gain: float = 0.0  # the gain's 95 % interval must lie above it
    margin: float = 0.02  # with objective=cost: how much accuracy may be lost, at the interval's lower end
    epochs: int = 5  # answers to each sealed question, of the parent and of the winner
    max_prompt_chars: int = 12_000  # of one agent's prompt with its demos
    max_metric_error_share: float = 0.1  # beyond it (of 10 answers or more) the scorer is taken to be broken

    def check(self) -> None:
        """
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
    published: bool
    finish_reason: FinishReason
    reasons: list[str]  # sentences: what was not passed; of a published set, what it has passed
    gain: float  # in accuracy, -1 to 1
    gain_ci95: Interval | None
    p: float
    questions_needed: int | None  # that would have shown this gain in 80 of 100 cases; None: there is no gain

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "gain_ci95": list(self.gain_ci95) if self.gain_ci95 else None}


def judge(
    settings: GateSettings,
    made: Comparison,
    leaks_blocked: bool,
    too_long: Sequence[str],
) -> GateVerdict:
    """
    Args:
        settings: what is to be passed.
        made: the winner compared with its parent, on the sealed questions.
        leaks_blocked: a prompt or demo holds what it must not.
        too_long: what `find_long_prompts` found.
    """
    sealed = made.accuracy
    passed, failed = _gain(settings, sealed, made.cost_usd)
    failures: list[tuple[FinishReason, str]] = []  # the gravest first: it gives the run its finish reason
    if leaks_blocked:
        failures.append(("leak_blocked", "A prompt or demo holds what it must not (see the leak report)."))
    if too_long:
        limit = f"gate.max_prompt_chars={settings.max_prompt_chars}"
        failures.append(("too_long", f"Longer than {limit}: {', '.join(too_long)}."))
    failures += [("not_significant", sentence) for sentence in failed]
    if sentence := _new_format_losses(settings, made):
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
    """The agents whose text and demos, these as JSON, are too long together: "planner (13,204 characters)"."""
    lengths = {agent: len(text) + _chars(prompts.demos.get(agent)) for agent, text in prompts.texts.items()}
    return [
        f"{agent} ({length:,} characters)" for agent, length in lengths.items() if length > settings.max_prompt_chars
    ]


def _chars(demos: Any) -> int:
    return len(json.dumps(demos, ensure_ascii=False)) if demos else 0


def _questions_needed(sealed: PairedResult) -> int | None:
    if sealed.standard_error is None or sealed.difference <= 0:
        return None
    return compute_questions_needed(sealed.difference, sd=sealed.standard_error * math.sqrt(sealed.n_questions))


def _gain(settings: GateSettings, sealed: PairedResult, cost: MeanDifference | None) -> tuple[list[str], list[str]]:
    """Sentences of what is passed and of what is not."""
    if settings.objective == "cost":
        checks = [_not_worse(settings, sealed), _cheaper(cost, sealed.n_questions)]
    else:
        checks = [_better(settings, sealed), _not_by_luck(sealed)]
    return [sentence for holds, sentence in checks if holds], [sentence for holds, sentence in checks if not holds]


def _better(settings: GateSettings, sealed: PairedResult) -> tuple[bool, str]:
    holds = sealed.ci95 is not None and sealed.ci95[0] > settings.min_gain
    above = f"{'lies' if holds else 'does not lie'} above {_points(settings.min_gain)}"
    return holds, f"The gain on the sealed questions is {_told(sealed)}; the interval {above}."


def _not_by_luck(sealed: PairedResult) -> tuple[bool, str]:
    holds = sealed.p <= MAX_P
    below = "at most" if holds else "above"
    return holds, f"p is {sealed.p:.3g} ({sealed.test}), {below} the {MAX_P:g} that is asked for."


def _not_worse(settings: GateSettings, sealed: PairedResult) -> tuple[bool, str]:
    holds = sealed.ci95 is not None and sealed.ci95[0] > -settings.margin
    above = f"{'lies' if holds else 'does not lie'} above {_points(-settings.margin)} (gate.margin)"
    return holds, f"The change in accuracy on the sealed questions is {_told(sealed)}; the interval {above}."


def _cheaper(cost: MeanDifference | None, n_questions: int) -> tuple[bool, str]:
    if cost is None:
        return False, "What the answers cost is unknown, so that none can be called cheaper; give model.prices."
    if unknown := n_questions - cost.n_questions:
        of_them = f"{unknown} of the {n_questions} sealed questions"
        return False, f"The cost of {of_them} is unknown, so that the answers cannot be called cheaper."
    holds = cost.ci95 is not None and cost.ci95[1] < 0
    bounds = f" (95 % interval {cost.ci95[0]:+.5f} to {cost.ci95[1]:+.5f})" if cost.ci95 else ""
    below = f"{'lies' if holds else 'does not lie'} below 0"
    change = f"${cost.first:.5f} before, ${cost.second:.5f} now, {cost.difference:+.5f}{bounds}"
    return holds, f"An answer cost {change}; the interval {below}."


def _new_format_losses(settings: GateSettings, made: Comparison) -> str | None:
    judged = [("cannot be read", made.unreadable)]
    if settings.objective == "cost":
        judged.append(("cannot be read, or are wrong in their form alone", made.format_losses))
    for what, losses in judged:
        if losses.ci95 is not None and losses.ci95[0] > 0:
            return (
                f"More answers {what}: {losses.second:.1%} of the answers, {losses.first:.1%} with the "
                "parent's prompts; that is beyond chance."
            )
    return None


def _told(sealed: PairedResult) -> str:
    bounds = f"95 % interval {_points(sealed.ci95[0])} to {_points(sealed.ci95[1])}" if sealed.ci95 else "no interval"
    return (
        f"{_points(sealed.difference)} points ({bounds}; {sealed.n_questions} questions, {sealed.epochs} answers each)"
    )


def _points(share: float) -> str:
    return f"{100 * share:+.1f}" if share else "0"
