"""What corrections of agents prove, from the scores with them and without."""

from dataclasses import replace
from pathlib import Path

import pytest

from eval.analysis.statistics.paired_tests import ALPHA, PairedResult
from eval.execution.console import Output
from eval.workflows.replayed_proof.correction import Correction, Kind
from eval.workflows.replayed_proof.proof import (
    Proof,
    ProvenAgent,
    Scores,
    describe_agent,
    judge_corrections,
    name_responsible,
    print_proof,
    read_scores,
)
from tests.eval.stored_run import answered, stored_run

IDS = [f"q{number}" for number in range(12)]
LOST: Scores = {each: [0.0] for each in IDS}
WON: Scores = {each: [1.0] for each in IDS}


def judge(control: Scores, **corrected: Scores) -> list[ProvenAgent]:
    corrections = [Correction(name, kind_of(name), {}) for name in corrected]
    return judge_corrections(corrections, control, list(corrected.values()))


def kind_of(name: str) -> Kind:
    return "approval" if "critic" in name else "answer"


def proof(control: Scores, agents: list[ProvenAgent], stopped: str | None = None) -> Proof:
    mean = sum(each[0] for each in control.values()) / len(control) if control else None
    return Proof(Path("proof"), len(IDS), 1, mean, agents, {}, {}, {}, stopped, simulated=True)


def test_an_agent_is_proven_as_one_of_all_that_are_tested() -> None:
    five = {**LOST, **{each: [1.0] for each in IDS[:6]}}
    alone = judge(LOST, expert=five)[0]
    among = judge(LOST, expert=five, planner=LOST, researcher=LOST)[0]
    assert alone.difference == among.difference and alone.difference is not None
    assert alone.is_proven and alone.p_holm == alone.difference.p
    assert not among.is_proven and among.p_holm == pytest.approx(3 * alone.difference.p)
    assert "no effect is shown" in describe_agent(among, proof(LOST, [among]))


def test_only_questions_with_both_answers_are_compared() -> None:
    some = {each: [1.0] for each in IDS[:8]}
    found = judge({each: [0.0] for each in IDS[4:]}, expert=some)[0]
    assert found.difference is not None and found.difference.n_questions == 4 and found.recovered == 1.0
    assert "100.0% of 4 questions where" in describe_agent(found, proof(LOST, [found]))


@pytest.mark.parametrize(("control", "corrected"), [({}, WON), (LOST, {}), ({}, {})])
def test_an_arm_without_answers_is_no_measurement(
    control: Scores, corrected: Scores, capsys: pytest.CaptureFixture[str]
) -> None:
    found = judge(control, expert=corrected)
    assert found[0].difference is None and found[0].recovered is None and not found[0].is_proven
    made = proof(control, found, stopped="interrupted")
    assert made.to_dict()["agents"][0]["difference"] is None  # type: ignore[index]
    print_proof(made, Output())
    shown = capsys.readouterr()
    assert "expert: no measurement; no question was answered both with its correction and without" in shown.out
    assert ("without a correction no measurement" in shown.out) is (not control)
    assert "%" not in shown.out or control


def test_a_critic_is_named_where_its_correction_is_proven_and_made_the_answer_right() -> None:
    blamed = dict.fromkeys(IDS, "planner")
    some = {**LOST, **{each: [1.0] for each in IDS[:8]}}
    agents = judge(LOST, critic=some, expert=WON)
    named = name_responsible(blamed, LOST, zip(agents, [some, WON], strict=True))
    assert [named[each] for each in IDS] == ["critic"] * 8 + ["planner"] * 4


def test_a_critic_without_a_proven_effect_is_not_named() -> None:
    one = {**LOST, "q0": [1.0]}
    agents = judge(LOST, critic=one)
    assert name_responsible({"q0": "planner"}, LOST, zip(agents, [one], strict=True)) == {"q0": "planner"}


def test_what_the_server_failed_to_answer_is_left_out_and_other_failures_are_wrong(tmp_path: Path) -> None:
    down = answered("q2", None, score=None, error="down", error_class="infrastructure")
    unread = answered("q3", None, score=None, error="no field", error_class="malformed")
    stored_run(tmp_path / "some", [answered("q1", "17"), down, unread], planned=["q1", "q2", "q3", "q4"])
    stored_run(tmp_path / "none", [down, unread])
    assert [read_scores(tmp_path / name) for name in ("some", "none")] == [{"q1": [1.0], "q3": [0.0]}, {}]


def test_a_failure_scores_nothing_whatever_is_stored_and_answers_of_all_epochs_count(tmp_path: Path) -> None:
    odd = answered("q1", "17", epoch=2, error="it broke", error_class="tool")
    unscored = answered("q2", "17", gold=None)
    folder = stored_run(tmp_path / "arm", [answered("q1", "17"), odd, unscored], epochs=2)
    assert read_scores(folder) == {"q1": [1.0, 0.0], "q2": [0.0]}


def paired(difference: float, p: float) -> PairedResult:
    return PairedResult(12, 1, difference, None, p, "t", 1, 0, 11, None)


@pytest.mark.parametrize(
    ("difference", "p_holm", "proven"),
    [(0.5, ALPHA, True), (0.5, 0.0501, False), (0.01, 0.01, True), (0.0, 0.01, False), (-0.5, 0.01, False),
     (0.5, None, False), (None, 0.01, False)],
)  # fmt: skip
def test_a_gain_is_proven_at_five_in_a_hundred(difference: float | None, p_holm: float | None, proven: bool) -> None:
    result = None if difference is None else paired(difference, 0.01)
    assert ProvenAgent("expert", "answer", 1.0, result, p_holm).is_proven is proven


def test_of_several_critics_the_one_that_gained_most_is_named_and_none_without_a_gain() -> None:
    first, second, weak = (ProvenAgent(name, "review", 1.0, paired(0.5, 0.01), 0.01) for name in ("a", "b", "c"))
    weak = replace(weak, p_holm=0.2)
    control: Scores = {"q1": [0.0], "q2": [0.5], "q3": [1.0], "q4": [0.0], "q6": [0.5]}
    agents = [
        (first, {"q1": [0.5], "q2": [1.0], "q3": [1.0], "q5": [1.0], "q6": [0.0, 1.0]}),
        (second, {"q1": [1.0], "q2": [0.75], "q3": [0.5], "q4": [0.0]}),
        (weak, {"q3": [1.0], "q4": [1.0], "q6": [1.0]}),
    ]
    blamed = {f"q{number}": "planner" for number in range(1, 7)}
    expected = {"q1": "b", "q2": "a", "q3": "planner", "q4": "planner", "q5": "planner", "q6": "planner"}
    assert name_responsible(blamed, control, agents) == expected
    assert set(blamed.values()) == {"planner"}
