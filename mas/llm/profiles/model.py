"""What a model profile in `conf/model/` must offer: one of these a run, one `dspy.LM` an agent.

A profile's dataclass imports nothing heavy, so that a missing key is told before anything else is loaded.

    AgentModel("gpt-4o", agent="planner")      # the planner asks gpt-4o, whatever the profile says
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypedDict

from mas.runtime.errors import UserError

if TYPE_CHECKING:
    import dspy


@dataclass
class AgentOverride:
    """One agent's own entry in a profile (`model.agents.<agent>`); null leaves the profile's value."""

    name: str | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class AgentModel:
    """What the system's settings change for one agent; None leaves it to the profile."""

    name: str | None = None
    temperature: float | None = None
    agent: str = ""  # whose LM it is; empty: nobody's in particular (a judge, a rewriter of prompts)

    def merge_override(self, profile: Mapping[str, AgentOverride]) -> "AgentModel":
        """With the profile's entry for this agent where the system's settings are silent."""
        entry = profile.get(self.agent, AgentOverride())
        name = entry.name if self.name is None else self.name
        return AgentModel(name, entry.temperature if self.temperature is None else self.temperature, self.agent)


class LimitChange(TypedDict):
    """One change of the number of requests that may be in flight at once."""

    seconds: float  # since the first request
    limit: int
    reason: str


class Model(Protocol):
    """A model profile."""

    name: str

    @property
    def simulated(self) -> bool:
        """Whether scores made with it say nothing about any LLM."""
        ...

    def check(self) -> None:
        """See that the model can be reached in principle, without importing or spending anything.

        Raises:
            UserError: a key or an endpoint is missing.
        """
        ...

    def secrets(self) -> Collection[str]:
        """The values that no log, record or report may ever show."""
        ...

    def create_lm(self, agent: AgentModel) -> "dspy.BaseLM":
        """The `dspy.LM` of one agent; LMs of one profile share their connections and the gate before them."""
        ...

    def create_reflection_lm(self, name: str | None = None) -> "dspy.BaseLM":
        """The `dspy.LM` that reads feedback and rewrites prompts; shares connections and gate with the others.

        Args:
            name: of another model at the same endpoint; None: the profile's own.

        Raises:
            UserError: the profile's settings do not fit that model.
        """
        ...

    def list_unpriced(self, more_names: Collection[str] = ()) -> list[str]:
        """Models whose price is unknown, of those that the profile names and of these; a budget in USD needs all."""
        ...

    def concurrency_history(self) -> list[LimitChange]:
        """How the number of requests let through at once changed: {"seconds", "limit", "reason"}; empty: no gate."""
        ...


def check_agents(model: Model, agent_names: Collection[str]) -> None:
    """See that a profile with models of its own for some agents fits the system that is to run.

    Raises:
        UserError: it names an agent that the system does not have, and would be left unused without a word.
    """
    own: Mapping[str, AgentOverride] = getattr(model, "agents", {})
    if unknown := sorted(set(own) - set(agent_names)):
        there = ", ".join(agent_names) or "none that can have a model of its own"
        raise UserError(
            f"model.agents names {', '.join(unknown)}, which this system does not have; its agents: {there}. Choose "
            "another system, or a model without agents, such as model=gpt-4o-mini."
        )
