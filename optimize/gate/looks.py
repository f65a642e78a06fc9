"""Decision at a look at the sealed test, and the words for where it stopped.

decide_look(settings, comparison, Look(plan, 2))     # "continue"
describe_stop(verdict["sealed"])                     # "stopped at look 2 of 4 …; 30 of 60 answers were not needed"
"""

from typing import TypedDict

from eval.analysis.comparison.comparison import Comparison
from optimize.gate.gate import GateSettings, judge
from optimize.gate.sequential import CONTINUE, HOPELESS, MIN_PREDICTED, SUCCESS, Decision, Look
from optimize.gate.verdict import SealedNumbers

TOO_LARGE = "gains that must be significant to be published look too large on average"
TOO_LARGE_EARLY = f"{TOO_LARGE}, and more so where the test stopped early"


class LookLine(TypedDict):
    """A look that was taken, as `sealed/looks.json` has it: it is not taken again."""

    look: int  # from 1
    n_questions: int  # answered by then
    gain: float
    p: float
    level: float  # the largest p that passes
    decision: Decision


def decide_look(settings: GateSettings, comparison: Comparison, look: Look) -> Decision:
    """Return what follows from the answers so far.

    Success is what the gate would publish now. A test whose gain is large enough, but not its format, goes on: it is
    hopeless only if the gain is.
    """
    if judge(settings, comparison, look).published:
        return SUCCESS
    least = -settings.margin if settings.objective == "cost" else settings.min_gain
    if look.is_last or look.predict_success(comparison.score, least) < MIN_PREDICTED:
        return HOPELESS
    return CONTINUE


def describe_look(line: LookLine, n_looks: int, n_questions: int) -> str:
    """Return a line for the terminal. It shows no score: who saw it might stop the run for it."""
    words = {SUCCESS: "shows a gain", HOPELESS: "shows no gain", CONTINUE: "goes on"}
    if line["look"] < n_looks and line["decision"] != CONTINUE:
        words = {SUCCESS: "stops early, with a gain", HOPELESS: "stops early, without hope of a gain"}
    asked = f"{line['n_questions']} of {n_questions} questions"
    return f"look {line['look']} of {n_looks}, {asked}: the test {words[line['decision']]}"


def describe_stop(sealed: SealedNumbers) -> str | None:
    """Return a sentence about where a test with looks stopped, and what that saved; None for a test without looks."""
    looks, look = sealed.get("looks", 1), sealed.get("look", 1)
    if looks == 1:
        return None
    if look == looks:
        return f"all {looks} looks were taken: no answer was saved; the intervals are adjusted for the looks"
    why = "a gain was shown"
    if sealed.get("stopped") == HOPELESS:
        why = f"a gain at the end had become improbable (below {MIN_PREDICTED:.0%})"
    saved, n_all = sealed["n_answers_saved"], sealed["n_answers_saved"] + sealed["n_answers"]
    return (
        f"stopped at look {look} of {looks}, after {sealed['n_questions']} of {sealed['n_sealed']} questions: {why}; "
        f"{saved:,} of {n_all:,} answers were saved; the intervals are adjusted for the looks"
    )


def describe_selection(sealed: SealedNumbers) -> str:
    """Return a phrase about the bias of a published gain."""
    return TOO_LARGE_EARLY if sealed.get("look", 1) < sealed.get("looks", 1) else TOO_LARGE


def get_required_level(sealed: SealedNumbers) -> float | None:
    """Return the largest p that passed where the test stopped; None in verdicts of runs that had no level."""
    return sealed.get("look_level", sealed.get("level"))
