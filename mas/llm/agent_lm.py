"""The `dspy.LM` that agents hold: native tools as the profile says, and a deadline over the whole call."""

import asyncio
import dataclasses
from typing import Any

import dspy
from dspy.clients.base_lm import BaseLM
from dspy.utils.exceptions import LMTimeoutError, LMUnexpectedError

from mas.encodable import encodable
from mas.llm.engine import AgentEngine, SyncAgentEngine
from mas.llm.loop import may_block, run_blocking
from mas.llm.terms import CallTerms
from mas.question import LimitReachedError

FREE_TERMS = CallTerms()


class AgentLM(dspy.LM):
    """`dspy.LM` over an engine of our own, whose retries replace DSPy's.

    With an engine of one's own, DSPy takes every model for one without function calling; the profile knows better.
    """

    def __init__(
        self,
        model: str,
        engine: Any,
        async_engine: Any,
        *,
        native_tools: bool,
        deadline_seconds: float,
        terms: CallTerms = FREE_TERMS,
        **settings: Any,
    ) -> None:
        terms = dataclasses.replace(terms, deadline_seconds=deadline_seconds)
        engines = {"engine": SyncAgentEngine(engine, terms), "async_engine": AgentEngine(async_engine, terms)}
        super().__init__(model, **engines, **settings | {"num_retries": 0})
        self.native_tools = native_tools
        self.deadline_seconds = deadline_seconds

    @property
    def supports_function_calling(self) -> bool:
        return self.native_tools

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same, waited for. Where waiting could block the agents' loop: one attempt, and no deadline."""
        if may_block() and dspy.settings.send_stream is None:  # a stream belongs to the loop that opened it
            return run_blocking(self.acall(*args, **kwargs))
        _mend(kwargs)
        try:
            return super().__call__(*args, **kwargs)
        except LMUnexpectedError as error:
            raise _limit_or(error) from error.__cause__

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the model; retries and waiting included, for `deadline_seconds` at most.

        Raises:
            LMTimeoutError: the deadline passed, even if bytes were still dripping in.
            LimitReachedError: the question has spent what it may.
        """
        _mend(kwargs)
        try:
            async with asyncio.timeout(self.deadline_seconds):
                return await super().acall(*args, **kwargs)
        except TimeoutError as error:
            message = f"no complete reply within {self.deadline_seconds:g} s (model.call_deadline_seconds)"
            raise LMTimeoutError(message, model=self.model) from error
        except LMUnexpectedError as error:
            raise _limit_or(error) from error.__cause__

    def dump_state(self) -> dict[str, Any]:
        """Model and parameters; the engine holds connections and keys and is made anew from the profile."""
        state: dict[str, Any] = BaseLM.dump_state(self)
        return state


def _limit_or(error: LMUnexpectedError) -> Exception:
    """A limit that was reached, as itself: DSPy takes it for a defect of the engine."""
    return error.__cause__ if isinstance(error.__cause__, LimitReachedError) else error


def _mend(kwargs: dict[str, Any]) -> None:
    """Replace lone surrogates in the messages, in place: DSPy tells its adapters' own lists by their identity."""
    if messages := kwargs.get("messages"):
        messages[:] = encodable(messages)
