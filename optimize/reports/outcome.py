"""The outcome of a tuning run in one sentence, and the numbers of its sealed test, for the head of its page.

outcome = describe_outcome(tuning)
outcome.label, outcome.sentence         # "published", "With c014 the accuracy on 250 sealed questions is …"
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from eval.reports.notes import format_percent, format_points
from eval.runs.folder import is_in_use
from eval.runs.run_info import SILENT, TUNING_FILE
from eval.scorers.score import ACCURACY
from mas.runtime.text import format_count
from optimize.gate.looks import describe_selection, describe_stop, get_required_level
from optimize.gate.sealed_log import describe_earlier_tests, describe_level
from optimize.gate.verdict import SealedNumbers, SideNumbers, describe_null_control, list_checks
from optimize.publishing.provenance import describe_labels
from optimize.reports.snapshot import JsonObject, TuningSnapshot

WORDS = {
    "improved": "the gate's conditions hold",
    "not_significant": "the sealed test does not show that it is better",
    "no_accepted_candidate": "nothing better was found",
    "budget": "a budget was used up",
    "leak_blocked": "the prompts contain answers, questions or ids",
    "too_long": "the prompts are too long",
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
    verdict = tuning.verdict
    if not verdict:
        return Outcome("no verdict", "error", _describe_unfinished(tuning))
    reasons = [str(each) for each in verdict.get("reasons") or ()]
    why = WORDS.get(str(verdict.get("finish_reason")), str(verdict.get("finish_reason")))
    if not verdict.get("winner"):
        opened = "" if tuning.sealed_opened else f" {NOT_TESTED}"
        again = " With a larger budget the run can go on." if verdict.get("resumable") else ""
        label, tone = ("no verdict", "error") if verdict.get("resumable") else ("not published", "wrong")
        sentence = f"{capitalise(why)}: {'; '.join(reasons) or 'no reason is known'}.{opened}{again}"
        return Outcome(label, tone, sentence, _list_notes(tuning))
    notes = [*map(capitalise, list_checks(verdict)), *_list_notes(tuning)]
    if tuning.published:
        place = f"Published as {verdict.get('set')}: {why}. "
        return Outcome("published", "right", f"{place}{_describe_test(tuning)}", notes)
    return Outcome("not published", "wrong", f"{capitalise(why)}. {_describe_test(tuning)}", notes)


def get_scores(side: SideNumbers) -> tuple[float | None, Sequence[float] | None]:
    """Return a side's score and interval; verdicts of earlier versions hold the accuracy alone."""
    if "score" in side:
        return side["score"], side.get("score_ci95")
    return side.get("accuracy"), side.get("ci95")


def get_test(tuning: TuningSnapshot) -> SealedNumbers:
    """Return the counts of the sealed test; empty if there was none."""
    return cast(SealedNumbers, tuning.verdict.get("sealed") or {})


def format_bounds(bounds: Sequence[float] | None) -> str:
    return f"{format_points(bounds[0])} to {format_points(bounds[1])}" if bounds else "unknown"


def capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _describe_test(tuning: TuningSnapshot) -> str:
    verdict = tuning.verdict
    sealed, winner = verdict.get("sealed") or {}, verdict["winner"]
    before, after = (get_scores(verdict.get(name) or {})[0] for name in ("baseline", "winner"))
    level = get_required_level(get_test(tuning))
    required = "" if level is None else f", where at most {level:.3g} is required"
    stop = describe_stop(get_test(tuning))
    return (
        f"With {winner.get('candidate_id')} the {verdict.get('metric', ACCURACY)} on "
        f"{format_count(sealed.get('n_questions') or 0, 'sealed question')} went from {format_percent(before)} to "
        f"{format_percent(after)}: {format_points(verdict.get('gain') or 0.0)} points (95% interval "
        f"{format_bounds(verdict.get('gain_ci95'))}), p = {verdict.get('p') or 0.0:.3g}{required}."
        f"{f' {capitalise(stop)}.' if stop else ''}"
    )


def _describe_unfinished(tuning: TuningSnapshot) -> str:
    state = tuning.info.state
    if state.stopped:
        how = f"Stopped in the phase {state.phase}: {state.stopped}"
    elif state.ended_at is None and is_in_use(tuning.folder / TUNING_FILE):
        how = f"The run goes on, in its phase {state.phase}"
    else:
        how = f"The run has no verdict; in its phase {state.phase}, {SILENT}"
    opened = "The sealed test has begun." if tuning.sealed_opened else NOT_TESTED
    return f"{how.rstrip('.')}. {opened} What is below is how far it came, and no result."


def _list_notes(tuning: TuningSnapshot) -> list[str]:
    verdict = tuning.verdict
    sealed: JsonObject = verdict.get("sealed") or {}
    notes = []
    if (shrunken := verdict.get("gain_shrunken")) is not None:
        bias = capitalise(describe_selection(get_test(tuning)))
        notes.append(f"Estimated true gain: {format_points(shrunken)} points. {bias}.")
    least = sealed.get("smallest_difference")
    if verdict.get("finish_reason") == "not_significant" and least:
        notes.append(
            f"Such questions show a true gain of {100 * least:.1f} points in 80 of 100 cases; smaller ones remain "
            "possible."
        )
    n_used, n_tests = sealed.get("questions_opened_before") or 0, sealed.get("opened_before") or 0
    if earlier := describe_earlier_tests(n_used, sealed.get("n_sealed") or sealed.get("n_questions") or 0, n_tests):
        notes.append(f"{capitalise(earlier)}.")
    if "level" in sealed:
        level = describe_level(sealed["level"], sealed.get("level_left") or 0.0, sealed.get("looks") or 1)
        notes.append(f"{capitalise(level)}.")
    if known := sealed.get("known_to_parent"):
        notes.append(
            f"{known} of the sealed questions were used to tune the prompts that the run began with: both scores are "
            "biased upwards."
        )
    if (best := verdict.get("best_val")) and best.get("val_gain", 0) > 0:
        notes.append(
            f"Choosing by the search's scores alone would have shipped {best.get('candidate_id')} "
            f"({format_points(best['val_gain'])} points there)."
        )
    if (null_gain := verdict.get("null_gain")) is not None:
        notes.append(f"{capitalise(describe_null_control(null_gain))}.")
    if labels := verdict.get("labels"):
        notes.append(f"{describe_labels(labels)}.")
    return notes
