"""The one exception that a user sees as a sentence, and what an agent that is not ours can do wrong."""

from dspy.utils.exceptions import LMError


class UserError(Exception):
    """A mistake that the user can mend: one sentence that says what was wrong, what was expected, what to do next.

    Commands print it without a traceback and exit with 1, before anything is spent.
    """


class AgentUnavailableError(Exception):
    """Someone's own agent could not be reached, did not answer in time, or failed on its side: it may pass."""


class AgentReplyError(Exception):
    """Someone's own agent answered with something that is no answer, or refused the question."""


class TruncatedReplyError(LMError):
    """The reply stopped at the token limit: what it says is a fragment, never an answer."""

    default_code = "truncated"


class TruncatedPromptError(LMError):
    """The server cut the prompt in silence: the reply answers a part of the question."""

    default_code = "truncated_prompt"


class RefusedReplyError(LMError):
    """The provider's content filter withheld the reply."""

    default_code = "refused"


class EmptyReplyError(LMError):
    """No choices, no text and no tool call: what some servers send when they are about to fail."""

    default_code = "empty"
