"""Phase 1: checks and an estimate before anything is spent, and one reflection.

In the estimate the number of answers is an upper limit; the usage of one answer is a mean with prompts as long as
today's, and tuned ones are mostly longer.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import dspy
from dspy.utils.exceptions import LMError

from eval.execution.budget import BudgetSettings, Spend, format_amount
from eval.execution.console import Console
from eval.workflows.estimate import AnswerMeans, find_price, find_typical_answer, format_usage
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError, walk_chain
from mas.runtime.sample_context import LimitReachedError
from mas.runtime.text import format_count
from optimize.gate.gate import EarlyVerdictError
from optimize.gate.looks import describe_power, plan_looks
from optimize.gate.sealed_log import find_allowance, list_fingerprints
from optimize.questions.splits import Splits, describe_labels, make_splits
from optimize.search.optimizers.prompt_rewriter import USELESS_REPLY, PromptRewriter
from optimize.search.student import check_scorer
from optimize.session.config import TuneConfig
from optimize.session.tuning_run import TuningRun

UNLIMITED = sys.maxsize  # metric calls of a search without a budget of them
SEALED_TEST = "sealed test"  # name of the phase
# A reflection has a few examples, each about as long as a request of the system, and a text as long as a prompt.
_EXAMPLES_A_REFLECTION = 3
_TOKENS_BRIEF, _TOKENS_OUT = 800, 600

EXAMPLE_AGENT = "clerk"
EXAMPLE_PROMPTS = PromptSet(
    "example", "example", {EXAMPLE_AGENT: "Read the note and report how many crates it speaks of."}, Path()
)
EXAMPLES = (
    {
        "Inputs": {"note": "Of the blue crates, four came on Monday and one went back."},
        "Generated Outputs": {"crates": "I think it is about four crates, perhaps more."},
        "Feedback": "Not what was asked for: reply with one whole number, and take off what went back.",
    },
    {
        "Inputs": {"note": "Two crates are on the cart."},
        "Generated Outputs": {"crates": "2"},
        "Feedback": "This is fine.",
    },
)


def prepare_splits(config: TuneConfig, console: Console) -> Splits:
    """Make and show the splits, and try the scorer on their questions unless its calls cost something."""
    splits = make_splits(config.base.data, config.splits, config.resolved.get("split"))
    n_sealed = len(splits.sealed)
    _show(console, f"questions: {len(splits.train)} training, {len(splits.val)} validation, {n_sealed} sealed test")
    if splits.labels:
        count = format_count(splits.labels.n_rare, "question")
        rare = f"; {count} with another target, which stays protected (data.labels=[…] names all labels)"
        _show(console, describe_labels(splits.labels.names) + (rare if splits.labels.n_rare else ""))
    for warning in splits.warnings:
        _show(console, f"warning: {warning}")
    if known := splits.count_known_to(config.parent.tuned_on):
        _show(
            console,
            f"warning: {known} of the {n_sealed} sealed questions were used to tune the prompts that this run begins "
            "with: the new prompts will score too high on them; use the data and splits.* of that run, or begin with "
            "other prompts",
        )
    if not _scoring_costs(config):
        check_scorer(config.base.scorer, (*splits.train, *splits.val))
    return splits


def confirm_start(config: TuneConfig, splits: Splits, console: Console) -> None:
    """Show what the sealed questions can prove and what the run will take, and ask whether to begin.

    A resumed run was confirmed before; a simulated model costs nothing. UserError: the answer is no, nobody can be
    asked, or the budget does not even allow the sealed test.
    """
    if config.optimizer.needs_reflection:
        config.base.model.create_reflection_lm(config.reflection_model)  # fails if the profile does not fit it
    phases, source = estimate_phases(config, splits)
    if config.resume:
        return
    _check_test(phases[-1], source, config.budget)
    allowance = find_allowance(list_fingerprints(splits.sealed), config.base.simulated)
    allowance.check()
    gate = config.gate
    if allowance.n_earlier:
        _show(console, f"warning: {allowance.describe(gate.looks)}")
    last = plan_looks(gate.looks, allowance.level)[-1].level  # the looks before spend a part of the level
    _show(console, describe_power(len(splits.sealed), gate.epochs, min_gain=gate.min_gain, level=last))
    for line in _format_estimate(phases, source, config):
        _show(console, line)
    if not config.is_free:
        confirm(config.yes)
    if _scoring_costs(config):
        check_scorer(config.base.scorer, (*splits.train, *splits.val))


def confirm(yes: bool) -> None:
    """Ask whether to begin, unless `yes`; UserError: the answer is not yes, or there is no terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(
            "nothing is spent without a yes to this estimate, and there is no terminal to ask at; add yes=true."
        )
    try:
        answer = input("Begin? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise UserError("not begun; nothing was spent.")


def check_reflection_model(run: TuningRun) -> None:
    """Let the reflection model rewrite a prompt from invented examples, as the search does, before the first answer.

    GEPA would spend its budget silently, without one proposal, on a model whose replies cannot be read. UserError: the
    model cannot be reached. EarlyVerdictError: its replies cannot be read, or the budget is used up.
    """
    rewriter = PromptRewriter(EXAMPLE_PROMPTS, get_stop_reason=lambda: None, max_chars=None)
    cause = ""
    for examples in (EXAMPLES, EXAMPLES[::-1]):  # in another order, because the same request may get the same reply
        try:
            with run.use_reflection(), dspy.context(lm=run.reflection_lm):
                rewriter.rewrite_once(dict(EXAMPLE_PROMPTS.texts), {EXAMPLE_AGENT: examples}, EXAMPLE_AGENT)
            run.check_stopped()
            return
        except USELESS_REPLY as error:
            cause = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        except (LMError, LimitReachedError) as error:
            run.check_stopped()
            # DSPy wraps the budget's refusal in another error.
            if limit := next((each for each in walk_chain(error) if isinstance(each, LimitReachedError)), None):
                raise EarlyVerdictError("budget", f"{limit}, before there was a verdict") from error
            reason = " ".join(f"{type(error).__name__}: {run.config.redact(str(error))}".split())
            raise UserError(
                f"the model that rewrites prompts could not be asked ({reason}); check reflection_model and model.*."
            ) from error
    raise EarlyVerdictError(
        "reflection_unparsable",
        f"the reflection model's replies to an invented example could not be read ({cause}); choose another "
        "reflection_model, or increase model.max_tokens",
    )


def _scoring_costs(config: TuneConfig) -> bool:
    return getattr(config.base.scorer, "judge", None) is not None


def _show(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


# The estimate


def count_shortlist_answers(config: TuneConfig, splits: Splits) -> int:
    """Return the number of answers of a full shortlist, the parent's included."""
    return (config.shortlist.size + 1) * config.shortlist.epochs * len(splits.val)


def count_test_answers(config: TuneConfig, splits: Splits) -> int:
    """Return the number of answers of both sides of the sealed test, if no look stops it."""
    return 2 * config.gate.epochs * len(splits.sealed)


class Phase(NamedTuple):
    """One line of the estimate."""

    name: str
    answers: int | None  # None: unlimited
    usage: Spend | None  # None: nothing is known of the system, or the phase is unlimited
    reflections: int = 0


def estimate_phases(config: TuneConfig, splits: Splits) -> tuple[list[Phase], str]:
    """Return the upper limits of all phases, and where they are from; UserError: the budget makes no sense."""
    budget, n_val = config.budget, len(splits.val)
    allowed = UNLIMITED if budget.metric_calls is None else budget.metric_calls
    if allowed <= 2 * n_val:
        raise UserError(
            f"budget.metric_calls={allowed} is too small: the baseline and the scoring of a single candidate take "
            f"{n_val} answers each; give it several times as many."
        )
    cost = config.optimizer.estimate_cost(len(splits.train), n_val, len(config.agents), allowed)
    is_endless = cost.metric_calls >= UNLIMITED
    if is_endless and not budget.list_limits():
        raise UserError("nothing would end the search: give budget.metric_calls, or another budget.")
    answer, source = find_typical_answer(config.base)

    def estimate(name: str, n_answers: int, reflections: int = 0) -> Phase:
        usage = answer.estimate_spend(n_answers) if answer else None
        if answer and usage and reflections:
            usage += _estimate_reflection(config, answer).estimate_spend(reflections)
        return Phase(name, n_answers, usage, reflections)

    n_searched = max(0, cost.metric_calls - n_val)  # the parent is scored in the baseline
    phases = [
        estimate("baseline", n_val),
        Phase("search", None, None) if is_endless else estimate("search", n_searched, cost.reflection_calls),
        estimate("shortlist", count_shortlist_answers(config, splits)),
        estimate(SEALED_TEST, count_test_answers(config, splits)),
    ]
    return phases, source


def _check_test(test: Phase, source: str, budget: BudgetSettings) -> None:
    """Check that the sealed test alone fits into each budget, or raise a UserError."""
    for option, allowed in budget.list_limits() if test.usage else ():
        if test.usage and (needed := test.usage.amount(option)) > allowed:
            raise UserError(
                f"budget.{option}={allowed:g} is too small: the sealed test alone, {test.answers:,} answers, "
                f"takes about {format_amount(option, needed)} ({source}); raise it, or lower gate.epochs."
            )


def _format_estimate(phases: list[Phase], source: str, config: TuneConfig) -> Iterator[str]:
    known, searching = [each.usage for each in phases if each.usage], phases[1].usage or Spend()
    usage, counts = sum(known, Spend()), [each.answers for each in phases]
    n_answers = None if None in counts else sum(filter(None, counts))
    total = Phase("total", n_answers, usage if known else None, sum(each.reflections for each in phases))
    yield f"estimate, with prompts as long as today's ({source}):"
    for phase in (*phases, total):
        counted = "answers until a budget ends it" if phase.answers is None else f"{phase.answers:,} answers"
        if phase.name == SEALED_TEST and config.gate.looks > 1:
            counted += " at most, about half without a gain"
        if phase.reflections:
            counted += f" + {phase.reflections:,} reflections"
        # Of an endless phase, a part would pass for the whole.
        used = f" ≈ {format_usage(phase.usage)}" if phase.usage and phase.answers is not None else ""
        yield f"  {phase.name:<12}{counted}{used}"
    if config.is_free:
        yield "  nothing is paid: the model is simulated"
    for option, allowed in config.budget.list_limits():
        if (others := (usage - searching).amount(option)) > allowed:
            yield (
                f"warning: baseline, shortlist and sealed test take about {format_amount(option, others)}, "
                f"more than budget.{option}={allowed:g}: probably nothing is left for the search"
            )


def _estimate_reflection(config: TuneConfig, answer: AnswerMeans) -> AnswerMeans:
    tokens_per_request = answer.input_tokens / answer.lm_calls if answer.lm_calls else 0.0
    tokens_in = _EXAMPLES_A_REFLECTION * tokens_per_request + _TOKENS_BRIEF
    price = find_price(config.base, config.reflection_model or config.base.model.name)
    unpriced = 0.0 if config.base.model.simulated else None
    usd = unpriced if price is None else price.cost_usd(round(tokens_in), 0, _TOKENS_OUT)
    return AnswerMeans(lm_calls=1.0, input_tokens=tokens_in, output_tokens=_TOKENS_OUT, cost_usd=usd)
