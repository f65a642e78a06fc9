"""Contract of a model profile (`conf/model/`): one profile per run, one `dspy.LM` per agent.

The module of a profile imports nothing heavy, so that a missing key is reported before DSPy is loaded. An agent may
have a server of its own. Address and key belong together: a profile's key is sent to no other address.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mas.llm import Traffic
from mas.runtime.errors import UserError

if TYPE_CHECKING:
    import dspy


REFLECTION = "reflection"  # entry of the model that rewrites prompts


@dataclass
class AgentOverride:
    """Entry of one agent in a profile (`model.agents.<agent>`); null: the profile's value."""

    name: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None  # per reply
    base_url: str | None = None  # of another server; null: that of the profile
    api_key_env: str | None = None  # variable with the key for `base_url`, or with another key


@dataclass(frozen=True)
class AgentModel:
    """Settings of the system for one agent's model; None: the profile's value."""

    name: str | None = None
    temperature: float | None = None
    agent: str = ""  # empty: no agent of the system, such as a judge
    max_tokens: int | None = None


class Model(Protocol):
    """Model profile."""

    name: str
    max_connections: int  # requests in flight

    @property
    def simulated(self) -> bool:
        """True if its scores say nothing about any LLM."""

    def check(self) -> None:
        """Check the settings without importing anything heavy; UserError: one is wrong."""

    def describe_server(self) -> list[str]:
        """Return what `check` has learnt from the server that a user should know, a sentence each."""

    def secrets(self) -> Collection[str]:
        """Return the values that no log, record or report may show."""

    def create_lm(self, agent: AgentModel) -> "dspy.BaseLM":
        """Return an agent's LM; all share connections and limiter. UserError: the settings do not fit."""

    def create_reflection_lm(self, name: str | None = None) -> "dspy.BaseLM":
        """Return the LM that rewrites prompts; one with another `name` is at the same endpoint."""

    def list_unpriced(self, more_names: Collection[str] = ()) -> list[str]:
        """Return the models, also of `more_names`, without a price: a budget in USD needs all prices."""

    def list_traffic(self) -> list[Traffic]:
        """Return the counts of requests until now, by server; may be called from another thread."""


def check_agents(model: Model, agent_names: Collection[str]) -> None:
    """Check that agents with an own model are agents of the system; UserError: one is not."""
    own: Mapping[str, AgentOverride] = getattr(model, "agents", {})
    if unknown := sorted(set(own) - {*agent_names, REFLECTION}):
        there = ", ".join(agent_names) or "none that can have a model of its own"
        raise UserError(
            f"model.agents names {', '.join(unknown)}, which this system does not have; its agents: {there}. Choose "
            "another system, or a model without agents, such as model=gpt-4o-mini."
        )
