"""Tests of a verdict as lines of text."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mas.simulation import SIMULATED_NOTICE
from optimize.gate.looks import TOO_LARGE
from optimize.gate.sealed_log import describe_level
from optimize.gate.verdict import Verdict, describe_null_control
from optimize.pipeline.terminal import format_verdict, show_verdict
from optimize.session.run_files import RunFiles

SPEND = {
    "lm_calls": 1234, "reflection_calls": 5, "input_tokens": 1000, "output_tokens": 501,
    "cost_usd": 0.5, "unknown_cost_calls": 0, "seconds": 61.4,
}  # fmt: skip
SEALED = {
    "n_questions": 40, "n_sealed": 40, "epochs": 1, "wins": 9, "losses": 2, "ties": 29, "test": "sign test",
    "questions_opened_before": 0, "opened_before": 0,
}  # fmt: skip
TESTED = {
    "published": False, "finish_reason": "not_significant", "reasons": ["the gain may be chance"], "spend": SPEND,
    "metric": "mean", "gain": 0.175, "gain_ci95": [-0.01, 0.36], "p": 0.0654321,
    "baseline": {"accuracy": 0.4, "score": 0.5}, "winner": {"candidate_id": "c002", "accuracy": 0.6, "score": 0.675},
    "sealed": SEALED, "cost": {"cost_usd": None, "seconds": None},
}  # fmt: skip


@dataclass
class KeptFiles:
    """The files of a run that the lines are read from."""

    kept: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path("runs/my run")

    def read(self, name: str) -> Any:
        return self.kept.get(name)

    def read_info(self) -> Any:
        return SimpleNamespace(name="my set")


def show(verdict: dict[str, Any], **kept: Any) -> list[str]:
    return list(format_verdict(cast(RunFiles, KeptFiles(kept)), cast(Verdict, verdict), "my set"))


def changed(*path: str, **values: Any) -> dict[str, Any]:
    """`TESTED` with other values, in one of its parts if a path is given."""
    if not path:
        return {**TESTED, **values}
    return {**TESTED, path[0]: {**cast(dict[str, Any], TESTED[path[0]]), **values}}


def test_a_refused_winner_is_shown_with_its_test_and_how_to_publish_it() -> None:
    head, counts, refused, check, by_hand, spent = show(TESTED)
    assert head == (
        "sealed test: mean 50.0% → 67.5% with c002: +17.5 points (95% interval -1.0 to +36.0), p = 0.0654 "
        "(sign test; 40 questions, 1 answer each)"
    )
    assert counts == "  9 questions better, 2 worse, 29 the same"
    assert (refused, check) == ("not published: not_significant", "  the gain may be chance")
    assert "to publish it all the same, ungated: " in by_hand
    assert by_hand.endswith("runs/my run' --candidate c002 --name 'my set'")
    assert spent == "spent: 1,234 requests (5 by the reflection model), 1,501 tokens, $0.5000, 61 s"


def test_a_published_set_is_shown_with_its_checks_and_the_estimate_of_its_gain() -> None:
    gate = {"gate": {"checks": ["passed: p"]}, "published": True, "set": "prompts/mine", "gain_shrunken": 0.081}
    _, _, published, check, estimate, spent = show(changed(**gate), splits={"sealed_option": "split=test"})
    assert published == "published: prompts/mine (use it: prompts=mine split=test)"
    assert (check, estimate) == ("  passed: p", f"  estimated true gain: +8.1 points; {TOO_LARGE}")
    assert spent.startswith("spent: ")
    assert "questions not tuned on" in show(changed(**gate))[2]


def test_without_an_interval_or_a_metric_of_its_own_the_accuracy_is_shown() -> None:
    earlier = {key: value for key, value in TESTED.items() if key != "metric"}
    earlier |= {"gain_ci95": None, "baseline": {"accuracy": 0.4}, "winner": {"candidate_id": "c1", "accuracy": 0.6}}
    assert show(earlier)[0].startswith("sealed test: accuracy 40.0% → 60.0% with c1: +17.5 points, p = 0.0654 (")


@pytest.mark.parametrize(
    ("cost", "shown"),
    [
        ({"cost_usd": {"difference": 0.001}, "seconds": {"difference": -0.005}}, "; +$0.00100, -0.01 s per answer"),
        ({"cost_usd": {"difference": -0.25}, "seconds": {"difference": 0.0049}}, "; -$0.25000 per answer"),
        ({"cost_usd": {"difference": 0.0}, "seconds": {"difference": 2.0}}, "; +2.00 s per answer"),
        ({"cost_usd": {"difference": 0.0}, "seconds": {"difference": 0.0}}, ""),
    ],
)
def test_the_cost_of_an_answer_is_shown_where_it_differs(cost: dict[str, Any], shown: str) -> None:
    assert show(changed(cost=cost))[1] == f"  9 questions better, 2 worse, 29 the same{shown}"


@pytest.mark.parametrize(
    ("spend", "shown"),
    [({"unknown_cost_calls": 1}, "at least $0.5000"), ({"unknown_cost_calls": 1, "cost_usd": 0.0}, "cost n/a")],
)
def test_a_cost_that_is_not_known_is_not_made_up(spend: dict[str, Any], shown: str) -> None:
    assert f" tokens, {shown}, 61 s" in show(changed("spend", **spend))[-1]


def test_facts_without_which_the_test_cannot_be_read_stand_below_it() -> None:
    verdict = changed("sealed", known_to_parent=3, opened_before=2, questions_opened_before=12, smallest_difference=0.2)
    verdict["baseline"] = {**verdict["baseline"], "errors": {"server": 2, "limit": 1}}
    verdict |= {"best_val": {"candidate_id": "c9", "val_gain": 0.1}, "null_gain": -0.02, "labels": ["yes", "no"]}
    errors, earlier, known, refused, _, least, best, null, _, labels, _ = show(verdict)[2:]
    assert errors == "  answers in error, which count as wrong: before 2 server, 1 limit; with c002 none"
    assert earlier == "  12 of the 40 sealed questions were used in 2 earlier sealed tests"
    assert known.startswith("  3 of the sealed questions were used to tune the prompts that it began with: ")
    assert refused == "not published: not_significant"
    assert least.startswith("  such questions show a true gain of 20.0 points in 80 of 100 cases; ")
    assert best == "  picking on validation alone would have shipped c9 (+10.0 points there)"
    assert null == f"  {describe_null_control(-0.02)}"
    assert labels == "  Labels known to the search: yes, no"


def test_a_gain_on_validation_of_nothing_is_no_temptation_and_a_null_control_of_nothing_is_shown() -> None:
    shown = "\n".join(show(changed(best_val={"candidate_id": "c9", "val_gain": 0.0}, null_gain=0.0)))
    assert "validation alone" not in shown and "null control: " in shown
    assert "null control: " not in "\n".join(show(changed(null_gain=None)))


def test_the_smallest_gain_is_named_only_where_no_gain_was_shown() -> None:
    with_least = changed("sealed", smallest_difference=0.2)
    assert "80 of 100 cases" not in "\n".join(show({**with_least, "finish_reason": "costs_more"}))


@pytest.mark.parametrize("number", [9, 10, 11, 12])
def test_the_first_ten_questions_that_changed_are_named(number: int) -> None:
    flips = [{"id": f"q{n}", "question": "What " * 30, "difference": 1 - 2 * (n % 2)} for n in range(number)]
    shown = [line for line in show(TESTED, flips=flips) if line.startswith(("  + q", "  - q", "  … and"))]
    cut = ("What " * 13).rstrip() + " …"  # to 70 characters, after a whole word
    assert shown[:2] == [f"  + q0: {cut}", f"  - q1: {cut}"]
    assert len(shown) == min(number, 10) + (number > 10)
    assert number <= 10 or shown[-1] == f"  … and {number - 10} more in flips.json"


def test_a_run_that_ended_before_its_verdict_names_the_sealed_test_that_it_had_begun() -> None:
    sealed = {"n_questions": 5, "n_sealed": 40, "opened_before": 1, "questions_opened_before": 40}
    early = {"published": False, "finish_reason": "budget", "reasons": ["the budget is used"], "spend": SPEND}
    assert show({**early, "sealed": sealed})[:3] == [
        "  All 40 sealed questions were used in 1 earlier sealed test",
        "not published: budget",
        "  the budget is used",
    ]
    assert show(early)[0] == "not published: budget"


def test_the_level_of_the_test_is_told_with_its_looks() -> None:
    for looks, sentence in ((1, describe_level(0.03, 0.02)), (4, describe_level(0.03, 0.02, 4))):
        shown = show(changed("sealed", level=0.03, level_left=0.02, looks=looks, look=looks))
        assert f"  {sentence}" in shown
    assert f"  {describe_level(0.03, 0.02)}" in show(changed("sealed", level=0.03, level_left=0.02))


@pytest.mark.parametrize("simulated", [True, False])
def test_a_simulated_model_is_named_before_the_verdict(simulated: bool, capsys: pytest.CaptureFixture[str]) -> None:
    files = KeptFiles({"verdict": {**TESTED, "simulated": simulated}})
    show_verdict(cast(RunFiles, files))
    printed = capsys.readouterr().out
    assert (SIMULATED_NOTICE.split()[0] in printed.partition("sealed test: ")[0]) is simulated
    assert "not published: not_significant" in printed
