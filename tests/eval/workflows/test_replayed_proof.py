"""What corrections of agents prove, from the scores with them and without."""

from pathlib import Path

import pytest

from eval.analysis.statistics.paired_tests import ALPHA, PairedResult
from eval.execution.console import Output
from eval.workflows.replayed_proof import (
    Correction,
    Kind,
    Proof,
    ProvenAgent,
    Scores,
    describe_agent,
    judge_corrections,
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
    return Proof(Path("proof"), len(IDS), 1, mean, agents, {}, stopped, simulated=True)


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
    print_proof(made, Output())
    shown = capsys.readouterr()
    assert "expert: no measurement; no question was answered both with its correction and without" in shown.out
    assert ("without a correction no measurement" in shown.out) is (not control)
    assert "%" not in shown.out or control


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
