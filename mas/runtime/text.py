"""Text that UTF-8 can encode: half of a surrogate pair, as a truncated escape leaves it, is replaced by `?`.

No provider, database or file takes such text; DSPy refuses a whole request for one such character.

    replace_surrogates({"word": "a\\ud83db"})     # {"word": "a?b"}
"""

from typing import TypeVar, cast

T = TypeVar("T")


def replace_surrogates(value: T) -> T:
    """Return a copy of the value with every string in it encodable, through dictionaries, lists and tuples."""
    replaced: object = value
    if isinstance(value, str):
        replaced = value.encode("utf-8", "replace").decode("utf-8")
    elif isinstance(value, dict):
        replaced = {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        replaced = type(value)(replace_surrogates(item) for item in value)
    return cast(T, replaced)
