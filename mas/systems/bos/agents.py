"""Registry of the agents: what the planner reads of each, its predictors, and how it is made for a request.

To add an agent: its name in `contracts.AgentName`, an entry here, its prompt files. Planner, orchestrator and composer
need no change.
"""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mas.agents.spec import AgentSpec
from mas.systems.bos.contracts import AgentName
from mas.tools.settings import Resources

if TYPE_CHECKING:
    import dspy

    from mas.systems.bos.recorder import RecordedAgent
    from mas.systems.bos.system import BosSystem

API, SQL = "bos_api", "bos_sql"  # names of `ApiServices` and `SqlSession` among the run's services
PLANNER = AgentSpec("planner", "mas.systems.bos.planner.PlanAgents")
COMPOSER = AgentSpec("composer", "mas.systems.bos.composer.ComposeAnswer")

Predictors = Mapping[str, "dspy.Predict"]  # by the name of their spec


@dataclass(frozen=True)
class AgentEntry:
    """One agent of the registry."""

    description: str  # one line for the planner
    specs: tuple[AgentSpec, ...]
    make: Callable[[Predictors, "BosSystem", Resources], "RecordedAgent"]
    keywords: tuple[str, ...] = ()  # in lower case; they propose the agent, as parts of words too
    rivals: tuple[AgentName, ...] = ()  # it is proposed only if none of these has a higher score
    find_gap: Callable[["BosSystem"], str | None] = lambda system: None  # why it is not available, if so


def _load(name: str) -> Any:
    """Import a class when it is needed: DSPy takes seconds."""
    return pkgutil.resolve_name(f"mas.systems.bos.{name}")


REGISTRY: dict[AgentName, AgentEntry] = {  # in the order in which keywords propose them
    "api_docs": AgentEntry(
        description="knows an API's documentation and asks the API: endpoints, live data of other services",
        specs=(
            AgentSpec("api_plan", "mas.systems.bos.api.agent.PlanApiCall"),
            AgentSpec("api_adjust", "mas.systems.bos.api.agent.AdjustApiCall"),
            AgentSpec("api_summarize", "mas.systems.bos.api.agent.SummarizeApiReply"),
        ),
        make=lambda predictors, system, resources: _load("api.agent.ApiDocsAgent")(predictors, resources.services[API]),
        keywords=("api", "endpoint", "http", "url", "webhook", "swagger", "openapi", "status code"),
        rivals=("sql", "computation"),
        find_gap=lambda system: None if system.api.documentation else "no API is configured (system.api.documentation)",
    ),
    "sql": AgentEntry(
        description="reads a database: counts, lists, sums and filters its records by SQL queries",
        specs=(
            AgentSpec("sql_schema", "mas.systems.bos.sql.agent.ChooseTables"),
            AgentSpec("sql_generate", "mas.systems.bos.sql.agent.WriteQuery"),
            AgentSpec("sql_check", "mas.systems.bos.sql.agent.ReviewQuery"),
            AgentSpec("sql_answer", "mas.systems.bos.sql.agent.AnswerFromRows"),
        ),
        make=lambda predictors, system, resources: _load("sql.agent.SqlAgent")(
            predictors, resources.services[SQL], system.sql.max_retries
        ),
        keywords=(
            *("database", "table", "sql", "query", "list", "count", "record", "rows", "column", "schema", "how many"),
        ),
        rivals=("computation",),
        find_gap=lambda system: (
            None if system.sql.list_databases() else "no database is configured (system.sql.databases)"
        ),
    ),
    "computation": AgentEntry(
        description="writes Python code and runs it: arithmetic, statistics, dates, units, simulation",
        specs=(
            AgentSpec("compute_code", "mas.systems.bos.computation.agent.WriteCode"),
            AgentSpec("compute_summarize", "mas.systems.bos.computation.agent.SummarizeComputation"),
        ),
        make=lambda predictors, system, resources: _load("computation.agent.ComputationAgent")(predictors),
        keywords=(
            *("calculate", "compute", "sum", "average", "mean", "median", "percent", "ratio", "growth", "interest"),
            *("simulate", "convert", "statistic", "standard deviation", "formula", "equation", "multiply", "divide"),
            "square root",
        ),
        rivals=("sql",),
    ),
}

SPECS = (PLANNER, *(spec for entry in REGISTRY.values() for spec in entry.specs), COMPOSER)
