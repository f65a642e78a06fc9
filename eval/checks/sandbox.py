"""Which isolation this machine offers for the Python code that a model writes: found by running a program in it."""

from eval.checks.finding import OK, WARNING, Finding
from mas.tools.sandbox.choosing import tried
from mas.tools.sandbox.settings import AUTO, BUBBLEWRAP

SECOND_BEST = "the second choice"


def isolation() -> Finding:
    """What `tools.sandbox.kind=auto` comes to here, and why not something better."""
    choice = tried(AUTO)
    if choice.isolation.name == BUBBLEWRAP:
        return Finding("isolation", OK, choice.said)
    why = " ".join(choice.refused)
    if choice.said:
        return Finding("isolation", WARNING, f"{SECOND_BEST}: {choice.said}", why)
    return Finding("isolation", WARNING, "the tool python refuses: code cannot be shut in here", why)
