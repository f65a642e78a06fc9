"""Registry of the agents: what the planner reads of each, its predictors, how it is made for a request.

To add an agent: its name in `contracts.AgentName`, an entry in `REGISTRY`, its prompt files. Planner, program and
composer need no change.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mas.agents.spec import AgentSpec
from mas.system import Resources
from mas.systems.bos.contracts import AgentName
from mas.systems.bos.settings import ApiSettings, SqlSettings
from mas.tools.catalogue import load_function

if TYPE_CHECKING:
    import dspy

    from mas.systems.bos.recorder import RecordedAgent

API, SQL = "bos_api", "bos_sql"  # names of `ApiServices` and `SqlSession` among the run's services


@dataclass(frozen=True)
class AgentEntry:
    """One agent of the registry."""

    description: str  # one line for the planner
    specs: tuple[AgentSpec, ...]
    agent: str  # package.module.Class, imported for the first request
    service: str = ""  # of the run, that it is made with
    keywords: tuple[str, ...] = ()  # in lower case; they propose the agent, as parts of words too
    rivals: tuple[AgentName, ...] = ()  # it is proposed only if none of these has a higher score
    find_gap: Callable[[ApiSettings, SqlSettings], str | None] = lambda api, sql: None  # if it is not available

    def make(self, predictors: "Mapping[str, dspy.Predict]", resources: Resources) -> "RecordedAgent":
        """Return the agent for one request; the predictors are by the names of their specs."""
        services = [resources.services[self.service]] if self.service else []
        made: RecordedAgent = load_function(self.agent)(predictors, *services)
        return made


REGISTRY: dict[AgentName, AgentEntry] = {  # in the order in which keywords propose them
    "api_docs": AgentEntry(
        description="knows an API's documentation and asks the API: endpoints, live data of other services",
        specs=(
            AgentSpec("api_plan", "mas.systems.bos.api.agent.PlanApiCall"),
            AgentSpec("api_adjust", "mas.systems.bos.api.agent.AdjustApiCall"),
            AgentSpec("api_summarize", "mas.systems.bos.api.agent.SummarizeApiReply"),
        ),
        agent="mas.systems.bos.api.agent.ApiDocsAgent",
        service=API,
        keywords=("api", "endpoint", "http", "url", "webhook", "swagger", "openapi", "status code"),
        rivals=("sql", "computation"),
        find_gap=lambda api, sql: None if api.documentation else "no API is configured (system.api.documentation)",
    ),
    "sql": AgentEntry(
        description="reads a database: counts, lists, sums and filters its records by SQL queries",
        specs=(
            AgentSpec("sql_schema", "mas.systems.bos.sql.agent.ChooseTables"),
            AgentSpec("sql_generate", "mas.systems.bos.sql.agent.WriteQuery"),
            AgentSpec("sql_check", "mas.systems.bos.sql.agent.ReviewQuery"),
            AgentSpec("sql_answer", "mas.systems.bos.sql.agent.AnswerFromRows"),
        ),
        agent="mas.systems.bos.sql.agent.SqlAgent",
        service=SQL,
        keywords=(
            *("database", "table", "sql", "query", "list", "count", "record", "rows", "column", "schema", "how many"),
        ),
        rivals=("computation",),
        find_gap=lambda api, sql: None if sql.list_databases() else "no database is configured (system.sql.databases)",
    ),
    "computation": AgentEntry(
        description="writes Python code and runs it: arithmetic, statistics, dates, units, simulation",
        specs=(
            AgentSpec("compute_code", "mas.systems.bos.computation.agent.WriteCode"),
            AgentSpec("compute_summarize", "mas.systems.bos.computation.agent.SummarizeComputation"),
        ),
        agent="mas.systems.bos.computation.agent.ComputationAgent",
        keywords=(
            *("calculate", "compute", "sum", "average", "mean", "median", "percent", "ratio", "growth", "interest"),
            *("simulate", "convert", "statistic", "standard deviation", "formula", "equation", "multiply", "divide"),
            "square root",
        ),
        rivals=("sql",),
    ),
}

SPECS = (
    AgentSpec("planner", "mas.systems.bos.planner.PlanAgents"),
    *(spec for entry in REGISTRY.values() for spec in entry.specs),
    AgentSpec("composer", "mas.systems.bos.composer.ComposeAnswer"),
)
