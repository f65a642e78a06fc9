"""Programs around a Python function and around a `dspy.Module`."""

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import dspy

from mas.errors import AgentReplyError
from mas.foreign.agent import Agent
from mas.foreign.program import ForeignProgram

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
                return await _awaited(agent.value(*positional, **named), self.name)
            value = await _in_thread(lambda: agent.value(*positional, **named), self.name)
            return await _awaited(value, self.name) if inspect.isawaitable(value) else value


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
                return await _awaited(self.agent.acall(**named), self.name)
            return await _in_thread(lambda: self.agent(**named), self.name)


class _Held:
    """Copies of a program, as tuning makes them, share the user's function with whatever it holds."""

    def __init__(self, held: Agent) -> None:
        self.held = held

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Held":
        return self


def _using(lm: Any) -> AbstractContextManager[Any]:
    return dspy.context(lm=lm) if lm is not None else nullcontext()


async def _in_thread(call: Callable[[], Any], name: str) -> Any:
    """The call's result, from a thread with this question's context.

    Some exceptions end more than the call when they leave a thread through a future: `StopIteration` leaves its waiter
    waiting, the others end the event loop or the worker. Here they are what they would be anywhere else: a mistake.
    """

    def contained() -> Any:
        try:
            return call()
        except (StopIteration, concurrent.futures.CancelledError) as error:
            raise _ended(name, error) from error
        except Exception:
            raise
        except BaseException as error:
            raise _ended(name, error) from error

    return await asyncio.to_thread(contained)


async def _awaited(result: Awaitable[Any], name: str) -> Any:
    try:
        return await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # the question's deadline, or the run's end
        raise _ended(name, error) from error
    except (SystemExit, KeyboardInterrupt, concurrent.futures.CancelledError) as error:
        raise _ended(name, error) from error


def _ended(name: str, error: BaseException) -> AgentReplyError:
    detail = f" ({error})" if str(error) else ""
    return AgentReplyError(f"{name} ended with {type(error).__name__}{detail} instead of an answer")
