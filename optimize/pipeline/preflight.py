"""Phase 1: checks and an estimate before anything is spent, and one reflection.

    splits = prepare_splits(config, console)       # the scorer is tried on targets and on nonsense
    confirm_start(config, splits, console)         # shows power and estimate, and asks whether to begin
    check_reflection_model(run)                     # one reflection, whose reply must be readable

The configuration was checked before (`TuneConfig.check`).
"""

import sys
from pathlib import Path

import dspy
from dspy.utils.exceptions import LMError

from eval.execution.console import Console
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError, walk_chain
from mas.runtime.sample_context import LimitReachedError
from mas.runtime.text import format_count
from optimize.gate.looks import plan_looks
from optimize.gate.power import describe_power
from optimize.gate.sealed_log import describe_earlier_tests, describe_level, find_allowance, list_fingerprints
from optimize.gate.verdict import EarlyVerdictError
from optimize.gate.words import describe_labels
from optimize.pipeline.cost_estimate import Estimate
from optimize.questions.splits import Splits, make_splits
from optimize.search.optimizers.prompt_rewriter import USELESS_REPLY, PromptRewriter
from optimize.search.student import check_scorer
from optimize.session.config import TuneConfig
from optimize.session.tuning_run import TuningRun

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
    for line in estimate.lines(config.budget):
        _show(console, line)
    if not config.base.simulated:
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
    """Check that a reflection works, before the first answer; its requests are paid like any other.

    Raises:
        UserError: the model cannot be reached.
        EarlyVerdictError: its replies cannot be read, or the budget is used up.
        RunStoppedError: the run was stopped.
    """
    try:
        with run.use_reflection():
            try_reflection(run.reflection_lm)
    except (LMError, LimitReachedError) as error:
        run.check_stopped()
        # DSPy wraps the budget's refusal in another error.
        if limit := next((each for each in walk_chain(error) if isinstance(each, LimitReachedError)), None):
            raise EarlyVerdictError("budget", f"{limit}, before there was a verdict") from error
        cause = " ".join(f"{type(error).__name__}: {run.config.redact(str(error))}".split())
        raise UserError(
            f"the model that rewrites prompts could not be asked ({cause}); check reflection_model and model.*."
        ) from error
    run.check_stopped()


def try_reflection(lm: dspy.BaseLM) -> str:
    """Let the reflection model rewrite a prompt from invented examples, as the search does, and return the new text.

    GEPA would spend its budget silently, without one proposal, on a model whose replies cannot be read. No question of
    the data is shown. Each order of the examples is tried until a reply can be read: with one request, or with two if
    DSPy repeats it in another format.

    Raises:
        EarlyVerdictError: no reply could be read.
        LMError: the model could not be reached.
        LimitReachedError: the budget does not allow it; possibly as the cause of another error.
    """
    rewriter = PromptRewriter(EXAMPLE_PROMPTS, get_stop_reason=lambda: None, max_chars=None)
    causes = []
    for examples in (EXAMPLES, EXAMPLES[::-1]):  # in another order, because the same request may get the same reply
        try:
            with dspy.context(lm=lm):
                return rewriter.rewrite_once(dict(EXAMPLE_PROMPTS.texts), {EXAMPLE_AGENT: examples}, EXAMPLE_AGENT)
        except USELESS_REPLY as error:
            causes.append(f"{type(error).__name__}: {error}".split("\n")[0][:200])
    raise EarlyVerdictError(
        "reflection_unparsable",
        f"the reflection model's reply to an invented example could not be read, {len(causes)} times "
        f"({causes[-1]}); choose another reflection_model, or increase model.max_tokens",
    )


def _scoring_costs(config: TuneConfig) -> bool:
    """Return whether scoring calls a judge model."""
    return getattr(config.base.scorer, "judge", None) is not None


def _check_scorer(config: TuneConfig, splits: Splits) -> None:
    if problem := check_scorer(config.base.scorer, (*splits.train, *splits.val)):
        raise UserError(problem)


def _show(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
