"""The `dspy.LM` that agents hold: native tools as the profile says, one way for synchronous callers and others."""

import dataclasses
from typing import Any

import dspy
from dspy.clients.base_lm import BaseLM
from dspy.utils.exceptions import LMAuthError, LMBillingError, LMConfigurationError, LMError, LMUnexpectedError

from mas.llm.call_policy import CallPolicy
from mas.llm.engine import AgentEngine, SyncAgentEngine
from mas.runtime.event_loop import may_block, model_call, run_blocking
from mas.runtime.sample_context import LimitReachedError, current_context
from mas.runtime.text import encodable

FREE_TERMS = CallPolicy()
_REFUSALS = (LMAuthError, LMBillingError, LMConfigurationError)  # of every request to come, too


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
        policy: CallPolicy = FREE_TERMS,
        **settings: Any,
    ) -> None:
        policy = dataclasses.replace(policy, deadline_seconds=deadline_seconds)
        engines = {"engine": SyncAgentEngine(engine, policy), "async_engine": AgentEngine(async_engine, policy)}
        super().__init__(model, **engines, **settings | {"num_retries": 0})
        self.native_tools = native_tools
        self.takes_images, self.takes_audio = policy.limits.takes_images, policy.limits.takes_audio
        self.deadline_seconds = deadline_seconds

    @property
    def supports_function_calling(self) -> bool:
        return self.native_tools

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same, waited for. On the agents' own loop, which waiting would block: one attempt, and no deadline."""
        if may_block() and dspy.settings.send_stream is None:  # a stream belongs to the loop that opened it
            return run_blocking(self._acall_for_a_thread(*args, **kwargs))
        _mend(kwargs)
        try:
            return super().__call__(*args, **kwargs)
        except LMError as error:
            raise _noted(error) from error.__cause__

    async def _acall_for_a_thread(self, *args: Any, **kwargs: Any) -> Any:
        context = current_context()
        if context is None:
            return await self.acall(*args, **kwargs)
        async with context.within_deadline():
            return await self.acall(*args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the model, with retries.

        Raises:
            LMTimeoutError: sending and receiving took `deadline_seconds` in all, even if bytes were still dripping in.
            LimitReachedError: the question has spent what it may.
        """
        _mend(kwargs)
        try:
            with model_call():
                return await super().acall(*args, **kwargs)
        except LMError as error:
            raise _noted(error) from error.__cause__

    def dump_state(self) -> dict[str, Any]:
        """Model and parameters; the engine holds connections and keys and is made anew from the profile."""
        state: dict[str, Any] = BaseLM.dump_state(self)
        return state


def _noted(error: Any) -> Exception:
    """The error; a limit that was reached as itself, which DSPy takes for a defect of the engine.

    That the server refuses every request is noted on the question: an agent may swallow the error.
    """
    told: Exception = error
    if isinstance(error, LMUnexpectedError) and isinstance(error.__cause__, LimitReachedError):
        told = error.__cause__
    elif isinstance(error, _REFUSALS) and (context := current_context()) is not None:
        context.server_refusal = " ".join(f"{type(error).__name__}: {error}".split())
    return told


def _mend(kwargs: dict[str, Any]) -> None:
    """Replace lone surrogates in the messages, in place: DSPy tells its adapters' own lists by their identity."""
    if messages := kwargs.get("messages"):
        messages[:] = encodable(messages)
