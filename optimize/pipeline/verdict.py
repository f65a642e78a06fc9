"""Phases 6 to 8: the sealed test of the winner, the gate's verdict on it, and the set published, or kept as rejected.

`verdict.json` says it all; it is written last, so that a run which has it is over.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from eval.analysis.comparison.answers import build_answers
from eval.analysis.comparison.comparison import Comparison, Side, compare_answers
from eval.execution.scoring import SCORER
from eval.execution.termination import RunStoppedError
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from optimize.gate.failed_answers import AGAINST, ImputedAnswers, impute_failures
from optimize.gate.gate import GateVerdict, judge
from optimize.gate.sealed_log import EarlierUses
from optimize.pipeline.sealed_test import mark_judged, run_sealed_test
from optimize.publishing.provenance import Provenance, build_provenance
from optimize.publishing.publish import REJECTED, NameTakenError, publish, reject
from optimize.session.run_files import filter_fully_scored
from optimize.session.termination import EarlyVerdictError
from optimize.session.tuning_run import TuningRun


def judge_winner(run: TuningRun, candidate_id: str) -> None:
    """Test it, judge it, and publish it or not.

    Raises:
        EndedError: the budget is used up, or so many answers could not be scored that the others say nothing.
        HaltedError: the test stopped before its end, or the set cannot be put where it belongs.
    """
    winner = run.read_prompts(candidate_id)
    parent_records, winner_records, before = run_sealed_test(run, winner)
    _check_scored(run, (*parent_records, *winner_records))
    run.show("7/8 gate")
    counted = impute_failures(parent_records, winner_records)
    made = compare_answers(build_answers(counted.parent), build_answers(counted.winner))
    run.save_state("gate")
    mark_judged(run)
    verdict = judge(run.config.gate, made, leaks_blocked=False, too_long=[])  # neither has come so far
    content = _content(run, candidate_id, made, verdict, before, counted)
    run.files.write("flips", [asdict(flip) for flip in made.flips])
    run.show("8/8 publish" if verdict.published else f"8/8 publish: not this one, see {REJECTED}/{candidate_id}")
    content["set"] = _kept(run, candidate_id, winner, content)
    run.files.write("verdict", content)


def _check_scored(run: TuningRun, records: Sequence[Record]) -> None:
    failed = [record for record in records if record.error_class == SCORER]
    share = run.config.gate.max_metric_error_share
    if len(failed) > share * len(records):
        raise EarlyVerdictError(
            "metric_errors",
            f"{len(failed)} of the sealed test's {len(records)} answers could not be scored "
            f"(gate.max_metric_error_share={share:g}): {failed[0].error}",
        )


def write_early_verdict(run: TuningRun, end: EarlyVerdictError) -> None:
    """The verdict of a run that came to its end before the sealed test had; that may have been opened all the same."""
    run.files.write(
        "verdict",
        {
            **_head(run, published=False, finish_reason=end.finish_reason),
            "gain": None,
            "gain_ci95": None,
            "p": None,
            **_opened(run),
            "reasons": [str(end)],
            "resumable": end.finish_reason == "budget",
        },
    )


def _opened(run: TuningRun) -> dict[str, Any]:
    facts = run.files.read("tuning")
    if "sealed_opened_before" not in facts:
        return {}
    counts = {name: facts[f"sealed_{name}"] for name in ("opened_before", "questions_opened_before")}
    return {"sealed": {"n_questions": len(run.splits.sealed), **counts}}


def _head(run: TuningRun, published: bool, finish_reason: str) -> dict[str, Any]:
    return {
        "published": published,
        "finish_reason": finish_reason,
        "simulated": run.config.base.simulated,
        "spend": run.ledger.spend().to_dict(),
        "best_val": _best_on_validation(run),
    }


def _best_on_validation(run: TuningRun) -> dict[str, Any] | None:
    """The candidate that picking on validation alone would have shipped, and its gain there."""
    measured, scored = run.files.read("baseline"), filter_fully_scored(run.files.read_proposals())
    if measured is None or not scored:
        return None
    best = max(scored, key=lambda line: line["val_score"])
    return {"candidate_id": best["candidate_id"], "val_gain": best["val_score"] - measured["val_score"]}


def _content(
    run: TuningRun,
    candidate_id: str,
    made: Comparison,
    verdict: GateVerdict,
    before: EarlierUses,
    counted: ImputedAnswers,
) -> dict[str, Any]:
    accuracy = made.accuracy
    return {
        **_head(run, verdict.published, verdict.finish_reason),
        "gain": verdict.gain,
        "gain_ci95": list(verdict.gain_ci95) if verdict.gain_ci95 else None,
        "p": verdict.p,
        "baseline": _side(made.first),
        "winner": {"candidate_id": candidate_id, **_side(made.second)},
        "sealed": {
            "n_questions": accuracy.n_questions,
            "epochs": run.config.gate.epochs,
            "wins": accuracy.wins,
            "losses": accuracy.losses,
            "ties": accuracy.ties,
            "test": accuracy.test,
            "smallest_difference": accuracy.smallest_difference,
            "opened_before": before.runs,
            "questions_opened_before": before.questions,
            "known_to_parent": run.splits.count_known_to(run.parent.prompts.tuned_on),
            "failed_answers": counted.n_failed,
        },
        "failed_questions": counted.questions,
        "cost": {
            name: each.to_dict() if (each := getattr(made, name)) else None
            for name in ("cost_usd", "seconds", "tokens", "format_losses", "unreadable")
        },
        "gate": {"settings": asdict(run.config.gate), "reasons": verdict.reasons},
        "reasons": verdict.reasons,
        "questions_needed": verdict.questions_needed,
        "resumable": False,
    }


def _side(side: Side) -> dict[str, Any]:
    return {"accuracy": side.accuracy, "ci95": list(side.ci95) if side.ci95 else None, "errors": side.errors_by_class}


def _kept(run: TuningRun, candidate_id: str, winner: PromptSet, content: dict[str, Any]) -> str:
    """Where the set is now: on the shelf, or in the run's own folder."""
    told = _provenance(run, candidate_id, content)
    try:
        if content["published"]:
            folder = publish(winner, run.request.shelf / run.config.name, told).folder
        else:
            folder = reject(winner, run.files.folder, candidate_id, told).folder
    except UserError as error:
        options = ["name=ANOTHER_NAME"] if isinstance(error, NameTakenError) else []
        if content["failed_questions"]:  # so that the next session's configuration says how they were counted, too
            options.append(f"run.failed_answers={AGAINST}")
        raise RunStoppedError(
            f"{error} The sealed test is done and kept: none of it is asked again", *options
        ) from error
    return f"{folder.parent.name}/{folder.name}"


def _provenance(run: TuningRun, candidate_id: str, content: dict[str, Any]) -> Provenance:
    return build_provenance(
        run.files.read("tuning"),
        run.request.resolved,
        content,
        (run.files.read("leaks") or {}).get(candidate_id),
        run=run.files.folder.name,
        parent=run.parent.prompts,
        candidate_id=candidate_id,
        gated=bool(content["published"]),
        redact=run.config.redact,
    )
