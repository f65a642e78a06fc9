"""The `dspy.LM` that agents hold: native tools as the profile says, and a deadline over the whole call."""

import asyncio
from typing import Any

import dspy
from dspy.clients.base_lm import BaseLM
from dspy.utils.exceptions import LMTimeoutError

from mas.encodable import encodable
from mas.llm.engine import TracedAsyncEngine, TracedEngine
from mas.llm.limits import Limits
from mas.llm.loop import may_block, run_blocking

NO_LIMITS = Limits()


class AgentLM(dspy.LM):
    """`dspy.LM` over an engine of our own.

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
        limits: Limits = NO_LIMITS,
        **settings: Any,
    ) -> None:
        traced = TracedEngine(engine, limits)
        super().__init__(model, engine=traced, async_engine=TracedAsyncEngine(async_engine, limits), **settings)
        self.native_tools = native_tools
        self.deadline_seconds = deadline_seconds

    @property
    def supports_function_calling(self) -> bool:
        return self.native_tools

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same, waited for. Where waiting could block the agents' loop, DSPy's own way, which has no deadline."""
        if may_block() and dspy.settings.send_stream is None:  # a stream belongs to the loop that opened it
            return run_blocking(self.acall(*args, **kwargs))
        _mend(kwargs)
        return super().__call__(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the model; retries and waiting included, for `deadline_seconds` at most.

        Raises:
            LMTimeoutError: the deadline passed, even if bytes were still dripping in.
        """
        _mend(kwargs)
        try:
            async with asyncio.timeout(self.deadline_seconds):
                return await super().acall(*args, **kwargs)
        except TimeoutError as error:
            message = f"no complete reply within {self.deadline_seconds:g} s (model.call_deadline_seconds)"
            raise LMTimeoutError(message, model=self.model) from error

    def dump_state(self) -> dict[str, Any]:
        """Model and parameters; the engine holds connections and keys and is made anew from the profile."""
        state: dict[str, Any] = BaseLM.dump_state(self)
        return state


def _mend(kwargs: dict[str, Any]) -> None:
    """Replace lone surrogates in the messages, in place: DSPy tells its adapters' own lists by their identity."""
    if messages := kwargs.get("messages"):
        messages[:] = encodable(messages)
