"""Program around a Python function."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import dspy

from mas.runtime.errors import AgentReplyError
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.systems.external.program import ForeignProgram, Shared
from mas.systems.external.target import Agent


class FunctionProgram(ForeignProgram):
    """Program around a function. It runs in a thread, so that it may block; a coroutine runs on the event loop."""

    def __init__(self, agent: Agent, lm: dspy.BaseLM | None = None) -> None:
        super().__init__(agent.target)
        self.agent = Shared(agent)
        self.lm = lm  # for dspy inside the function; None: it has its own

    async def ask(self, question: str, file: Path | None, thread_id: str) -> object:
        agent = self.agent.value
        positional, named = agent.arguments(question, file)
        with _use_lm(self.lm):
            if inspect.iscoroutinefunction(agent.value) or inspect.iscoroutinefunction(type(agent.value).__call__):
                return await await_safely(agent.value(*positional, **named), _describe_end(self.name))
            value = await run_in_thread(lambda: agent.value(*positional, **named), _describe_end(self.name))
            return await await_safely(value, _describe_end(self.name)) if inspect.isawaitable(value) else value


def _use_lm(lm: dspy.BaseLM | None) -> AbstractContextManager[object]:
    return dspy.context(lm=lm) if lm is not None else nullcontext()


def _describe_end(name: str) -> Callable[[str], AgentReplyError]:
    return lambda how: AgentReplyError(f"{name} {how} instead of an answer")
