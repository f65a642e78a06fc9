"""Phase 1: checks and an estimate before anything is spent, and one reflection.

    splits = prepare_splits(config, console)       # the scorer is tried on targets and on nonsense
    confirm_start(config, splits, console)         # shows power and estimate, and asks whether to begin
    check_reflection_model(run)                     # one reflection, whose reply must be readable

The configuration was checked before (`TuneConfig.check`). In the estimate the number of answers is an upper limit; the
usage of one answer is a mean with prompts as long as today's, and tuned ones are mostly longer.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dspy
from dspy.utils.exceptions import LMError

from eval.execution.budget import BudgetSettings, Spend, format_amount
from eval.execution.console import Console
from eval.workflows.estimate import AnswerMeans, find_price, find_typical_answer, format_usage
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError, walk_chain
from mas.runtime.sample_context import LimitReachedError
from mas.runtime.text import format_count
from optimize.gate.looks import describe_power, plan_looks
from optimize.gate.sealed_log import describe_earlier_tests, describe_level, find_allowance, list_fingerprints
from optimize.gate.verdict import EarlyVerdictError
from optimize.questions.splits import Splits, describe_labels, make_splits
from optimize.search.optimizer import SearchCost
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
    """Make and show the splits, and try the scorer on their questions unless its calls cost something.

    Raises:
        UserError: the data cannot be split, or the scorer is broken.
    """
    splits = make_splits(config.base.data, config.splits, config.resolved.get("split"))
    sizes = f"{len(splits.train)} training, {len(splits.val)} validation, {len(splits.sealed)} sealed test"
    _show(console, f"questions: {sizes}")
    if splits.labels:
        count = format_count(splits.labels.n_rare, "question")
        rare = f"; {count} with another target, which stays protected (data.labels=[…] names all labels)"
        _show(console, describe_labels(splits.labels.names) + (rare if splits.labels.n_rare else ""))
    known = splits.describe_known_to(config.parent.tuned_on)
    for warning in (*splits.warnings, *((known,) if known else ())):
        _show(console, f"warning: {warning}")
    if not _scoring_costs(config):
        _check_scorer(config, splits)
    return splits


def confirm_start(config: TuneConfig, splits: Splits, console: Console) -> None:
    """Show what the sealed questions can prove and what the run will take, and ask whether to begin.

    A resumed run was confirmed before; a simulated model costs nothing.

    Raises:
        UserError: the answer is no, nobody can be asked, or the budget does not even allow the sealed test.
    """
    if config.optimizer.needs_reflection:
        config.base.model.create_reflection_lm(config.reflection_model)  # fails if the profile does not fit it
    estimate = Estimate.guess(config, splits)
    if config.resume:
        return
    estimate.check(config.budget)
    allowance = find_allowance(list_fingerprints(splits.sealed), config.base.simulated)
    allowance.check()
    if earlier := describe_earlier_tests(allowance.n_questions_used, allowance.size, allowance.n_earlier):
        _show(console, f"warning: {earlier}: {describe_level(allowance.level, allowance.left, config.gate.looks)}")
    last = plan_looks(config.gate.looks, allowance.level).levels[-1]  # the looks before spend a part of the level
    gate = config.gate
    _show(console, describe_power(len(splits.sealed), gate.epochs, min_gain=gate.min_gain, level=last))
    for line in estimate.lines(config):
        _show(console, line)
    if not config.is_free:
        confirm(config.yes)
    if _scoring_costs(config):
        _check_scorer(config, splits)


def confirm(yes: bool) -> None:
    """Ask whether to begin, unless `yes`.

    Raises:
        UserError: the answer is not yes, or there is no terminal.
    """
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

    GEPA would spend its budget silently, without one proposal, on a model whose replies cannot be read. No question of
    the data is shown. Each order of the examples is tried until a reply can be read: with one request, or with two if
    DSPy repeats it in another format.

    Raises:
        UserError: the model cannot be reached.
        EarlyVerdictError: its replies cannot be read, or the budget is used up.
        RunStoppedError: the run was stopped.
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
    """Return whether scoring calls a judge model."""
    return getattr(config.base.scorer, "judge", None) is not None


def _check_scorer(config: TuneConfig, splits: Splits) -> None:
    if problem := check_scorer(config.base.scorer, (*splits.train, *splits.val)):
        raise UserError(problem)


def _show(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


# The estimate


def plan_search(config: TuneConfig, splits: Splits) -> SearchCost:
    """Return the upper limits of baseline and search together.

    Raises:
        UserError: the budget leaves nothing for the search, or nothing would ever end it.
    """
    budget, n_val = config.budget, len(splits.val)
    allowed = UNLIMITED if budget.metric_calls is None else budget.metric_calls
    if allowed <= 2 * n_val:
        raise UserError(
            f"budget.metric_calls={allowed} is too small: the baseline and the scoring of a single candidate take "
            f"{n_val} answers each; give it several times as many."
        )
    cost = config.optimizer.estimate_cost(len(splits.train), n_val, len(config.agents), allowed)
    others = (budget.lm_calls, budget.tokens, budget.usd, budget.seconds)
    if cost.metric_calls >= UNLIMITED and all(each is None for each in others):
        raise UserError("nothing would end the search: give budget.metric_calls, or another budget.")
    return cost


def count_shortlist_answers(config: TuneConfig, splits: Splits) -> int:
    """Return the number of answers of a full shortlist, the parent's included."""
    return (config.shortlist.size + 1) * config.shortlist.epochs * len(splits.val)


def count_test_answers(config: TuneConfig, splits: Splits) -> int:
    """Return the number of answers of both sides of the sealed test, if no look stops it."""
    return 2 * config.gate.epochs * len(splits.sealed)


@dataclass(frozen=True)
class Phase:
    """One line of the estimate."""

    name: str
    answers: int | None  # None: unlimited
    usage: Spend
    reflections: int = 0


@dataclass(frozen=True)
class Estimate:
    """Answers and usage of the phases. Of a system without known usage, only answers are counted."""

    phases: list[Phase]  # baseline, search, shortlist, sealed test
    source: str
    is_known: bool

    @classmethod
    def guess(cls, config: TuneConfig, splits: Splits) -> "Estimate":
        """
        Raises:
            UserError: the budget leaves nothing for the search, or nothing would ever end it.
        """
        found, source = find_typical_answer(config.base)
        answer = found or AnswerMeans()
        cost, n_val = plan_search(config, splits), len(splits.val)
        is_endless = cost.metric_calls >= UNLIMITED
        n_search = 0 if is_endless else max(0, cost.metric_calls - n_val)  # the parent is scored in the baseline
        reflections = 0 if is_endless else cost.reflection_calls
        searching = answer.estimate_spend(n_search)
        if found:
            searching += _estimate_reflection(config, found).estimate_spend(reflections)
        n_shortlist, n_sealed = count_shortlist_answers(config, splits), count_test_answers(config, splits)
        phases = [
            Phase("baseline", n_val, answer.estimate_spend(n_val)),
            Phase("search", None if is_endless else n_search, searching, reflections),
            Phase("shortlist", n_shortlist, answer.estimate_spend(n_shortlist)),
            Phase(SEALED_TEST, n_sealed, answer.estimate_spend(n_sealed)),
        ]
        return cls(phases, source, found is not None)

    def check(self, budget: BudgetSettings) -> None:
        """
        Raises:
            UserError: the sealed test alone would not fit into one of the budgets.
        """
        test = self.phases[-1]
        for option, allowed in budget.list_limits():
            if (needed := test.usage.amount(option)) > allowed:
                raise UserError(
                    f"budget.{option}={allowed:g} is too small: the sealed test alone, {test.answers:,} answers, "
                    f"takes about {format_amount(option, needed)} ({self.source}); raise it, or lower gate.epochs."
                )

    def lines(self, config: TuneConfig) -> Iterator[str]:
        """Return the estimate as lines for the terminal."""
        counts, usage = [each.answers for each in self.phases], sum((each.usage for each in self.phases), Spend())
        n_answers = None if None in counts else sum(filter(None, counts))
        total = Phase("total", n_answers, usage, sum(each.reflections for each in self.phases))
        yield f"estimate, with prompts as long as today's ({self.source}):"
        for phase in (*self.phases, total):
            counted = "answers until a budget ends it" if phase.answers is None else f"{phase.answers:,} answers"
            if phase.name == SEALED_TEST and config.gate.looks > 1:
                counted += " at most, about half without a gain"
            if phase.reflections:
                counted += f" + {phase.reflections:,} reflections"
            # Of an endless phase, a part would pass for the whole.
            known = f" ≈ {format_usage(phase.usage)}" if self.is_known and phase.answers is not None else ""
            yield f"  {phase.name:<12}{counted}{known}"
        if config.is_free:
            yield "  nothing is paid: the model is simulated"
        for option, allowed in config.budget.list_limits():
            if (others := (usage - self.phases[1].usage).amount(option)) > allowed:
                yield (
                    f"warning: baseline, shortlist and sealed test take about {format_amount(option, others)}, "
                    f"more than budget.{option}={allowed:g}: probably nothing is left for the search"
                )
            elif usage.amount(option) > allowed:
                yield f"budget.{option}={allowed:g} will probably end the search early"


def _estimate_reflection(config: TuneConfig, answer: AnswerMeans) -> AnswerMeans:
    tokens_per_request = answer.input_tokens / answer.lm_calls if answer.lm_calls else 0.0
    tokens_in = _EXAMPLES_A_REFLECTION * tokens_per_request + _TOKENS_BRIEF
    price = find_price(config.base, config.reflection_model or config.base.model.name)
    unpriced = 0.0 if config.base.model.simulated else None
    usd = unpriced if price is None else price.cost_usd(round(tokens_in), 0, _TOKENS_OUT)
    return AnswerMeans(lm_calls=1.0, input_tokens=tokens_in, output_tokens=_TOKENS_OUT, cost_usd=usd)
