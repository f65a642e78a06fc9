"""Corrections of one agent's outputs, in the samples that are asked again and in no other."""

import asyncio
from typing import Any

import dspy
import pytest

from eval.analysis.attribution.target_matcher import TargetMatcher
from eval.workflows.replayed_proof.correction import Correction, Kind
from mas.runtime.sample_context import SampleContext, SampleKey, use_context

REJECTED = {"decision": "reject", "feedback": "f"}
TARGET = {"q1": TargetMatcher("418")}


class Scripted(dspy.Predict):
    """Gives its outputs whatever it is asked, and keeps the inputs."""

    def __init__(self, outputs: dict[str, Any]) -> None:
        super().__init__("question -> answer")
        self.outputs, self.asked = outputs, list[dict[str, Any]]()

    def forward(self, **inputs: Any) -> dspy.Prediction:
        self.asked.append(inputs)
        return dspy.Prediction(**self.outputs)

    async def aforward(self, **inputs: Any) -> dspy.Prediction:
        return self.forward(**inputs)


class Team:
    def __init__(self, **outputs: dict[str, Any]) -> None:
        self.agents = {name: Scripted(each) for name, each in outputs.items()}

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        return list(self.agents.items())

    def ask(self, name: str, sample_id: str = "q1", wait: bool = True) -> dict[str, Any]:
        with use_context(SampleContext(SampleKey(sample_id))):
            agent = self.agents[name]
            found = asyncio.run(agent.acall(question="?")) if wait else agent(question="?")
            return dict(found.items())


def corrected(kind: Kind, agent: str, judged: str | None = None, **outputs: dict[str, Any]) -> Team:
    team = Team(**outputs)
    Correction(agent, kind, TARGET, judged).change_program(team)  # type: ignore[arg-type]
    return team


@pytest.mark.parametrize("wait", [True, False])
def test_the_draft_becomes_the_target_and_no_reason_speaks_against_it(wait: bool) -> None:
    team = corrected("answer", "expert", expert={"expert_answer": "17", "reasoning_trace": "8 + 9", "note": "n"})
    found = team.ask("expert", wait=wait)
    assert found == {"expert_answer": "418", "reasoning_trace": "The answer was worked out and checked.", "note": "n"}
    assert team.ask("expert", "q2", wait)["expert_answer"] == "17", "another sample is left alone"


def test_a_turn_that_calls_tools_is_left_alone() -> None:
    calling = {"tool_calls": ["calculator"], "expert_answer": "", "reasoning_trace": ""}
    assert corrected("answer", "expert", expert=calling).ask("expert") == calling


@pytest.mark.parametrize(
    ("draft", "said", "decision"),
    [
        ("418", "reject", "approve"),
        ("17", "approve", "reject"),
        ("418", "approve", "approve"),
        ("17", "reject", "reject"),
    ],
)
def test_a_critic_of_the_draft_judges_it_rightly(draft: str, said: str, decision: str) -> None:
    team = corrected(
        "review", "critic", "expert", expert={"answer": draft}, critic={"decision": said, "feedback": "as it was"}
    )
    team.ask("expert")
    found = team.ask("critic")
    assert found["decision"] == decision
    assert (found["feedback"] == "as it was") is (said == decision)
    assert "418" not in found["feedback"]
    assert team.ask("expert")["answer"] == draft, "what it judges is not changed"


def test_a_critic_of_other_work_approves_it() -> None:
    team = corrected(
        "approval", "critic", "planner", planner={"plan": "p"}, critic={"decision": "reject", "feedback": "f"}
    )
    team.ask("planner")
    assert team.ask("critic")["decision"] == "approve"
    assert team.ask("critic", "q2") == REJECTED


def test_a_hint_is_in_the_prompt_of_the_agent_alone() -> None:
    team = corrected("hint", "planner", planner={"plan": "p"}, expert={"answer": "17"})
    for agent in ("planner", "expert"):
        team.ask(agent)
        team.ask(agent, "q2")
    hinted, other = team.agents["planner"].asked
    assert "the right final answer is 418" in hinted["signature"].instructions
    assert "signature" not in other and all("signature" not in each for each in team.agents["expert"].asked)
    assert "418" not in team.agents["planner"].signature.instructions


@pytest.mark.parametrize("wait", [True, False])
def test_a_corrected_decision_has_a_reason_of_its_own_and_its_fields_alone(wait: bool) -> None:
    rejecting = corrected("approval", "critic", "planner", planner={}, critic=REJECTED)
    assert rejecting.ask("critic", wait=wait) == {"decision": "approve", "feedback": "It is right."}
    approving = corrected("review", "critic", "expert", expert={"answer": "17"}, critic={"decision": "approve"})
    approving.ask("expert", wait=wait)
    assert approving.ask("critic", wait=wait) == {"decision": "reject"}
    told = {"decision": "approve", "feedback": "f", "note": "n"}
    team = corrected("review", "critic", "expert", expert={"answer": "17"}, critic=told)
    assert team.ask("critic", wait=wait) == {
        "decision": "reject", "feedback": "It is wrong; work it out again.", "note": "n",
    }  # fmt: skip


def test_what_a_critic_judges_is_what_was_said_last_in_this_sample() -> None:
    team = corrected("review", "critic", "expert", expert={"answer": "418"}, critic=REJECTED)
    team.ask("expert", "q2")
    assert team.ask("critic") == {"decision": "reject", "feedback": "f"}, "another sample's draft is none of this one"
    team.ask("expert")
    team.agents["expert"].outputs = {"reasoning": "a turn that calls tools"}
    team.ask("expert")
    assert team.ask("critic")["decision"] == "approve", "the last draft holds"
    team.agents["expert"].outputs = {"answer": "17"}
    team.ask("expert")
    assert team.ask("critic")["decision"] == "reject"
    without = corrected("review", "critic", "expert", expert={"answer": "17"}, critic={"feedback": "f"})
    assert without.ask("critic") == {"feedback": "f"}, "a turn without a decision is left alone"


def test_outside_of_samples_nothing_is_corrected() -> None:
    kinds: tuple[tuple[Kind, dict[str, Any]], ...] = (
        ("answer", {"answer": "17"}), ("review", REJECTED), ("approval", REJECTED), ("hint", {"answer": "17"}),
    )  # fmt: skip
    for kind, outputs in kinds:
        team = corrected(kind, "one", "other", one=outputs, other={"answer": "17"})
        for name in ("other", "one"):
            team.agents[name](question="?")
        assert dict(team.agents["one"](question="?").items()) == outputs
        assert team.agents["one"].asked == [{"question": "?"}] * 2


@pytest.mark.parametrize("wait", [True, False])
def test_a_hint_follows_the_agents_own_instructions(wait: bool) -> None:
    team = corrected("hint", "planner", planner={"plan": "p"})
    own = team.agents["planner"].signature.instructions
    team.ask("planner", wait=wait)
    (asked,) = team.agents["planner"].asked
    assert asked["question"] == "?"
    assert asked["signature"].instructions == (
        f"{own}\n\nFor this question alone, to find out where an error arises: the right final answer is 418. Do your "
        "own part so that those who work after you can arrive at it from what you give them. Do not state it, unless "
        "it is your part to give the answer itself, and do not mention this note."
    )
