"""Settings of the planner and of the agents: parts of `conf/system/bos.yaml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mas.runtime.errors import UserError
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.contracts.names import AGENT_NAMES, AgentName
from mas.systems.bos.sql.settings import SqlSettings

EXECUTIONS = ("sequential", "parallel")
MATCHES = ("substring", "word")


@dataclass
class PlannerSettings:
    """Keywords that propose agents before the language model decides."""

    match: str = "substring"  # substring: "capital" counts for "api" | word: whole words alone
    keywords: dict[str, list[str]] = field(default_factory=dict)  # by agent, in lower case

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: one is unknown.
        """
        if self.match not in MATCHES:
            raise UserError(f"system.planner.match={self.match} is not known; choose one of: {', '.join(MATCHES)}.")
        if unknown := sorted(set(self.keywords) - set(AGENT_NAMES)):
            raise UserError(
                f"system.planner.keywords names {', '.join(unknown)}; the agents are {', '.join(AGENT_NAMES)}."
            )
        for name, words in self.keywords.items():
            if wrong := [word for word in words if not word or word != word.lower()]:
                raise UserError(
                    f"system.planner.keywords.{name} holds {wrong[0]!r}; expected words in lower case: they are looked "
                    "for in the question's lower-case text."
                )


@dataclass
class ComputationSettings:
    """Code of the computation agent; limits of time, memory and output are in `tools.sandbox`."""

    allowed_imports: list[str] = field(default_factory=list)  # top-level modules; code that imports others is refused
    repair_attempts: int = 0  # after an error of the code, with the error as feedback

    def check(self) -> None:
        """Check the settings.

        Raises:
            UserError: a number is out of range.
        """
        if not 0 <= self.repair_attempts <= 5:
            raise UserError(
                f"system.computation.repair_attempts={self.repair_attempts} is out of range; expected 0 to 5."
            )


class Settings(Protocol):
    """Settings of the system as its program and its agents read them."""

    execution: str
    share_results: bool
    planner: PlannerSettings
    computation: ComputationSettings
    api: ApiSettings
    sql: SqlSettings

    def find_gaps(self) -> Mapping[AgentName, str]:
        """Return the agents that are not offered, with the reason: what they need is not configured."""
        ...
