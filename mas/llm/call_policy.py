"""What a model can take, as its profile says: refused before it is sent, or noticed when the server cut it in silence.

Ollama answers a prompt that is longer than its context with 200 OK, having thrown away the beginning: the system prompt
and the question. The only trace is `usage.prompt_tokens`, which counts what was left. No tokenizer is asked: a text of
more than 2,000 characters is taken for cut if there is less than one token for every 8 of them (English has about 4
characters a token, and a run of one repeated character counts once), or if the prompt fills the whole context.

    Limits("qwen3", detect_truncation=True).check_whole(request, prompt_tokens=2050)     # TruncatedPromptError
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dspy._vendor.lm15.types import Part
from dspy.lm15 import Request, TextPart, ToolCallPart, ToolResultPart
from dspy.utils.exceptions import LMUnsupportedFeatureError

from mas.llm.prices import Price
from mas.runtime.lm_errors import TruncatedPromptError

MIN_CHARS = 2_000  # shorter prompts are not judged
MAX_CHARS_PER_TOKEN = 8
_RUN = re.compile(r"(.)\1+", re.DOTALL)  # tokenizers have single tokens for long runs of spaces or dashes


@dataclass(frozen=True)
class ModelLimits:
    """The fields of a profile that say what may be sent; its keys are in the messages."""

    model: str = ""
    takes_images: bool = True
    takes_audio: bool = True
    context_tokens: int | None = None  # None: unknown
    detect_truncation: bool = False

    def check_inputs(self, request: Request) -> None:
        """See that the model can take what is about to be sent.

        Raises:
            LMUnsupportedFeatureError: an image or a sound, and its profile says that it cannot.
        """
        kinds = {part.type for part in _parts(request)}
        for kind, taken, key in (("image", self.takes_images, "images"), ("audio", self.takes_audio, "audio")):
            if kind in kinds and not taken:
                raise LMUnsupportedFeatureError(
                    f"{self.model} was not asked: its profile says that it takes no {key} (model.takes_{key}=false)",
                    model=self.model,
                    features=[kind],
                )

    def check_not_truncated(self, request: Request, prompt_tokens: int | None) -> None:
        """See that the model read all that was sent; nothing is judged if the server counted nothing.

        Raises:
            TruncatedPromptError: it can only have read a part.
        """
        if not self.detect_truncation or not prompt_tokens:
            return
        if self.context_tokens is not None and prompt_tokens >= self.context_tokens:
            raise self._cut(f"it counted {prompt_tokens} tokens, all that its context of {self.context_tokens} holds")
        if prompt_tokens * MAX_CHARS_PER_TOKEN < (chars := _counted_chars(request, prompt_tokens)):
            raise self._cut(f"it counted {prompt_tokens} tokens for {chars} characters")

    def _cut(self, why: str) -> TruncatedPromptError:
        return TruncatedPromptError(
            f"{self.model} read only a part of the prompt: {why}; give the server a longer context (if the count is "
            "wrong: model.detect_truncation=false)",
            model=self.model,
        )


def _counted_chars(request: Request, prompt_tokens: int) -> int:
    """Characters sent, runs of one character counted once; 0 if there are too few to tell."""
    texts = list(_texts(request))
    if sum(map(len, texts)) <= max(MIN_CHARS, prompt_tokens * MAX_CHARS_PER_TOKEN):
        return 0  # the usual case, without a look at every character
    chars = sum(len(_RUN.sub(r"\1", text)) for text in texts)
    return chars if chars > MIN_CHARS else 0


def _texts(request: Request) -> Iterator[str]:
    if isinstance(request.system, str):
        yield request.system
    for part in _parts(request):
        if isinstance(part, TextPart):
            yield part.text
        elif isinstance(part, ToolCallPart):
            yield str(part.input)


def _parts(request: Request) -> Iterator[Part]:
    """Every part of every message, and those inside of tool results."""
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
    """Shared by all calls of one LM; the gate by all LMs of a profile."""

    url: str = ""  # of the endpoint, as replies are kept under it; "offline": the simulated model
    limits: ModelLimits = NO_LIMITS
    price: Price | None = None  # None: unknown
    rate_limiter: Any = None  # mas.llm.rate_limiter.RateLimiter; None: any number of requests at once
    counts_tokens: bool = False  # the gate limits tokens a minute: it is told how many a request will need
    num_retries: int = 0
    retry_base_seconds: float = 1.0  # bound of the first wait
    deadline_seconds: float = float("inf")  # of a call with its retries
