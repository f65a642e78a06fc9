"""Program around a Python function."""

import inspect
from contextlib import nullcontext
from pathlib import Path

import dspy

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
        is_async = inspect.iscoroutinefunction(agent.value) or inspect.iscoroutinefunction(type(agent.value).__call__)
        with dspy.context(lm=self.lm) if self.lm is not None else nullcontext():
            if is_async:
                return await await_safely(agent.value(*positional, **named), self.describe_end)
            value = await run_in_thread(lambda: agent.value(*positional, **named), self.describe_end)
            return await await_safely(value, self.describe_end) if inspect.isawaitable(value) else value
