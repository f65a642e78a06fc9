"""Policy of an LM's requests: endpoint, limits of the model, price, rate limiter, retries and deadline.

    CallPolicy("https://api.openai.com/v1", ModelLimits("gpt-4o"), price=Price(2.5, 10.0), num_retries=3)

Ollama answers a prompt that is longer than its context with 200 OK after dropping its beginning: the system prompt and
the question. The only trace is `usage.prompt_tokens`, the count of what was left. Without a tokenizer, a prompt of more
than 2,000 characters counts as truncated if the server counted less than one token per 8 characters (English has about
4 characters per token; a run of one repeated character counts once), or if the prompt fills the whole context.

    ModelLimits("qwen3", detect_truncation=True).check_not_truncated(request, 2050)     # TruncatedPromptError
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dspy.lm15 import Request, TextPart, ToolCallPart, ToolResultPart
from dspy.utils.exceptions import LMUnsupportedFeatureError

from mas.llm.dspy_engine import Part
from mas.llm.prices import Price
from mas.llm.rate_limiter import Limiter
from mas.runtime.lm_errors import TruncatedPromptError

MIN_CHARS = 2_000  # shorter prompts are not checked
MAX_CHARS_PER_TOKEN = 8
_RUN = re.compile(r"(.)\1+", re.DOTALL)  # tokenizers have single tokens for long runs of spaces or dashes


@dataclass(frozen=True)
class ModelLimits:
    """Inputs and context length that a model supports, from its profile, whose keys the messages name."""

    model: str = ""
    takes_images: bool = True
    takes_audio: bool = True
    context_tokens: int | None = None  # None: unknown
    detect_truncation: bool = False

    def check_inputs(self, request: Request) -> None:
        """Check that the model supports all inputs of a request before it is sent.

        Raises:
            LMUnsupportedFeatureError: it holds an image or a sound, and the profile does not allow that.
        """
        kinds = {part.type for part in _iterate_parts(request)}
        for kind, taken, key in (("image", self.takes_images, "images"), ("audio", self.takes_audio, "audio")):
            if kind in kinds and not taken:
                raise LMUnsupportedFeatureError(
                    f"{self.model} was not asked: its profile says that it takes no {key} (model.takes_{key}=false)",
                    model=self.model,
                    features=[kind],
                )

    def check_not_truncated(self, request: Request, prompt_tokens: int | None) -> None:
        """Check that the model read the whole prompt; skipped if the server did not count its tokens.

        Raises:
            TruncatedPromptError: it can only have read a part of it.
        """
        if not self.detect_truncation or not prompt_tokens:
            return
        if self.context_tokens is not None and prompt_tokens >= self.context_tokens:
            raise self._describe_truncation(
                f"it counted {prompt_tokens} tokens, all that its context of {self.context_tokens} holds"
            )
        if prompt_tokens * MAX_CHARS_PER_TOKEN < (chars := _count_chars(request, prompt_tokens)):
            raise self._describe_truncation(f"it counted {prompt_tokens} tokens for {chars} characters")

    def _describe_truncation(self, why: str) -> TruncatedPromptError:
        return TruncatedPromptError(
            f"{self.model} read only a part of the prompt: {why}; give the server a longer context (if the count is "
            "wrong: model.detect_truncation=false)",
            model=self.model,
        )


def _count_chars(request: Request, prompt_tokens: int) -> int:
    """Return the characters sent, with runs of one character counted once; 0 if there are too few to judge."""
    texts = list(_iterate_texts(request))
    if sum(map(len, texts)) <= max(MIN_CHARS, prompt_tokens * MAX_CHARS_PER_TOKEN):
        return 0  # the usual case, without reading every character
    chars = sum(len(_RUN.sub(r"\1", text)) for text in texts)
    return chars if chars > MIN_CHARS else 0


def _iterate_texts(request: Request) -> Iterator[str]:
    if isinstance(request.system, str):
        yield request.system
    for part in _iterate_parts(request):
        if isinstance(part, TextPart):
            yield part.text
        elif isinstance(part, ToolCallPart):
            yield str(part.input)


def _iterate_parts(request: Request) -> Iterator[Part]:
    """Yield every part of every message and of tool results."""
    if request.system is not None and not isinstance(request.system, str):
        yield from request.system
    for message in request.messages:
        for part in message.parts:
            yield part
            if isinstance(part, ToolResultPart):
                yield from part.content


NO_LIMITS = ModelLimits()


@dataclass(frozen=True)
class OptionNames:
    """Options that name a model and its server, and the variable with the key, as messages refer to them."""

    name: str = "model.name"
    base_url: str = "model.base_url"
    api_key_env: str = "model.api_key_env"
    key_variable: str | None = None


DEFAULT_OPTIONS = OptionNames()


@dataclass(frozen=True)
class CallPolicy:
    """Settings shared by all calls of one LM; all LMs of a profile share the rate limiter."""

    url: str = ""  # endpoint, part of the key of stored replies; "offline": the simulated model
    limits: ModelLimits = NO_LIMITS
    options: OptionNames = DEFAULT_OPTIONS
    price: Price | None = None  # None: unknown
    rate_limiter: Limiter | None = None  # None: any number of requests at once
    counts_tokens: bool = False  # the rate limiter limits tokens per minute and needs an estimate of each request's
    num_retries: int = 0
    retry_base_seconds: float = 1.0  # upper bound of the first wait
    attempt_timeout_seconds: float | None = None  # of every attempt but the last; None: learnt from earlier replies
    deadline_seconds: float = float("inf")  # of a call with its retries
    extra_body: Mapping[str, object] = field(default_factory=dict)  # further fields of every request

    def complete_request(self, request: Request) -> Request:
        """Return the request with the further fields."""
        if not self.extra_body:
            return request
        extensions = {**(request.config.extensions or {}), **self.extra_body}
        return replace(request, config=replace(request.config, extensions=extensions))
