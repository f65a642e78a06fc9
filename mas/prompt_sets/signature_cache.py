"""A DSPy signature that makes each signature without one of its fields once.

lasting = remembering(signature)
lasting.delete("tools") is lasting.delete("tools")      # True; DSPy's own would make it twice
"""

from typing import Any


def cache_signatures(signature: Any) -> Any:
    """The signature with each outcome of its `delete` kept.

    DSPy takes the fields `history`, `tools` and `tool_calls` out of it for every single request, and makes a new
    pydantic class each time: a tenth of a run's CPU time, and garbage that only the collector can remove.
    """
    delete, made = signature.delete, {}

    def delete_once(name: str) -> Any:
        if name not in made:
            made[name] = cache_signatures(delete(name))
        return made[name]

    signature.delete = staticmethod(delete_once)
    return signature
