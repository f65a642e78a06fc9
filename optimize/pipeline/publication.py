"""Phases 7 and 8: the gate's verdict on the sealed test, and the set that is published or kept as rejected.

    verdict = judge_winner(run, tested)
    publish_winner(run, tested, verdict)

`verdict.json` is written last: a run that has it is finished.
"""

from dataclasses import asdict

from eval.analysis.comparison.comparison import Side
from eval.execution.termination import RunStoppedError
from mas.prompt_sets.prompt_set import NameTakenError
from mas.runtime.errors import UserError
from optimize.gate.gate import AGAINST, FinishReason, judge
from optimize.gate.verdict import EarlyVerdictError, JsonObject, Verdict
from optimize.pipeline.cost_estimate import count_test_answers
from optimize.pipeline.sealed_test import SealedTest, compare_sides, count_asked_questions, finish_test
from optimize.publishing.provenance import build_provenance
from optimize.publishing.publish import REJECTED, publish, reject
from optimize.search.candidate import PARENT
from optimize.session.tuning_run import TuningRun
from optimize.session.tuning_store import FLIPS


def judge_winner(run: TuningRun, tested: SealedTest) -> Verdict:
    """Compare both sides of the sealed test, and return the gate's verdict. The answers become final."""
    imputed, comparison = compare_sides(run, tested.parent_records, tested.winner_records)
    finish_test(run, tested, comparison.score.p)
    allowance, look = tested.allowance, tested.look
    gate = judge(run.config.gate, comparison, look)
    n_answers = len(tested.parent_records) + len(tested.winner_records)
    run.files.write_file(FLIPS, comparison.flips)
    paired = comparison.score
    return {
        **_build_head(run, gate.published, gate.finish_reason),
        "metric": comparison.metric,
        "gain": gate.gain,
        "gain_ci95": list(gate.gain_ci95) if gate.gain_ci95 else None,
        "gain_shrunken": gate.gain_shrunken,
        "p": gate.p,
        "baseline": _build_side(comparison.first),
        "winner": {
            "candidate_id": tested.winner.candidate_id,
            "prompts_sha256": tested.winner.sha256,
            **_build_side(comparison.second),
        },
        "sealed": {
            "n_questions": paired.n_questions,
            "n_sealed": len(run.splits.sealed),
            "n_answers": n_answers,
            "n_answers_saved": count_test_answers(run.config, run.splits) - n_answers,
            "looks": look.plan.n_looks,
            "look": look.number,
            "look_level": look.level,
            "stopped": tested.last["decision"],
            "epochs": run.config.gate.epochs,
            "wins": paired.wins,
            "losses": paired.losses,
            "ties": paired.ties,
            "test": paired.test,
            "smallest_difference": gate.smallest_difference,
            "level": allowance.level,
            "level_left": allowance.left,
            "gain_interval": list(gate.gain_interval) if gate.gain_interval else None,
            "opened_before": allowance.n_earlier,
            "questions_opened_before": allowance.n_questions_used,
            "known_to_parent": run.splits.count_known_to(run.parent.prompts.tuned_on),
            "failed_answers": imputed.n_failed,
        },
        "failed_questions": imputed.questions,
        "cost": {
            name: each.to_dict() if (each := getattr(comparison, name)) else None
            for name in ("cost_usd", "seconds", "tokens", "format_losses", "unreadable")
        },
        "gate": {"settings": asdict(run.config.gate), "checks": gate.checks},
        "reasons": gate.reasons,
        "resumable": False,
    }


def publish_winner(run: TuningRun, tested: SealedTest, verdict: Verdict) -> None:
    """Write the set as published or rejected, then the verdict.

    Raises:
        RunStoppedError: the set cannot be written where it belongs.
    """
    winner = tested.winner
    run.show(f"8/8 publish{'' if verdict['published'] else f': not this one, see {REJECTED}/{winner.candidate_id}'}")
    provenance = build_provenance(
        run.recorder.info,
        verdict,
        winner.leaks.to_dict(),
        run=run.files.folder.name,
        parent=run.parent.prompts,
        candidate_id=winner.candidate_id,
        gated=verdict["published"],
        labels=run.splits.labels.names,
        redact=run.config.redact,
    )
    try:
        if verdict["published"]:
            folder = publish(winner.prompts, run.request.shelf / run.config.name, provenance).folder
        else:
            folder = reject(winner.prompts, run.files.folder, winner.candidate_id, provenance).folder
    except UserError as error:
        options = ["name=ANOTHER_NAME"] if isinstance(error, NameTakenError) else []
        if verdict["failed_questions"]:  # so that the next session's configuration records how they were counted
            options.append(f"run.failed_answers={AGAINST}")
        raise RunStoppedError(
            f"{error} The sealed test is done and kept: none of it is asked again", *options
        ) from error
    run.files.write_verdict({**verdict, "set": f"{folder.parent.name}/{folder.name}"})


def write_early_verdict(run: TuningRun, end: EarlyVerdictError) -> None:
    """Write the verdict of a run that ended before the gate."""
    verdict: Verdict = {
        **_build_head(run, published=False, finish_reason=end.finish_reason),
        "gain": None,
        "gain_ci95": None,
        "p": None,
        "reasons": [str(end)],
        "resumable": end.finish_reason == "budget",
    }
    if begun := run.files.read("sealed"):
        verdict["sealed"] = {
            "n_questions": count_asked_questions(run),
            "n_sealed": len(run.splits.sealed),
            "looks": run.config.gate.looks,
            "opened_before": begun["n_earlier"],
            "questions_opened_before": begun["n_questions_used"],
            "level": begun["level"],
            "level_left": begun["left"],
        }
    run.files.write_verdict(verdict)


def _build_head(run: TuningRun, published: bool, finish_reason: FinishReason) -> Verdict:
    return {
        "published": published,
        "finish_reason": finish_reason,
        "simulated": run.config.base.simulated,
        "spend": run.ledger.spend().to_dict(),
        "best_val": _find_best_on_validation(run),
        "null_gain": _measure_null_gain(run),
        "labels": list(run.splits.labels.names),
    }


def _measure_null_gain(run: TuningRun) -> float | None:
    """Return what an unchanged copy of the parent gained in the shortlist; None if there was none."""
    entries = run.files.read("shortlist") or []
    return next((each["fresh_score"] - each["val_score"] for each in entries if each["candidate_id"] == PARENT), None)


def _find_best_on_validation(run: TuningRun) -> JsonObject | None:
    measured, scores = run.files.read("baseline"), run.files.read_scores()
    if measured is None or not scores:
        return None
    best = max(scores, key=scores.__getitem__)
    return {"candidate_id": best, "val_gain": scores[best] - measured["val_score"]}


def _build_side(side: Side) -> JsonObject:
    return {
        "accuracy": side.accuracy,
        "ci95": list(side.ci95) if side.ci95 else None,
        "score": side.score,
        "score_ci95": list(side.score_ci95) if side.score_ci95 else None,
        "errors": side.errors_by_class,
    }
