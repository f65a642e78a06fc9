"""Phase 3: the optimiser looks for better prompts on the training questions and picks by the validation questions."""

from typing import Any

from optimize.candidate import Proposal
from optimize.ending import EndedError
from optimize.search import Search, SearchOutcome
from optimize.tuning_run import TuningRun


def search(run: TuningRun) -> list[dict[str, Any]]:
    """Let the optimiser propose until its budget is used or nothing is left to try.

    Returns:
        The proposals in order, as `proposals.jsonl` has them.

    Raises:
        EndedError: the metric is broken, or no reflection could be read.
        HaltedError: it was stopped.
    """
    if run.files.read("search") is None:
        outcome = _searched(run)
        run.files.write("search", vars(outcome))
        _check(run, outcome)
    return run.files.proposals()


def _searched(run: TuningRun) -> SearchOutcome:
    run.files.forget_proposals()
    with run.reflecting():
        outcome: SearchOutcome = run.config.optimizer.search(_search(run))
    run.check_halted()
    return outcome


def _search(run: TuningRun) -> Search:
    config = run.config
    return Search(
        parent=run.parent,
        student=run.student(run.parent.prompts),
        metric=run.objective,
        train_ids=run.train_ids,
        val_ids=run.val_ids,
        reflection_lm=run.reflection_lm,
        seed=config.seed,
        threads=config.run.concurrency,
        max_metric_calls=run.max_metric_calls,
        stopped=run.why_stopped,
        proposed=lambda proposal: _proposed(run, proposal),
    )


def _proposed(run: TuningRun, proposal: Proposal) -> None:
    run.files.propose(proposal)
    run.show_proposal(proposal)


def _check(run: TuningRun, outcome: SearchOutcome) -> None:
    run.check_metric()
    if outcome.reflections and outcome.unparsable == outcome.reflections:
        raise EndedError(
            "reflection_unparsable",
            f"none of the {outcome.reflections} replies of the reflection model could be read; "
            "choose another reflection_model, or give it more model.max_tokens",
        )
