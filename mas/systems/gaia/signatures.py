"""Inputs and outputs of the seven LLM steps (docs/explanation/decisions.md 25).

The instructions come from the prompt set. The first inputs have names of their own in each signature: GEPA tells
predictors apart by their signatures. Inputs that a later turn of a conversation leaves out are optional and have no
default: a default would be rendered into every turn.
"""

from typing import Literal

import dspy

DECISION = "approve, or reject"
FEEDBACK = "if rejected: what to change, concretely; if approved: why"
FILE = "bare name of the file attached to the question, if any"


class Plan(dspy.Signature):
    """Plan how the question is answered."""

    request: str = dspy.InputField(desc="the orchestrator's newest message")
    file: str | None = dspy.InputField(desc=FILE)
    history: dspy.History = dspy.InputField()
    research_steps: list[str] = dspy.OutputField(desc="what to find out, one self-contained task each; may be empty")
    expert_steps: list[str] = dspy.OutputField(desc="how to get from the findings to the answer; at least one")


class ReviewPlan(dspy.Signature):
    """Review a plan."""

    plan_to_review: str = dspy.InputField()
    file: str | None = dspy.InputField(desc=FILE)
    decision: Literal["approve", "reject"] = dspy.OutputField(desc=DECISION)
    feedback: str = dspy.OutputField(desc=FEEDBACK)


class Research(dspy.Signature):
    """Find out what one research step asks for."""

    research_request: str | None = dspy.InputField(desc="the orchestrator's newest message")
    file: str | None = dspy.InputField(desc=FILE)
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField(desc="tools to call now; none once the result is known")
    result: str = dspy.OutputField(desc="the findings, complete in themselves; empty while tools are being called")


class ReviewResearch(dspy.Signature):
    """Review the findings of one research step."""

    research_to_review: str = dspy.InputField()
    decision: Literal["approve", "reject"] = dspy.OutputField(desc=DECISION)
    feedback: str = dspy.OutputField(desc=FEEDBACK)


class Solve(dspy.Signature):
    """Work out the answer from the findings."""

    expert_request: str | None = dspy.InputField(desc="the orchestrator's newest message")
    file: str | None = dspy.InputField(desc=FILE)
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField(desc="tools to call now; none once the answer is known")
    expert_answer: str = dspy.OutputField(desc="the answer; empty while tools are being called")
    reasoning_trace: str = dspy.OutputField(desc="how it follows; empty while tools are being called")


class ReviewAnswer(dspy.Signature):
    """Review an answer."""

    answer_to_review: str = dspy.InputField()
    decision: Literal["approve", "reject"] = dspy.OutputField(desc=DECISION)
    feedback: str = dspy.OutputField(desc=FEEDBACK)


class Finalize(dspy.Signature):
    """Put the answer into its final form."""

    answer_request: str = dspy.InputField()
    final_answer: str = dspy.OutputField(desc="the answer alone, in the form the question asks for")
    final_reasoning_trace: str = dspy.OutputField(desc="how the answer was reached, in a few sentences")
