"""Terminal output of a finished tuning run.

show_verdict(RunFiles(folder), Console())
"""

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from eval.execution.console import Console
from eval.reports.summary_table import print_report_path
from eval.runs.folder import format_path
from eval.scorers.score import ACCURACY
from mas.runtime.terminal import print_line
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.failed_answers import describe_failures
from optimize.gate.looks import describe_selection, describe_stop
from optimize.gate.sealed_log import describe_earlier_tests, describe_level
from optimize.gate.verdict import (
    SealedNumbers,
    Verdict,
    compute_exit_code,
    describe_null_control,
    get_score,
    list_checks,
)
from optimize.publishing.provenance import describe_labels
from optimize.publishing.publish import describe_published
from optimize.session.run_files import RESUME, RunFiles, find_tuning_run, format_command

_SHOWN_FLIPS = 10
_SHOWN_CHARS = 70  # of a question
_LEAST_SECONDS = 0.005


def show_verdict(files: RunFiles, console: Console | None = None) -> None:
    """Print the verdict of a run."""
    console = console or Console()
    verdict: Verdict = files.read("verdict")
    if verdict["simulated"]:
        console.print(SIMULATED_NOTICE, style="bold yellow")
    for line in format_verdict(files, verdict, files.read_info().name):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def format_verdict(files: RunFiles, verdict: Verdict, name: str) -> Iterator[str]:
    """Return the verdict as lines of text; `name`: of the set that the run was to publish."""
    if verdict.get("baseline"):
        yield from _format_test(files, verdict)
    elif verdict.get("sealed"):
        yield from _format_earlier_uses(verdict["sealed"])
    if verdict["published"]:
        yield describe_published(verdict["set"], files.read("splits") or {})
    else:
        yield f"not published: {verdict['finish_reason']}"
    for check in list_checks(verdict):
        yield f"  {check}"
    if (shrunken := verdict.get("gain_shrunken")) is not None:
        yield (f"  estimated true gain: {_format_points(shrunken)} points; {describe_selection(verdict['sealed'])}")
    if verdict["finish_reason"] == "not_significant" and (least := verdict["sealed"].get("smallest_difference")):
        yield (
            f"  such questions show a true gain of {100 * least:.1f} points in 80 of 100 cases; smaller ones remain "
            "possible"
        )
    if (best := verdict.get("best_val")) and best["val_gain"] > 0:
        yield (
            f"  picking on validation alone would have shipped {best['candidate_id']} "
            f"({100 * best['val_gain']:+.1f} points there)"
        )
    if (null_gain := verdict.get("null_gain")) is not None:
        yield f"  {describe_null_control(null_gain)}"
    if not verdict["published"] and (winner := verdict.get("winner")):
        run, chosen = shlex.quote(str(format_path(files.folder))), winner["candidate_id"]
        command = f"{format_command('export.py')} {run} --candidate {chosen} --name {shlex.quote(name)}"
        yield f"  to publish it all the same, ungated: {command}"
    if labels := verdict.get("labels"):
        yield f"  {describe_labels(labels)}"
    spend = verdict["spend"]
    yield (
        f"spent: {spend['lm_calls']:,} requests ({spend['reflection_calls']:,} by the reflection model), "
        f"{spend['input_tokens'] + spend['output_tokens']:,} tokens, {_format_money(spend)}, {spend['seconds']:,.0f} s"
    )


def _format_test(files: RunFiles, verdict: Verdict) -> Iterator[str]:
    sealed, low_high, gain = verdict["sealed"], verdict["gain_ci95"], _format_points(verdict["gain"] or 0.0)
    metric = verdict.get("metric", ACCURACY)
    interval = f" (95% interval {_format_points(low_high[0])} to {_format_points(low_high[1])})" if low_high else ""
    yield (
        f"sealed test: {metric} {get_score(verdict['baseline']):.1%} → {get_score(verdict['winner']):.1%} with "
        f"{verdict['winner']['candidate_id']}: {gain} points{interval}, p = {verdict['p']:.3g} "
        f"({sealed['test']}; {format_count(sealed['n_questions'], 'question')}, "
        f"{format_count(sealed['epochs'], 'answer')} each)"
    )
    flipped = f"{format_count(sealed['wins'], 'question')} better, {sealed['losses']} worse, {sealed['ties']} the same"
    yield f"  {flipped}{_format_cost(verdict['cost'])}"
    if stop := describe_stop(sealed):
        yield f"  {stop}"
    yield from _format_errors(verdict)
    if failed := describe_failures(verdict):
        yield f"  {failed}"
    yield from _format_earlier_uses(sealed)
    if known := sealed.get("known_to_parent"):
        yield (
            f"  {known} of the sealed questions were used to tune the prompts that it began with: "
            "both scores are biased upwards"
        )
    flips = files.read("flips") or []
    for flip in flips[:_SHOWN_FLIPS]:
        text = textwrap.shorten(flip["question"], _SHOWN_CHARS, placeholder=" …")
        yield f"  {'+' if flip['difference'] > 0 else '-'} {flip['id']}: {text}"
    if len(flips) > _SHOWN_FLIPS:
        yield f"  … and {len(flips) - _SHOWN_FLIPS} more in flips.json"


def _format_errors(verdict: Verdict) -> Iterator[str]:
    """Return the number of answers in error, which count as wrong, by side and class."""
    sides = (("before", verdict["baseline"]), (f"with {verdict['winner']['candidate_id']}", verdict["winner"]))
    errors = [(name, side.get("errors") or {}) for name, side in sides]
    if any(found for _, found in errors):
        parts = [
            f"{name} " + (", ".join(f"{count} {each}" for each, count in found.items()) or "none")
            for name, found in errors
        ]
        yield f"  answers in error, which count as wrong: {'; '.join(parts)}"


def _format_earlier_uses(sealed: SealedNumbers) -> Iterator[str]:
    n_questions, tests = sealed["questions_opened_before"], sealed["opened_before"]
    earlier = describe_earlier_tests(n_questions, sealed.get("n_sealed", sealed["n_questions"]), tests)
    level = None
    if "level" in sealed:
        level = describe_level(sealed["level"], sealed["level_left"], sealed.get("looks", 1))
    if sentence := ": ".join(each for each in (earlier, level) if each):
        yield f"  {sentence}"


def _format_cost(cost: Mapping[str, Mapping[str, float] | None]) -> str:
    parts = []
    if (found := cost.get("cost_usd")) and (usd := found["difference"]):
        parts.append(f"{'-' if usd < 0 else '+'}${abs(usd):.5f}")
    if (found := cost.get("seconds")) and abs(found["difference"]) >= _LEAST_SECONDS:
        parts.append(f"{found['difference']:+.2f} s")
    return f"; {', '.join(parts)} per answer" if parts else ""


def _format_points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _format_money(spend: Mapping[str, float]) -> str:
    known = f"${spend['cost_usd']:,.4f}"
    if not spend["unknown_cost_calls"]:
        return known
    return f"at least {known}" if spend["cost_usd"] else "cost n/a"


def show_finished_run(run: str, given: Sequence[str] = ()) -> int | None:
    """Print the verdict of a finished run again, and return its exit code; None if the run is not finished.

    Args:
        run: its name.
        given: the command line as typed, without the overrides that the run was started with.

    Raises:
        UserError: there is no such run.
    """
    files = RunFiles(find_tuning_run(run))
    verdict = files.read("verdict")
    if verdict is None or verdict["resumable"]:
        return None
    show_verdict(files)
    print_report_path(files.folder, Console())
    if any(not each.startswith(f"{RESUME}=") for each in given):
        print_line("this run is over: the options given now change nothing", error=True)
    return compute_exit_code(verdict)
