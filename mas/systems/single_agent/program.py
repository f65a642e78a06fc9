"""The single agent as a `dspy.Module`: one predictor, `agent`, that works with tools until it gives its answer.

program = SingleAgentProgram(retry_limit=3, toolbox=Toolbox({"calculator": dspy.Tool(calculator)}))
program(question="What is 2 + 3?").final_answer      # "5"
"""

import uuid
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from mas.agents.react import StepLimitError, Toolbox, react
from mas.runtime.event_loop import run_blocking
from mas.runtime.lm_errors import EmptyReplyError, TruncatedReplyError
from mas.runtime.trace import current_thread_id, event, keep_answer, keep_state, span
from mas.tools.attachments import use_attachments

# A reply that arrived and is of no use; a model that cannot be asked at all is no such case.
UNUSABLE = (AdapterParseError, EmptyReplyError, TruncatedReplyError, StepLimitError)
MAX_FEEDBACK_CHARS = 1_500


class Answer(dspy.Signature):
    """Answer the question."""

    question_to_answer: str | None = dspy.InputField(desc="the question, and what was wrong with an earlier reply")
    file: str | None = dspy.InputField(desc="bare name of the file attached to the question, if any")
    history: dspy.History = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField(desc="tools to call now; none once the answer is known")
    final_answer: str = dspy.OutputField(
        desc="the answer alone, in the form the question asks for; empty while tools are being called"
    )
    final_reasoning_trace: str = dspy.OutputField(
        desc="how the answer was reached, in a few sentences; empty while tools are being called"
    )


class SingleAgentProgram(dspy.Module):
    """Answers a question with its attachment in one conversation."""

    def __init__(self, retry_limit: int, toolbox: Toolbox) -> None:
        super().__init__()
        self.agent = dspy.Predict(Answer)
        self.retry_limit = retry_limit
        self.toolbox = toolbox

    def forward(self, question: str, file: str | Path | None = None) -> dspy.Prediction:
        """The same run for synchronous callers, on the one event loop that holds the connections."""
        return run_blocking(self.aforward(question, file))

    async def aforward(self, question: str, file: str | Path | None = None) -> dspy.Prediction:
        """Answer one question.

        Args:
            question: what is asked.
            file: path of the attachment. The agent sees its bare name, tools resolve that name and no other.

        Returns:
            A prediction with `final_answer`, `final_reasoning_trace` and `state`.

        Raises:
            ValueError: the question is empty.
            LMError: the model could not be asked, after its retries.
            AdapterParseError, StepLimitError: the last try's reply was of no use either.
        """
        if not question.strip():
            raise ValueError("no question was given to the system; expected some text")
        path = Path(file) if file else None
        state = _initial_state(question, path.name if path else None)
        keep_state(state)
        with use_attachments([path] if path else []):
            state = await self._answered(state)
        keep_state(state)
        keep_answer(state["final_answer"])
        return dspy.Prediction(
            final_answer=state["final_answer"], final_reasoning_trace=state["final_reasoning_trace"], state=state
        )

    async def _answered(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state after the first usable reply, or the last unusable one's exception."""
        request = state["question"]
        while True:
            try:
                turns, prediction = await self._try(request, state["file"])
            except UNUSABLE as error:
                if state["retry_count"] >= self.retry_limit:
                    raise
                reason = str(error)[:MAX_FEEDBACK_CHARS]
                event("unusable reply", "warning", agent="agent", error=reason)
                state = {**state, "retry_count": state["retry_count"] + 1, "feedback": reason}
                keep_state(state)
                request = f"{state['question']}\n\nYour last reply could not be used: {reason}"
            else:
                answers = {key: prediction[key] or "" for key in ("final_answer", "final_reasoning_trace")}
                return {**state, "turns": turns, **answers}

    async def _try(self, request: str, file: str | None) -> tuple[list[dict[str, Any]], dspy.Prediction]:
        """From the first tool call to the answer; an unusable reply leaves nothing to go on from."""
        with span("agent", "agent", inputs={"request": request}) as current:
            inputs = {"question_to_answer": request, "file": file}
            turns, prediction = await react(self.agent, inputs, [], self.toolbox)
            if not (prediction.final_answer or "").strip():
                raise _no_answer(self.agent.signature)
            current.outputs = {
                "final_answer": prediction.final_answer,
                "final_reasoning_trace": prediction.final_reasoning_trace,
            }
        return turns, prediction


def _initial_state(question: str, file: str | None) -> dict[str, Any]:
    return {
        "question": question,
        "file": file,
        "correlation_id": current_thread_id() or uuid.uuid4().hex,
        "turns": [],  # `dspy.History` messages
        "retry_count": 0,
        "feedback": "",  # what was wrong with the last unusable reply
        "final_answer": "",
        "final_reasoning_trace": "",
    }


def _no_answer(signature: Any) -> AdapterParseError:
    message = "The reply called no tool and gave no final_answer."
    return AdapterParseError(adapter_name="single_agent", signature=signature, lm_response="", message=message)
