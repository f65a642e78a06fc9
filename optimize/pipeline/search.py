"""Phase 3: the optimiser looks for better prompts on the training questions and picks by the validation questions."""

from typing import Any

from optimize.pipeline.cost_estimate import UNLIMITED
from optimize.pipeline.shortlist import compute_min_score
from optimize.search.candidate import Proposal, describe_candidate
from optimize.search.optimizer import Search, SearchOutcome
from optimize.session.run_files import filter_fully_scored
from optimize.session.termination import EarlyVerdictError
from optimize.session.tuning_run import TuningRun


def run_search(run: TuningRun) -> list[dict[str, Any]]:
    """Let the optimiser propose until its budget is used or nothing is left to try.

    Returns:
        The proposals in order, as `proposals.jsonl` has them.

    Raises:
        EndedError: the metric is broken, no reflection could be read, or the budget ended it with nothing to show.
        HaltedError: it was stopped.
    """
    if run.files.read("search") is None:
        outcome = _searched(run)
        _check(run, outcome)
        run.files.finish_proposals()
        run.files.write("search", {**vars(outcome), "metric_calls": run.ledger.spend().metric_calls})
    return run.files.proposals()


def _searched(run: TuningRun) -> SearchOutcome:
    run.files.clear_proposals()
    with run.use_reflection():
        outcome: SearchOutcome = run.config.optimizer.search(_search(run))
    run.check_stopped()
    return outcome


def _search(run: TuningRun) -> Search:
    config = run.config
    metric_calls = config.budget.metric_calls
    return Search(
        parent=run.parent,
        student=run.student(run.parent.prompts),
        metric=run.objective,
        train_ids=run.train_ids,
        val_ids=run.val_ids,
        reflection_lm=run.reflection_lm,
        seed=config.seed,
        threads=config.run.concurrency,
        max_metric_calls=UNLIMITED if metric_calls is None else metric_calls,
        stopped=run.get_stop_reason,
        proposed=lambda proposal: _proposed(run, proposal),
    )


def _proposed(run: TuningRun, proposal: Proposal) -> None:
    run.files.add_proposal(proposal)
    score = "" if proposal.val_score is None else f", {proposal.val_score:.1%} on validation"
    candidate, decision = proposal.candidate, proposal.decision.replace("_", " ")
    run.show(f"  {candidate.id} ({describe_candidate(candidate)}): {decision}{score}; {proposal.reason}")


def _check(run: TuningRun, outcome: SearchOutcome) -> None:
    run.check_metric()
    if outcome.reflections and outcome.unparsable == outcome.reflections:
        raise EarlyVerdictError(
            "reflection_unparsable",
            f"none of the {outcome.reflections} replies of the reflection model could be read; "
            "choose another reflection_model, or give it more model.max_tokens",
        )
    if run.ledger.refused not in (None, "metric_calls") and not _found_any(run):
        raise EarlyVerdictError("budget", f"{run.ledger.over}, and nothing was better by then than what it began with")


def _found_any(run: TuningRun) -> bool:
    """A search that has found nothing yet goes on with a larger budget; one that has is over."""
    least = compute_min_score(run.config.gate, run.files.read("baseline")["val_score"])
    return any(line["val_score"] >= least for line in filter_fully_scored(run.files.proposals()))
