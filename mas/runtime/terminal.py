"""The one way to print a line, and texts made harmless: no character controls a terminal.

Tables and colours are printed by `eval.execution.console.Console`, which cleans what it prints by the same rule. The
linter refuses every other way.
"""

import functools
import re
import sys

# Characters that turn the text next to them around, and those that no terminal and no page should get.
UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_RETURN = re.compile(r"\r(?!\n)")  # overwrites the line that it ends


def print_line(text: str = "", error: bool = False) -> None:
    """Print a text; line breaks stay, other control characters are written out."""
    lines = _RETURN.sub(r"\\u000d", text)
    print(escape_controls(lines), file=sys.stderr if error else sys.stdout, flush=True)


@functools.cache
def print_warning(text: str) -> None:
    """Print a warning on standard error, the same one only once."""
    print_line(f"warning: {text}", error=True)


def escape_controls(text: str) -> str:
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shorten_line(text: str, max_chars: int) -> str:
    line = escape_controls(" ".join(text.split()))
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"
