"""The lines in which a replayed proof is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from eval.analysis.statistics.paired_tests import PairedResult
from eval.cli.command import FINISHED, STOPPED
from eval.execution.console import Output
from eval.workflows.replayed_proof.correction import Kind
from eval.workflows.replayed_proof.proof import Proof, ProvenAgent
from eval.workflows.replayed_proof.table import choose_exit_code, describe_agent, judge, print_proof

GAIN = PairedResult(
    n_questions=10, epochs=1, difference=0.625, ci95=(0.25, 1.0), p=0.01, test="t", wins=7, losses=0, ties=3,
    smallest_difference=None, standard_error=0.2,
)  # fmt: skip
EXPERT = ProvenAgent("expert", "answer", 0.75, 0, GAIN, 0.02)
PROOF = Proof(Path("proof"), 10, 1, 0.125, [EXPERT], {}, {}, {}, None, simulated=True)


def shown(proof: Proof, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    print_proof(proof, Output())
    found = capsys.readouterr()
    return found.out.splitlines(), found.err.splitlines()


def test_a_proof_is_its_control_a_line_for_each_agent_and_where_the_files_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    same = {"q1": "expert"}
    out, err = shown(replace(PROOF, blamed=same, named=same), capsys)
    assert out[:3] == [
        "10 wrong questions asked again: without a correction 12.5% of the points",
        "  expert: 75.0% where its answer is the right one, +62.5 (+25.0 to +100.0) points more than without: "
        "points are lost here or before",
        "the corrected agent was given the right answers: these runs measure no system",
    ]
    assert out[3].startswith("results: ") and out[3].endswith("proof (attribution.json, and a report of each arm)")
    assert (len(out), err) == (4, [])


def test_epochs_skipped_agents_an_early_end_and_other_names_have_lines_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = replace(
        PROOF,
        n_samples=1,
        epochs=2,
        control=None,
        agents=[],
        skipped={"finalizer": "its output is the answer"},
        blamed={"q1": "a", "q2": "b", "q3": "b"},
        named={"q1": "b", "q2": "b", "q3": "b"},
        stopped="interrupted",
    )
    out, err = shown(told, capsys)
    assert out[:3] == [
        "1 wrong question asked again, 2 times each: without a correction no measurement",
        "  finalizer: not corrected; its output is the answer",
        "by the record alone: b 2, a 1; with this proof: b 3",
    ]
    assert err == ["stopped: interrupted; questions without an answer are left out"]
    assert (choose_exit_code(told), choose_exit_code(PROOF)) == (STOPPED, FINISHED)


def test_what_was_not_measured_of_an_agent_is_said() -> None:
    wanted = "expert: no measurement; no question was answered both with its correction and without"
    assert describe_agent(replace(EXPERT, difference=None), PROOF) == wanted
    assert describe_agent(replace(EXPERT, recovered=None), PROOF) == wanted
    alone = replace(EXPERT, difference=replace(GAIN, ci95=None))
    assert "one, +62.5 points more than without:" in describe_agent(alone, PROOF)
    assert "75.0% where" in describe_agent(EXPERT, PROOF)
    assert "75.0% of 10 questions where" in describe_agent(EXPERT, replace(PROOF, n_samples=11))


def test_answers_that_an_agent_handed_on_are_counted() -> None:
    hinted = replace(EXPERT, kind="hint", n_given_away=1, difference=replace(GAIN, difference=-0.05, ci95=(-0.1, 0.0)))
    assert describe_agent(hinted, PROOF) == (
        "expert: 75.0% where it knows the right answer, -5.0 (-10.0 to +0.0) points more than without; "
        "in 1 answer it passed the answer on itself: no effect is shown"
    )
    assert "; in 2 answers it passed" in describe_agent(replace(hinted, n_given_away=2), PROOF)


@pytest.mark.parametrize(
    ("kind", "proven"),
    [
        ("answer", "points are lost here or before"),
        ("hint", "points are lost here or before"),
        ("review", "its reviews cost points"),
        ("approval", "its reviews cost points"),
    ],
)
def test_an_effect_is_shown_by_a_gain_that_is_no_chance_and_named_for_its_agent(kind: Kind, proven: str) -> None:
    agent = replace(EXPERT, kind=kind)
    assert judge(agent) == judge(replace(agent, p_holm=0.05)) == proven
    for without in (
        replace(agent, p_holm=0.0501),
        replace(agent, p_holm=None),
        replace(agent, difference=None),
        replace(agent, difference=replace(GAIN, difference=0.0)),
        replace(agent, difference=replace(GAIN, difference=-0.5)),
    ):
        assert judge(without) == "no effect is shown"
