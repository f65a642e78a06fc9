"""What corrections of agents prove, from the scores with them and without."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.analysis.statistics.paired_interval import ALPHA
from eval.analysis.statistics.paired_tests import Pair, PairedResult, adjust_p_values, run_paired_test
from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.execution.console import Output
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo, SweepJob, TaskInfo, describe_task
from eval.workflows.paired_evaluation import Arm
from eval.workflows.replayed_proof import proof as proof_module
from eval.workflows.replayed_proof.correction import Correction, Kind
from eval.workflows.replayed_proof.plan import Request
from eval.workflows.replayed_proof.proof import (
    Proof,
    ProvenAgent,
    Scores,
    judge_corrections,
    name_responsible,
    prove,
    read_scores,
)
from eval.workflows.replayed_proof.table import describe_agent, print_proof
from mas.prompt_sets.prompt_set import PromptSet
from mas.simulation import SIMULATED_NOTICE
from tests.eval.config.test_evaluation import config as read
from tests.eval.stored_run import CONFIG, answered, stored_run

IDS = [f"q{number}" for number in range(12)]
LOST: Scores = {each: [0.0] for each in IDS}
WON: Scores = {each: [1.0] for each in IDS}


def judge(control: Scores, **corrected: Scores) -> list[ProvenAgent]:
    corrections = [Correction(name, kind_of(name), {}) for name in corrected]
    return judge_corrections(corrections, control, list(corrected.values()), [0] * len(corrected))


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
    arms = [Arm(name, tmp_path / name, None, None) for name in ("some", "none")]  # type: ignore[arg-type]
    assert [read_scores(each) for each in arms] == [{"q1": [1.0], "q3": [0.0]}, {}]


def test_a_failure_scores_nothing_whatever_is_stored_and_answers_of_all_epochs_count(tmp_path: Path) -> None:
    odd = answered("q1", "17", epoch=2, error="it broke", error_class="tool")
    unscored = answered("q2", "17", gold=None)
    folder = stored_run(tmp_path / "arm", [answered("q1", "17"), odd, unscored], epochs=2)
    arm = Arm("arm", folder, PromptSet("p", "toy", {}, tmp_path), None)  # type: ignore[arg-type]
    assert read_scores(arm) == {"q1": [1.0, 0.0], "q2": [0.0]}


def paired(difference: float, p: float) -> PairedResult:
    return PairedResult(12, 1, difference, None, p, "t", 1, 0, 11, None, None)


@pytest.mark.parametrize(
    ("difference", "p_holm", "proven"),
    [(0.5, ALPHA, True), (0.5, 0.0501, False), (0.01, 0.01, True), (0.0, 0.01, False), (-0.5, 0.01, False),
     (0.5, None, False), (None, 0.01, False)],
)  # fmt: skip
def test_a_gain_is_proven_at_five_in_a_hundred(difference: float | None, p_holm: float | None, proven: bool) -> None:
    result = None if difference is None else paired(difference, 0.01)
    assert ProvenAgent("expert", "answer", 1.0, 0, result, p_holm).is_proven is proven


@pytest.mark.parametrize(("kind", "critic"), [("review", True), ("approval", True), ("answer", False), ("hint", False)])
def test_a_critic_is_whose_decision_is_corrected(kind: Kind, critic: bool) -> None:
    assert ProvenAgent("a", kind, None, 0, None).is_critic is critic


def test_the_effect_of_each_correction_has_all_its_parts() -> None:
    control: Scores = {"q1": [0.0, 1.0], "q2": [0.0], "q3": [1.0]}
    expert: Scores = {"q1": [1.0], "q2": [1.0, 0.0, 0.0], "q9": [1.0]}
    critic: Scores = {"q1": [1.0], "q2": [1.0], "q3": [1.0]}
    corrections = [
        Correction("expert", "answer", {}),
        Correction("none", "hint", {}),
        Correction("critic", "review", {}),
    ]
    first = run_paired_test([Pair(control[each], expert[each]) for each in ("q1", "q2")])
    third = run_paired_test([Pair(control[each], critic[each]) for each in ("q1", "q2", "q3")])
    adjusted = adjust_p_values([first.p, third.p])
    assert first.difference == pytest.approx((0.5 + 1 / 3) / 2)
    assert judge_corrections(corrections, control, [expert, {}, critic], [2, 1, 0]) == [
        ProvenAgent("expert", "answer", pytest.approx((1 + 1 / 3) / 2), 2, first, adjusted[0]),
        ProvenAgent("none", "hint", None, 1, None, None),
        ProvenAgent("critic", "review", 1.0, 0, third, adjusted[1]),
    ]


def test_of_several_critics_the_one_that_gained_most_is_named_and_none_without_a_gain() -> None:
    first, second, weak = (ProvenAgent(name, "review", 1.0, 0, paired(0.5, 0.01), 0.01) for name in ("a", "b", "c"))
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


SAMPLES = [Sample("q1", "What is q1?", None, "Zurich"), Sample("q2", "What is q2?", None, "Geneva")]
STOPPED = "interrupted by SIGINT"


def said(agent: str, inputs: str, outputs: str, tool: str | None = None) -> list[dict[str, Any]]:
    spans = [{"id": 1, "kind": "agent", "name": agent, "inputs": {"x": inputs}, "outputs": {"y": outputs}}]
    if tool is not None:
        spans.append({"id": 2, "kind": "tool", "name": "t", "parent": 1, "inputs": {}, "outputs": {"z": tool}})
    return spans


class Asked:
    """What was asked side by side, in place of asking: each arm gets stored answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: list[Any]) -> None:
        self.answers = answers
        self.calls: list[tuple[Sequence[Arm], EvalConfig, object, RunInfo, StopController, object]] = []
        monkeypatch.setattr(proof_module, "evaluate_pairs", self)

    def __call__(self, *call: Any) -> str | None:
        self.calls.append(call)
        for arm in call[0]:
            stored_run(arm.folder, self.answers[arm.name])
        return STOPPED


def request_of(config: EvalConfig, original: Path, corrections: Sequence[Correction], **changes: Any) -> Request:
    info = RunInfo(run_id="r", started_at="2026", system="toy", model="m", command=["x"], task=TaskInfo(labels=["a"]))
    info = replace(info, sweep=SweepJob("s", "n", "2026", "h", 1, 0, []), critics=["critic"])
    prompts = PromptSet("baseline", "toy", {"planner": "Plan."}, original)
    links = {"q1": "planner", "q2": "expert"}
    made = Request(original, config, CONFIG, prompts, SAMPLES, list(corrections), {"finalizer": "why"}, links, info)
    return replace(made, **changes)


def test_every_arm_is_asked_the_same_and_the_proof_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.runs.folder.OUTPUTS", tmp_path)
    matchers = {each.id: TargetMatcher(each.target or "") for each in SAMPLES}
    hint, answer = Correction("planner", "hint", matchers), Correction("expert", "answer", matchers)
    gave = said("planner", "the question", "it is Zurich", tool="nothing")
    seen = said("planner", "", "see Geneva", tool="Geneva is in the west")
    asked = Asked(
        monkeypatch,
        control=[answered("q1", "1", gold="Zurich"), answered("q2", "Geneva", gold="Geneva")],
        planner=[
            answered("q1", "Zurich", gold="Zurich", trajectory=gave),
            answered("q2", "Geneva", gold="Geneva", trajectory=seen),
        ],
        expert=[
            answered("q1", "1", gold="Zurich", trajectory=said("expert", "", "it is Zurich")),
            answered("q2", "1", gold="Geneva"),
        ],
    )
    config = read("run.epochs=2", "run.max_cost_usd=6", "run.max_errors=7", "run.fail_fast=true", "run.max_seconds=90")
    request = request_of(config, tmp_path / "2026-11-21_08-00-00_night", [hint, answer])
    output = Output()
    found = prove(request, output)

    assert found.folder.parent == tmp_path / "attribution"
    assert found.folder.name.endswith("_night")
    ((arms, used, samples, info, stop, console),) = asked.calls
    assert [(each.name, each.folder, each.prompts, each.gold_informed) for each in arms] == [
        (name, found.folder / name, request.prompts, name) for name in ("control", "planner", "expert")
    ]
    assert [each.change_program for each in arms] == [None, hint.change_program, answer.change_program]
    assert len({id(each.resources) for each in arms}) == 1
    assert used == replace(config, run=replace(config.run, max_cost_usd=2.0))
    assert (samples, console) == (SAMPLES, output.console)
    assert info == replace(
        request.info,
        run_id="",
        started_at="",
        command=None,
        sweep=None,
        simulated=True,
        config=CONFIG,
        task=describe_task(SAMPLES, CONFIG["scorer"], None, ["a"]),
    )
    assert vars(stop) == vars(StopController(config.run.drain_seconds, True, 7, 90)) | {
        "_same_errors": stop._same_errors
    }

    effects = judge_corrections(
        [hint, answer],
        {"q1": [0.0], "q2": [1.0]},
        [{"q1": [1.0], "q2": [1.0]}, {"q1": [0.0], "q2": [0.0]}],
        [1, 0],
    )
    assert found == Proof(
        found.folder, 2, 2, 0.5, effects, {"finalizer": "why"}, request.links, request.links, STOPPED, simulated=True
    )
    text = (found.folder / "attribution.json").read_text("utf-8")
    assert text == json.dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n"
    kept = json.loads(text)
    assert kept["folder"] == found.folder.name
    assert [(each["agent"], each["n_given_away"], each["recovered"]) for each in kept["agents"]] == [
        ("planner", 1, 1.0), ("expert", 0, 0.0),
    ]  # fmt: skip
    assert kept["agents"][0]["difference"] == effects[0].difference.to_dict()  # type: ignore[union-attr]


def test_a_proof_without_a_budget_has_none_and_its_folder_and_first_line_follow_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("eval.runs.folder.OUTPUTS", tmp_path)
    down = answered("q1", None, score=None, error="down", error_class="infrastructure")
    asked = Asked(monkeypatch, control=[down], expert=[answered("q1", "17")])
    lines = []
    for simulated, number in ((True, 1), (False, 2)):
        config = read("run.epochs=3", f"run.dir={tmp_path / str(number)}", "run.name=mine")
        if not simulated:
            config.model = read("model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1", "model.name=m").model
        request = request_of(config, tmp_path / "old", [Correction("expert", "answer", {})])
        found = prove(request, Output())
        assert (found.folder, found.control, found.simulated) == (tmp_path / str(number), None, simulated)
        assert asked.calls[-1][1].run.max_cost_usd is None
        lines.append(capsys.readouterr().out)
    assert lines[0] == f"{SIMULATED_NOTICE}\n"
    assert lines[1].startswith("estimate: 12 answers")
    assert asked.calls[-1][3].simulated is False
    config = read("run.name=mine")
    assert prove(request_of(config, tmp_path / "old", []), Output()).folder.name.endswith("_mine")
