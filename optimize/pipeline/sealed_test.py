"""Phase 6: the sealed test of the winner against its parent, with the part of the budget that is reserved for it.

    reserve_test_budget(run, measured)              # before the search
    check_test_budget(run, measured, winner)        # EarlyVerdictError if the test could not be completed
    tested = run_sealed_test(run, approved)

Parent and winner answer the same questions at the same time. No model reply is replayed or shared: every answer is
sampled anew, as it will be for users of the prompts. Each side caches only its own tool results (`cache.tools=run`).

The questions are asked in a random order that the run's seed fixes, and the test is judged after equal shares of them
(`gate.looks`): it stops as soon as a gain is shown, or hopeless. A look that was taken is written down and not taken
again, so that a resumed run goes on after it.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from eval.analysis.comparison.answers import build_answers
from eval.analysis.comparison.comparison import Comparison, compare_answers
from eval.analysis.statistics.paired_tests import plan_looks
from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_dataset_digest
from eval.execution.budget import Spend
from eval.execution.scoring import SCORER
from eval.execution.termination import QUOTA_OR_KEY, FailuresInARow, RunStoppedError, StopController, is_server_failure
from eval.runs.folder import DATABASE, format_path
from eval.runs.record import Record
from eval.runs.run_info import RunInfo, describe_task, list_offered_tools
from eval.runs.store import RETRIED, UNFINISHED, RunStore, StoreError
from eval.scorers.score import ACCURACY
from eval.workflows.paired_evaluation import Arm, evaluate_pairs, read_arm_records
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.sample_context import Payment, RunBudget, SampleContext, SampleKey
from mas.system import list_critics
from optimize.gate.gate import (
    AGAINST,
    CONTINUE,
    HALT,
    ImputedAnswers,
    Look,
    LookLine,
    decide_look,
    exceeds_failure_limit,
    impute_failures,
    max_failing_questions,
)
from optimize.gate.sealed_log import (
    Allowance,
    Judgement,
    SealedTestStart,
    begin_test,
    describe_earlier_tests,
    describe_level,
    list_fingerprints,
    record_judgement,
)
from optimize.gate.verdict import EarlyVerdictError, describe_look, format_ids
from optimize.pipeline.cost_estimate import (
    AnswerMeans,
    count_shortlist_answers,
    count_test_answers,
    format_amount,
)
from optimize.pipeline.shortlist import ApprovedSet
from optimize.questions.splits import Part, Splits
from optimize.session.tuning_run import TuningRun

PARENT_ARM, WINNER_ARM = "parent", "winner"
SEALED = "sealed"  # folder of both arms' runs, and the key under which their requests are paid
JUDGED = "judged"  # name of a result: the answers are final
LOOKS = "looks"  # name of a result: those that were taken


@dataclass(frozen=True)
class SealedTest:
    """Answers of a completed sealed test, `gate.epochs` per question and side, up to the look at which it stopped."""

    winner: ApprovedSet
    parent_records: list[Record]
    winner_records: list[Record]
    allowance: Allowance
    look: Look  # the last one
    last: LookLine  # what it decided, and the number of questions that were asked by then


def reserve_test_budget(run: TuningRun, parent: AnswerMeans) -> None:
    """Hold back the budget of shortlist and sealed test, until `run.budget.release()`."""
    n_answers = count_shortlist_answers(run.config, run.splits) + count_test_answers(run.config, run.splits)
    run.budget.hold_back(parent.estimate_spend(n_answers, run.config.run.concurrency))


def check_test_budget(run: TuningRun, parent: AnswerMeans, winner: AnswerMeans) -> None:
    """Check that the budget allows the rest of the sealed test. Tuned prompts are mostly longer than the parent's.

    Raises:
        EarlyVerdictError: the test could not be completed, so it is not run.
    """
    concurrency, budget = run.config.run.concurrency, run.config.budget
    needed = Spend()
    for arm, means in ((PARENT_ARM, parent), (WINNER_ARM, winner)):
        needed += means.estimate_spend(_count_remaining_answers(run, arm), concurrency)
    spend = run.budget.spend()
    for option, allowed in budget.list_limits():
        spent, more = spend.amount(option), needed.amount(option)
        if more and spent + more > allowed:  # a test that is complete needs nothing, whatever it has cost
            is_begun = (run.files.folder / SEALED).is_dir()
            raise EarlyVerdictError(
                "budget",
                f"the sealed test will take about {format_amount(option, more)}{' more' if is_begun else ''}, and "
                f"{format_amount(option, spent)} of budget.{option}={allowed} are spent; "
                f"it was not {'continued' if is_begun else 'begun'}",
            )


def _count_remaining_answers(run: TuningRun, arm: str) -> int:
    """Return the number of missing answers of one side, if no look stops the test."""
    lines: list[LookLine] = run.files.read(LOOKS) or []
    if _is_judged(run) or (lines and lines[-1]["decision"] != CONTINUE):
        return 0
    answered = (error_class not in (*UNFINISHED, *RETRIED) for error_class in _read_attempts(run, arm).values())
    return count_test_answers(run.config, run.splits) // 2 - sum(answered)


def count_asked_questions(run: TuningRun) -> int:
    """Return the number of sealed questions that either side has answered, or has failed to."""
    return len({sample_id for arm in (PARENT_ARM, WINNER_ARM) for sample_id, _ in _read_attempts(run, arm)})


def _read_attempts(run: TuningRun, arm: str) -> dict[tuple[str, int], str | None]:
    """Return (sample id, epoch) → error class of the last attempt, of one side."""
    try:
        with RunStore(run.files.folder / SEALED / arm / DATABASE, read_only=True) as store:
            return {key: error_class for key, (_, error_class) in store.read_last_attempts().items()}
    except StoreError:  # it does not exist, or is empty
        return {}


def _is_judged(run: TuningRun) -> bool:
    """Return whether an earlier session has judged the answers, but could not write the set."""
    return run.files.read(JUDGED) is not None


def run_sealed_test(run: TuningRun, winner: ApprovedSet) -> SealedTest:
    """Answer the sealed questions with the parent's and the winner's prompts, until a look stops the test.

    Raises:
        UserError: answers of an earlier session were given with other prompts.
        EarlyVerdictError: a budget is used up (with a larger one the test continues), or too many answers could not be
            scored.
        RunStoppedError: the test was stopped, or the server fails some answers each time; a resumed run repeats them.
    """
    arms = [_build_arm(run, PARENT_ARM, run.parent.prompts), _build_arm(run, WINNER_ARM, winner.prompts)]
    samples = order_questions(run.splits, run.config.seed, run.config.gate.looks)
    allowance = _begin_test(run, arms, samples)
    plan = plan_looks(_count_looks(run), allowance.level)
    lines: list[LookLine] = run.files.read(LOOKS) or []
    while not lines or lines[-1]["decision"] == CONTINUE:
        look = Look(plan, len(lines) + 1)
        asked = samples[: plan.count_questions(look.number, len(samples))]
        if not _is_judged(run):
            _answer_all(run, arms, asked)
        lines.append(_take_look(run, look, *(_read_records(arm, asked) for arm in arms)))
        run.files.write(LOOKS, lines)
        if plan.n_looks > 1:
            run.show(f"  {describe_look(lines[-1], plan.n_looks, len(samples))}")
    last = lines[-1]
    parent_records, winner_records = (_read_records(arm, samples[: last["n_questions"]]) for arm in arms)
    return SealedTest(winner, parent_records, winner_records, allowance, Look(plan, last["look"]), last)


def order_questions(splits: Splits, seed: int, looks: int) -> Part:
    """Return the sealed questions in the order in which they are asked: as drawn with the seed, before any answer."""
    if looks == 1:
        return splits.sealed
    drawn = f"{seed} {splits.sealed_digest}"
    return tuple(sorted(splits.sealed, key=lambda each: hashlib.sha256(f"{drawn} {each.id}".encode()).digest()))


def _count_looks(run: TuningRun) -> int:
    return min(run.config.gate.looks, len(run.splits.sealed))


def _build_arm(run: TuningRun, name: str, prompts: PromptSet) -> Arm:
    """Return one side of the test.

    Raises:
        UserError: its answers of an earlier session were given with other prompts, or were removed.
    """
    folder, expected = run.files.folder / SEALED / name, digest(prompts)
    if run.files.read(SEALED) and not (folder / DATABASE).is_file():
        raise UserError(
            f"{format_path(folder)} has lost the answers of the sealed test that has begun: restore the folder, or "
            "start a new tuning run."
        )
    with suppress(StoreError), RunStore(folder / DATABASE, read_only=True) as store:  # else it is not there, or empty
        found = store.read_info().prompts_sha256
        if found and found != expected:
            raise UserError(
                f"the answers in {format_path(folder)} were given with prompts {found[:12]}, not {expected[:12]}: "
                "restore the folder, or start a new tuning run."
            )
    return Arm(name, folder, prompts, run.resources, resolved=run.request.worker_config, cluster=run.cluster)


def _read_records(arm: Arm, asked: Sequence[Sample]) -> list[Record]:
    ids = {each.id for each in asked}
    return [record for record in read_arm_records(arm) if record.sample_id in ids]


def _take_look(run: TuningRun, look: Look, parent: list[Record], winner: list[Record]) -> LookLine:
    """Return what the answers so far decide. Too many failures are no evidence: the test goes on while it can.

    Raises:
        EarlyVerdictError: too many answers could not be scored.
    """
    records, share = (*parent, *winner), run.config.gate.max_metric_error_share
    unscored = [record for record in records if record.error_class == SCORER]
    n_answers, n_failed = count_test_answers(run.config, run.splits), sum(map(is_server_failure, records))
    if len(unscored) > share * n_answers:
        raise EarlyVerdictError(
            "metric_errors",
            f"{len(unscored)} of the sealed test's {n_answers} answers could not be scored "
            f"(gate.max_metric_error_share={share:g}): {unscored[0].error}",
        )
    _, comparison = compare_sides(run, parent, winner)
    decision = decide_look(run.config.gate, comparison, look)
    too_many = len(unscored) > share * len(records) or exceeds_failure_limit(n_failed, len(records))
    return {
        "look": look.number,
        "n_questions": comparison.score.n_questions,
        "gain": comparison.score.difference,
        "p": comparison.score.p,
        "level": look.level,
        "decision": CONTINUE if too_many and not look.is_last else decision,
    }


def compare_sides(
    run: TuningRun, parent: Sequence[Record], winner: Sequence[Record]
) -> tuple[ImputedAnswers, Comparison]:
    """Compare both sides' answers, as the gate judges them; those that the server failed are imputed."""
    imputed = impute_failures(parent, winner)
    scorer = run.request.stored_config.get("scorer")
    comparison = compare_answers(build_answers(imputed.parent, scorer), build_answers(imputed.winner, scorer))
    if comparison.metric == ACCURACY:  # the search may have met partly right answers
        comparison = replace(comparison, metric=run.metric)
    return imputed, comparison


def finish_test(run: TuningRun, tested: SealedTest, p: float) -> None:
    """Record the result, and make the answers final: to repeat any of them now would be a second draw.

    Raises:
        UserError: the result cannot be recorded, or the test was judged before with other answers.
    """
    record_judgement(run.run_id, Judgement(p, _digest_scores(tested), tested.last["n_questions"]))
    if not _is_judged(run):
        run.files.write(JUDGED, datetime.now(UTC).isoformat())


def _digest_scores(tested: SealedTest) -> str:
    records = (*tested.parent_records, *tested.winner_records)
    scores = [[each.sample_id, each.epoch, each.score, each.error_class] for each in records]
    return hashlib.sha256(json.dumps(scores).encode()).hexdigest()


def _answer_all(run: TuningRun, arms: Sequence[Arm], asked: Part) -> None:
    _answer(run, arms, asked)
    if failed := _find_failed(arms):
        run.show(f"  {len(failed)} answers that the model's server failed are asked again")
        _answer(run, arms, asked)
    if not (failed := _find_failed(arms)):
        return
    n_answers, error = count_test_answers(run.config, run.splits), f"The first error: {failed[0].error}"
    if exceeds_failure_limit(len(failed), n_answers):
        raise RunStoppedError(
            f"the server failed {len(failed)} of the {n_answers} sealed answers, and again when asked once more: too "
            f"many for a verdict; going on asks them again. {error}"
        )
    if run.config.run.failed_answers == HALT:
        questions = list(dict.fromkeys(record.sample_id for record in failed))
        raise RunStoppedError(
            f"the server failed {len(failed)} of the sealed answers, and again when asked once more, to "
            f"{format_ids(questions)}; going on asks them again, and with run.failed_answers={AGAINST} comes to a "
            f"verdict without them, in which they count against the new prompts. {error}"
        )


def _answer(run: TuningRun, arms: Sequence[Arm], asked: Part) -> None:
    """Answer what is missing on both sides, or was failed by the model's server."""
    run.trials.close()  # the arms have their own
    at_once = max(1, run.config.run.concurrency // len(arms))  # of each side: they share the requests in flight
    evaluation, info = run.config.build_evaluation(run.config.gate.epochs, at_once), _build_run_info(run, asked)
    stop = _TestStop(run)
    stopped = evaluate_pairs(
        arms, evaluation, asked, info, stop, run.console, lambda context: _open_budget(run, context)
    )
    if stopped:
        run.stop.interrupted = run.stop.interrupted or stop.interrupted
        if run.budget.refusal and not stop.interrupted:
            raise EarlyVerdictError("budget", f"{run.budget.refusal}, in the middle of the sealed test")
        raise RunStoppedError(stopped)


def _find_failed(arms: Sequence[Arm]) -> list[Record]:
    return [record for arm in arms for record in read_arm_records(arm) if is_server_failure(record)]


def _begin_test(run: TuningRun, arms: Sequence[Arm], samples: Part) -> Allowance:
    """Record the test, warn of earlier ones with the same questions, and show its level.

    Both stores are there before the run notes that it has begun: if one is missing later, its answers were removed.
    """
    start = SealedTestStart(run.run_id, run.run_id, digest(arms[-1].prompts), run.config.base.simulated)
    allowance = begin_test(start, list_fingerprints(samples), has_begun=run.files.read(SEALED) is not None)
    level = describe_level(allowance.level, allowance.left, _count_looks(run))
    earlier = describe_earlier_tests(allowance.n_questions_used, allowance.size, allowance.n_earlier)
    run.show(f"  warning: {earlier}: {level}" if earlier else f"  {level}")
    for arm in arms:
        RunStore(arm.folder / DATABASE).close()
    run.files.write(SEALED, allowance)
    return allowance


class _TestStop(StopController):
    """Stop controller of the sealed test.

    If the budget refuses a request, requests in flight may finish: they are already paid for.
    """

    def __init__(self, run: TuningRun) -> None:
        super().__init__(run.config.run.drain_seconds)
        self._budget = run.budget
        self._failures = FailuresInARow(run.config.run.concurrency, max_failing_questions(len(run.splits.sealed)))

    def observe(self, record: Record) -> None:
        if record.error_class == QUOTA_OR_KEY and self._budget.refusal:
            self.drain(self._budget.refusal)
        elif reason := self._failures.observe(record):
            self.drain(reason, "server")
        else:
            super().observe(record)


def _build_run_info(run: TuningRun, asked: Part) -> RunInfo:
    """Return what a report or a comparison of the arms asks for."""
    config = run.config.base
    plain = run.request.stored_config
    return RunInfo(
        config=plain,
        task=replace(
            describe_task(asked, plain.get("scorer"), getattr(config.data, "revision", None), run.splits.labels.names),
            dataset_sha256=compute_dataset_digest(asked, ordered=False),
        ),
        tools=list_offered_tools(run.build_program(run.parent.prompts)),
        critics=list_critics(config.system),
        system=config.system.name,
        model=config.model_name,
        simulated=config.simulated,
        origin=run.origin,
        program_sha256=run.recorder.info.program_sha256,
    )


def _open_budget(run: TuningRun, context: SampleContext) -> RunBudget:
    """Return the budget of a sample of the test: what it pays is written down in its own folder and in the run's."""

    def pay(payment: Payment) -> None:
        context.budget.settle(payment)
        run.call_log.pay(SampleKey(SEALED), payment)

    return run.budget.open_account(pay, ends_run=True)
