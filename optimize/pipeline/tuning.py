"""A tuning run from a checked configuration to its exit code.

    preflight → baseline → search → shortlist and leak check → sealed test → gate → publish

A resumed run skips the phases whose result is in its folder. The phase that was interrupted is repeated; its requests
are replayed from the run's call log up to where it stopped.
"""

import shlex
from pathlib import Path
from typing import cast

from eval.analysis.comparison.comparison import Side
from eval.cli.command import STOPPED, InterruptedRunError, get_signal_name
from eval.config.executor import RaySettings
from eval.execution.console import Output
from eval.execution.termination import RunStoppedError
from eval.mlflow_export.exporter_launcher import ExporterLauncher
from eval.reports.summary_table import print_report_path
from eval.runs.folder import format_path, make_run_folder
from eval.runs.store import StoreError
from mas.prompt_sets.prompt_set import NameTakenError, digest
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.gate import judge
from optimize.gate.sealed_log import Allowance
from optimize.gate.verdict import EarlyVerdictError, JsonObject, Verdict, compute_exit_code
from optimize.mlflow_export.tuning_export import TUNING
from optimize.pipeline.cost_estimate import UNLIMITED, count_test_answers
from optimize.pipeline.preflight import check_reflection_model, confirm_start, prepare_splits
from optimize.pipeline.sealed_test import (
    SEALED,
    SealedTest,
    check_test_budget,
    compare_sides,
    count_asked_questions,
    finish_test,
    reserve_test_budget,
    run_sealed_test,
)
from optimize.pipeline.shortlist import Baseline, approve_winner, choose_winner, measure_baseline
from optimize.publishing.publish import REJECTED, build_provenance, publish, reject
from optimize.reports.outcome import show_verdict
from optimize.search.optimizer import PARENT, Proposal, SearchContext, SearchOutcome
from optimize.session.config import TuneConfig
from optimize.session.tuning_run import TuningRun, open_tuning_run
from optimize.session.tuning_store import (
    check_sources,
    describe_resume,
    find_tuning_run,
    format_command,
)


def tune(config: TuneConfig) -> int:
    """Run all phases.

    Returns:
        The exit code: 0 published or rejected by the gate; 2 ended, and nothing was judged; 3 stopped before the
        verdict, and can be resumed.

    Raises:
        UserError: a mistake that is found only now, before anything is spent.
        InterruptedRunError: a signal stopped the run; the command that resumes it has been printed.
    """
    _, code = run_tuning(config, Output())
    return code


def run_tuning(config: TuneConfig, output: Output) -> tuple[Path, int]:
    """Run all phases as `tune` does, with the lines on `output`; return the run's folder and the exit code."""
    console = output.console
    if isinstance(config.base.executor, RaySettings):
        config.base.executor.check(config.resolved)
    if config.base.simulated:
        output.print(SIMULATED_NOTICE, style="bold yellow")
    splits = prepare_splits(config, console)
    confirm_start(config, splits, console)
    if config.resume:
        folder = find_tuning_run(config.resume)
    else:
        folder = make_run_folder("optimize", f"{config.name}_{config.optimizer.name}", config.run.dir)
    with open_tuning_run(config, splits, folder, console) as run:
        run.show(f"run: {format_path(folder)}")
        with ExporterLauncher(config.base.tracking, folder, config.base.secrets(), TUNING) as exporter:
            with run.stop.handle_signals():
                code = _run_to_verdict(run, output)
                run.answers.note("run ended", exit_code=code)
                run.save_spend()
                run.recorder.end(run.stopped)
                _write_page(run)
            tracked = exporter.finish(run.show)
        if tracked.warning:
            run.show(f"warning: {tracked.warning}")
        if tracked.view_line:
            run.show(tracked.view_line)
        if output.shows_results:
            print_report_path(folder, console)
    if run.stop.interrupted:
        raise InterruptedRunError
    return folder, code


def _write_page(run: TuningRun) -> None:
    """Write the run's page; a failure is a warning, and changes no exit code."""
    from optimize.reports.tuning_page import write_tuning_page  # late: only needed once the run has ended

    try:
        write_tuning_page(run.files.folder, run.config.redact)
    except (OSError, UserError) as error:
        again = f"{format_command('report.py')} {shlex.quote(str(format_path(run.files.folder)))}"
        run.show(f"warning: the run's page could not be written: {error}; make it with: {again}")


def _run_to_verdict(run: TuningRun, output: Output) -> int:
    try:
        run_phases(run)
    except EarlyVerdictError as end:
        write_early_verdict(run, end)
    except StoreError as error:
        return _report_stop(run, output, str(error))
    except RunStoppedError as stop:
        return _report_stop(run, output, str(stop), *stop.options)
    except KeyboardInterrupt as interrupt:  # outside of requests, or for the third time
        return _report_stop(run, output, str(run.stop.reason or f"interrupted by {get_signal_name(interrupt)}"))
    except UserError as error:
        run.save_spend()
        run.recorder.end(run.config.redact(str(error)))
        raise
    tuning = run.files.snapshot()
    if output.shows_results:
        show_verdict(tuning, run.console)
    verdict = cast(Verdict, tuning.verdict)
    if verdict["resumable"]:
        output.print(f"raise that budget and {describe_resume(run.files.folder)}", error=True)
    return compute_exit_code(verdict)


def _report_stop(run: TuningRun, output: Output, reason: str, *options: str) -> int:
    run.stop.end_waiting()  # from now on signals do not keep the run's files from being written
    run.stopped = run.config.redact(reason)
    output.print(f"stopped: {run.config.redact(reason)}", error=True)
    output.print(describe_resume(run.files.folder, *options), error=True)
    return STOPPED


def run_phases(run: TuningRun) -> None:
    """Run the phases in order, up to a verdict.

    Raises:
        EarlyVerdictError: a phase ended the run, for a reason that is its verdict.
        RunStoppedError: the run was stopped and can be resumed.
    """
    _begin(run, "preflight", "1/8 preflight")
    is_searched = run.files.read("search") is not None
    if run.config.optimizer.needs_reflection and not is_searched:
        check_reflection_model(run)
    _begin(run, "baseline", "2/8 baseline on validation")
    measured = measure_baseline(run)
    run.show(f"  {run.metric} {measured.val_score:.1%} on {measured.n_questions} questions")
    if not is_searched:
        _warn_of_leaks_in_parent(run)
    _begin(run, "search", "3/8 search")
    reserve_test_budget(run, measured)
    if not is_searched:
        run_search(run, measured)
    run.budget.release()
    _begin(run, "shortlist", "4/8 shortlist, 5/8 leak check")
    winner = choose_winner(run, measured)
    approved = approve_winner(run, winner)
    check_test_budget(run, [(digest(run.parent), measured), (approved.sha256, winner)])
    _begin(run, "sealed", "6/8 sealed test")
    tested = run_sealed_test(run, approved)
    _begin(run, "gate", "7/8 gate")
    publish_winner(run, tested, judge_winner(run, tested))


def _begin(run: TuningRun, phase: str, line: str) -> None:
    check_sources(run.recorder.info, run.config.base)
    run.save_spend(
        phase=phase, spend_by_phase={phase: run.budget.spend().to_dict(), **run.recorder.state.spend_by_phase}
    )
    run.answers.note("phase started", phase=phase)
    run.show(line)


def _warn_of_leaks_in_parent(run: TuningRun) -> None:
    """Warn before the search if every candidate that keeps the parent's text will be blocked."""
    report = run.check_leaks(run.parent)
    if report.blocked:
        run.show(
            f"warning: the starting prompts contain text of validation or sealed questions ({report.summary()}), so "
            "each candidate that keeps it is blocked: remove it there and start a new run"
        )


def run_search(run: TuningRun, measured: Baseline) -> None:
    """Let the optimizer propose candidates until its budget is used or nothing is left to try.

    Raises:
        EarlyVerdictError: the metric is broken, no reflection could be read, or the budget ended a search that had
            found nothing for the shortlist.
        RunStoppedError: the run was stopped.
    """
    outcome = _search(run)
    run.check_metric()
    if outcome.reflections and outcome.unparsable == outcome.reflections:
        raise EarlyVerdictError(
            "reflection_unparsable",
            f"none of the {outcome.reflections} replies of the reflection model could be read; "
            "choose another reflection_model, or increase model.max_tokens",
        )
    is_out_of_budget = run.budget.refused_budget not in (None, "metric_calls")  # other than that of the search itself
    found_better = any(score > measured.val_score for score in run.files.snapshot().val_scores.values())
    if is_out_of_budget and not found_better:
        raise EarlyVerdictError("budget", f"{run.budget.refusal}, and no candidate qualified for the shortlist by then")
    run.files.write("search", {**vars(outcome), "metric_calls": run.budget.spend().metric_calls})


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
        decision = proposal.decision.replace("_", " ")
        run.show(f"  {proposal.candidate_id} ({proposal.describe()}): {decision}{score}; {proposal.reason}")

    with run.use_reflection():
        outcome = config.optimizer.search(run.build_student(run.parent), run.objective, context, report)
    run.check_stopped()
    return outcome


def judge_winner(run: TuningRun, tested: SealedTest) -> Verdict:
    """Compare both sides of the sealed test, and return the gate's verdict. The answers become final."""
    imputed, comparison = compare_sides(run, tested.parent_records, tested.winner_records)
    allowance, look = tested.allowance, tested.look
    finish_test(run, tested, comparison.score.p)
    judged = judge(run.config.gate, comparison, look)
    n_answers = len(tested.parent_records) + len(tested.winner_records)
    return {
        **_build_head(run),
        **judged,
        "baseline": _build_side(comparison.first),
        "winner": {
            "candidate_id": tested.winner.candidate_id,
            "prompts_sha256": tested.winner.sha256,
            **_build_side(comparison.second),
        },
        "sealed": {
            **judged["sealed"],
            "n_answers": n_answers,
            "n_answers_saved": count_test_answers(run.config, run.splits) - n_answers,
            "stopped": tested.last["decision"],
            "epochs": run.config.gate.epochs,
            **_describe_allowance(run, allowance, look.plan.n_looks),
            "known_to_parent": run.splits.count_known_to(run.parent.tuned_on),
            "failed_answers": imputed.n_failed,
        },
        "failed_questions": imputed.questions,
        "cost": {
            name: each.to_dict() if (each := getattr(comparison, name)) else None
            for name in ("cost_usd", "seconds", "tokens", "format_losses", "unreadable")
        },
    }


def publish_winner(run: TuningRun, tested: SealedTest, verdict: Verdict) -> None:
    """Write the set as published or rejected, then the verdict: a run that has it is finished.

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
        parent=run.parent,
        candidate_id=winner.candidate_id,
        gated=verdict["published"],
        labels=run.splits.labels.names,
        redact=run.config.redact,
    )
    try:
        if verdict["published"]:
            folder = publish(winner.prompts, run.config.shelf / run.config.name, provenance).folder
        else:
            folder = reject(winner.prompts, run.files.folder, winner.candidate_id, provenance).folder
    except UserError as error:
        options = ["name=ANOTHER_NAME"] if isinstance(error, NameTakenError) else []
        raise RunStoppedError(
            f"{error} The sealed test is done and kept: none of it is asked again", *options
        ) from error
    run.files.write_verdict({**verdict, "set": f"{folder.parent.name}/{folder.name}"})


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
    if begun := run.files.read(SEALED):
        allowance = _describe_allowance(run, Allowance(**begun), run.config.gate.looks)
        verdict["sealed"] = {"n_questions": count_asked_questions(run), **allowance}
    run.files.write_verdict(verdict)


def _build_head(run: TuningRun) -> Verdict:
    """Return what every verdict has."""
    tuning = run.files.snapshot()
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
