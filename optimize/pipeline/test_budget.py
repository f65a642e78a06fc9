"""Room in the budget for what comes after the search: kept back while it goes on, and looked at again before the test.

keep_room(run, measured)             # a search that would take it is told that the budget is used up
check_room(run, measured, winner)    # EndedError: the sealed test would not come to its end
"""

from optimize.pipeline.baseline import AnswerMeans
from optimize.pipeline.sealed_test import SEALED, count_remaining_answers, count_test_answers
from optimize.pipeline.shortlist import count_shortlist_answers
from optimize.search.budget import Spend
from optimize.session.termination import EarlyVerdictError
from optimize.session.tuning_run import TuningRun

_UNITS = {"lm_calls": "requests"}


def reserve_test_budget(run: TuningRun, parent: AnswerMeans) -> None:
    """For the shortlist and the sealed test, until `run.purse.release()`."""
    after_search = count_shortlist_answers(run) + count_test_answers(run)
    run.ledger.hold_back(parent.estimate_spend(after_search, run.config.run.concurrency))


def check_test_budget(run: TuningRun, parent: AnswerMeans, winner: AnswerMeans) -> None:
    """For what is left of the sealed test.

    Raises:
        EndedError: it would be begun, or gone on with, and not ended; it is opened only if there is room.
    """
    so_far, needed, budget = run.ledger.spend(), _needed(run, parent, winner), run.config.budget
    for option, allowed, spent, more in (
        ("lm_calls", budget.lm_calls, so_far.lm_calls, needed.lm_calls),
        ("tokens", budget.tokens, so_far.tokens, needed.tokens),
        ("usd", budget.usd, so_far.cost_usd, needed.cost_usd),
        ("seconds", budget.seconds, so_far.seconds, needed.seconds),
    ):
        if allowed is not None and spent + more > allowed:
            opened = (run.files.folder / SEALED).is_dir()
            raise EarlyVerdictError(
                "budget",
                f"the sealed test will take about {_amount(option, more)}{' more' if opened else ''}, and "
                f"{_amount(option, spent)} of budget.{option}={allowed} are spent; "
                f"it was not {'gone on with' if opened else 'opened'}",
            )


def _needed(run: TuningRun, parent: AnswerMeans, winner: AnswerMeans) -> Spend:
    """Prompts that were tuned are mostly longer: each side is taken at what its own answers took."""
    parents, winners = count_remaining_answers(run)
    at_once = run.config.run.concurrency
    return parent.estimate_spend(parents, at_once) + winner.estimate_spend(winners, at_once)


def _amount(option: str, amount: float) -> str:
    return f"${amount:,.4f}" if option == "usd" else f"{amount:,.0f} {_UNITS.get(option, option)}"
