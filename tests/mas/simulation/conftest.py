"""The simulated model behind a real `dspy.LM`, and the seven agents that ask it."""

from collections.abc import Iterator
from typing import Any, Literal

import dspy
import pytest

from mas.simulation import answer_request
from mas.simulation.model import AsyncReplyEngine, ReplyEngine
from mas.simulation.skills.behaviour import Behaviour


class NativeLM(dspy.LM):  # type: ignore[misc]
    """DSPy does not know the simulated model, so the LM itself says that it can call functions."""

    @property
    def supports_function_calling(self) -> bool:
        return True


class Plan(dspy.Signature):  # type: ignore[misc]
    """Plan."""

    request: str = dspy.InputField()
    file: str | None = dspy.InputField()
    history: dspy.History = dspy.InputField()
    research_steps: list[str] = dspy.OutputField()
    expert_steps: list[str] = dspy.OutputField()


class Research(dspy.Signature):  # type: ignore[misc]
    """Research."""

    research_request: str | None = dspy.InputField()
    file: str | None = dspy.InputField()
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField()
    result: str = dspy.OutputField()


class Solve(dspy.Signature):  # type: ignore[misc]
    """Solve."""

    expert_request: str | None = dspy.InputField()
    file: str | None = dspy.InputField()
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField()
    expert_answer: str = dspy.OutputField()
    reasoning_trace: str = dspy.OutputField()


class ReviewPlan(dspy.Signature):  # type: ignore[misc]
    """Review a plan."""

    plan_to_review: str = dspy.InputField()
    file: str | None = dspy.InputField()
    decision: Literal["approve", "reject"] = dspy.OutputField()
    feedback: str = dspy.OutputField()


class ReviewResearch(dspy.Signature):  # type: ignore[misc]
    """Review findings."""

    research_to_review: str = dspy.InputField()
    decision: Literal["approve", "reject"] = dspy.OutputField()
    feedback: str = dspy.OutputField()


class ReviewAnswer(dspy.Signature):  # type: ignore[misc]
    """Review an answer."""

    answer_to_review: str = dspy.InputField()
    decision: Literal["approve", "reject"] = dspy.OutputField()
    feedback: str = dspy.OutputField()


class Finalize(dspy.Signature):  # type: ignore[misc]
    """Finalize."""

    answer_request: str = dspy.InputField()
    final_answer: str = dspy.OutputField()
    final_reasoning_trace: str = dspy.OutputField()


class Agents:
    """Each of the seven predictors, called as the system calls them."""

    signatures = {  # noqa: RUF012
        "planner": Plan,
        "critic_planner": ReviewPlan,
        "researcher": Research,
        "critic_researcher": ReviewResearch,
        "expert": Solve,
        "critic_expert": ReviewAnswer,
        "finalizer": Finalize,
    }

    def ask(self, agent: str, **inputs: Any) -> dspy.Prediction:
        if "history" in self.signatures[agent].input_fields:
            inputs.setdefault("history", dspy.History(messages=[]))
        if "file" in self.signatures[agent].input_fields:
            inputs.setdefault("file", None)
        return dspy.Predict(self.signatures[agent])(**inputs)

    def work(self, agent: str, tools: list[Any], **inputs: Any) -> tuple[dspy.Prediction, list[str]]:
        """Run a tool-using agent to its answer; also the names of the tools that it called."""
        offered = {tool.__name__: dspy.Tool(tool) for tool in tools}
        turns: list[dict[str, Any]] = []
        called: list[str] = []
        pending = {"file": None, **inputs}
        for step in range(5):
            reply = dspy.Predict(self.signatures[agent])(
                **pending, history=dspy.History(messages=turns), tools=list(offered.values())
            )
            if not (reply.tool_calls and reply.tool_calls.tool_calls):
                return reply, called
            turns.append({**pending, "tool_calls": _with_results(reply.tool_calls, offered, step)})
            called += [call.name for call in reply.tool_calls.tool_calls]
            pending = {}
        raise AssertionError("the agent would not stop calling tools")


def _with_results(calls: dspy.ToolCalls, offered: dict[str, dspy.Tool], step: int) -> dspy.ToolCalls:
    from dspy.adapters.types.tool import ToolCallResults

    named = [call if call.id else call.model_copy(update={"id": f"call_{step}"}) for call in calls.tool_calls]
    calls = dspy.ToolCalls(tool_calls=named)
    values = [str(offered[call.name](**call.args)) for call in named]
    return calls.model_copy(update={"tool_call_results": ToolCallResults.from_tool_calls_and_values(calls, values)})


@pytest.fixture
def flawless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated model that makes no mistakes, so that what it reads and computes can be tested alone."""
    monkeypatch.setattr(Behaviour, "compute_chance", lambda *_, **__: 1.0)


@pytest.fixture(params=["native", "text", "json"])
def agents(request: pytest.FixtureRequest) -> Iterator[Agents]:
    """The agents over the engine: with native tool calls, with tools as text, and with the JSON adapter."""
    kind = NativeLM if request.param != "text" else dspy.LM
    lm = kind(
        "offline/simulated",
        engine=ReplyEngine(answer_request),
        async_engine=AsyncReplyEngine(answer_request),
        cache=False,
    )
    adapter = dspy.JSONAdapter() if request.param == "json" else dspy.ChatAdapter(use_native_function_calling=True)
    with dspy.context(lm=lm, adapter=adapter):
        yield Agents()
