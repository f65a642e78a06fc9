"""Texts from models and datasets, made harmless: what would move the cursor or turn a line around is written out.

shorten_line("a\\n b\\x1b[31m", 60)      # "a b\\\\u001b[31m"
"""

import re

# Characters that turn the text next to them around, and those that no terminal and no page should get.
_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shorten_line(text: str, max_chars: int) -> str:
    line = escape_controls(" ".join(text.split()))
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"
