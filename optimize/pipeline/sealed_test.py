"""Phase 6: the sealed test of the winner against its parent, with the part of the budget that is reserved for it.

    reserve_test_budget(run, measured)              # before the search
    check_test_budget(run, sides)                   # EarlyVerdictError if the test could not be completed
    tested = run_sealed_test(run, approved)

Parent and winner answer the same questions at the same time. No model reply or tool result is shared: every answer is
sampled anew, as it will be for users of the prompts. The answers are rows of the run's store, whose `variant` is the
digest of their prompts: rows of other prompts, edited since, are of no use to a test.

The questions are asked in a random order that the run's seed fixes, and the test is judged after equal shares of them
(`gate.looks`): it stops as soon as a gain is shown, or hopeless. A look that was taken is written down and not taken
again, so that a resumed run goes on after it.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest

from eval.analysis.comparison.answers import build_answers
from eval.analysis.comparison.comparison import Comparison, compare_answers
from eval.benchmarks.dataset import Sample
from eval.execution.budget import Spend
from eval.execution.scoring import SCORER
from eval.execution.termination import FailuresInARow, RunStoppedError, is_server_failure
from eval.runs.folder import DATABASE
from eval.runs.record import Record
from eval.runs.store import RETRIED, UNFINISHED, list_pending
from eval.scorers.score import ACCURACY
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleKey
from optimize.gate.gate import (
    CONTINUE,
    MAX_FAILED_SHARE,
    ImputedAnswers,
    Look,
    LookLine,
    decide_look,
    exceeds_failure_limit,
    impute_failures,
    max_failing_questions,
)
from optimize.gate.looks import plan_looks
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
from optimize.gate.verdict import EarlyVerdictError
from optimize.gate.words import describe_look
from optimize.pipeline.cost_estimate import (
    AnswerMeans,
    count_shortlist_answers,
    count_test_answers,
    format_amount,
)
from optimize.pipeline.shortlist import ApprovedSet
from optimize.questions.splits import Part, Splits
from optimize.session.tuning_run import TuningRun

SEALED = "sealed"  # name of a result: the test has begun, at this level
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


def check_test_budget(run: TuningRun, sides: Sequence[tuple[str, AnswerMeans]]) -> None:
    """Check that the budget allows the rest of the sealed test. Tuned prompts are mostly longer than the parent's.

    Args:
        run: the run.
        sides: digest of the prompts, and what an answer takes, of the parent and of the winner.

    Raises:
        EarlyVerdictError: the test could not be completed, so it is not run.
    """
    concurrency, budget = run.config.run.concurrency, run.config.budget
    needed = Spend()
    for sha256, means in sides:
        needed += means.estimate_spend(_count_remaining_answers(run, sha256), concurrency)
    spend = run.budget.spend()
    for option, allowed in budget.list_limits():
        spent, more = spend.amount(option), needed.amount(option)
        if more and spent + more > allowed:  # a test that is complete needs nothing, whatever it has cost
            is_begun = run.files.read(SEALED) is not None
            raise EarlyVerdictError(
                "budget",
                f"the sealed test will take about {format_amount(option, more)}{' more' if is_begun else ''}, and "
                f"{format_amount(option, spent)} of budget.{option}={allowed} are spent; "
                f"it was not {'continued' if is_begun else 'begun'}",
            )


def _count_remaining_answers(run: TuningRun, sha256: str) -> int:
    """Return the number of missing answers of one side, if no look stops the test."""
    lines: list[LookLine] = run.files.read(LOOKS) or []
    if _is_judged(run) or (lines and lines[-1]["decision"] != CONTINUE):
        return 0
    ids, attempts = {each.id for each in run.splits.sealed}, run.store.read_last_attempts(sha256)
    answered = (
        sample_id in ids and error_class not in (*UNFINISHED, *RETRIED)
        for (sample_id, _), (_, error_class) in attempts.items()
    )
    return count_test_answers(run.config, run.splits) // 2 - sum(answered)


def count_asked_questions(run: TuningRun) -> int:
    """Return the number of sealed questions that either side has answered, or has failed to."""
    return sum(run.store.count_answers([each.id]) > 0 for each in run.splits.sealed)


def _is_judged(run: TuningRun) -> bool:
    """Return whether an earlier session has judged the answers, but could not write the set."""
    return run.files.read(JUDGED) is not None


def run_sealed_test(run: TuningRun, winner: ApprovedSet) -> SealedTest:
    """Answer the sealed questions with the parent's and the winner's prompts, until a look stops the test.

    Raises:
        UserError: the log of sealed tests does not allow it, or answers that were looked at are gone.
        EarlyVerdictError: a budget is used up (with a larger one the test continues), or too many answers could not be
            scored.
        RunStoppedError: the test was stopped, or the server fails too many answers; a resumed run repeats them.
    """
    sides = (run.parent, winner.prompts)
    samples = order_questions(run.splits, run.config.seed, run.config.gate.looks)
    allowance = _begin_test(run, winner, samples)
    plan = plan_looks(_count_looks(run), allowance.level)
    lines: list[LookLine] = run.files.read(LOOKS) or []
    if lines:
        _read_sides(run, sides, samples[: lines[-1]["n_questions"]])
    while not lines or lines[-1]["decision"] == CONTINUE:
        look = Look(plan, len(lines) + 1)
        asked = samples[: plan.count_questions(look.number, len(samples))]
        if not _is_judged(run):
            _answer_all(run, sides, asked)
        lines.append(_take_look(run, look, *(read_answers(run, side, asked) for side in sides)))
        run.files.write(LOOKS, lines)
        if plan.n_looks > 1:
            run.show(f"  {describe_look(lines[-1], plan.n_looks, len(samples))}")
    last = lines[-1]
    parent_records, winner_records = _read_sides(run, sides, samples[: last["n_questions"]])
    return SealedTest(winner, parent_records, winner_records, allowance, Look(plan, last["look"]), last)


def order_questions(splits: Splits, seed: int, looks: int) -> Part:
    """Return the sealed questions in the order in which they are asked: as drawn with the seed, before any answer."""
    if looks == 1:
        return splits.sealed
    drawn = f"{seed} {splits.sealed_digest}"
    return tuple(sorted(splits.sealed, key=lambda each: hashlib.sha256(f"{drawn} {each.id}".encode()).digest()))


def _count_looks(run: TuningRun) -> int:
    return min(run.config.gate.looks, len(run.splits.sealed))


def read_answers(run: TuningRun, side: PromptSet, asked: Sequence[Sample]) -> list[Record]:
    """Return the answers with these prompts, one per question and epoch, in the order of the questions."""
    places = {sample.id: place for place, sample in enumerate(asked)}
    records = [each for each in run.store.final_records(digest(side)) if each.sample_id in places]
    return sorted(records, key=lambda each: (places[each.sample_id], each.epoch))


def _read_sides(run: TuningRun, sides: Sequence[PromptSet], asked: Sequence[Sample]) -> list[list[Record]]:
    """Return the answers of each side to questions that were looked at: to ask one again would be a second draw.

    Raises:
        UserError: some of them are gone.
    """
    records = [read_answers(run, side, asked) for side in sides]
    if any(len(each) < run.config.gate.epochs * len(asked) for each in records):
        raise UserError(
            f"{run.files.folder / DATABASE} has lost the answers of the sealed test that has begun: restore the run's "
            "folder, or start a new tuning run."
        )
    return records


def _take_look(run: TuningRun, look: Look, parent: list[Record], winner: list[Record]) -> LookLine:
    """Return what the answers so far decide. Too many failures are no evidence: the test goes on while it can.

    Raises:
        EarlyVerdictError: too many answers could not be scored.
    """
    records, share = (*parent, *winner), MAX_FAILED_SHARE
    unscored = [record for record in records if record.error_class == SCORER]
    n_answers, n_failed = count_test_answers(run.config, run.splits), sum(map(is_server_failure, records))
    if len(unscored) > share * n_answers:
        raise EarlyVerdictError(
            "metric_errors",
            f"{len(unscored)} of the sealed test's {n_answers} answers could not be scored: {unscored[0].error}",
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
    scorer = run.config.stored_config.get("scorer")
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


def _answer_all(run: TuningRun, sides: Sequence[PromptSet], asked: Part) -> None:
    answer_missing(run, sides, asked)
    if failed := _find_failed(run, sides, asked):
        run.show(f"  {len(failed)} answers that the model's server failed are asked again")
        answer_missing(run, sides, asked)
    failed, n_answers = _find_failed(run, sides, asked), count_test_answers(run.config, run.splits)
    if exceeds_failure_limit(len(failed), n_answers):
        raise RunStoppedError(
            f"the server failed {len(failed)} of the {n_answers} sealed answers, and again when asked once more: too "
            f"many for a verdict; going on asks them again. The first error: {failed[0].error}"
        )


def answer_missing(run: TuningRun, sides: Sequence[PromptSet], asked: Part) -> None:
    """Answer what is missing on both sides, or was failed by the model's server; the sides take turns.

    Raises:
        EarlyVerdictError: a budget is used up.
        RunStoppedError: the run was stopped.
    """
    failures = FailuresInARow(run.config.run.concurrency, max_failing_questions(len(run.splits.sealed)))
    keeping = threading.Lock()

    def keep(record: Record) -> None:
        key = SampleKey(record.sample_id, record.epoch, record.attempt, record.variant)
        with keeping:
            run.store.write(record)
            run.call_log.forget_replies(key)
            if reason := failures.observe(record):
                run.trials.stop(reason)

    samples = {sample.id: sample for sample in asked}
    programs = {digest(side): run.build_program(side) for side in sides}
    pending = [
        [replace(key, variant=sha256) for key in _list_missing(run, sha256, list(samples))] for sha256 in programs
    ]
    in_turn = [key for keys in zip_longest(*pending) for key in keys if key is not None]
    if in_turn:
        with run.watch(), ThreadPoolExecutor(min(run.config.run.concurrency, len(in_turn))) as pool:
            asking = [
                pool.submit(run.trials.answer_sealed, programs[key.variant], samples[key.sample_id], key, keep)
                for key in in_turn
            ]
        for each in asking:
            each.result()
    if run.budget.refusal and not run.stop.interrupted:
        raise EarlyVerdictError("budget", f"{run.budget.refusal}, in the middle of the sealed test")
    run.check_stopped()


def _list_missing(run: TuningRun, sha256: str, ids: Sequence[str]) -> list[SampleKey]:
    return list_pending(ids, run.config.gate.epochs, run.store.read_last_attempts(sha256), retry_errors=True)


def _find_failed(run: TuningRun, sides: Sequence[PromptSet], asked: Part) -> list[Record]:
    return [each for side in sides for each in read_answers(run, side, asked) if is_server_failure(each)]


def _begin_test(run: TuningRun, winner: ApprovedSet, samples: Part) -> Allowance:
    """Record the test, warn of earlier ones with the same questions, and show its level."""
    start = SealedTestStart(run.run_id, run.run_id, winner.sha256, run.config.base.simulated)
    allowance = begin_test(start, list_fingerprints(samples), has_begun=run.files.read(SEALED) is not None)
    level = describe_level(allowance.level, allowance.left, _count_looks(run))
    earlier = describe_earlier_tests(allowance.n_questions_used, allowance.size, allowance.n_earlier)
    run.show(f"  warning: {earlier}: {level}" if earlier else f"  {level}")
    run.files.write(SEALED, allowance)
    return allowance
