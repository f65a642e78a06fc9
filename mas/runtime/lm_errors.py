"""Errors for replies of a language model that arrived and cannot be used."""

from dspy.utils.exceptions import LMError


class TruncatedReplyError(LMError):
    """The reply stopped at the token limit: what it says is a fragment, never an answer."""

    default_code = "truncated"


class TruncatedPromptError(LMError):
    """The server silently truncated the prompt, so the reply answers only part of it."""

    default_code = "truncated_prompt"


class RefusedReplyError(LMError):
    """The provider's content filter withheld the reply."""

    default_code = "refused"


class EmptyReplyError(LMError):
    """No choices, no text and no tool call: what some servers send when they are about to fail."""

    default_code = "empty"


class StepLimitError(Exception):
    """The agent went on calling tools after its last step."""
