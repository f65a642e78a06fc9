"""The one exception that a user sees as a sentence, and the failures of external agents."""


class UserError(Exception):
    """A mistake that the user can correct: one sentence that says what was wrong, what was expected, what to do next.

    Commands print it without a traceback and exit with 1, before anything is spent.
    """


class AgentUnavailableError(Exception):
    """Someone's own agent could not be reached, did not answer in time, or failed on its side: it may pass."""


class AgentReplyError(Exception):
    """Someone's own agent answered with something that is no answer, or refused the question."""
