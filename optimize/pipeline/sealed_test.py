"""Phase 6: parent and winner answer the sealed questions, in this run, its store, its budget and its lock.

It begins only after it is in the log of sealed tests (`optimize.gate.sealed_log`). The answers are rows of the run's
store, whose `variant` is the digest of their prompts. The questions are asked in a random order that the run's seed
fixes, and the test is judged after equal shares of them (`gate.looks`). A look is written down and not taken again, so
that a resumed run goes on after it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from eval.analysis.comparison.comparison import Comparison, Side, build_answers, compare_answers
from eval.benchmarks.dataset import Sample
from eval.execution.executors.local import run_side_by_side
from eval.execution.scoring import SCORER
from eval.execution.termination import RunStoppedError
from eval.runs.folder import DATABASE
from eval.runs.record import Record
from eval.runs.store import list_pending
from eval.scorers.score import ACCURACY
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleKey
from optimize.gate.gate import (
    CONTINUE,
    EarlyVerdictError,
    JsonObject,
    Look,
    Verdict,
    decide_look,
    exceeds_failure_limit,
    impute_failures,
    is_server_failure,
    judge,
    plan_looks,
)
from optimize.gate.sealed_log import Allowance, begin_test, list_fingerprints, record_judgement
from optimize.pipeline.preflight import count_test_answers
from optimize.questions.splits import Part, Splits
from optimize.search.optimizer import PARENT
from optimize.search.trials import FailuresInARow
from optimize.session.tuning_run import TuningRun
from optimize.session.tuning_store import take_snapshot, write_verdict

SEALED, LOOKS = "sealed", "looks"  # names of results: the test has begun, at this level; the looks that were taken


def order_questions(splits: Splits, seed: int) -> Part:
    """Return the sealed questions in the order in which they are asked: as drawn with the seed, before any answer."""
    drawn = f"{seed} {splits.sealed_digest}"
    return tuple(sorted(splits.sealed, key=lambda each: hashlib.sha256(f"{drawn} {each.id}".encode()).digest()))


class SealedTest:
    """The test of a run's winner against its parent, `gate.epochs` answers per question and side."""

    def __init__(self, run: TuningRun, winner: PromptSet) -> None:
        """Read how far earlier sessions have come; `winner`: its name is the candidate's id."""
        self._run, self.winner, self._gate = run, winner, run.config.gate
        self._programs = {digest(each): run.build_program(each) for each in (run.parent, winner)}  # in this order
        self._samples = order_questions(run.splits, run.config.seed)
        self._n_answers = count_test_answers(run.config, run.splits)  # if no look stops the test
        self._lines: list[JsonObject] = run.store.read_result(LOOKS) or []

    def take_looks(self) -> None:
        """Answer the sealed questions with the parent's and the winner's prompts, until a look stops the test.

        UserError: the log of sealed tests does not allow it, or answers that were looked at are gone.
        """
        run, n_questions = self._run, len(self._samples)
        self._allowance = self._begin()
        self._plan = plan_looks(min(self._gate.looks, n_questions), self._allowance.level)
        if self._lines:
            self._read_final()
        while not self._lines or self._lines[-1]["decision"] == CONTINUE:
            look = self._plan[len(self._lines)]
            asked = self._samples[: look.count_questions(n_questions)]
            self._answer_all(asked)
            self._lines.append(self._take_look(look, *self.read_answers(asked)))
            run.store.write_results({LOOKS: self._lines})
            if look.n_looks > 1:  # no score: who saw it might stop the run for it
                decision = self._lines[-1]["decision"]
                run.show(f"  look {look.number} of {look.n_looks}, {len(asked)} of {n_questions} questions: {decision}")

    def _begin(self) -> Allowance:
        """Record the test, warn of earlier ones with the same questions, and show its level."""
        run, questions = self._run, list_fingerprints(self._samples)
        winner_sha256, simulated = digest(self.winner), run.config.base.simulated
        allowance = begin_test(run.session.info.run_id, questions, winner_sha256, simulated)
        level = allowance.describe(min(self._gate.looks, len(questions)))
        run.show(f"  {'warning: ' if allowance.n_earlier else ''}{level}")
        run.store.write_results({SEALED: allowance})
        return allowance

    # Answers

    def read_answers(self, asked: Sequence[Sample]) -> list[list[Record]]:
        """Return the answers of each side, one per question and epoch, in the order of the questions."""
        places = {sample.id: place for place, sample in enumerate(asked)}
        found = []
        for sha256 in self._programs:
            records = [each for each in self._run.store.final_records(sha256) if each.sample_id in places]
            found.append(sorted(records, key=lambda each: (places[each.sample_id], each.epoch)))
        return found

    def _read_final(self) -> list[list[Record]]:
        """Return the answers of each side to questions that were looked at; UserError: some of them are gone."""
        asked = self._samples[: self._lines[-1]["n_questions"]]
        records = self.read_answers(asked)
        if any(len(each) < self._gate.epochs * len(asked) for each in records):
            raise UserError(
                f"{self._run.folder / DATABASE} has lost the answers of the sealed test that has begun: restore the "
                "run's folder, or start a new tuning run."
            )
        return records

    def _answer_all(self, asked: Part) -> None:
        """Answer what is missing on both sides; what the model's server fails is asked once more."""
        self.answer_missing(asked)
        if failed := self._list_failed(asked):
            self._run.show(f"  {len(failed)} answers that the model's server failed are asked again")
            self.answer_missing(asked)
            failed = self._list_failed(asked)
        if exceeds_failure_limit(len(failed), self._n_answers):
            raise RunStoppedError(
                f"the server failed {len(failed)} of the {self._n_answers} sealed answers, and again when asked once "
                f"more: too many for a verdict; going on asks them again. The first error: {failed[0].error}"
            )

    def _list_failed(self, asked: Part) -> list[Record]:
        return [each for side in self.read_answers(asked) for each in side if is_server_failure(each)]

    def answer_missing(self, asked: Part) -> None:
        """Answer what is missing, or was failed by the model's server; the sides take turns."""
        run, concurrency = self._run, self._run.config.base.run.concurrency
        samples, failures = {sample.id: sample for sample in asked}, FailuresInARow(concurrency)
        missing = [self._list_missing(sha256, asked) for sha256 in self._programs]
        in_turn = [(samples[key.sample_id], key) for keys in zip_longest(*missing) for key in keys if key is not None]

        async def answer(sample: Sample, key: SampleKey) -> Record | None:
            answered = await run.trials.answer(self._programs[key.variant], sample, key, key.variant)
            return answered.record if answered else None

        def keep(record: Record) -> None:
            run.store.write(record)
            run.call_log.forget_replies(record.key)
            run.trials.n_completed += 1
            run.trials.show(record)
            if record.attempt == 1 and (reason := failures.observe(record)):  # some questions fail each time
                run.stop.start_nothing(reason)

        with run.watch():
            run_blocking(run_side_by_side(answer, in_turn, keep, run.stop, concurrency))
        if run.budget.refusal and not run.stop.interrupted:
            raise RunStoppedError(f"{run.budget.refusal}, in the middle of the sealed test; raise that budget")
        run.check_stopped()

    def _list_missing(self, sha256: str, asked: Part) -> list[SampleKey]:
        done = self._run.store.read_last_attempts(sha256)
        keys = list_pending([each.id for each in asked], self._gate.epochs, done, retry_errors=True)
        return [replace(key, variant=sha256) for key in keys]

    # Verdict

    def _take_look(self, look: Look, parent: list[Record], winner: list[Record]) -> JsonObject:
        """Return what the answers so far decide. Too many failures are no evidence: the test goes on while it can."""
        records = (*parent, *winner)
        unscored = [record for record in records if record.error_class == SCORER]
        if exceeds_failure_limit(len(unscored), self._n_answers):
            raise EarlyVerdictError(
                "metric_errors",
                f"{len(unscored)} of the sealed test's {self._n_answers} answers could not be scored: "
                f"{unscored[0].error}",
            )
        comparison = self._compare(parent, winner)
        n_failed = max(len(unscored), _count_failed(records))
        decision = decide_look(comparison, look)
        return {
            "look": look.number,
            "n_questions": comparison.score.n_questions,
            "decision": CONTINUE if exceeds_failure_limit(n_failed, len(records)) and not look.is_last else decision,
        }

    def _compare(self, parent: Sequence[Record], winner: Sequence[Record]) -> Comparison:
        """Compare both sides' answers, as the gate judges them; those that the server failed are imputed."""
        scorer = self._run.config.stored_config.get("scorer")
        first, second = (build_answers(each, scorer) for each in (impute_failures(parent), winner))
        comparison = compare_answers(first, second)
        if comparison.metric == ACCURACY:  # the search may have met partly right answers
            comparison = replace(comparison, metric=self._run.metric)
        return comparison

    def judge(self) -> Verdict:
        """Record the result, and return the gate's verdict. To repeat any answer now would be a second draw."""
        run, last, (parent, winner) = self._run, self._lines[-1], self._read_final()
        comparison, records = self._compare(parent, winner), (*parent, *winner)
        record_judgement(run.session.info.run_id, comparison.score.p, last["n_questions"])
        judged = judge(comparison, self._plan[last["look"] - 1])
        about = {"candidate_id": self.winner.name, "prompts_sha256": digest(self.winner)}
        return {
            **_build_head(run),
            **judged,
            "baseline": _build_side(comparison.first),
            "winner": {**about, **_build_side(comparison.second)},
            "sealed": {
                **judged["sealed"],
                "n_answers": len(records),
                "n_answers_saved": self._n_answers - len(records),
                "stopped": last["decision"],
                "epochs": self._gate.epochs,
                "n_sealed": len(self._samples),
                "level": self._allowance.level,
                "level_left": self._allowance.left,
                "opened_before": self._allowance.n_earlier,
                "known_to_parent": run.splits.count_known_to(run.parent.tuned_on),
                "failed_answers": {"parent": _count_failed(parent), "winner": _count_failed(winner)},
            },
            "failed_questions": list(dict.fromkeys(each.sample_id for each in records if is_server_failure(each))),
        }


def write_early_verdict(run: TuningRun, end: EarlyVerdictError) -> None:
    """Write the verdict of a run that ended before the gate."""
    verdict: Verdict = {**_build_head(run), **dict.fromkeys(("gain", "gain_ci95", "p"))}
    verdict |= {"published": False, "finish_reason": end.finish_reason, "reasons": [str(end)]}
    write_verdict(run.store, verdict)


def _build_head(run: TuningRun) -> Verdict:
    tuning = take_snapshot(run.store)
    baseline, scores = tuning.read_part("baseline"), tuning.val_scores
    best = max(scores, key=scores.__getitem__) if scores and baseline else None
    again = tuning.shortlist.get(PARENT)
    return {
        "simulated": run.config.base.simulated,
        "spend": vars(run.budget.spend()),
        # What validation alone would have published, and its gain there.
        "best_val": {"candidate_id": best, "val_gain": scores[best] - baseline["val_score"]} if best else None,
        # Of an unchanged copy of the parent: the score of its new answers against the search's.
        "null_gain": again["fresh_score"] - again["val_score"] if again else None,
        "labels": list(run.splits.labels.names),  # known to the search; empty: the targets are answers
    }


def _count_failed(records: Sequence[Record]) -> int:
    return sum(map(is_server_failure, records))


def _build_side(side: Side) -> JsonObject:
    found = {name: getattr(side, name) for name in ("accuracy", "ci95", "score", "score_ci95")}
    return {**found, "errors": side.errors_by_class}
