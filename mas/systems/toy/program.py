"""What is known of one question while the toy system works on it."""

import uuid
from pathlib import Path
from typing import Any, TypedDict

import dspy

from mas.agents.chat_adapter import ChatAdapter
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.trace import current_thread_id, keep_answer, keep_state, span
from mas.systems.toy import messages, signatures


class ToyState(TypedDict):
    question: str
    correlation_id: str
    steps: list[str]
    working: str
    result: str
    final_answer: str
    final_reasoning_trace: str


def initial_state(question: str, correlation_id: str) -> ToyState:
    """Everything empty but the question.

    Raises:
        ValueError: so is the question.
    """
    if not question.strip():
        raise ValueError("no question was given to the system; expected some text")
    return ToyState(
        question=question,
        correlation_id=correlation_id,
        steps=[],
        working="",
        result="",
        final_answer="",
        final_reasoning_trace="",
    )


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
