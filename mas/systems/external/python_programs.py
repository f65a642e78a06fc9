"""Programs around a Python function and around a `dspy.Module`."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import dspy

from mas.runtime.errors import AgentReplyError
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.systems.external.program import ForeignProgram
from mas.systems.external.target import Agent

LMOf = Callable[[str], Any]  # a predictor's name, or empty → the `dspy.LM` that it gets


class FunctionProgram(ForeignProgram):
    """A function runs in a thread, so that it may block; a coroutine runs on the event loop of all questions."""

    def __init__(self, agent: Agent, lm_of: LMOf | None = None) -> None:
        super().__init__(agent.target)
        self.agent = _Held(agent)
        self.lm = lm_of("") if lm_of else None  # what dspy inside the function uses; None: whatever it has itself

    async def ask(self, question: str, file: Path | None, thread_id: str) -> Any:
        agent = self.agent.held
        positional, named = agent.arguments(question, file)
        with _using(self.lm):
            if inspect.iscoroutinefunction(agent.value) or inspect.iscoroutinefunction(type(agent.value).__call__):
                return await await_safely(agent.value(*positional, **named), _ended(self.name))
            value = await run_in_thread(lambda: agent.value(*positional, **named), _ended(self.name))
            return await await_safely(value, _ended(self.name)) if inspect.isawaitable(value) else value


class ModuleProgram(ForeignProgram):
    """Its parameters are the module's own, under the module's own names: what tunes them sees no wrapper."""

    def __init__(self, agent: Agent, lm_of: LMOf | None = None) -> None:
        super().__init__(agent.target)
        self.agent = agent.value.deepcopy()  # the user's own stays without what this run gives it
        self.call = Agent(agent.target, None, True, agent.question, agent.file)  # how; the module itself is copied
        self.lm = lm_of("") if lm_of else None  # for predictors made while a question is answered
        for name, predictor in self.named_predictors():
            if predictor.lm is None and lm_of:
                predictor.lm = lm_of(name)

    def named_parameters(self) -> list[tuple[str, Any]]:
        parameters: list[tuple[str, Any]] = self.agent.named_parameters()
        return parameters

    async def ask(self, question: str, file: Path | None, thread_id: str) -> Any:
        _, named = self.call.arguments(question, file)
        with _using(self.lm):
            if hasattr(type(self.agent), "aforward"):
                return await await_safely(self.agent.acall(**named), _ended(self.name))
            return await run_in_thread(lambda: self.agent(**named), _ended(self.name))


class _Held:
    """Copies of a program, as tuning makes them, share the user's function with whatever it holds."""

    def __init__(self, held: Agent) -> None:
        self.held = held

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Held":
        return self


def _using(lm: Any) -> AbstractContextManager[Any]:
    return dspy.context(lm=lm) if lm is not None else nullcontext()


def _ended(name: str) -> Callable[[str], AgentReplyError]:
    return lambda how: AgentReplyError(f"{name} {how} instead of an answer")
