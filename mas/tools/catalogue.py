"""From the dotted name in `conf/system/` to the function that a tool is."""

import importlib
from collections.abc import Callable
from typing import Any

from mas.errors import UserError


def load_function(dotted: str) -> Callable[..., Any]:
    """The function behind `package.module.function`.

    Raises:
        UserError: there is no such module, or nothing callable of that name in it.
    """
    module_name, _, name = dotted.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"{dotted} cannot be loaded ({error}); expected package.module.function of something importable."
        ) from error
    if not callable(found):
        raise UserError(f"{dotted} is a {type(found).__name__}; expected a function.")
    return found  # type: ignore[no-any-return]
