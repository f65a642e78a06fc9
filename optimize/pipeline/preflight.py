"""Phase 1: splits, an estimate and a confirmation, before anything is spent.

In the estimate the number of answers is an upper limit; the usage of one answer is a mean with prompts as long as
today's, and tuned ones are mostly longer.
"""

import sys

from eval.execution.budget import format_amount
from eval.execution.console import Console
from eval.workflows.estimate import AnswerMeans, find_price, find_typical_answer, format_usage
from mas.runtime.errors import UserError
from optimize.gate.gate import describe_power, plan_looks
from optimize.gate.sealed_log import find_allowance, list_fingerprints
from optimize.questions.splits import Splits, make_splits
from optimize.search.optimizer import SearchCost
from optimize.search.student import check_scorer
from optimize.session.config import TuneConfig

# A reflection has a few examples, each about as long as a request of the system, and a text as long as a prompt.
_EXAMPLES_A_REFLECTION = 3
_TOKENS_BRIEF, _TOKENS_OUT = 800, 600


def prepare_splits(config: TuneConfig, console: Console) -> Splits:
    """Make and show the splits."""
    _show(console, "1/8 preflight")
    splits = make_splits(config.base.data, config.splits, config.resolved.get("split"))
    n_sealed = len(splits.sealed)
    _show(console, f"questions: {len(splits.train)} training, {len(splits.val)} validation, {n_sealed} sealed test")
    if splits.labels:
        _show(console, f"Labels known to the search: {', '.join(splits.labels.names)}")
    for warning in splits.warnings:
        _show(console, f"warning: {warning}")
    if known := splits.count_known_to(config.parent.tuned_on):
        _show(
            console,
            f"warning: {known} of the {n_sealed} sealed questions were used to tune the prompts that this run begins "
            "with: the new prompts will score too high on them; use the data and splits.* of that run, or begin with "
            "other prompts",
        )
    return splits


def confirm_start(config: TuneConfig, splits: Splits, console: Console) -> None:
    """Show what the sealed questions can prove and what the run will take, ask whether to begin, and try the scorer.

    A resumed run was confirmed before; a simulated model costs nothing. UserError: the answer is no, nobody can be
    asked, the scorer is broken, or the budget does not even allow the sealed test.
    """
    if config.optimizer.needs_reflection:
        config.base.model.create_reflection_lm(config.reflection_model)  # fails if the profile does not fit it
    search = estimate_search(config, splits)
    if config.resume:
        return
    answer, source = find_typical_answer(config.base)
    if answer:
        _check_test_fits(config, count_test_answers(config, splits), answer, source)
    allowance = find_allowance(list_fingerprints(splits.sealed), config.base.simulated)
    allowance.check()
    looks = config.gate.looks
    if allowance.n_earlier:
        _show(console, f"warning: {allowance.describe(looks)}")
    last = plan_looks(looks, allowance.level)[-1].level  # the looks before spend a part of the level
    _show(console, describe_power(len(splits.sealed), config.gate.epochs, level=last))
    _show(console, _format_estimate(config, splits, search, answer, source))
    if not config.is_free:
        confirm(config.yes)
    check_scorer(config.base.scorer, (*splits.train, *splits.val))  # a judge's calls cost something


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


def _show(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


# The estimate


def count_shortlist_answers(config: TuneConfig, splits: Splits) -> int:
    """Return the number of answers of a full shortlist, the parent's included."""
    return (config.shortlist.size + 1) * config.shortlist.epochs * len(splits.val)


def count_test_answers(config: TuneConfig, splits: Splits) -> int:
    """Return the number of answers of both sides of the sealed test, if no look stops it."""
    return 2 * config.gate.epochs * len(splits.sealed)


def estimate_search(config: TuneConfig, splits: Splits) -> SearchCost:
    """Return the upper limits of baseline and search together; UserError: the budget makes no sense."""
    n_val, allowed = len(splits.val), config.budget.metric_calls
    if allowed <= 2 * n_val:
        raise UserError(
            f"budget.metric_calls={allowed} is too small: the baseline and the scoring of a single candidate take "
            f"{n_val} answers each; give it several times as many."
        )
    return config.optimizer.estimate_cost(len(splits.train), n_val, len(config.agents), allowed)


def _check_test_fits(config: TuneConfig, n_answers: int, answer: AnswerMeans, source: str) -> None:
    """Check that the sealed test alone fits into each budget, or raise a UserError."""
    usage = answer.estimate_spend(n_answers)
    for option, allowed in config.budget.list_limits():
        if (needed := usage.amount(option)) > allowed:
            raise UserError(
                f"budget.{option}={allowed:g} is too small: the sealed test alone, {n_answers:,} answers, "
                f"takes about {format_amount(option, needed)} ({source}); raise it, or lower gate.epochs."
            )


def _format_estimate(
    config: TuneConfig, splits: Splits, search: SearchCost, answer: AnswerMeans | None, source: str
) -> str:
    n_test = count_test_answers(config, splits)
    half = ", about half without a gain" if config.gate.looks > 1 else ""
    test = f"sealed test: {n_test:,} answers at most{half}"
    if config.is_free:
        test += "; nothing is paid: the model is simulated"
    n_answers = search.metric_calls + count_shortlist_answers(config, splits) + n_test
    counted = f"at most {n_answers:,} answers"
    if search.reflection_calls:
        counted += f" + {search.reflection_calls:,} reflections"
    if answer:
        usage = answer.estimate_spend(n_answers)
        usage += _estimate_reflection(config, answer).estimate_spend(search.reflection_calls)
        counted += f" ≈ {format_usage(usage)}"
    return f"estimate: {counted}, with prompts as long as today's ({source}); {test}"


def _estimate_reflection(config: TuneConfig, answer: AnswerMeans) -> AnswerMeans:
    tokens_per_request = answer.input_tokens / answer.lm_calls if answer.lm_calls else 0.0
    tokens_in = _EXAMPLES_A_REFLECTION * tokens_per_request + _TOKENS_BRIEF
    price = find_price(config.base, config.reflection_model or config.base.model.name)
    unpriced = 0.0 if config.base.model.simulated else None
    usd = unpriced if price is None else price.cost_usd(round(tokens_in), 0, _TOKENS_OUT)
    return AnswerMeans(lm_calls=1.0, input_tokens=tokens_in, output_tokens=_TOKENS_OUT, cost_usd=usd)
