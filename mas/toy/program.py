"""The toy system as one `dspy.Module`: three predictors, one prompt file each, asked one after the other.

program = ToySystem().build(model, prompts, ToolSettings(), None)
program(question="A rope costs 3 crowns. What do 4 ropes cost?").final_answer     # "12"
"""

import uuid
from pathlib import Path
from typing import Any

import dspy

from mas.chat_adapter import ChatAdapter
from mas.errors import UserError
from mas.llm.loop import run_blocking
from mas.toy import messages, signatures
from mas.toy.state import ToyState, initial_state
from mas.tracing.trace import current_thread_id, keep_answer, keep_state, span


class ToyProgram(dspy.Module):
    """Answers a question from its text alone; nobody reviews, and no reply is asked for twice."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = dspy.Predict(signatures.Plan)
        self.solve = dspy.Predict(signatures.Solve)
        self.finalize = dspy.Predict(signatures.Finalize)

    def forward(self, question: str, file: str | Path | None = None) -> dspy.Prediction:
        """The same run for synchronous callers, on the one event loop that holds the connections."""
        return run_blocking(self.aforward(question, file))

    async def aforward(self, question: str, file: str | Path | None = None) -> dspy.Prediction:
        """Answer one question.

        Returns:
            A prediction with `final_answer`, `final_reasoning_trace` and `state`, the complete final state.

        Raises:
            UserError: the question has an attachment.
            LMError: the model could not be asked, after its retries.
            AdapterParseError: a reply could not be understood.
            TruncatedReplyError: a reply was cut off.
        """
        if file:
            raise UserError(f"The toy system reads no attachments, and was given {Path(file).name}; use data=toy.")
        state = initial_state(question, current_thread_id() or uuid.uuid4().hex)
        keep_state(state)
        with dspy.context(adapter=ChatAdapter()):
            await self._work(state)
        return dspy.Prediction(
            final_answer=state["final_answer"], final_reasoning_trace=state["final_reasoning_trace"], state=state
        )

    async def _work(self, state: ToyState) -> None:
        question = state["question"]
        plan = await _asked("plan", self.plan, problem=question)
        state["steps"] = list(plan.steps)
        keep_state(state)
        request = messages.problem_and_steps(question, state["steps"])
        solved = await _asked("solve", self.solve, problem_and_steps=request)
        state["working"], state["result"] = solved.working or "", solved.result or ""
        keep_state(state)
        request = messages.result_to_finalize(question, state["working"], state["result"])
        final = await _asked("finalize", self.finalize, result_to_finalize=request)
        state["final_answer"] = final.final_answer or ""
        state["final_reasoning_trace"] = final.final_reasoning_trace or ""
        keep_state(state)
        keep_answer(state["final_answer"])


async def _asked(agent: str, predictor: dspy.Predict, **inputs: str) -> Any:
    """The predictor's reply, with a span around it that holds what went in and came out."""
    with span("agent", agent, inputs={"request": next(iter(inputs.values()))}) as current:
        prediction = await predictor.acall(**inputs)
        current.outputs = dict(prediction.items())
    return prediction
