"""Registry of the agents: what the planner reads of each, its predictors, and how it is made for a request.

To add an agent: its name in `contracts.AgentName`, an entry in `REGISTRY`, its prompt files. Planner, program and
composer need no change.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from mas.agents.spec import AgentSpec
from mas.system import Resources
from mas.systems.bos.contracts import AgentName
from mas.systems.bos.settings import ApiSettings, SqlSettings

if TYPE_CHECKING:
    import dspy

    from mas.systems.bos.recorder import RecordedAgent

API, SQL = "bos_api", "bos_sql"  # names of `ApiServices` and `SqlSession` among the run's services

Predictors = Mapping[str, "dspy.Predict"]  # by the name of their spec


@dataclass(frozen=True)
class AgentEntry:
    """One agent of the registry."""

    description: str  # one line for the planner
    specs: tuple[AgentSpec, ...]
    make: Callable[[Predictors, Resources, SqlSettings], "RecordedAgent"]
    keywords: tuple[str, ...] = ()  # in lower case; they propose the agent, as parts of words too
    rivals: tuple[AgentName, ...] = ()  # it is proposed only if none of these has a higher score
    find_gap: Callable[[ApiSettings, SqlSettings], str | None] = lambda api, sql: None  # why it is not available, if so


def _make_api_docs(predictors: Predictors, resources: Resources, sql: SqlSettings) -> "RecordedAgent":
    from mas.systems.bos.api.agent import ApiDocsAgent
    from mas.systems.bos.api.services import ApiServices

    return ApiDocsAgent(predictors, cast(ApiServices, resources.services[API]))


def _make_sql(predictors: Predictors, resources: Resources, sql: SqlSettings) -> "RecordedAgent":
    from mas.systems.bos.sql.agent import SqlAgent
    from mas.systems.bos.sql.session import SqlSession

    return SqlAgent(predictors, cast(SqlSession, resources.services[SQL]), sql.max_retries)


def _make_computation(predictors: Predictors, resources: Resources, sql: SqlSettings) -> "RecordedAgent":
    from mas.systems.bos.computation.agent import ComputationAgent

    return ComputationAgent(predictors)


REGISTRY: dict[AgentName, AgentEntry] = {  # in the order in which keywords propose them
    "api_docs": AgentEntry(
        description="knows an API's documentation and asks the API: endpoints, live data of other services",
        specs=(
            AgentSpec("api_plan", "mas.systems.bos.api.agent.PlanApiCall"),
            AgentSpec("api_adjust", "mas.systems.bos.api.agent.AdjustApiCall"),
            AgentSpec("api_summarize", "mas.systems.bos.api.agent.SummarizeApiReply"),
        ),
        make=_make_api_docs,
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
        make=_make_sql,
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
        make=_make_computation,
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
