"""The one exception that a user sees as a sentence."""


class UserError(Exception):
    """A mistake that the user can mend: one sentence that says what was wrong, what was expected, what to do next.

    Commands print it without a traceback and exit with 1, before anything is spent.
    """
