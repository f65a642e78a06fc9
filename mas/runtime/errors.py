"""The exception that a user sees as a sentence, failures of external agents, causes of an error."""

from collections.abc import Iterator


class UserError(Exception):
    """A mistake that the user can correct: one sentence that says what was wrong, what was expected, what to do next.

    Commands print it without a traceback and exit with 1, before anything is spent.
    """


class AgentUnavailableError(Exception):
    """Someone's own agent could not be reached, was too slow, or failed: it may pass."""


class AgentReplyError(Exception):
    """Someone's own agent answered with something that is no answer, or refused the question."""


def walk_chain(error: BaseException | None, *, contexts: bool = False) -> Iterator[BaseException]:
    """Return an error and those that caused it, newest first, each once: an error can be among its own causes.

    With `contexts`, where no cause is named, go on with what was being handled, even if it was raised `from None`.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (error.__context__ if contexts else None)
