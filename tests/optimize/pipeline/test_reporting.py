"""What a finished run says on the terminal: whole sentences, whole commands, nothing that is not so."""

import io
import shlex
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eval.cli.paths import PROJECT_ROOT
from eval.runs.run_info import TuningInfo
from mas.simulation import SIMULATED_NOTICE
from optimize.pipeline.terminal import show_verdict
from optimize.reports.outcome import capitalise, describe_outcome
from optimize.reports.snapshot import read_tuning
from optimize.session.run_files import RunFiles

SPEND = {
    "metric_calls": 60, "lm_calls": 1234, "reflection_calls": 12, "input_tokens": 4000, "output_tokens": 567,
    "cost_usd": 0.25, "unknown_cost_calls": 0, "seconds": 61.4,
}  # fmt: skip
TESTED: dict[str, Any] = {
    "published": False, "finish_reason": "not_significant", "simulated": False, "spend": SPEND, "best_val": None,
    "gain": 0.05, "gain_ci95": [-0.01, 0.11], "p": 0.09, "reasons": ["The gain is +5.0 points."],
    "baseline": {"accuracy": 0.4}, "winner": {"candidate_id": "c004", "accuracy": 0.45},
    "sealed": {
        "n_questions": 60, "epochs": 5, "wins": 9, "losses": 4, "ties": 47, "test": "exact sign-flip",
        "smallest_difference": 0.12,
        "opened_before": 0, "questions_opened_before": 0,
    },
    "cost": {"cost_usd": {"difference": -0.00012}, "seconds": {"difference": 0.0}},
}  # fmt: skip
FLIPS = [
    {"id": f"q{n}", "difference": 1 - 2 * (n % 2), "question": "How many words does it take? " * 9} for n in range(13)
]


def shown(folder: Path, verdict: dict[str, Any], width: int = 80, terminal: bool = False, name: str = "tuned") -> str:
    files = RunFiles(folder)
    files.write("verdict", verdict)
    files.write_info(TuningInfo(name=name))
    screen = io.StringIO()
    show_verdict(files, Console(file=screen, width=width, force_terminal=terminal, color_system=None))
    return screen.getvalue()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_refusal_says_why_what_it_would_have_taken_and_what_can_be_done(
    tmp_path: Path, width: int, terminal: bool
) -> None:
    RunFiles(tmp_path).write("flips", FLIPS)
    text = shown(tmp_path, TESTED, width, terminal)
    lines = text.splitlines()
    assert lines[0] == (
        "sealed test: accuracy 40.0% → 45.0% with c004: +5.0 points (95% interval -1.0 to +11.0), p = 0.09 "
        "(exact sign-flip; 60 questions, 5 answers each)"
    )
    assert lines[1] == "  9 questions better, 4 worse, 47 the same; -$0.00012 per answer"
    assert lines[2].startswith("  + q0: How many words") and lines[2].endswith(" …") and len(lines[2]) < 80
    assert "  … and 3 more in flips.json" in lines
    assert "not published: not_significant" in lines and "  The gain is +5.0 points." in lines
    assert "  such questions show a true gain of 12.0 points in 80 of 100 cases; smaller ones remain possible" in lines
    assert lines[-1] == "spent: 1,234 requests (12 by the reflection model), 4,567 tokens, $0.2500, 61 s"
    (command,) = [line.partition("ungated: ")[2] for line in lines if "ungated: " in line]
    assert shlex.split(command)[2:] == [str(tmp_path), "--candidate", "c004", "--name", "tuned"]


def test_terminal_and_page_name_each_check_with_its_result_and_what_a_null_control_means(tmp_path: Path) -> None:
    checks = ["failed: The gain is +5.0 points.", "passed: p is 0.01."]
    verdict = {**TESTED, "gate": {"checks": checks}, "null_gain": 0.021}
    lines = shown(tmp_path, verdict).splitlines()
    meaning = (
        "null control: an unchanged copy of the starting prompts gained +2.1 points when the validation questions "
        "were answered again; that is chance alone, so a gain of this size there shows nothing"
    )
    assert [f"  {each}" for each in (*checks, meaning)] == [
        each for each in lines if each.startswith(("  failed", "  passed", "  null"))
    ]
    notes = describe_outcome(read_tuning(tmp_path)).notes
    assert notes[:2] == ["Failed: The gain is +5.0 points.", "Passed: p is 0.01."]
    assert f"{capitalise(meaning)}." in notes


def test_the_commands_can_be_pasted_where_the_run_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT_ROOT)
    assert "ungated: python optimize/export.py " in shown(tmp_path, TESTED)
    odd = tmp_path / "my run"
    odd.mkdir()
    monkeypatch.chdir(tmp_path)
    text = shown(odd, TESTED)
    assert f"ungated: python {PROJECT_ROOT}/optimize/export.py 'my run' --candidate c004 --name tuned" in text


def test_a_published_set_is_named_with_how_to_use_it(tmp_path: Path) -> None:
    published = {**TESTED, "published": True, "finish_reason": "improved", "set": "prompts/tuned"}
    text = shown(tmp_path, published)
    beside = "evaluations also report the score on questions not tuned on"
    assert f"published: prompts/tuned (use it: prompts=tuned; {beside})\n" in text
    assert "ungated" not in text and "in 80 of 100 cases" not in text and "true gain" not in text
    text = shown(tmp_path, {**published, "gain_shrunken": 0.031})
    assert "  estimated true gain: +3.1 points; gains that must be significant " in text
    RunFiles(tmp_path).write("splits", {"sealed_option": "split=test"})
    assert "published: prompts/tuned (use it: prompts=tuned split=test)\n" in shown(tmp_path, published)


def test_a_run_without_a_test_says_no_more_than_it_knows(tmp_path: Path) -> None:
    ended = {key: TESTED[key] for key in ("published", "simulated", "spend")} | {
        "finish_reason": "budget",
        "reasons": ["It is used up."],
        "best_val": {"candidate_id": "c2", "val_gain": 0.1},
    }
    assert shown(tmp_path, ended).splitlines()[:3] == [
        "not published: budget",
        "  It is used up.",
        "  picking on validation alone would have shipped c2 (+10.0 points there)",
    ]


def test_answers_in_error_are_told_by_class_for_each_side(tmp_path: Path) -> None:
    assert "in error" not in shown(tmp_path, TESTED)
    winner = {**TESTED["winner"], "errors": {"malformed": 3, "limit": 1}}
    text = shown(tmp_path, {**TESTED, "baseline": {"accuracy": 0.4, "errors": {}}, "winner": winner})
    assert "  answers in error, which count as wrong: before none; with c004 3 malformed, 1 limit\n" in text


@pytest.mark.parametrize(("before", "words"), [(1, "in 1 earlier sealed test: "), (3, "in 3 earlier sealed tests: ")])
def test_earlier_openings_are_told(tmp_path: Path, before: int, words: str) -> None:
    level = {"level": 0.0075, "level_left": 0.0125}
    verdict = {**TESTED, "sealed": {**TESTED["sealed"], **level, "opened_before": before, "questions_opened_before": 7}}
    left = "the gate requires p of at most 0.0075 (two-sided); 0.0125 of 0.05 is left"
    assert f"  7 of the 60 sealed questions were used {words}{left}" in shown(tmp_path, verdict)
    assert "earlier sealed" not in shown(tmp_path, TESTED)


def test_sealed_questions_that_the_parent_was_tuned_on_are_told(tmp_path: Path) -> None:
    verdict = {**TESTED, "sealed": {**TESTED["sealed"], "known_to_parent": 9}}
    assert "  9 of the sealed questions were used to tune the prompts that it began with" in shown(tmp_path, verdict)
    assert "used to tune" not in shown(tmp_path, TESTED)


def test_what_is_simulated_and_what_is_unknown_is_said(tmp_path: Path) -> None:
    assert shown(tmp_path, {**TESTED, "simulated": True}).startswith(SIMULATED_NOTICE)
    assert SIMULATED_NOTICE not in shown(tmp_path, TESTED)
    assert "at least $0.2500" in shown(tmp_path, {**TESTED, "spend": {**SPEND, "unknown_cost_calls": 2}})
    unpriced = {**SPEND, "unknown_cost_calls": 1_234, "cost_usd": 0.0}
    assert "4,567 tokens, cost n/a, 61 s" in shown(tmp_path, {**TESTED, "spend": unpriced})
    free = {**TESTED, "cost": {"cost_usd": {"difference": 0.0}, "seconds": None}}
    assert "47 the same\n" in shown(tmp_path, free)
