"""Text that UTF-8 can hold: half of a surrogate pair, as a truncated escape leaves it, is replaced by `?`.

No provider, database or file takes such text; DSPy refuses a whole request for one such character.

    replace_surrogates({"word": "a\\ud83db"})     # {"word": "a?b"}
"""

from typing import Any


def replace_surrogates(value: Any) -> Any:
    """A copy of the value with every string in it mended, through dictionaries, lists and tuples."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(replace_surrogates(item) for item in value)
    return value
