"""Phase 6: the sealed questions, opened once the winner is known; parent and winner are asked side by side.

No reply of a model is replayed or shared here: every answer is a fresh draw, as it will be for whoever uses the
prompts. Each of the two has what its own tools have returned (`cache.tools=run`), and nothing of the other's.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import yaml

from eval.execution.termination import QUOTA_OR_KEY, RunStoppedError, StopController
from eval.runs.folder import DATABASE
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, describe_task, list_offered_tools
from eval.runs.store import RETRIED, UNFINISHED, RunStore, StoreError
from eval.workflows.paired_evaluation import Arm, evaluate_pairs, read_arm_records
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.sample_context import LimitReachedError, Payment, RunBudget, SampleContext, SampleKey, current_context
from optimize.gate.failed_answers import AGAINST, HALT, exceeds_failure_limit, format_ids, max_failing_questions
from optimize.gate.sealed_log import EarlierUses, SealedSet, describe_earlier_uses, find_earlier_uses, record_use
from optimize.search.server_failures import FailuresInARow, is_server_failure
from optimize.session.termination import EarlyVerdictError
from optimize.session.tuning_run import TuningRun

PARENT_ARM, WINNER_ARM = "parent", "winner"
SEALED = "sealed"  # the folder of both arms' runs, and the name under which their requests are paid for
_JUDGED = f"{SEALED}/judged"  # a file beside both arms: with them it goes, should the folder be removed


def run_sealed_test(run: TuningRun, winner: PromptSet) -> tuple[list[Record], list[Record], EarlierUses]:
    """Ask both.

    Returns:
        The parent's records and the winner's, `gate.epochs` a sealed question, and what was opened of the set before.

    Raises:
        EndedError: a budget was used up on the way; with a larger one the test goes on where it was.
        HaltedError: it stopped before its end, or the server fails some answers each time; going on asks what is left.
    """
    before = _open(run, winner)
    arms = [_arm(run, PARENT_ARM, run.parent.prompts), _arm(run, WINNER_ARM, winner)]
    if not _is_judged(run):
        _ask_all(run, arms)
    parent, tested = map(read_arm_records, arms)
    return parent, tested, before


def mark_judged(run: TuningRun) -> None:
    """From now on the answers are what they are: to ask some again, once a verdict is known, would be a second draw."""
    if not _is_judged(run):
        run.files.write(_JUDGED, {"judged_at": datetime.now(UTC).isoformat()})


def _is_judged(run: TuningRun) -> bool:
    """By an earlier session, which could not put the set where it belongs."""
    return run.files.read(_JUDGED) is not None


def _ask_all(run: TuningRun, arms: Sequence[Arm]) -> None:
    _ask(run, arms)
    if failed := _failed(arms):
        run.show(f"  {len(failed)} answers that the model's server failed are asked again")
        _ask(run, arms)
    if not (failed := _failed(arms)):
        return
    if exceeds_failure_limit(len(failed), count_test_answers(run)):
        raise RunStoppedError(_why_no_verdict(failed, count_test_answers(run)))
    if run.config.run.failed_answers == HALT:
        raise RunStoppedError(_why_halted(failed))


def _ask(run: TuningRun, arms: Sequence[Arm]) -> None:
    """What is left of both: no answer yet, or one that the model's server failed."""
    evaluation = run.config.build_evaluation(run.config.gate.epochs, max(1, run.config.run.concurrency // len(arms)))
    stop = _TestStop(run)
    stopped = evaluate_pairs(
        arms,
        evaluation,
        run.splits.sealed,
        _describe(run),
        stop,
        run.console,
        lambda context: _open_budget(run, context),
    )
    if stopped:
        run.stop.interrupted = run.stop.interrupted or stop.interrupted
        if run.ledger.refusal and not stop.interrupted:
            raise EarlyVerdictError("budget", f"{run.ledger.refusal}, in the middle of the sealed test")
        raise RunStoppedError(stopped)


def _failed(arms: Sequence[Arm]) -> list[Record]:
    return [record for arm in arms for record in read_arm_records(arm) if is_server_failure(record)]


def _why_halted(failed: Sequence[Record]) -> str:
    questions = list(dict.fromkeys(record.sample_id for record in failed))
    return (
        f"the server failed {len(failed)} of the sealed answers, and again when asked once more, to "
        f"{format_ids(questions)}; going on asks them again, and with run.failed_answers={AGAINST} comes to a verdict "
        f"without them, in which they count against the new prompts. The first error: {failed[0].error}"
    )


def _why_no_verdict(failed: Sequence[Record], n_answers: int) -> str:
    return (
        f"the server failed {len(failed)} of the {n_answers} sealed answers, and again when asked once more: too many "
        f"for a verdict; going on asks them again. The first error: {failed[0].error}"
    )


def _open(run: TuningRun, winner: PromptSet) -> EarlierUses:
    """Say what of the set others have opened already, and note that it is opened now."""
    sealed = SealedSet.of(run.splits)
    before = find_earlier_uses(sealed, besides=run.run_id)
    if told := describe_earlier_uses(before.questions, sealed.size, before.runs):
        run.show(f"  warning: {told}")
    record_use(sealed, run.run_id, winner)
    run.save_state(
        "sealed",
        sealed_opened_at=run.files.read("tuning").get("sealed_opened_at") or datetime.now(UTC).isoformat(),
        sealed_opened_before=before.runs,
        sealed_questions_opened_before=before.questions,
    )
    return before


class _TestStop(StopController):
    """If it is the budget that has refused a request, the others in flight are answered: they are paid for."""

    def __init__(self, run: TuningRun) -> None:
        super().__init__(run.config.run.drain_seconds)
        self._purse = run.ledger
        self._failures = FailuresInARow(run.config.run.concurrency, max_failing_questions(len(run.splits.sealed)))

    def observe(self, record: Record) -> None:
        if record.error_class == QUOTA_OR_KEY and self._purse.refusal:
            self.drain(self._purse.refusal)
        elif reason := self._failures.observe(record):
            self.drain(reason, "server")
        else:
            super().observe(record)


def count_test_answers(run: TuningRun) -> int:
    """Of both."""
    return 2 * run.config.gate.epochs * len(run.splits.sealed)


def count_remaining_answers(run: TuningRun) -> tuple[int, int]:
    """Of the parent and of the winner: all of them, unless an earlier session has begun the test."""
    if _is_judged(run):
        return 0, 0
    each, folder = count_test_answers(run) // 2, run.files.folder / SEALED
    return each - _answered(folder / PARENT_ARM), each - _answered(folder / WINNER_ARM)


def _answered(folder: Path) -> int:
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            return sum(error_class not in (*UNFINISHED, *RETRIED) for _, error_class in store.keys().values())
    except StoreError:  # it is not there, or nothing is in it yet
        return 0


def _arm(run: TuningRun, name: str, prompts: PromptSet) -> Arm:
    return Arm(name, run.files.folder / SEALED / name, prompts, run.resources)


def _describe(run: TuningRun) -> RunInfo:
    """Return what a report or a comparison of the arms asks for."""
    config = run.config.base
    plain = yaml.safe_load(run.request.configuration)
    return RunInfo(
        config=plain,
        task=replace(
            describe_task(run.splits.sealed, plain.get("scorer"), getattr(config.data, "revision", None)),
            dataset_sha256=run.splits.sealed_digest,
        ),
        tools=list_offered_tools(run.build_program(run.parent.prompts)),
        system=config.system.name,
        model=config.model_name,
        simulated=config.simulated,
        origin=run.origin,
    )


def _open_budget(run: TuningRun, context: SampleContext) -> RunBudget:
    """Return the budget of a sample of the test: the tuning run's in addition to its own."""
    account = run.ledger.open_account(functools.partial(run.call_log.pay, SampleKey(SEALED)))
    return _SealedTestBudget(context.budget, account)


@dataclass(frozen=True)
class _SealedTestBudget:
    """Account of one sample in its own folder and in the tuning run; a used-up budget ends the test, not the sample."""

    sample: RunBudget
    run: RunBudget

    def reserve(self) -> None:
        try:
            self.run.reserve()
        except LimitReachedError as error:
            if context := current_context():
                context.server_refusal = str(error)
            raise

    def settle(self, payment: Payment | None) -> None:
        self.sample.settle(payment)
        self.run.settle(payment)
