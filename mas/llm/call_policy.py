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
from dataclasses import dataclass, field

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
        for kind, is_taken, key in (("image", self.takes_images, "images"), ("audio", self.takes_audio, "audio")):
            if kind in kinds and not is_taken:
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
            why = f"{prompt_tokens} tokens, all that its context of {self.context_tokens} holds"
        elif (chars := _count_chars(request)) > max(MIN_CHARS, prompt_tokens * MAX_CHARS_PER_TOKEN):
            why = f"{prompt_tokens} tokens for {chars} characters"
        else:
            return
        raise TruncatedPromptError(
            f"{self.model} read only a part of the prompt: it counted {why}; give the server a longer context (if the "
            "count is wrong: model.detect_truncation=false)",
            model=self.model,
        )


def _count_chars(request: Request) -> int:
    """Return the characters of texts and tool calls, with runs of one character counted once."""
    texts = [request.system] if isinstance(request.system, str) else []
    for part in _iterate_parts(request):
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, ToolCallPart):
            texts.append(str(part.input))
    return sum(len(_RUN.sub(r"\1", text)) for text in texts)


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
class CallPolicy:
    """Settings shared by all calls of one LM; all LMs of a profile share the rate limiter."""

    url: str = ""  # endpoint, part of the key of stored replies; "offline": the simulated model
    limits: ModelLimits = NO_LIMITS
    key_variable: str | None = None  # environment variable with the key, for messages
    branch: str = "model"  # of the configuration that names the server, for messages
    price: Price | None = None  # None: unknown
    rate_limiter: Limiter | None = None  # None: any number of requests at once
    num_retries: int = 0
    retry_base_seconds: float = 1.0  # upper bound of the first wait
    attempt_timeout_seconds: float | None = None  # of every attempt but the last; None: learnt from earlier replies
    deadline_seconds: float = float("inf")  # of a call with its retries
    extra_body: Mapping[str, object] = field(default_factory=dict)  # further fields of every request
    begins_with_json: bool = False  # model.output=json_schema: not only the second request asks for JSON
