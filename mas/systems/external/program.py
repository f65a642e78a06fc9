"""Programs around external agents: what such an agent may return, and how its reply is read.

read_reply({"answer": 42, "reasoning_trace": "six times seven", "pages": [3]}, "my_agent:answer")
# Reply(answer="42", reasoning_trace="six times seven", rest={"pages": [3]})
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import dspy

from mas.agents.program import AgentProgram, State
from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.text import name_type, replace_surrogates
from mas.runtime.trace import keep_answer, keep_state, span

ANSWER_KEYS = ("final_answer", "answer")
TRACE_KEYS = ("final_reasoning_trace", "reasoning_trace", "reasoning")

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    """Answer of an agent."""

    answer: str
    reasoning_trace: str = ""
    rest: dict[str, object] = field(default_factory=dict)  # other values that were returned, for the final state


def read_reply(value: object, agent: str) -> Reply:
    """Read the answer from what an agent returned.

    Args:
        value: a text or a number, a mapping, or a `dspy.Prediction`.
        agent: its name, for error messages.

    Raises:
        AgentReplyError: the value holds no answer.
    """
    if isinstance(value, str | int | float):
        return Reply(replace_surrogates(str(value)))
    if not isinstance(value, Mapping | dspy.Prediction):
        raise AgentReplyError(f"{agent} returned {name_type(value)}; expected a text, or a dict with an answer")
    fields: dict[object, object] = dict(value.items())
    answer = next((fields[key] for key in ANSWER_KEYS if fields.get(key) is not None), None)
    if answer is None:
        keys = ", ".join(map(str, fields)) or "none"
        raise AgentReplyError(f"{agent} gave no answer; expected the key 'answer', and found: {keys}")
    if not isinstance(answer, str | int | float):
        raise AgentReplyError(f"{agent} gave {name_type(answer)} as its answer; expected a text or a number")
    trace = next((fields[key] for key in TRACE_KEYS if fields.get(key) is not None), "")
    rest = {str(key): item for key, item in fields.items() if key not in (*ANSWER_KEYS, *TRACE_KEYS)}
    return Reply(replace_surrogates(str(answer)), replace_surrogates(str(trace)), rest)


class ForeignProgram(AgentProgram):
    """Program around an external agent; a subclass says how the agent is called."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name  # of the agent, in traces and messages

    @abstractmethod
    async def ask(self, question: str, file: Path | None, thread_id: str) -> object:
        """Return whatever the agent returns; whatever it raises ends the question."""

    def describe_end(self, how: str) -> AgentReplyError:
        """Return the error of an agent that has ended in an unusual way, such as by `sys.exit`."""
        return AgentReplyError(f"{self.name} {how} instead of an answer")

    async def answer(self, question: str, file: Path | None, thread_id: str) -> State:
        """Return the final state, with what else the agent has returned as `reply`.

        Raises:
            AgentReplyError: what came back holds no answer.
            AgentUnavailableError: the agent could not be reached, or gave up waiting for something.
        """
        inputs = {"question": question, "file": file.name if file else None}
        state: dict[str, object] = {**inputs, "correlation_id": thread_id}
        keep_state(state)
        with span("agent", self.name, inputs=inputs) as current:
            try:
                value = await self.ask(question, file, thread_id)
            except TimeoutError as error:  # the agent's own; the question's deadline arrives as a cancellation
                raise AgentUnavailableError(f"{self.name} gave up waiting ({type(error).__name__}: {error})") from error
            reply = read_reply(value, self.name)
            answers = {"final_answer": reply.answer, "final_reasoning_trace": reply.reasoning_trace}
            current.outputs = dict(answers)
        keep_answer(reply.answer)
        return {**state, **answers, "reply": reply.rest}


class Shared(Generic[T]):
    """Value that all copies of a program share, as tuning makes them."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, object]) -> "Shared[T]":
        return self
