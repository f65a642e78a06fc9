"""An agent that is not ours, as a program like any other: attachment, span, state and prediction around its call."""

import uuid
from pathlib import Path
from typing import Any

import dspy

from mas.errors import AgentUnavailableError
from mas.foreign.reply import read_reply
from mas.llm.loop import run_blocking
from mas.tools.attachments import attached
from mas.tracing.trace import current_thread_id, keep_answer, keep_state, span


class ForeignProgram(dspy.Module):
    """Its subclasses say how the agent is asked."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name  # of the agent, in traces and messages

    async def ask(self, question: str, file: Path | None, thread_id: str) -> Any:
        """Whatever the agent returns; whatever it raises ends the question."""
        raise NotImplementedError

    def forward(self, question: str, file: str | Path | None = None) -> dspy.Prediction:
        """The same run for synchronous callers, on the one event loop that holds the connections."""
        return run_blocking(self.aforward(question, file))

    async def aforward(self, question: str, file: str | Path | None = None) -> dspy.Prediction:
        """Answer one question.

        Returns:
            A prediction with `final_answer`, `final_reasoning_trace` and `state`.

        Raises:
            AgentReplyError: what came back holds no answer.
            AgentUnavailableError: the agent could not be reached, or gave up waiting for something.
        """
        path = Path(file) if file else None
        thread_id = current_thread_id() or uuid.uuid4().hex
        state: dict[str, Any] = {"question": question, "file": path.name if path else None, "correlation_id": thread_id}
        keep_state(state)
        inputs = {"question": question, "file": state["file"]}
        with attached([path] if path else []), span("agent", self.name, inputs=inputs) as current:
            try:
                value = await self.ask(question, path, thread_id)
            except TimeoutError as error:  # the agent's own; the question's deadline arrives as a cancellation
                raise AgentUnavailableError(f"{self.name} gave up waiting ({type(error).__name__}: {error})") from error
            reply = read_reply(value, self.name)
            answers = {"final_answer": reply.answer, "final_reasoning_trace": reply.reasoning_trace}
            current.outputs = dict(answers)
        state |= {**answers, "reply": reply.rest}
        keep_state(state)
        keep_answer(reply.answer)
        return dspy.Prediction(**answers, state=state)
