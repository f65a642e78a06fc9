"""Phase 3: the optimizer searches for better prompts on the training questions and selects on the validation questions.

proposals = run_search(run)      # as proposals.jsonl holds them
"""

from collections.abc import Sequence

from optimize.gate.verdict import EarlyVerdictError
from optimize.pipeline.cost_estimate import UNLIMITED
from optimize.pipeline.shortlist import compute_min_score
from optimize.search.candidate import Proposal, describe_candidate
from optimize.search.optimizer import SearchContext, SearchOutcome
from optimize.session.run_files import ProposalLine, filter_fully_scored
from optimize.session.tuning_run import TuningRun


def run_search(run: TuningRun) -> list[ProposalLine]:
    """Let the optimizer propose candidates until its budget is used or nothing is left to try.

    Raises:
        EarlyVerdictError: the metric is broken, no reflection could be read, or the budget ended a search that had
            found nothing for the shortlist.
        RunStoppedError: the run was stopped.
    """
    if run.files.read("search") is None:
        outcome = _search(run)
        lines = run.files.list_new_proposals(with_earlier=_is_out_of_budget(run))
        _check_outcome(run, outcome, lines)
        run.files.finish_proposals(lines)
        run.files.write("search", {**vars(outcome), "metric_calls": run.ledger.spend().metric_calls})
    return run.files.read_proposals()


def _search(run: TuningRun) -> SearchOutcome:
    config = run.config
    metric_calls = config.budget.metric_calls
    context = SearchContext(
        metric_calls=UNLIMITED if metric_calls is None else metric_calls,
        concurrency=config.run.concurrency,
        seed=config.seed,
        reflection_lm=run.reflection_lm,
        get_stop_reason=run.get_stop_reason,
    )

    def report(proposal: Proposal) -> None:
        run.files.add_proposal(proposal)
        score = "" if proposal.val_score is None else f", {run.metric} {proposal.val_score:.1%} on validation"
        candidate, decision = proposal.candidate, proposal.decision.replace("_", " ")
        run.show(f"  {candidate.id} ({describe_candidate(candidate)}): {decision}{score}; {proposal.reason}")

    run.files.clear_proposals()
    with run.use_reflection():
        outcome = config.optimizer.search(run.build_student(run.parent.prompts), run.objective, context, report)
    run.check_stopped()
    return outcome


def _is_out_of_budget(run: TuningRun) -> bool:
    """Return whether a budget other than that of the search itself has ended it."""
    return run.ledger.refused_budget not in (None, "metric_calls")


def _check_outcome(run: TuningRun, outcome: SearchOutcome, lines: Sequence[ProposalLine]) -> None:
    run.check_metric()
    if outcome.reflections and outcome.unparsable == outcome.reflections:
        raise EarlyVerdictError(
            "reflection_unparsable",
            f"none of the {outcome.reflections} replies of the reflection model could be read; "
            "choose another reflection_model, or increase model.max_tokens",
        )
    if _is_out_of_budget(run) and not _has_better_candidate(run, lines):
        raise EarlyVerdictError("budget", f"{run.ledger.refusal}, and no candidate qualified for the shortlist by then")


def _has_better_candidate(run: TuningRun, lines: Sequence[ProposalLine]) -> bool:
    """Return whether any fully scored candidate qualifies for the shortlist."""
    min_score = compute_min_score(run.config.gate, run.files.read("baseline")["val_score"])
    return any(line["val_score"] >= min_score for line in filter_fully_scored(lines))
