"""A short mark by which a question is known again, under another id as well.

It does not hold the question's text; a short question, or one made from a template, can be guessed and checked.

question_mark("What is  2 + 3?") == question_mark("what is 2 + 3?")      # True
question_mark("How many rows are there?", file_sha256="9f86d081…")       # another attachment: another question
"""

import unicodedata
from hashlib import sha256

_CHARS = 16


def question_mark(text: str, file_sha256: str | None = None) -> str:
    """The beginning of a SHA-256 in hexadecimal digits.

    Args:
        text: of the question.
        file_sha256: of its attachment's content; None: there is none, or it does not count.
    """
    content = normalised(text) + (f"\n{file_sha256}" if file_sha256 else "")
    return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_CHARS]


def normalised(text: str) -> str:
    """A question's words alone: case, spaces and compatibility forms do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
