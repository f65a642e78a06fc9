"""A tuning run from a checked configuration to its exit code.

    preflight → baseline → search → shortlist and leak check → sealed test → gate → publish

A resumed run skips the phases whose result is in its folder. The phase that was interrupted is repeated; its requests
are replayed from the run's call log up to where it stopped.
"""

import shlex
from pathlib import Path
from statistics import fmean

import dspy
from dspy.utils.exceptions import LMError

from eval.analysis.statistics.intervals import compute_metric_interval
from eval.cli.command import STOPPED, InterruptedRunError, get_signal_name
from eval.execution.budget import format_amount
from eval.execution.console import Output
from eval.execution.termination import RunStoppedError
from eval.mlflow_export.exporter import ExporterLauncher
from eval.reports.summary_table import print_report_path
from eval.runs.folder import format_path
from eval.runs.store import StoreError
from eval.workflows.estimate import AnswerMeans
from mas.agents.chat_adapter import ChatAdapter
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.prompt_sets.shelf import NameTakenError
from mas.runtime.errors import UserError
from mas.runtime.sample_context import LimitReachedError
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.gate import EarlyVerdictError, JsonObject, Verdict, compute_exit_code
from optimize.mlflow_export import TUNING
from optimize.pipeline.preflight import confirm_start, count_shortlist_answers, count_test_answers, prepare_splits
from optimize.pipeline.sealed_test import SEALED, SealedTest, write_early_verdict
from optimize.publishing.publish import build_provenance, publish
from optimize.reports.tuning_page import show_verdict, write_tuning_page
from optimize.search.optimizer import PARENT, Proposal, SearchTask
from optimize.search.optimizers.prompt_rewriter import USELESS_REPLY
from optimize.session.config import TuneConfig
from optimize.session.tuning_run import TuningRun, open_tuning_run
from optimize.session.tuning_store import (
    add_proposal,
    check_sources,
    describe_resume,
    format_command,
    take_snapshot,
    write_verdict,
)


def tune(config: TuneConfig, output: Output | None = None) -> tuple[Path, int]:
    """Run all phases of a checked configuration; return the run's folder, and the exit code.

    It is 0 if a set was published or rejected by the gate, 2 if nothing could be judged, 3 if the run stopped before
    the verdict, and can be resumed. UserError: a mistake that is found only now, before anything is spent.
    InterruptedRunError: a signal stopped the run; the command that resumes it has been printed.
    """
    output = output or Output()
    config.base.executor.check(config.base.resolved)
    if config.base.simulated:
        output.print(SIMULATED_NOTICE, style="bold yellow")
    splits = prepare_splits(config, output.console)
    confirm_start(config, splits, output.console)
    with open_tuning_run(config, splits, output) as run:
        folder = run.folder
        run.show(f"run: {format_path(folder)}")
        with ExporterLauncher(config.base.tracking, folder, TUNING) as exporter:
            with run.stop.handle_signals():
                code = _run_to_verdict(run)
                run.answers.note("run ended", exit_code=code)
                run.save_spend()
                run.session.end(run.stopped)
                _write_page(run)
            exporter.finish(run.show, warn=run.show)
        if output.shows_results:
            print_report_path(folder, output.console)
    if run.stop.interrupted:
        raise InterruptedRunError
    return folder, code


def _write_page(run: TuningRun) -> None:
    """Write the run's page; a failure is a warning, and changes no exit code."""
    try:
        write_tuning_page(run.folder)
    except (OSError, UserError) as error:
        again = f"{format_command('report.py')} {shlex.quote(str(format_path(run.folder)))}"
        run.show(f"warning: the run's page could not be written: {error}; make it with: {again}")


def _run_to_verdict(run: TuningRun) -> int:
    output = run.session.output
    try:
        run_phases(run)
    except EarlyVerdictError as end:
        write_early_verdict(run, end)
    except KeyboardInterrupt as interrupt:  # outside of requests, or for the third time
        return _report_stop(run, run.stop.reason or f"interrupted by {get_signal_name(interrupt)}")
    except (StoreError, RunStoppedError) as stop:
        return _report_stop(run, str(stop), *getattr(stop, "options", ()))
    except UserError as error:
        run.save_spend()
        run.session.end(run.config.base.redact(str(error)))
        raise
    tuning = take_snapshot(run.store)
    if output.shows_results:
        show_verdict(tuning, run.console)
    return compute_exit_code(tuning.verdict)


def _report_stop(run: TuningRun, reason: str, *options: str) -> int:
    run.stop.end_waiting()  # from now on signals do not keep the run's files from being written
    run.stopped = run.config.base.redact(reason)
    for line in (f"stopped: {run.stopped}", describe_resume(run.folder, *options)):
        run.session.output.print(line, error=True)
    return STOPPED


def run_phases(run: TuningRun) -> None:
    """Run the phases in order, up to a verdict, which may be that of an EarlyVerdictError; or it is stopped."""
    if run.config.optimizer.needs_reflection and run.store.read_result("search") is None:
        check_reflection_model(run)
    _begin(run, "baseline", "2/8 baseline on validation")
    measured = measure_baseline(run)
    _begin(run, "search", "3/8 search")
    means = AnswerMeans(**measured["means"])
    reserve_test_budget(run, means)
    if run.store.read_result("search") is None:
        run_search(run, measured["val_score"])
    run.budget.release()
    _begin(run, "shortlist", "4/8 shortlist, 5/8 leak check")
    # Compared with their digest, tested and published as they are:
    winner = run.read_prompts(choose_winner(run, measured["val_score"]))
    check_test_budget(run, means)
    test = SealedTest(run, winner)
    _begin(run, "sealed", "6/8 sealed test")
    test.take_looks()
    _begin(run, "gate", "7/8 gate")
    publish_winner(run, winner, test.judge())


def _begin(run: TuningRun, phase: str, line: str) -> None:
    check_sources(run.session.info, run.config.base)
    run.save_spend(phase=phase)
    run.answers.note("phase started", phase=phase)
    run.show(line)


# Reflection model, baseline and search


def check_reflection_model(run: TuningRun) -> None:
    """Greet the reflection model before the first answer, or raise a UserError: it cannot be asked."""
    if run.config.base.model.simulated:
        return
    try:
        with run.use_reflection(), dspy.context(lm=run.reflection_lm, adapter=ChatAdapter()):
            dspy.Predict("greeting -> reply")(greeting="Are you ready?")
    except (*USELESS_REPLY, LimitReachedError):  # a used-up budget is found by whatever is asked next
        return
    except LMError as error:
        run.check_stopped()
        reason = run.config.base.redact(" ".join(f"{type(error).__name__}: {error}".split()))
        raise UserError(
            f"the model that rewrites prompts could not be asked ({reason}); check reflection_model and model.*."
        ) from error


def measure_baseline(run: TuningRun) -> JsonObject:
    """Answer each validation question once, and return score and usage; the search reuses these replies."""
    if run.store.read_result("baseline") is None:
        records = [trial.record for trial in run.answer_validation(run.parent)]
        score, interval = fmean(each.value for each in records), compute_metric_interval([[r.value] for r in records])
        found = {"val_score": score, "ci95": interval, "means": AnswerMeans.of(records)}
        run.store.write_results({"baseline": found})
    measured: JsonObject = run.store.read_result("baseline")
    run.show(f"  {run.metric} {measured['val_score']:.1%} on {len(run.splits.val)} questions")
    if run.store.read_result("search") is None and (report := run.check_leaks(run.parent)).blocked:
        run.show(
            f"warning: the starting prompts contain text of validation or sealed questions ({report.summary()}), so "
            "each candidate that keeps it is blocked: remove it there and start a new run"
        )
    return measured


def reserve_test_budget(run: TuningRun, parent: AnswerMeans) -> None:
    """Hold back the budget of shortlist and sealed test."""
    n_answers = count_shortlist_answers(run.config, run.splits) + count_test_answers(run.config, run.splits)
    run.budget.hold_back(parent.estimate_spend(n_answers, run.config.base.run.concurrency))


def run_search(run: TuningRun, parent_score: float) -> None:
    """Let the optimizer propose candidates until its budget is used or nothing is left to try.

    EarlyVerdictError: the metric is broken, or no reflection could be read. RunStoppedError: a budget ended it in vain.
    """
    config = run.config

    def report(proposal: Proposal) -> None:
        add_proposal(run.store, proposal)
        score = "" if proposal.val_score is None else f", {run.metric} {proposal.val_score:.1%} on validation"
        decision = proposal.decision.replace("_", " ")
        run.show(f"  {proposal.candidate_id} ({proposal.describe()}): {decision}{score}; {proposal.reason}")

    with run.use_reflection():
        task = SearchTask(
            student=run.build_student(run.parent),
            objective=run.objective,
            metric_calls=config.budget.metric_calls,
            concurrency=config.base.run.concurrency,
            seed=config.seed,
            reflection_lm=run.reflection_lm,
            get_stop_reason=run.get_stop_reason,
            report=report,
        )
        outcome = config.optimizer.search(task)
    run.check_stopped()
    run.check_metric()
    if outcome.reflections and outcome.unparsable == outcome.reflections:
        raise EarlyVerdictError(
            "reflection_unparsable",
            f"none of the {outcome.reflections} replies of the reflection model could be read; "
            "choose another reflection_model, or increase model.max_tokens",
        )
    is_out_of_budget = run.budget.refused_budget not in (None, "metric_calls")  # other than that of the search itself
    found_better = any(score > parent_score for score in take_snapshot(run.store).val_scores.values())
    if is_out_of_budget and not found_better:
        refusal = run.budget.refusal
        raise RunStoppedError(f"{refusal}, and no candidate qualified for the shortlist by then; raise that budget")
    run.store.write_results({"search": {**vars(outcome), "metric_calls": run.budget.spend().metric_calls}})


# Shortlist: the best candidates that leak nothing answer anew, because luck in the search must not count. So does the
# parent: its score against that of the search is the "gain" of an unchanged copy.


def choose_winner(run: TuningRun, parent_score: float) -> str:
    """Re-evaluate the best candidates and return the one to test; EarlyVerdictError: nothing is better, or all leak."""
    if run.store.read_result("shortlist") is None:
        ranked = _rank(run, parent_score)
        chosen = {PARENT: parent_score, **{each: ranked[each] for each in _drop_leaking(run, ranked)}}
        found = [_evaluate_again(run, candidate_id, score) for candidate_id, score in chosen.items()]
        run.store.write_results({"shortlist": found})
    parent, *others = run.store.read_result("shortlist")
    best = max(others, key=lambda each: each["fresh_score"])
    before, after = parent["fresh_score"], best["fresh_score"]
    gain, least = after - before, run.config.shortlist.min_gain
    if gain <= 0 or round(gain, 9) < least:  # 0.3 - 0.2 is less than 0.1
        raise EarlyVerdictError(
            "no_accepted_candidate",
            f"after re-evaluation {best['candidate_id']}, the best of {len(others)}, gained {100 * gain:+.1f} points "
            f"on the starting prompts ({run.metric} {after:.1%} against {before:.1%} on validation); the sealed "
            f"test was not run: it needs a gain, and shortlist.min_gain={least:g}. No sealed question was used",
        )
    return str(best["candidate_id"])


def _rank(run: TuningRun, parent_score: float) -> dict[str, float]:
    """Return candidate → score, with a sufficient score, the best first; of equal prompts and scores the earliest."""
    tuning = take_snapshot(run.store)
    scores, seen, ranked = tuning.val_scores, {digest(run.parent)}, {}
    better = [each for each, score in scores.items() if score > parent_score]
    for candidate_id in sorted(better, key=lambda each: -scores[each]):
        if (prompts_digest := digest(tuning.get_prompts(candidate_id))) not in seen:
            ranked[candidate_id] = scores[candidate_id]
        seen.add(prompts_digest)
    if not ranked:
        raise EarlyVerdictError(
            "no_accepted_candidate",
            f"of {len(tuning.proposals)} proposals ({len(scores)} scored on validation) none that differs from the "
            f"starting prompts was better than these ({run.metric} {parent_score:.1%})",
        )
    return ranked


def _drop_leaking(run: TuningRun, ranked: dict[str, float]) -> list[str]:
    """Return as many candidates as the shortlist holds, without those that leak."""
    clean: list[str] = []
    reports = {}
    for candidate_id in ranked:
        if len(clean) == run.config.shortlist.size:
            break
        report = run.check_leaks(run.read_prompts(candidate_id))
        reports[candidate_id] = report.to_dict()
        if report.hits:
            run.show(f"  {candidate_id}: {'blocked: ' if report.blocked else ''}{report.summary()}")
        if not report.blocked:
            clean.append(candidate_id)
    run.store.write_results({"leaks": reports})
    if not clean:
        raise EarlyVerdictError(
            "leak_blocked",
            f"each of the {len(ranked)} better candidates contains answers, questions or ids of validation or sealed "
            "questions (see report.html)",
        )
    return clean


def _evaluate_again(run: TuningRun, candidate_id: str, val_score: float) -> JsonObject:
    """Let a candidate, or the parent, answer the validation questions anew; epoch 1 is the search's.

    `val_score`: mean of its answers in the search, 0 to 1, as `fresh_score` is of the new ones.
    """
    prompts = run.read_prompts(candidate_id)
    epochs = range(2, 2 + run.config.shortlist.epochs)
    passes = [[trial.record.value for trial in run.answer_validation(prompts, epoch)] for epoch in epochs]
    scores = [list(values) for values in zip(*passes, strict=True)]  # by question
    score = fmean(map(fmean, scores))
    run.show(f"  {candidate_id}: {run.metric} {score:.1%} re-evaluated ({val_score:.1%} in the search)")
    interval = compute_metric_interval(scores)
    return {"candidate_id": candidate_id, "val_score": val_score, "fresh_score": score, "fresh_ci95": interval}


def check_test_budget(run: TuningRun, parent: AnswerMeans) -> None:
    """Check that the budget allows a sealed test that has not begun, or raise a RunStoppedError."""
    if run.store.read_result(SEALED) is not None:
        return
    n_answers, spend = count_test_answers(run.config, run.splits), run.budget.spend()
    needed = parent.estimate_spend(n_answers, run.config.base.run.concurrency)
    for option, allowed in run.config.budget.list_limits():
        spent, more = spend.amount(option), needed.amount(option)
        if spent + more > allowed:
            raise RunStoppedError(
                f"the sealed test will take about {format_amount(option, more)}, and {format_amount(option, spent)} of "
                f"budget.{option}={allowed} are spent; it was not begun; raise that budget"
            )


def publish_winner(run: TuningRun, winner: PromptSet, verdict: Verdict) -> None:
    """Write the set if it passed the gate, then the verdict; RunStoppedError: the set cannot be written."""
    run.show(f"8/8 publish{'' if verdict['published'] else ': not this one'}")
    if verdict["published"]:
        verdict["set"] = _publish(run, winner, verdict)
    write_verdict(run.store, verdict)


def _publish(run: TuningRun, winner: PromptSet, verdict: Verdict) -> str:
    provenance = build_provenance(
        run.session.info,
        verdict,
        run.store.read_result("leaks")[winner.name],
        run=run.folder.name,
        parent=run.parent,
        candidate_id=winner.name,
        gated=True,
        labels=run.splits.labels.names,
        redact=run.config.base.redact,
    )
    try:
        folder = publish(winner, run.config.shelf / run.config.name, provenance).folder
    except UserError as error:
        options = ["name=ANOTHER_NAME"] if isinstance(error, NameTakenError) else []
        done = "The sealed test is done and kept: none of it is asked again"
        raise RunStoppedError(f"{error} {done}", *options) from error
    return f"{folder.parent.name}/{folder.name}"
