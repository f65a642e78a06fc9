"""Language models: from a profile in `conf/model/` to one `dspy.LM` per agent."""

import re
from dataclasses import dataclass, field
from typing import Any

AUTO = "auto"
ASKS_AGAIN = "This reply cannot be used."  # begins a second request for a readable reply
# DSPy's own rule (`dspy.clients.lm._is_openai_reasoning_model`), so that mistakes are reported before DSPy is loaded.
_REASONING_NAMES = re.compile(
    r"(?:o[1345](?:-(?:mini|nano|pro))?(?:-\d{4}-\d{2}-\d{2})?|gpt-5(?:\.\d+)*(?!-chat)(?:-.*)?)"
)


@dataclass(kw_only=True)
class CallSettings:
    """Settings of a profile that all calls of its LMs share."""

    takes_images: bool = False  # false: a request with an image is never sent
    takes_audio: bool = False
    context_tokens: int | None = None  # context length: prompt and reply together; null: unknown
    detect_truncation: bool = False  # an error if the server counted implausibly few tokens for the prompt
    call_deadline_seconds: float = 360.0  # sending and receiving, all attempts; not waiting
    attempt_timeout_seconds: float | None = None  # of each attempt but the last; null: learnt from the replies
    num_retries: int = 3  # of a call, after faults; four times as many after refusals (429, 503)
    retry_base_seconds: float = 1.0  # bound of the random wait before a retry; doubles each time
    extra_body: dict[str, Any] = field(default_factory=dict)  # further fields of every request, such as seed


def is_reasoning_model(name: str) -> bool:
    """Return whether the name is that of one of OpenAI's reasoning models."""
    return _REASONING_NAMES.fullmatch(name.rpartition("/")[2].lower()) is not None


def name_max_tokens(base_url: str, model: str) -> str:
    """Return the name of `max_tokens` in a request: OpenAI's own models take the newer one."""
    is_newer = "api.openai.com" in base_url or is_reasoning_model(model)
    return "max_completion_tokens" if is_newer else "max_tokens"


@dataclass
class Traffic:
    """Requests of an endpoint until now; may be read from any thread."""

    answered: int = 0
    refused: int = 0  # because of the rate (429)
    failed: int = 0  # for another reason
    in_flight: int = 0
    waiting: int = 0  # for their turn
