"""Small functions on text.

replace_surrogates({"word": "a\\ud83db"})     # {"word": "a?b"}
format_count(1, "answer")                    # "1 answer"
"""

from typing import TypeVar, cast

T = TypeVar("T")


def replace_surrogates(value: T) -> T:
    """Return a copy of the value with every string in it encodable, through dictionaries, lists and tuples.

    Half of a surrogate pair, as a truncated escape leaves it, is replaced by `?`. No provider, database or file takes
    such text; DSPy refuses a whole request for one such character.
    """
    replaced: object = value
    if isinstance(value, str):
        replaced = value.encode("utf-8", "replace").decode("utf-8")
    elif isinstance(value, dict):
        replaced = {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        replaced = type(value)(replace_surrogates(item) for item in value)
    return cast(T, replaced)


def format_count(n: int, noun: str) -> str:
    """Return the number with the noun, which gets an `s` unless there is one: `1 answer`, `2 answers`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
