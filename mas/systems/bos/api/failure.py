"""The one exception of the API-docs agent: it becomes the agent's failed result."""

from collections.abc import Mapping


class ApiFailureError(Exception):
    """A request was not made, or was made in vain.

    `kind` is one of `mas.systems.bos.contracts.result.ERROR_TYPES`; `details` are for whoever debugs.
    """

    def __init__(self, kind: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = dict(details or {})
