"""Base of all programs: predictors made from specs, and one state per question."""

import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import dspy

from mas.agents.spec import AgentSpec, Toolboxes
from mas.runtime.event_loop import run_blocking
from mas.runtime.trace import current_trace
from mas.tools.attachments import use_attachments
from mas.tools.catalogue import load_function

State = Mapping[str, object]  # final state of a question; goes into its record


class AgentProgram(dspy.Module):
    """Module with one predictor per agent, under the agent's name: every one of them can be tuned."""

    def __init__(self, agents: Sequence[AgentSpec] = (), toolboxes: Toolboxes | None = None) -> None:
        super().__init__()
        for agent in agents:
            setattr(self, agent.name, dspy.Predict(load_function(agent.signature)))
        self.toolboxes = dict(toolboxes or {})  # by agent; agents without tools are left out

    def forward(
        self, question: str, file: str | Path | None = None, inputs: Mapping[str, str] | None = None
    ) -> dspy.Prediction:
        """Answer for a synchronous caller, on the one event loop that holds the connections."""
        return run_blocking(self.aforward(question, file, inputs))

    async def aforward(
        self, question: str, file: str | Path | None = None, inputs: Mapping[str, str] | None = None
    ) -> dspy.Prediction:
        """Return `final_answer`, `final_reasoning_trace` and `state`, the complete final state.

        Agents see the bare name of `file`, and tools open that name and no other. Most programs ignore `inputs`, the
        named fields of a sample: `question` is their text.
        """
        path = Path(file) if file else None
        with use_attachments([path] if path else []):
            trace = current_trace()
            state = await self.answer_inputs(question, path, trace.thread_id or uuid.uuid4().hex, inputs or {})
        answer = state["final_answer"]
        trace.state, trace.answer = dict(state), str(answer)
        return dspy.Prediction(final_answer=answer, final_reasoning_trace=state["final_reasoning_trace"], state=state)

    async def answer_inputs(self, question: str, file: Path | None, thread_id: str, inputs: Mapping[str, str]) -> State:
        """Return the final state; a program with named inputs overrides this instead of `answer`."""
        return await self.answer(question, file, thread_id)

    @abstractmethod
    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        """Return the final state, which has at least `final_answer` and `final_reasoning_trace`.

        LMError, AdapterParseError: the model could not be asked, or its reply read, after all retries.
        """
        raise NotImplementedError(f"{type(self).__name__} overrides neither answer nor answer_inputs")


def check_question(question: str) -> None:
    if not question.strip():
        raise ValueError("no question was given to the system; expected some text")
