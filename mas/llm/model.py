"""What a model profile in `conf/model/` must offer: one of these a run, one `dspy.LM` an agent.

A profile's dataclass imports nothing heavy, so that a missing key is told before anything else is loaded.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class AgentModel:
    """What one agent changes about the run's model; None leaves the profile's value."""

    name: str | None = None
    temperature: float | None = None


class Model(Protocol):
    """A model profile."""

    name: str
    simulated: bool  # whether scores made with it say anything about an LLM

    def check(self) -> None:
        """See that the model can be reached in principle, without importing or spending anything.

        Raises:
            UserError: a key or an endpoint is missing.
        """
        ...

    def secrets(self) -> Collection[str]:
        """The values that no log, record or report may ever show."""
        ...

    def lm(self, agent: AgentModel) -> Any:
        """The `dspy.LM` of one agent; LMs of one profile share their connections."""
        ...
