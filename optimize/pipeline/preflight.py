"""Phase 1: everything that can be seen to be wrong, and what the run will take, before anything is spent.

    splits = checked_splits(request, console)      # fixed; the scorer tried on gold answers and on nonsense
    confirmed(request, splits, console)            # what can be shown, what it will take: shall it begin?
    reflection_answers(run)                        # agents told apart; one reflection, which must be readable

The configuration has been checked before (`OptimizeConfig.check`).
"""

import sys
from collections.abc import Collection
from itertools import combinations
from typing import Any

from rich.console import Console

from mas.runtime.errors import UserError
from mas.runtime.sample_context import LimitReachedError
from mas.system import Program
from optimize.gate.power import describe_margin, describe_power
from optimize.pipeline.cost_estimate import Estimate, build_plan
from optimize.pipeline.reflection_check import check_reflection
from optimize.questions.splits import Splits, make_splits
from optimize.search.objective import check_scorer
from optimize.session.config import TuningRequest
from optimize.session.termination import EarlyVerdictError
from optimize.session.tuning_run import TuningRun


def prepare_splits(request: TuningRequest, console: Console) -> Splits:
    """The splits, shown; the scorer is tried on their questions unless that costs something.

    Raises:
        UserError: the data cannot be split, or the scorer is broken.
    """
    config = request.config
    splits = make_splits(config.base.data, config.splits, request.resolved.get("split"))
    sizes = f"{len(splits.train)} to learn from, {len(splits.val)} to pick by, {len(splits.sealed)} sealed"
    _show(console, f"questions: {sizes}")
    known = splits.describe_known_to(request.prompts.tuned_on)
    for warning in (*splits.warnings, *((known,) if known else ())):
        _show(console, f"warning: {warning}")
    if not _scoring_costs(request):
        _check_scorer(request, splits)
    return splits


def confirm_start(request: TuningRequest, splits: Splits, console: Console) -> None:
    """Show what the sealed questions can prove and what the run will take, and ask whether to begin.

    A run that goes on has been asked before; a simulated model costs nothing.

    Raises:
        UserError: the answer is no, nobody is there to be asked, or the budget does not even allow the sealed test.
    """
    config = request.config
    if config.optimizer.needs_reflection:
        config.base.model.create_reflection_lm(config.reflection_model)  # refuses settings that do not fit that model
    plan = build_plan(config.optimizer, splits, len(config.agents), config.budget, config.shortlist, config.gate)
    estimate = Estimate.guess(plan, config.base, config.reflection_model)
    if config.resume:
        return
    estimate.check(config.budget)
    _show(console, _power(config.gate, len(splits.sealed)))
    for line in estimate.lines(config.budget):
        _show(console, line)
    if not config.base.simulated:
        confirm(config.yes)
    if _scoring_costs(request):
        _check_scorer(request, splits)


def check_reflection_model(run: TuningRun) -> None:
    """See that a reflection would work: before the first answer, and paid for like any other.

    Raises:
        UserError: two agents cannot be told apart, or the model cannot be asked.
        EndedError: its replies cannot be read, or the budget is used up.
        HaltedError: it was stopped.
    """
    check_distinct_agents(run.program(run.parent.prompts), run.config.agents)
    from dspy.utils.exceptions import LMError

    try:
        with run.use_reflection():
            check_reflection(run.reflection_lm)
    except (LMError, LimitReachedError) as error:
        run.check_stopped()
        if limit := _limit(error):
            raise EarlyVerdictError("budget", f"{limit}, before there was a verdict") from error
        cause = " ".join(f"{type(error).__name__}: {run.config.redact(str(error))}".split())
        raise UserError(
            f"the model that rewrites prompts could not be asked ({cause}); check reflection_model and model.*."
        ) from error
    run.check_stopped()


def check_distinct_agents(program: Program, agents: Collection[str]) -> None:
    """See that DSPy's GEPA will not show one agent the work of another: it knows them by their signatures alone.

    Args:
        program: with the prompts that the search begins with.
        agents: that are tuned.

    Raises:
        UserError: two agents, one of them tuned, have the same fields and the same prompt.
    """
    for (one, first), (other, second) in combinations(program.named_predictors(), 2):
        if (one in agents or other in agents) and first.signature.equals(second.signature):
            raise UserError(
                f"the agents {one} and {other} have the same fields and the same prompt, so that the search would take "
                "the work of one for the other's: name the agent and its role in the first line of each prompt."
            )


def confirm(yes: bool) -> None:
    """
    Raises:
        UserError: the answer is not yes, or there is no terminal to ask at.
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


def _power(gate: Any, n_sealed: int) -> str:
    if gate.objective == "cost":
        return describe_margin(n_sealed, gate.epochs, gate.margin)
    return describe_power(n_sealed, gate.epochs, min_gain=gate.min_gain)


def _scoring_costs(request: TuningRequest) -> bool:
    """A judge's calls do."""
    return getattr(request.config.base.scorer, "judge", None) is not None


def _check_scorer(request: TuningRequest, splits: Splits) -> None:
    if wrong := check_scorer(request.config.base.scorer, (*splits.train, *splits.val)):
        raise UserError(wrong)


def _limit(error: BaseException) -> LimitReachedError | None:
    """The budget that refused the request: DSPy takes what is raised inside of one for a defect, and wraps it."""
    current: BaseException | None = error
    while current is not None and not isinstance(current, LimitReachedError):
        current = current.__cause__
    return current


def _show(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
