"""The errors that one error comes from.

try:
    run()
except Exception as error:
    for each in walk_chain(error):  # the error itself, what caused it, what caused that, …
        ...
"""

from collections.abc import Iterator


def walk_chain(error: BaseException | None, *, contexts: bool = False) -> Iterator[BaseException]:
    """Return an error and those that caused it, newest first, each once.

    An error can be among its own causes: `raise error from error`, or OmegaConf's errors under a debugger.

    Args:
        error: where to begin; with None there is nothing.
        contexts: where no cause is named, go on with what was being handled, even if it was raised `from None`.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (error.__context__ if contexts else None)
