"""The verdict on a tuning run, as `verdict.json` holds it, its exit code, and its sentences.

Terminal, page of the run and MLflow show the same sentences, each in its own form: with a capital letter or without.

    describe_test(verdict)      # "accuracy 49.4% → 62.2% with c014: +12.8 points (95% interval +1.9 to +24.0), p = …"
    list(list_test_notes(verdict))      # ["stopped at look 3 of 4, after …; 30 of 60 answers were saved; …", …]
    list(list_notes(verdict))           # ["estimated true gain: +4.4 points; …", …]
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.reports.formats import format_points, format_usd
from mas.runtime.text import format_count
from optimize.gate.gate import CONTINUE, HOPELESS, MIN_PREDICTED, SUCCESS, FinishReason, LookLine
from optimize.gate.sealed_log import describe_earlier_tests, describe_level

BROKEN: tuple[FinishReason, ...] = ("metric_errors", "reflection_unparsable")  # the run could not judge any prompts
_MAX_SHOWN, _MAX_LABELS = 5, 20  # ids and labels in a sentence
_LEAST_SECONDS = 0.005

JsonObject = dict[str, Any]


class EarlyVerdictError(Exception):
    """The run ends in the middle of a phase, for a reason that is its verdict."""

    def __init__(self, finish_reason: FinishReason, sentence: str) -> None:
        super().__init__(sentence)
        self.finish_reason: FinishReason = finish_reason


class Verdict(TypedDict, total=False):
    """The verdict on a run, with its reasons and numbers."""

    published: bool
    finish_reason: FinishReason
    reasons: list[str]
    resumable: bool  # a larger budget would continue the run
    simulated: bool
    spend: dict[str, float]
    best_val: JsonObject | None  # `candidate_id` that validation alone would have published, and its `val_gain` there
    null_gain: float | None  # of an unchanged copy of the parent: the score of its new answers against the search's
    labels: list[str]  # known to the search; empty: the targets are answers

    # Of a run that came to the gate:
    metric: str  # name of what `gain` and `score` are: see `eval.scorers.score`
    gain: float | None  # in the metric, -1 to 1
    gain_ci95: Sequence[float] | None  # adjusted for the looks
    gain_shrunken: float | None  # estimate of the true gain of a published set; None: not selected for its gain
    p: float | None
    baseline: JsonObject  # `accuracy`, `score` in the metric, their intervals, and `errors` by class
    winner: JsonObject  # the same, `candidate_id`, and `prompts_sha256`: what was tested is what was published
    failed_questions: list[str]  # that the server failed each time
    cost: dict[str, dict[str, float] | None]  # differences per answer
    gate: JsonObject  # `settings` and `checks`
    set: str  # folder of the published or rejected set

    # The sealed test. Of a test that was begun and not judged only some of it.
    # `n_questions` that were asked, of `n_sealed`; `epochs`; `n_answers` of both sides, `n_answers_saved` that the test
    # did not need; questions as `wins`, `losses` and `ties` of the winner; `test`, the name of the significance test
    # `looks` that were planned, the `look` at which it stopped, what that decided (`stopped`), and the largest p that
    # passed there (`look_level`)
    # `level` of all looks together, `gain_interval` at that level, `smallest_difference` that all sealed questions
    # would show at it in 80 of 100 cases, `level_left` of 0.05 for later tests with these questions
    # `opened_before`: earlier tests that used any of the questions, which were `questions_opened_before`
    # `known_to_parent`: questions that the parent was tuned on; `failed_answers` of the server by side
    sealed: JsonObject


def compute_exit_code(verdict: Verdict) -> int:
    """Return the exit code of a run with this verdict: rejected by the gate is 0, as published (`eval.cli.command`)."""
    if verdict["resumable"]:
        return STOPPED
    return FAILURES if verdict["finish_reason"] in BROKEN else FINISHED


def list_checks(verdict: Verdict) -> list[str]:
    """Return the gate's checks, each with its result; the reasons, if the run did not come to the gate."""
    return list(verdict["gate"]["checks"] if "gate" in verdict else verdict["reasons"])


def describe_test(verdict: Verdict) -> str:
    """Return both sides' results in the sealed test, and the gain."""
    sealed, before, after, bounds = verdict["sealed"], verdict["baseline"], verdict["winner"], verdict["gain_ci95"]
    interval = f" (95% interval {format_points(bounds[0])} to {format_points(bounds[1])})" if bounds else ""
    return (
        f"{verdict['metric']} {before['score']:.1%} → {after['score']:.1%} with {after['candidate_id']}: "
        f"{format_points(verdict['gain'] or 0.0)} points{interval}, p = {verdict['p']:.3g} ({sealed['test']}; "
        f"{format_count(sealed['n_questions'], 'question')}, {format_count(sealed['epochs'], 'answer')} each)"
    )


def list_test_notes(verdict: Verdict) -> Iterator[str]:
    """Yield what else is to be known about the sealed test; nothing if it was not begun."""
    sealed = verdict.get("sealed") or {}
    if "winner" in verdict:
        better = (
            f"{format_count(sealed['wins'], 'question')} better, {sealed['losses']} worse, {sealed['ties']} the same"
        )
        yield f"{better}{_describe_cost(verdict['cost'])}"
        if stop := describe_stop(sealed):
            yield stop
        yield from _describe_errors(verdict)
    if sealed:
        yield from _describe_earlier_tests(sealed)
    if known := sealed.get("known_to_parent"):
        yield (
            f"{known} of the sealed questions were used to tune the prompts that the run began with: both scores are "
            "biased upwards"
        )


def list_notes(verdict: Verdict) -> Iterator[str]:
    """Yield what else is to be known about the gain, the search and the labels."""
    sealed = verdict.get("sealed") or {}
    if (shrunken := verdict.get("gain_shrunken")) is not None:
        early = ", and more so where the test stopped early" if sealed["look"] < sealed["looks"] else ""
        yield (
            f"estimated true gain: {format_points(shrunken)} points; gains that must be significant to be published "
            f"look too large on average{early}"
        )
    if verdict["finish_reason"] == "not_significant" and (least := sealed.get("smallest_difference")):
        yield (
            f"such questions show a true gain of {100 * least:.1f} points in 80 of 100 cases; smaller ones remain "
            "possible"
        )
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
    if line["look"] < n_looks and line["decision"] != CONTINUE:
        words = {SUCCESS: "stops early, with a gain", HOPELESS: "stops early, without hope of a gain"}
    asked = f"{line['n_questions']} of {n_questions} questions"
    return f"look {line['look']} of {n_looks}, {asked}: the test {words[line['decision']]}"


def describe_stop(sealed: JsonObject) -> str | None:
    """Return a sentence about where a test with looks stopped, and what that saved; None for a test without looks."""
    looks, look = sealed["looks"], sealed["look"]
    if looks == 1:
        return None
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


def describe_labels(labels: Sequence[str]) -> str:
    """Return `Labels known to the search: billing, refund`, cut where there are many."""
    more = f", and {len(labels) - _MAX_LABELS} more" if len(labels) > _MAX_LABELS else ""
    return f"Labels known to the search: {', '.join(map(str, labels[:_MAX_LABELS]))}{more}"


def format_ids(questions: Sequence[str]) -> str:
    """Return ids as "q7, q9 and 3 more"."""
    more = f" and {len(questions) - _MAX_SHOWN} more" if len(questions) > _MAX_SHOWN else ""
    return f"{', '.join(questions[:_MAX_SHOWN])}{more}"


def format_cost(spend: Mapping[str, float]) -> str:
    """Return what was paid, as much of it as is known."""
    known = format_usd(spend.get("cost_usd", 0.0))
    if not spend.get("unknown_cost_calls"):
        return known
    return f"at least {known}" if spend.get("cost_usd") else "cost n/a"


def _describe_cost(cost: Mapping[str, Mapping[str, float] | None]) -> str:
    parts = []
    if (dollars := cost["cost_usd"]) and (usd := dollars["difference"]):
        parts.append(f"{'-' if usd < 0 else '+'}${abs(usd):.5f}")
    if (time := cost["seconds"]) and abs(time["difference"]) >= _LEAST_SECONDS:
        parts.append(f"{time['difference']:+.2f} s")
    return f"; {', '.join(parts)} per answer" if parts else ""


def _describe_errors(verdict: Verdict) -> Iterator[str]:
    """Yield how many answers were in error, by side and class, and those that the model's server failed each time."""
    winner = verdict["winner"]["candidate_id"]
    sides = {"before": verdict["baseline"]["errors"], f"with {winner}": verdict["winner"]["errors"]}
    if any(sides.values()):
        parts = (
            f"{name} {', '.join(f'{count} {each}' for each, count in errors.items()) or 'none'}"
            for name, errors in sides.items()
        )
        yield f"answers in error, which count as wrong: {'; '.join(parts)}"
    if questions := verdict["failed_questions"]:
        failed = verdict["sealed"]["failed_answers"]
        as_right = f"{failed['as_right']} of before count as right, the others as wrong"
        yield (
            f"answers that the server failed each time: {failed['parent']} before, {failed['winner']} with {winner} "
            f"(to {format_ids(questions)}); {as_right if failed['as_right'] else 'all count as wrong'}"
        )


def _describe_earlier_tests(sealed: JsonObject) -> Iterator[str]:
    earlier = describe_earlier_tests(sealed["questions_opened_before"], sealed["n_sealed"], sealed["opened_before"])
    level = describe_level(sealed["level"], sealed["level_left"], sealed["looks"]) if "level" in sealed else None
    if earlier or level:
        yield ": ".join(each for each in (earlier, level) if each)
