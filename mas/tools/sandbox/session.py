"""Reply of a sandbox's session, and the ways in which it fails.

Reply.parse({"output": "", "output_cut": 0, "value": "42", …}).value       # "42"
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from mas.runtime.text import replace_surrogates

DISTURBED = "the code has disturbed the sandbox's own messages"
MOST_CUT = 10**15  # characters; no call prints more


class SessionLostError(Exception):
    """The session ended and its variables are lost; the message says why: "the code ran longer than 30 s"."""


class SessionTimeoutError(SessionLostError):
    """The code was stopped because its time was over."""


class NotAvailableError(Exception):
    """The isolation is not available on this machine; one sentence with the cause and the remedy."""


@dataclass(frozen=True)
class Reply:
    """Result of one cell. It comes from the code's own process: all of it may be made up."""

    output: str = ""  # printed
    output_cut: int = 0  # characters that are missing at its end
    value: str = ""  # of the last expression
    value_cut: int = 0  # characters that are missing in its middle
    error: str = ""  # a traceback
    error_cut: int = 0  # likewise

    @classmethod
    def parse(cls, message: Mapping[str, object]) -> "Reply":
        """Return the reply in a message.

        Raises:
            SessionLostError: it is not a message of the sandbox's own program.
        """
        values: dict[str, Any] = {field.name: message.get(field.name) for field in fields(cls)}
        for name, value in values.items():
            is_count, kind = name.endswith("_cut"), type(value)
            if not (kind is int and 0 <= value <= MOST_CUT if is_count else kind is str):
                raise SessionLostError(DISTURBED)
        return cls(**replace_surrogates(values))
