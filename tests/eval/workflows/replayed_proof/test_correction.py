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
