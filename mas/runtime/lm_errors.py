"""Errors for replies of a language model that arrived and cannot be used."""

from dspy.utils.exceptions import LMError


class TruncatedReplyError(LMError):
    """The reply stopped at the token limit: what it says is a fragment, never an answer."""


class TruncatedPromptError(LMError):
    """The server silently truncated the prompt, so the reply answers only part of it."""


class RefusedReplyError(LMError):
    """The provider's content filter withheld the reply."""


class EmptyReplyError(LMError):
    """No choices, no text and no tool call: what some servers send when they are about to fail."""


class StepLimitError(Exception):
    """The agent went on calling tools after its last step."""
