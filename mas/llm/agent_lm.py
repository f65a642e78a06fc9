"""The `dspy.LM` of an agent: our engines and retries, and native tools as the profile says."""

from contextlib import nullcontext
from types import SimpleNamespace

import dspy
import dspy.utils.exceptions as errors

from mas.llm.engine import AgentEngine, CallPolicy, Engine
from mas.runtime.event_loop import await_on_loop, is_on_loop, run_blocking
from mas.runtime.sample_context import LimitReachedError, current_context
from mas.runtime.text import replace_surrogates

MAX_SERVER_CHARS = 500  # of a refusal's own words, so that the remedy after them is not cut off
_LM15_GUIDANCE = "\n\n  "  # begins lm15's own advice, which users of the harness cannot follow
# The server will refuse every further request.
_SERVER_REFUSALS = (errors.LMAuthError, errors.LMBillingError, errors.LMConfigurationError)


class AgentLM(dspy.LM):
    """`dspy.LM` over our engines and their retries. All calls are made on the background loop."""

    is_quick = True  # for the loop's threads (`mas.runtime.event_loop`)
    _cache_responses = False  # by DSPy, if a program asks for it: replies of other runs, without cost

    def __init__(self, model: str, engine: Engine, policy: CallPolicy, **settings: object) -> None:
        self._agent_engine = asynchronous = AgentEngine(engine, policy)
        blocking = SimpleNamespace(complete=lambda request: run_blocking(asynchronous.complete(request)))
        super().__init__(model, engine=blocking, async_engine=asynchronous, **settings | {"num_retries": 0})
        self.takes_images, self.takes_audio = policy.settings.takes_images, policy.settings.takes_audio
        self.takes_schema = True  # for the fields of a reply; false once the server has refused one

    @property
    def supports_function_calling(self) -> bool:
        return self._agent_engine.policy.native_tools

    @property
    def supports_response_schema(self) -> bool:
        return self.takes_schema

    @property
    def supported_params(self) -> set[str]:
        return {"response_format"} if self.takes_schema else set()

    def __call__(self, *args: object, **kwargs: object) -> list[object]:
        """Run `acall` and wait for it; RuntimeError on the background loop itself."""
        return run_blocking(self._ask(*args, **kwargs))

    async def acall(self, *args: object, **kwargs: object) -> list[object]:
        """Ask the model, with retries; LimitReachedError: a limit of the sample or the run was reached.

        That the server refuses every request is noted in the sample's context as well: an agent may swallow the error.
        """
        if not is_on_loop():
            return await await_on_loop(self._ask(*args, **kwargs))
        if isinstance(messages := kwargs.get("messages"), list):
            messages[:] = replace_surrogates(messages)  # in place: DSPy knows the list by identity
        try:
            result: list[object] = await super().acall(*args, **kwargs)
        except errors.LMError as error:
            if isinstance(error, errors.LMUnexpectedError) and isinstance(error.__cause__, LimitReachedError):
                raise error.__cause__ from None
            if remedy := _find_remedy(error, self._agent_engine.policy):
                message = f"{error.message.split(_LM15_GUIDANCE)[0][:MAX_SERVER_CHARS]}; {remedy}"
                error.message, error.args = message, (f"[{error.model}] {message}" if error.model else message,)
            if isinstance(error, _SERVER_REFUSALS) and (context := current_context()) is not None:
                context.server_refusal = " ".join(f"{type(error).__name__}: {error}".split())
            raise error from error.__cause__
        return result

    async def _ask(self, *args: object, **kwargs: object) -> list[object]:
        """Ask for a caller outside of the loop, which the end of its sample does not cancel."""
        context = current_context()
        async with nullcontext() if context is None else context.within_deadline():
            return await self.acall(*args, **kwargs)

    dump_state = dspy.BaseLM.dump_state  # model and parameters; the profile creates new engines


def _find_remedy(error: errors.LMError, policy: CallPolicy) -> str | None:
    """Return what to correct in the configuration, if the server's refusal can be its mistake."""
    if isinstance(error, errors.LMAuthError):
        if policy.key_variable:
            return f"check the key in {policy.key_variable} (model.api_key_env)"
        return "the server wants a key: name the environment variable that holds it with model.api_key_env"
    if isinstance(error, errors.LMTransportError) and error.status == 200:  # a web page, for instance
        return "check model.base_url, to which /chat/completions is added"
    if isinstance(error, errors.ContextWindowExceededError) or not isinstance(error, errors.LMInvalidRequestError):
        return None
    if error.status == 404:
        return f"check model.name={(error.model or '').partition('/')[2]} and model.base_url"
    fields = "model.temperature, model.max_tokens, model.native_tools, model.takes_images"
    return f"check {fields}; further fields are sent with model.extra_body"
