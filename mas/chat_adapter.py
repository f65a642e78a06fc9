"""DSPy's chat format, with the description of the fields written once a signature.

The top of the system message depends on the signature alone, and DSPy writes it anew for every request, with a pydantic
schema for each field: a twentieth of a run's CPU time.

    with dspy.context(adapter=ChatAdapter(use_native_function_calling=True)): …
"""

import functools
from typing import Any

import dspy

_SIGNATURES_KEPT = 256  # an optimiser makes a new one with every prompt that it tries


class ChatAdapter(dspy.ChatAdapter):
    """The same texts, character for character."""

    def format_system_message(self, signature: Any) -> str:
        return _system_message(signature)


@functools.lru_cache(_SIGNATURES_KEPT)
def _system_message(signature: Any) -> str:
    return str(dspy.ChatAdapter().format_system_message(signature))
