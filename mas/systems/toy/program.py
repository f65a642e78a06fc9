"""The toy system's program: three LLM steps without tools, reviews or retries.

Every step has different input names: GEPA tells predictors apart by their signatures. Instructions come from the
prompt set.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.program import AgentProgram, State, check_question
from mas.runtime.errors import UserError
from mas.runtime.trace import current_trace, span


class Plan(dspy.Signature):
    """Plan how the problem is solved."""

    problem: str = dspy.InputField()
    steps: list[str] = dspy.OutputField(desc="what to work out, in order; at least one")


class Solve(dspy.Signature):
    """Carry out the steps."""

    problem_and_steps: str = dspy.InputField()
    working: str = dspy.OutputField(desc="each step with its calculation")
    result: str = dspy.OutputField(desc="what the last step arrives at")


class Finalize(dspy.Signature):
    """Put the result into its final form."""

    result_to_finalize: str = dspy.InputField()
    final_answer: str = dspy.OutputField(desc="the answer alone, in the form the problem asks for")
    final_reasoning_trace: str = dspy.OutputField(desc="how the answer was reached, in a few sentences")


class ToyProgram(AgentProgram):
    """Answers a question from its text alone."""

    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        """Return the complete final state; a question with an attachment is refused."""
        if file:
            raise UserError(f"The toy system reads no attachments, and was given {file.name}; use data=toy.")
        check_question(question)
        state: dict[str, Any] = {"question": question, "correlation_id": thread_id}
        state |= {"steps": [], "working": "", "result": ""}
        with dspy.context(adapter=ChatAdapter()):
            plan = await _ask(state, "plan", self.plan, problem=question)
            state["steps"] = list(plan.steps)
            request = format_problem_and_steps(question, state["steps"])
            solved = await _ask(state, "solve", self.solve, problem_and_steps=request)
            state |= {"working": solved.working or "", "result": solved.result or ""}
            request = format_result(question, state["working"], state["result"])
            final = await _ask(state, "finalize", self.finalize, result_to_finalize=request)
        answer, trace = final.final_answer or "", final.final_reasoning_trace or ""
        return {**state, "final_answer": answer, "final_reasoning_trace": trace}


async def _ask(state: State, agent: str, predictor: dspy.Predict, **inputs: str) -> dspy.Prediction:
    current_trace().state = dict(state)
    with span("agent", agent, inputs={"request": next(iter(inputs.values()))}) as current:
        prediction = await predictor.acall(**inputs)
        current.outputs = dict(prediction.items())
    return prediction


def format_problem_and_steps(problem: str, steps: Sequence[str]) -> str:
    """Return the solver's request: sections PROBLEM and STEPS; the steps are numbered from 1."""
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    return _format_sections(PROBLEM=problem, STEPS=numbered)


def format_result(problem: str, working: str, result: str) -> str:
    """Return the finalizer's request: sections PROBLEM, WORKING and RESULT."""
    return _format_sections(PROBLEM=problem, WORKING=working, RESULT=result)


def _format_sections(**texts: str) -> str:
    return "\n\n".join(f"{heading}:\n{text.strip() or '(none)'}" for heading, text in texts.items())
