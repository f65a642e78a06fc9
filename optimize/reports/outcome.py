"""The outcome of a tuning run in words: in the terminal, at the head of its page, and in MLflow.

show_verdict(read_tuning(folder), Console())
outcome = describe_outcome(tuning)
outcome.label, outcome.sentence         # "published", "Published as prompts/tuned: the gate's conditions hold. …"
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from eval.execution.console import Console
from eval.runs.folder import DATABASE, format_path, is_in_use
from eval.runs.run_info import SILENT
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.verdict import Verdict
from optimize.gate.words import describe_test, format_cost, list_checks, list_notes, list_test_notes
from optimize.publishing.publish import describe_published
from optimize.session.tuning_store import TuningSnapshot, format_command


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


WORDS = {
    "improved": "the gate's conditions hold",
    "not_significant": "the sealed test does not show that it is better",
    "no_accepted_candidate": "nothing better was found",
    "budget": "a budget was used up",
    "leak_blocked": "the prompts contain answers, questions or ids",
    "format_loss": "more of its answers cannot be read",
    "metric_errors": "too many answers could not be scored",
    "reflection_unparsable": "no reply of the reflection model could be read",
}
NOT_TESTED = "The sealed questions were not used."


@dataclass(frozen=True)
class Outcome:
    label: str  # published | not published | no verdict
    tone: str  # class of the page's styles
    sentence: str
    notes: Sequence[str] = ()


def describe_outcome(tuning: TuningSnapshot) -> Outcome:
    """Return whether the run has published prompts, and why."""
    if not tuning.verdict:
        return Outcome("no verdict", "error", _describe_unfinished(tuning))
    verdict = cast(Verdict, tuning.verdict)
    why = WORDS.get(verdict["finish_reason"], str(verdict["finish_reason"]))
    notes = [f"{capitalise(each)}." for each in (*list_test_notes(verdict), *list_notes(verdict))]
    if "winner" not in verdict:
        opened = "" if tuning.sealed_opened else f" {NOT_TESTED}"
        again = " With a larger budget the run can go on." if verdict["resumable"] else ""
        label, tone = ("no verdict", "error") if verdict["resumable"] else ("not published", "wrong")
        return Outcome(label, tone, f"{capitalise(why)}: {'; '.join(verdict['reasons'])}.{opened}{again}", notes)
    label, tone, end = ("not published", "wrong", capitalise(why))
    if tuning.published:
        label, tone, end = "published", "right", f"Published as {verdict['set']}: {why}"
    sentence = f"{end}. Sealed test: {describe_test(verdict)}."
    return Outcome(label, tone, sentence, [*map(capitalise, list_checks(verdict)), *notes])


def capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _describe_unfinished(tuning: TuningSnapshot) -> str:
    state, session = tuning.state, tuning.state.last_session
    if session.stopped and session.stopped != SILENT:
        how = f"Stopped in the phase {state.phase}: {session.stopped}"
    elif session.ended_at is None and is_in_use(tuning.folder / DATABASE):
        how = f"The run goes on, in its phase {state.phase}"
    else:
        how = f"The run has no verdict; in its phase {state.phase}, {SILENT}"
    opened = "The sealed test has begun." if tuning.sealed_opened else NOT_TESTED
    return f"{how.rstrip('.')}. {opened} What is below is how far it came, and no result."
