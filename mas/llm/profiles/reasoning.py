"""OpenAI's reasoning models: which names they have, and what they refuse.

They take no temperature but 1, their default, and DSPy insists on room to think: `max_tokens` of at least 16,000.
The rule for the names is DSPy's own (`dspy.clients.lm._is_openai_reasoning_model`), repeated here because a mistake is
told before DSPy is loaded; a test compares the two.

    accepted_temperature("o3", 0.0)      # None: the profiles' default is left out
"""

import re

from mas.runtime.errors import UserError

DEFAULT_TEMPERATURE = 0.0  # what a profile has unless somebody chose another
MIN_REASONING_TOKENS = 16_000
_NAMES = re.compile(r"(?:o[1345](?:-(?:mini|nano|pro))?(?:-\d{4}-\d{2}-\d{2})?|gpt-5(?:\.\d+)*(?!-chat)(?:-.*)?)")


def is_reasoning_model(name: str) -> bool:
    return _NAMES.fullmatch(name.rpartition("/")[2].lower()) is not None


def accepted_temperature(name: str, temperature: float | None) -> float | None:
    """The temperature to send to this model; None: none at all.

    Raises:
        UserError: somebody chose one that the model refuses.
    """
    if temperature is None or not is_reasoning_model(name):
        return temperature
    if temperature not in (DEFAULT_TEMPERATURE, 1.0):
        raise UserError(
            f"temperature={temperature:g} cannot be sent to {name}: reasoning models take none but 1; leave "
            "model.temperature, or the agent's own, at null or 1."
        )
    return None if temperature == DEFAULT_TEMPERATURE else temperature


def check_max_tokens(name: str, max_tokens: int | None) -> None:
    """See that a reasoning model may write as much as it needs.

    Raises:
        UserError: it may not.
    """
    if max_tokens is not None and max_tokens < MIN_REASONING_TOKENS and is_reasoning_model(name):
        raise UserError(
            f"model.max_tokens={max_tokens} is too small for {name}: a reasoning model's thoughts count as well; give "
            f"at least {MIN_REASONING_TOKENS}, or null."
        )
