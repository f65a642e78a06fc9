"""Phase 6: parent and winner answer the sealed questions, in this run, its store, its budget and its lock.

It begins only after it is in the log of sealed tests (`optimize.gate.sealed_log`), and nothing is shared with the
search. The answers are rows of the run's store, whose `variant` is the digest of their prompts.

The questions are asked in a random order that the run's seed fixes, and the test is judged after equal shares of them
(`gate.looks`). A look that was taken is written down and not taken again, so that a resumed run goes on after it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest

from eval.analysis.comparison.answers import build_answers
from eval.analysis.comparison.comparison import Comparison, Side, compare_answers
from eval.benchmarks.dataset import Sample
from eval.execution.budget import Spend, format_amount
from eval.execution.executors.local import run_side_by_side
from eval.execution.scoring import SCORER
from eval.execution.termination import FailuresInARow, RunStoppedError, is_server_failure
from eval.runs.folder import DATABASE
from eval.runs.record import Record
from eval.runs.store import list_pending
from eval.scorers.score import ACCURACY
from eval.workflows.estimate import AnswerMeans
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleKey
from mas.system import Program
from optimize.gate.gate import (
    CONTINUE,
    MAX_FAILED_SHARE,
    ImputedAnswers,
    Look,
    LookLine,
    decide_look,
    exceeds_failure_limit,
    impute_failures,
    judge,
    max_failing_questions,
)
from optimize.gate.looks import plan_looks
from optimize.gate.sealed_log import (
    Allowance,
    begin_test,
    describe_earlier_tests,
    describe_level,
    list_fingerprints,
    record_judgement,
)
from optimize.gate.verdict import EarlyVerdictError, JsonObject, Verdict
from optimize.pipeline.preflight import count_test_answers
from optimize.questions.splits import Part, Splits
from optimize.reports.outcome import describe_look
from optimize.search.optimizer import PARENT
from optimize.session.tuning_run import TuningRun
from optimize.session.tuning_store import take_snapshot, write_verdict

# Names of results: the test has begun, at this level; the answers are final; the looks that were taken.
SEALED, JUDGED, LOOKS = "sealed", "judged", "looks"
Sides = Mapping[str, Program]  # digest of the prompts → the program that has them: the parent, then the winner


@dataclass(frozen=True)
class SealedTest:
    """Answers of a completed sealed test, `gate.epochs` per question and side, up to the look at which it stopped."""

    winner: PromptSet  # its name is the candidate's id
    parent_records: list[Record]
    winner_records: list[Record]
    allowance: Allowance
    look: Look  # the last one
    last: LookLine  # what it decided, and the number of questions that were asked by then


def check_test_budget(run: TuningRun, sides: Mapping[str, AnswerMeans]) -> None:
    """Check that the budget allows the rest of the sealed test, or raise an EarlyVerdictError.

    `sides`: digest of the prompts → what an answer takes; tuned prompts are mostly longer than the parent's.
    """
    lines: list[LookLine] = run.store.read_result(LOOKS) or []
    if _is_judged(run) or (lines and lines[-1]["decision"] != CONTINUE):
        return
    ids, needed = [each.id for each in run.splits.sealed], Spend()
    for sha256, means in sides.items():
        needed += means.estimate_spend(len(_list_missing(run, sha256, ids)), run.config.base.run.concurrency)
    spend = run.budget.spend()
    for option, allowed in run.config.budget.list_limits():
        spent, more = spend.amount(option), needed.amount(option)
        if more and spent + more > allowed:  # a test that is complete needs nothing, whatever it has cost
            is_begun = run.store.read_result(SEALED) is not None
            raise EarlyVerdictError(
                "budget",
                f"the sealed test will take about {format_amount(option, more)}{' more' if is_begun else ''}, and "
                f"{format_amount(option, spent)} of budget.{option}={allowed} are spent; "
                f"it was not {'continued' if is_begun else 'begun'}",
            )


def _is_judged(run: TuningRun) -> bool:
    return run.store.read_result(JUDGED) is not None  # by an earlier session, which could not write the set


def run_sealed_test(run: TuningRun, winner: PromptSet) -> SealedTest:
    """Answer the sealed questions with the parent's and the winner's prompts, until a look stops the test.

    Raises:
        UserError: the log of sealed tests does not allow it, or answers that were looked at are gone.
        EarlyVerdictError: a budget is used up, or too many answers could not be scored.
        RunStoppedError: the test was stopped, or the server fails too many answers.
    """
    sides = {digest(each): run.build_program(each) for each in (run.parent, winner)}
    samples = order_questions(run.splits, run.config.seed, run.config.gate.looks)
    allowance = _begin_test(run, winner, samples)
    plan = plan_looks(min(run.config.gate.looks, len(samples)), allowance.level)
    lines: list[LookLine] = run.store.read_result(LOOKS) or []
    if lines:
        _read_final(run, sides, samples[: lines[-1]["n_questions"]])
    while not lines or lines[-1]["decision"] == CONTINUE:
        look = Look(plan, len(lines) + 1)
        asked = samples[: plan.count_questions(look.number, len(samples))]
        if not _is_judged(run):
            _answer_all(run, sides, asked)
        lines.append(_take_look(run, look, *(read_answers(run, sha256, asked) for sha256 in sides)))
        run.store.write_results({LOOKS: lines})
        if plan.n_looks > 1:
            run.show(f"  {describe_look(lines[-1], plan.n_looks, len(samples))}")
    last = lines[-1]
    parent_records, winner_records = _read_final(run, sides, samples[: last["n_questions"]])
    return SealedTest(winner, parent_records, winner_records, allowance, Look(plan, last["look"]), last)


def order_questions(splits: Splits, seed: int, looks: int) -> Part:
    """Return the sealed questions in the order in which they are asked: as drawn with the seed, before any answer."""
    if looks == 1:
        return splits.sealed
    drawn = f"{seed} {splits.sealed_digest}"
    return tuple(sorted(splits.sealed, key=lambda each: hashlib.sha256(f"{drawn} {each.id}".encode()).digest()))


def _begin_test(run: TuningRun, winner: PromptSet, samples: Part) -> Allowance:
    """Record the test, warn of earlier ones with the same questions, and show its level."""
    questions, has_begun = list_fingerprints(samples), run.store.read_result(SEALED) is not None
    allowance = begin_test(
        run.run_id, questions, digest(winner), simulated=run.config.base.simulated, has_begun=has_begun
    )
    level = describe_level(allowance.level, allowance.left, min(run.config.gate.looks, len(samples)))
    earlier = describe_earlier_tests(allowance.n_questions_used, allowance.size, allowance.n_earlier)
    run.show(f"  warning: {earlier}: {level}" if earlier else f"  {level}")
    run.store.write_results({SEALED: allowance})
    return allowance


def read_answers(run: TuningRun, sha256: str, asked: Sequence[Sample]) -> list[Record]:
    """Return the answers with these prompts, one per question and epoch, in the order of the questions."""
    places = {sample.id: place for place, sample in enumerate(asked)}
    records = [each for each in run.store.final_records(sha256) if each.sample_id in places]
    return sorted(records, key=lambda each: (places[each.sample_id], each.epoch))


def _read_final(run: TuningRun, sides: Sides, asked: Sequence[Sample]) -> list[list[Record]]:
    """Return the answers of each side to questions that were looked at; UserError: some of them are gone."""
    records = [read_answers(run, sha256, asked) for sha256 in sides]
    if any(len(each) < run.config.gate.epochs * len(asked) for each in records):
        raise UserError(
            f"{run.folder / DATABASE} has lost the answers of the sealed test that has begun: restore the run's "
            "folder, or start a new tuning run."
        )
    return records


def _take_look(run: TuningRun, look: Look, parent: list[Record], winner: list[Record]) -> LookLine:
    """Return what the answers so far decide. Too many failures are no evidence: the test goes on while it can."""
    records = (*parent, *winner)
    unscored = [record for record in records if record.error_class == SCORER]
    n_answers, n_failed = count_test_answers(run.config, run.splits), sum(map(is_server_failure, records))
    if len(unscored) > MAX_FAILED_SHARE * n_answers:
        raise EarlyVerdictError(
            "metric_errors",
            f"{len(unscored)} of the sealed test's {n_answers} answers could not be scored: {unscored[0].error}",
        )
    _, comparison = _compare_sides(run, parent, winner)
    decision = decide_look(run.config.gate, comparison, look)
    too_many = len(unscored) > MAX_FAILED_SHARE * len(records) or exceeds_failure_limit(n_failed, len(records))
    return {
        "look": look.number,
        "n_questions": comparison.score.n_questions,
        "gain": comparison.score.difference,
        "p": comparison.score.p,
        "level": look.level,
        "decision": CONTINUE if too_many and not look.is_last else decision,
    }


def _compare_sides(
    run: TuningRun, parent: Sequence[Record], winner: Sequence[Record]
) -> tuple[ImputedAnswers, Comparison]:
    """Compare both sides' answers, as the gate judges them; those that the server failed are imputed."""
    imputed = impute_failures(parent, winner)
    scorer = run.config.stored_config.get("scorer")
    comparison = compare_answers(build_answers(imputed.parent, scorer), build_answers(imputed.winner, scorer))
    if comparison.metric == ACCURACY:  # the search may have met partly right answers
        comparison = replace(comparison, metric=run.metric)
    return imputed, comparison


def _finish_test(run: TuningRun, tested: SealedTest, p: float) -> None:
    """Record the result, and make the answers final: to repeat any of them now would be a second draw."""
    records = (*tested.parent_records, *tested.winner_records)
    scores = json.dumps([[each.sample_id, each.epoch, each.score, each.error_class] for each in records])
    answers_sha256 = hashlib.sha256(scores.encode()).hexdigest()
    record_judgement(run.run_id, p, answers_sha256, tested.last["n_questions"])
    if not _is_judged(run):
        run.store.write_results({JUDGED: datetime.now(UTC).isoformat()})


def _answer_all(run: TuningRun, sides: Sides, asked: Part) -> None:
    """Answer what is missing on both sides; what the model's server fails is asked once more."""
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


def answer_missing(run: TuningRun, sides: Sides, asked: Part) -> None:
    """Answer what is missing, or was failed by the model's server; the sides take turns."""
    failures = FailuresInARow(run.config.base.run.concurrency, max_failing_questions(len(run.splits.sealed)))
    samples = {sample.id: sample for sample in asked}
    missing = [_list_missing(run, sha256, list(samples)) for sha256 in sides]
    in_turn = [(samples[key.sample_id], key) for keys in zip_longest(*missing) for key in keys if key is not None]

    async def answer(sample: Sample, key: SampleKey) -> Record | None:
        answered = await run.trials.answer(sides[key.variant], sample, key, key.variant)
        return answered.record if answered else None

    def keep(record: Record) -> None:
        run.store.write(record)
        run.call_log.forget_replies(SampleKey(record.sample_id, record.epoch, record.attempt, record.variant))
        run.trials.n_completed += 1
        run.trials.show(record)
        if reason := failures.observe(record):
            run.stop.start_nothing(reason)

    with run.watch():
        run_blocking(run_side_by_side(answer, in_turn, keep, run.stop, run.config.base.run.concurrency))
    if run.budget.refusal and not run.stop.interrupted:
        raise EarlyVerdictError("budget", f"{run.budget.refusal}, in the middle of the sealed test")
    run.check_stopped()


def _list_missing(run: TuningRun, sha256: str, ids: Sequence[str]) -> list[SampleKey]:
    done = run.store.read_last_attempts(sha256)
    keys = list_pending(ids, run.config.gate.epochs, done, retry_errors=True)
    return [replace(key, variant=sha256) for key in keys]


def _find_failed(run: TuningRun, sides: Sides, asked: Part) -> list[Record]:
    return [each for sha256 in sides for each in read_answers(run, sha256, asked) if is_server_failure(each)]


# The verdict


def judge_winner(run: TuningRun, tested: SealedTest) -> Verdict:
    """Compare both sides of the sealed test, and return the gate's verdict. The answers become final."""
    imputed, comparison = _compare_sides(run, tested.parent_records, tested.winner_records)
    _finish_test(run, tested, comparison.score.p)
    judged = judge(run.config.gate, comparison, tested.look)
    n_answers = len(tested.parent_records) + len(tested.winner_records)
    winner = {"candidate_id": tested.winner.name, "prompts_sha256": digest(tested.winner)}
    costs = ("cost_usd", "seconds", "tokens", "format_losses", "unreadable")
    return {
        **_build_head(run),
        **judged,
        "baseline": _build_side(comparison.first),
        "winner": {**winner, **_build_side(comparison.second)},
        "sealed": {
            **judged["sealed"],
            "n_answers": n_answers,
            "n_answers_saved": count_test_answers(run.config, run.splits) - n_answers,
            "stopped": tested.last["decision"],
            "epochs": run.config.gate.epochs,
            **_describe_allowance(run, tested.allowance, tested.look.plan.n_looks),
            "known_to_parent": run.splits.count_known_to(run.parent.tuned_on),
            "failed_answers": imputed.n_failed,
        },
        "failed_questions": imputed.questions,
        "cost": {name: each.to_dict() if (each := getattr(comparison, name)) else None for name in costs},
    }


def write_early_verdict(run: TuningRun, end: EarlyVerdictError) -> None:
    """Write the verdict of a run that ended before the gate."""
    verdict: Verdict = {
        **_build_head(run),
        "published": False,
        "finish_reason": end.finish_reason,
        "reasons": [str(end)],
        "resumable": end.finish_reason == "budget",
        "gain": None,
        "gain_ci95": None,
        "p": None,
    }
    if begun := run.store.read_result(SEALED):
        allowance = _describe_allowance(run, Allowance(**begun), run.config.gate.looks)
        n_asked = run.store.count_asked(each.id for each in run.splits.sealed)
        verdict["sealed"] = {"n_questions": n_asked, **allowance}
    write_verdict(run.store, verdict)


def _build_head(run: TuningRun) -> Verdict:
    tuning = take_snapshot(run.store)
    baseline, scores = tuning.read_part("baseline"), tuning.val_scores
    best = max(scores, key=scores.__getitem__) if scores and baseline else None
    again = tuning.shortlist.get(PARENT)
    return {
        "resumable": False,
        "simulated": run.config.base.simulated,
        "spend": run.budget.spend().to_dict(),
        "best_val": {"candidate_id": best, "val_gain": scores[best] - baseline["val_score"]} if best else None,
        "null_gain": again["fresh_score"] - again["val_score"] if again else None,
        "labels": list(run.splits.labels.names),
    }


def _describe_allowance(run: TuningRun, allowance: Allowance, looks: int) -> JsonObject:
    return {
        "n_sealed": len(run.splits.sealed),
        "looks": looks,
        "level": allowance.level,
        "level_left": allowance.left,
        "opened_before": allowance.n_earlier,
        "questions_opened_before": allowance.n_questions_used,
    }


def _build_side(side: Side) -> JsonObject:
    found = {name: getattr(side, name) for name in ("accuracy", "ci95", "score", "score_ci95")}
    return {**found, "errors": side.errors_by_class}
