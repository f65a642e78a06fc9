"""Phase 6: the sealed questions, opened once the winner is known; parent and winner are asked side by side.

Nothing is replayed or shared here: every answer is a fresh draw, as it will be for whoever uses the prompts.
"""

import functools
import json
from dataclasses import replace

from eval.arms import Arm, answers, run_arms
from eval.offered_tools import offered_tools
from eval.record import Record
from eval.stopping import Stop
from eval.task_version import task_facts
from mas.prompts import PromptSet
from mas.question import LimitReachedError, Question, Sample, Settle, current_question
from optimize.ending import HaltedError
from optimize.sealed_log import Opening, note_opening, opened_before
from optimize.tuning_run import SEALED, TuningRun

PARENT_ARM, WINNER_ARM = "parent", "winner"


def sealed_test(run: TuningRun, winner: PromptSet) -> tuple[list[Record], list[Record], list[Opening]]:
    """Ask both.

    Returns:
        The parent's records and the winner's, `gate.epochs` a sealed question, and the openings of the set before this.

    Raises:
        HaltedError: it stopped before its end; going on asks what is left.
    """
    before = opened_before(run.splits.sealed_digest, besides=run.run_id)
    note_opening(run.splits.sealed_digest, run.run_id, winner)
    arms = [_arm(run, PARENT_ARM, run.parent.prompts), _arm(run, WINNER_ARM, winner)]
    evaluation = run.config.evaluation(run.config.gate.epochs, max(1, run.config.run.concurrency // len(arms)))
    stop = Stop(run.config.run.drain_seconds)
    stopped = run_arms(
        arms, evaluation, run.splits.sealed, _facts(run), stop, run.console, lambda each: _on_the_runs_budget(run, each)
    )
    if stopped:
        run.halt.interrupted = run.halt.interrupted or stop.interrupted
        raise HaltedError(stopped)
    parent, tested = map(answers, arms)
    return parent, tested, before


def _arm(run: TuningRun, name: str, prompts: PromptSet) -> Arm:
    return Arm(name, run.files.folder / SEALED / name, prompts, run.program(prompts))


def _facts(run: TuningRun) -> dict[str, str]:
    """What a report or a comparison of the arms asks for."""
    config = run.config
    return {
        "config": run.configuration,
        "dataset_sha256": run.splits.sealed_digest,
        **task_facts(run.splits.sealed, run.scorer_settings, getattr(config.base.data, "revision", None)),
        "tools": json.dumps(offered_tools(run.program(run.parent.prompts))),
        "system": config.base.system.name,
        "model": config.base.model_name,
        "simulated": json.dumps(config.base.simulated),
        "bad_rows": "[]",
        "origin": json.dumps(run.origin),
    }


def _on_the_runs_budget(run: TuningRun, question: Question) -> Question:
    """Each request is reserved and paid for in the run's budget; one that is used up ends the test, not a question."""
    paid = functools.partial(run.call_log.pay, Sample(SEALED))

    def reserve() -> Settle:
        try:
            return run.purse.reserve_call(paid=paid)
        except LimitReachedError as error:
            if at_work := current_question():
                at_work.refused = str(error)
            raise

    return replace(question, reserve=reserve)
