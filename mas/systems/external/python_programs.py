"""Programs around a Python function and around a `dspy.Module`."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import dspy

from mas.runtime.errors import AgentReplyError
from mas.runtime.safe_call import await_safely, run_in_thread
from mas.systems.external.program import ForeignProgram, Shared
from mas.systems.external.target import Agent

CreateLM = Callable[[str], dspy.LM]  # a predictor's name, or "" for the program itself → its language model


class FunctionProgram(ForeignProgram):
    """Program around a function. It runs in a thread, so that it may block; a coroutine runs on the event loop."""

    def __init__(self, agent: Agent, create_lm: CreateLM | None = None) -> None:
        super().__init__(agent.target)
        self.agent = Shared(agent)
        self.lm = create_lm("") if create_lm else None  # for dspy inside the function; None: it has its own

    async def ask(self, question: str, file: Path | None, thread_id: str) -> object:
        agent = self.agent.value
        positional, named = agent.arguments(question, file)
        with _use_lm(self.lm):
            if inspect.iscoroutinefunction(agent.value) or inspect.iscoroutinefunction(type(agent.value).__call__):
                return await await_safely(agent.value(*positional, **named), _describe_end(self.name))
            value = await run_in_thread(lambda: agent.value(*positional, **named), _describe_end(self.name))
            return await await_safely(value, _describe_end(self.name)) if inspect.isawaitable(value) else value


class ModuleProgram(ForeignProgram):
    """Program around a `dspy.Module`; its parameters are the module's own, under the module's own names."""

    def __init__(self, agent: Agent, create_lm: CreateLM | None = None) -> None:
        super().__init__(agent.target)
        self.agent = agent.value.deepcopy()  # a copy: the user's own gets no models and prompts of this run
        self.call = Agent(agent.target, None, True, agent.question, agent.file)  # names of the inputs only
        self.lm = create_lm("") if create_lm else None  # for predictors made while a question is answered
        for name, predictor in self.named_predictors():
            if predictor.lm is None and create_lm:
                predictor.lm = create_lm(name)

    def named_parameters(self) -> list[tuple[str, dspy.Predict]]:
        parameters: list[tuple[str, dspy.Predict]] = self.agent.named_parameters()
        return parameters

    async def ask(self, question: str, file: Path | None, thread_id: str) -> object:
        _, named = self.call.arguments(question, file)
        with _use_lm(self.lm):
            if hasattr(type(self.agent), "aforward"):
                return await await_safely(self.agent.acall(**named), _describe_end(self.name))
            return await run_in_thread(lambda: self.agent(**named), _describe_end(self.name))


def _use_lm(lm: dspy.LM | None) -> AbstractContextManager[object]:
    return dspy.context(lm=lm) if lm is not None else nullcontext()


def _describe_end(name: str) -> Callable[[str], AgentReplyError]:
    return lambda how: AgentReplyError(f"{name} {how} instead of an answer")
