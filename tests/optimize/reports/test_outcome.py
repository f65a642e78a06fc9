"""The outcome of a tuning run in one sentence, as far as its verdict goes."""

from pathlib import Path
from typing import Any

import pytest

from eval.runs.folder import RunLock
from eval.runs.run_info import TuningInfo, TuningState
from optimize.gate.looks import TOO_LARGE_EARLY, describe_stop
from optimize.gate.sealed_log import describe_earlier_tests, describe_level
from optimize.gate.verdict import describe_null_control
from optimize.reports.outcome import NOT_TESTED, WORDS, capitalise, describe_outcome, format_bounds, get_scores
from optimize.reports.snapshot import TuningSnapshot

TESTED = {
    "finish_reason": "improved",
    "published": True,
    "set": "tuned",
    "winner": {"candidate_id": "c014", "score": 0.62},
    "baseline": {"score": 0.5},
    "gain": 0.12,
    "gain_ci95": [0.04, 0.2],
    "p": 0.0031,
    "sealed": {"n_questions": 250, "n_sealed": 250},
}

GO_ON = " With a larger budget the run can go on."


def tuning(folder: Path, verdict: Any, **state: Any) -> TuningSnapshot:
    info = TuningInfo(run_id="r1", state=TuningState(**state))
    return TuningSnapshot(folder, info, [], verdict, {}, str)


def test_what_was_published_says_how_much_better_it_is(tmp_path: Path) -> None:
    found = describe_outcome(tuning(tmp_path, TESTED))
    assert (found.label, found.tone) == ("published", "right")
    assert found.sentence.startswith("Published as tuned: the gate's conditions hold. With c014 the accuracy on 250 ")
    assert "250 sealed questions went from 50.0% to 62.0%: " in found.sentence
    assert "12.0 points (95% interval " in found.sentence and "p = 0.0031" in found.sentence


def test_what_was_not_better_says_what_the_questions_could_have_shown(tmp_path: Path) -> None:
    sealed = {"n_questions": 1, "smallest_difference": 0.105, "known_to_parent": 3}
    verdict = {**TESTED, "published": False, "finish_reason": "not_significant", "sealed": sealed, "gain": None}
    found = describe_outcome(tuning(tmp_path, verdict))
    assert (found.label, found.tone) == ("not published", "wrong")
    assert found.sentence.startswith("The sealed test does not show that it is better. With c014 the accuracy on 1 ")
    assert "1 sealed question went" in found.sentence
    assert any("a true gain of 10.5 points in 80 of 100 cases" in note for note in found.notes)
    assert any(note.startswith("3 of the sealed questions were used to tune") for note in found.notes)
    improved = describe_outcome(tuning(tmp_path, {**verdict, "finish_reason": "improved"}))
    assert not any("in 80 of 100 cases" in note for note in improved.notes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("not published", "wrong", f"Nothing better was found: none. {NOT_TESTED}")),
        ({"reasons": []}, ("not published", "wrong", f"Nothing better was found: no reason is known. {NOT_TESTED}")),
        ({"reasons": ["a", "b"]}, ("not published", "wrong", f"Nothing better was found: a; b. {NOT_TESTED}")),
        ({"resumable": True}, ("no verdict", "error",
                               f"Nothing better was found: none. {NOT_TESTED}{GO_ON}")),
        ({"sealed": {"n": 1}}, ("not published", "wrong", "Nothing better was found: none.")),
        ({"finish_reason": "a later version's"}, ("not published", "wrong", f"A later version's: none. {NOT_TESTED}")),
    ],
)  # fmt: skip
def test_without_a_winner_the_reasons_are_told(tmp_path: Path, changes: Any, expected: Any) -> None:
    verdict = {"finish_reason": "no_accepted_candidate", "reasons": ["none"], "published": False, **changes}
    found = describe_outcome(tuning(tmp_path, verdict))
    assert (found.label, found.tone, found.sentence) == expected


def test_a_run_without_a_verdict_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "tuning.json").write_text("{}")
    stopped = describe_outcome(tuning(tmp_path, {}, phase="search", stopped="stopped by Ctrl-C.", ended_at="2026"))
    assert (stopped.label, stopped.tone) == ("no verdict", "error")
    assert stopped.sentence == (
        f"Stopped in the phase search: stopped by Ctrl-C. {NOT_TESTED} What is below is how far it came, and no result."
    )
    killed = describe_outcome(tuning(tmp_path, {}, phase="sealed", sealed_opened_at="2026-11-21T08:00:00+00:00"))
    assert killed.sentence.startswith("The run has no verdict; in its phase sealed, ")
    assert "The sealed test has begun. What is below" in killed.sentence


@pytest.mark.parametrize(
    ("part", "note"),
    [
        ({"gain_shrunken": 0.03}, "Estimated true gain: "),
        ({"null_gain": 0.01}, ""),
        ({"best_val": {"candidate_id": "c007", "val_gain": 0.05}}, "would have shipped c007"),
    ],
)
def test_notes_tell_what_the_search_alone_would_have_said(tmp_path: Path, part: Any, note: str) -> None:
    before = describe_outcome(tuning(tmp_path, TESTED)).notes
    after = describe_outcome(tuning(tmp_path, {**TESTED, **part})).notes
    assert len(after) == len(before) + 1 and any(note in each for each in after)


def test_a_best_candidate_that_gained_nothing_is_no_note(tmp_path: Path) -> None:
    verdict = {**TESTED, "best_val": {"candidate_id": "c007", "val_gain": 0.0}}
    assert describe_outcome(tuning(tmp_path, verdict)).notes == describe_outcome(tuning(tmp_path, TESTED)).notes


def test_verdicts_of_earlier_versions_hold_the_accuracy_alone() -> None:
    assert get_scores({"score": 0.5, "score_ci95": [0.4, 0.6], "accuracy": 0.1}) == (0.5, [0.4, 0.6])
    assert get_scores({"accuracy": 0.1, "ci95": [0.0, 0.2]}) == (0.1, [0.0, 0.2])
    assert get_scores({}) == (None, None)
    assert format_bounds(None) == format_bounds([]) == "unknown" and " to " in format_bounds([0.1, 0.2])


def test_every_end_has_words() -> None:
    assert all(words and words[0].islower() for words in WORDS.values())


def test_all_notes_on_a_test_come_in_their_order(tmp_path: Path) -> None:
    sealed: Any = {
        "n_questions": 8, "n_sealed": 16, "looks": 4, "look": 2, "look_level": 0.0012, "level": 0.03,
        "level_left": 0.02, "smallest_difference": 0.105, "questions_opened_before": 5, "opened_before": 2,
        "known_to_parent": 3, "n_answers": 80, "n_answers_saved": 80, "stopped": "success",
    }  # fmt: skip
    verdict = {
        **TESTED, "published": False, "finish_reason": "not_significant", "sealed": sealed, "gain_shrunken": 0.03,
        "best_val": {"candidate_id": "c007", "val_gain": 0.05}, "null_gain": 0.01, "labels": ["yes", "no"],
        "gate": {"checks": ["passed: one", "failed: two"]},
    }  # fmt: skip
    found = describe_outcome(tuning(tmp_path, verdict))
    level, null = describe_level(0.03, 0.02, 4), describe_null_control(0.01)
    earlier = describe_earlier_tests(5, 16, 2) or ""
    assert list(found.notes) == [
        "Passed: one",
        "Failed: two",
        f"Estimated true gain: +3.0 points. {capitalise(TOO_LARGE_EARLY)}.",
        "Such questions show a true gain of 10.5 points in 80 of 100 cases; smaller ones remain possible.",
        f"{capitalise(earlier)}.",
        f"{capitalise(level)}.",
        "3 of the sealed questions were used to tune the prompts that the run began with: both scores are biased "
        "upwards.",
        "Choosing by the search's scores alone would have shipped c007 (+5.0 points there).",
        f"{capitalise(null)}.",
        "Labels known to the search: yes, no.",
    ]
    assert found.sentence == (
        "The sealed test does not show that it is better. With c014 the accuracy on 8 sealed questions went from 50.0% "
        "to 62.0%: +12.0 points (95% interval +4.0 to +20.0), p = 0.0031, where at most 0.0012 is required. "
        f"{capitalise(describe_stop(sealed) or '')}."
    )
    del sealed["level_left"], sealed["looks"], sealed["n_sealed"], sealed["opened_before"]
    notes = describe_outcome(tuning(tmp_path, verdict)).notes
    assert f"{capitalise(describe_level(0.03, 0.0))}." in notes
    fewer = describe_earlier_tests(5, 8, 0)
    assert fewer is None or f"{capitalise(fewer)}." in notes


def test_a_run_that_goes_on_says_in_which_phase(tmp_path: Path) -> None:
    lock = RunLock(tmp_path / "tuning.json")
    lock.take()
    try:
        going_on = describe_outcome(tuning(tmp_path, {}, phase="search"))
        ended = describe_outcome(tuning(tmp_path, {}, phase="search", ended_at="2026-11-21T08:00:00+00:00"))
    finally:
        lock.release()
    begin = "The run goes on, in its phase search. "
    assert going_on.sentence == f"{begin}{NOT_TESTED} What is below is how far it came, and no result."
    assert ended.sentence.startswith("The run has no verdict; in its phase search, ")
