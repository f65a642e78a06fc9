"""Terminal output of a finished tuning run.

show_verdict(read_tuning(folder), Console())
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import cast

from eval.execution.console import Console
from eval.reports.summary_table import print_report_path
from eval.runs.folder import REPORT, format_path
from mas.runtime.terminal import print_line
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.verdict import Verdict, compute_exit_code
from optimize.gate.words import describe_test, format_cost, list_checks, list_notes, list_test_notes
from optimize.publishing.publish import describe_published
from optimize.session.tuning_store import RESUME, TuningSnapshot, find_tuning_run, format_command, read_tuning


def show_verdict(tuning: TuningSnapshot, console: Console | None = None) -> None:
    """Print the verdict of a run."""
    console = console or Console()
    if tuning.info.simulated:
        console.print(SIMULATED_NOTICE, style="bold yellow")
    for line in format_verdict(tuning):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def format_verdict(tuning: TuningSnapshot) -> Iterator[str]:
    """Return the verdict as lines of text."""
    verdict = cast(Verdict, tuning.verdict)
    if "winner" in verdict:
        yield f"sealed test: {describe_test(verdict)}"
    yield from (f"  {note}" for note in list_test_notes(verdict))
    if verdict["published"]:
        yield describe_published(verdict["set"], tuning.read_part("splits"))
    else:
        yield f"not published: {verdict['finish_reason']}"
    for line in (*list_checks(verdict), *list_notes(verdict)):
        yield f"  {line}"
    if not verdict["published"] and (winner := verdict.get("winner")):
        run, chosen = shlex.quote(str(format_path(tuning.folder))), winner["candidate_id"]
        command = f"{format_command('export.py')} {run} --candidate {chosen} --name {shlex.quote(tuning.task.name)}"
        yield f"  to publish it all the same, ungated: {command}"
    spend = verdict["spend"]
    yield (
        f"spent: {spend['lm_calls']:,} requests ({spend['reflection_calls']:,} by the reflection model), "
        f"{spend['input_tokens'] + spend['output_tokens']:,} tokens, {format_cost(spend)}, {spend['seconds']:,.0f} s"
    )


def show_finished_run(run: str, given: Sequence[str] = ()) -> int | None:
    """Print the verdict of a finished run again, and return its exit code; None if the run is not finished.

    Args:
        run: its name.
        given: the command line as typed, without the overrides that the run was started with.

    Raises:
        UserError: there is no such run.
    """
    tuning = read_tuning(find_tuning_run(run))
    if not tuning.is_final:
        return None
    show_verdict(tuning)
    if not (tuning.folder / REPORT).is_file():  # the process ended between the verdict and its page
        from optimize.reports.tuning_page import write_tuning_page

        write_tuning_page(tuning.folder)
    print_report_path(tuning.folder, Console())
    if any(not each.startswith(f"{RESUME}=") for each in given):
        print_line("this run is over: the options given now change nothing", error=True)
    return compute_exit_code(cast(Verdict, tuning.verdict))
