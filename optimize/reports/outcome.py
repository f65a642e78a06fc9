"""The outcome of a tuning run in words: in the terminal, at the head of its page, and in MLflow.

show_verdict(read_tuning(folder), Console())
outcome = describe_outcome(tuning)
outcome.label, outcome.sentence         # "published", "Published as prompts/tuned: the gate's conditions hold. …"

All three show the same sentences, each in its own form: with a capital letter or without.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from eval.execution.console import Console
from eval.reports.formats import format_points, format_usd
from eval.runs.folder import DATABASE, format_path, is_in_use
from eval.runs.run_info import SILENT
from mas.runtime.text import format_count
from mas.simulation import SIMULATED_NOTICE
from optimize.gate.gate import CONTINUE, HOPELESS, MIN_PREDICTED, SUCCESS, JsonObject, LookLine, Verdict
from optimize.gate.sealed_log import Allowance
from optimize.publishing.publish import describe_published
from optimize.questions.splits import describe_labels
from optimize.session.tuning_store import TuningSnapshot, format_command

WORDS = {
    "improved": "the gate's conditions hold",
    "not_significant": "the sealed test does not show that it is better",
    "no_accepted_candidate": "nothing better was found",
    "budget": "a budget was used up",
    "leak_blocked": "the prompts contain answers, questions or ids",
    "metric_errors": "too many answers could not be scored",
    "reflection_unparsable": "no reply of the reflection model could be read",
}
NOT_TESTED = "The sealed questions were not used."


def show_verdict(tuning: TuningSnapshot, console: Console | None = None) -> None:
    """Print the verdict of a run."""
    console = console or Console()
    if tuning.info.simulated:
        console.print(SIMULATED_NOTICE, style="bold yellow")
    for line in _format_verdict(tuning):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _format_verdict(tuning: TuningSnapshot) -> Iterator[str]:
    verdict = cast(Verdict, tuning.verdict)
    if "winner" in verdict:
        yield f"sealed test: {_describe_test(verdict)}"
    yield from (f"  {note}" for note in _list_test_notes(verdict))
    if verdict["published"]:
        yield describe_published(verdict["set"], tuning.read_part("splits"))
    else:
        yield f"not published: {verdict['finish_reason']}"
    for line in (*_list_checks(verdict), *_list_notes(verdict)):
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
    notes = [f"{_capitalise(each)}." for each in (*_list_test_notes(verdict), *_list_notes(verdict))]
    label, tone, end = ("not published", "wrong", _capitalise(why))
    if "winner" not in verdict:
        opened = "" if tuning.sealed_opened else f" {NOT_TESTED}"
        again = ""
        if verdict["resumable"]:
            label, tone, again = "no verdict", "error", " With a larger budget the run can go on."
        return Outcome(label, tone, f"{end}: {'; '.join(verdict['reasons'])}.{opened}{again}", notes)
    if tuning.published:
        label, tone, end = "published", "right", f"Published as {verdict['set']}: {why}"
    sentence = f"{end}. Sealed test: {_describe_test(verdict)}."
    return Outcome(label, tone, sentence, [*map(_capitalise, _list_checks(verdict)), *notes])


def _capitalise(text: str) -> str:
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


# The sentences


def _list_checks(verdict: Verdict) -> list[str]:
    """Return the gate's checks, each with its result; the reasons, if the run did not come to the gate."""
    return list(verdict["gate"]["checks"] if "gate" in verdict else verdict["reasons"])


def _describe_test(verdict: Verdict) -> str:
    """Return both sides' results in the sealed test, and the gain."""
    sealed, before, after, bounds = verdict["sealed"], verdict["baseline"], verdict["winner"], verdict["gain_ci95"]
    interval = f" (95% interval {format_points(bounds[0])} to {format_points(bounds[1])})" if bounds else ""
    return (
        f"{verdict['metric']} {before['score']:.1%} → {after['score']:.1%} with {after['candidate_id']}: "
        f"{format_points(verdict['gain'] or 0.0)} points{interval}, p = {verdict['p']:.3g} ({sealed['test']}; "
        f"{format_count(sealed['n_questions'], 'question')}, {format_count(sealed['epochs'], 'answer')} each)"
    )


def _list_test_notes(verdict: Verdict) -> Iterator[str]:
    """Yield what else is to be known about the sealed test; nothing if it was not begun."""
    sealed = verdict.get("sealed") or {}
    if "winner" in verdict:
        usd = (verdict["cost"]["cost_usd"] or {}).get("difference")
        cost = f"; {'-' if usd < 0 else '+'}${abs(usd):.5f} per answer" if usd else ""
        wins = format_count(sealed["wins"], "question")
        yield f"{wins} better, {sealed['losses']} worse, {sealed['ties']} the same{cost}"
        if sealed["looks"] > 1:
            yield _describe_stop(sealed)
        yield from _describe_errors(verdict)
    if sealed:
        allowance = Allowance(sealed["level"], sealed["opened_before"], sealed["level_left"])
        yield allowance.describe(sealed["looks"])
    if known := sealed.get("known_to_parent"):
        yield (
            f"{known} of the sealed questions were used to tune the prompts that the run began with: both scores are "
            "biased upwards"
        )


def _list_notes(verdict: Verdict) -> Iterator[str]:
    """Yield what else is to be known about the gain, the search and the labels."""
    if (best := verdict["best_val"]) and best["val_gain"] > 0:
        gain = format_points(best["val_gain"])
        yield f"picking on validation alone would have shipped {best['candidate_id']} ({gain} points there)"
    if (null_gain := verdict["null_gain"]) is not None:
        yield (
            f"null control: an unchanged copy of the starting prompts gained {format_points(null_gain)} points when "
            "the validation questions were answered again; that is chance alone, so a gain of this size there shows "
            "nothing"
        )
    if verdict["labels"]:
        yield describe_labels(verdict["labels"])


def describe_look(line: LookLine, n_looks: int, n_questions: int) -> str:
    """Return a line for the terminal. It shows no score: who saw it might stop the run for it."""
    words = {SUCCESS: "shows a gain", HOPELESS: "shows no gain", CONTINUE: "goes on"}
    asked = f"{line['n_questions']} of {n_questions} questions"
    return f"look {line['look']} of {n_looks}, {asked}: the test {words[line['decision']]}"


def _describe_stop(sealed: JsonObject) -> str:
    """Return a sentence about where a test with looks stopped, and what that saved."""
    looks, look = sealed["looks"], sealed["look"]
    if look == looks:
        return f"all {looks} looks were taken: no answer was saved; the intervals are adjusted for the looks"
    why = "a gain was shown"
    if sealed["stopped"] == HOPELESS:
        why = f"a gain at the end had become improbable (below {MIN_PREDICTED:.0%})"
    saved, n_all = sealed["n_answers_saved"], sealed["n_answers_saved"] + sealed["n_answers"]
    return (
        f"stopped at look {look} of {looks}, after {sealed['n_questions']} of {sealed['n_sealed']} questions: {why}; "
        f"{saved:,} of {n_all:,} answers were saved; the intervals are adjusted for the looks"
    )


def format_cost(spend: Mapping[str, float]) -> str:
    """Return what was paid, as much of it as is known."""
    known = format_usd(spend.get("cost_usd", 0.0))
    if not spend.get("unknown_cost_calls"):
        return known
    return f"at least {known}" if spend.get("cost_usd") else "cost n/a"


def _describe_errors(verdict: Verdict) -> Iterator[str]:
    """Yield how many answers were in error, by side and class, and those that the model's server failed each time."""
    winner = verdict["winner"]["candidate_id"]
    sides = {"before": verdict["baseline"]["errors"], f"with {winner}": verdict["winner"]["errors"]}
    if any(sides.values()):
        counts = {name: ", ".join(f"{n} {kind}" for kind, n in errors.items()) for name, errors in sides.items()}
        listed = "; ".join(f"{name} {found or 'none'}" for name, found in counts.items())
        yield f"answers in error, which count as wrong: {listed}"
    if verdict["failed_questions"]:
        failed = verdict["sealed"]["failed_answers"]
        yield (
            f"answers that the server failed each time: {failed['parent']} before, which count as right, and "
            f"{failed['winner']} with {winner}, which count as wrong"
        )
