"""Rows as ` | `-separated lines, the way both kinds of table files are shown.

row(["a|b", "two\\nlines"])          # r"a\\|b | two\\nlines"
"""

from collections.abc import Iterable


def row(cells: Iterable[str]) -> str:
    """One line, whatever the cells hold."""
    return " | ".join(cell(text) for text in cells)


def cell(text: str) -> str:
    """The text without the characters that separate cells and rows."""
    return text.replace("|", r"\|").replace("\r\n", r"\n").replace("\n", r"\n").replace("\r", r"\n")
