"""The registry: which agents there are, when one is not offered, and what each is made of."""

from types import SimpleNamespace
from typing import Any

import pytest

from mas.systems.bos.agents import API, COMPOSER, ORDER, PLANNER, REGISTRY, SPECS, SQL, AgentEntry
from mas.systems.bos.api.agent import ApiDocsAgent, ApiSteps
from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.computation.agent import ComputationAgent
from mas.systems.bos.contracts.names import AGENT_NAMES
from mas.systems.bos.settings import ComputationSettings
from mas.systems.bos.sql.agent import SqlAgent
from mas.systems.bos.sql.graph import SqlSteps
from mas.systems.bos.sql.settings import DatabaseSettings, SqlSettings
from mas.systems.bos.system import BosSystem
from mas.tools.sandbox.settings import SandboxSettings
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources

PREDICTORS: Any = {spec.name: f"predictor of {spec.name}" for spec in SPECS}


def make(name: Any, settings: BosSystem | None = None, resources: Any = None) -> Any:
    return REGISTRY[name].make(PREDICTORS, settings or BosSystem(), resources or Resources())


def test_keywords_propose_the_agents_in_this_order_unless_a_rival_is_ahead() -> None:
    assert ORDER == ("api_docs", "sql", "computation")
    assert set(REGISTRY) == set(ORDER) == set(AGENT_NAMES)
    assert {name: entry.rivals for name, entry in REGISTRY.items()} == {
        "api_docs": ("sql", "computation"),
        "sql": ("computation",),
        "computation": ("sql",),
    }
    assert (API, SQL) == ("bos_api", "bos_sql")


def test_every_step_has_its_signature_in_the_order_of_the_agents() -> None:
    bos = "mas.systems.bos"
    assert [(spec.name, spec.signature) for spec in SPECS] == [
        ("planner", f"{bos}.planner.PlanAgents"),
        ("api_plan", f"{bos}.api.signatures.PlanApiCall"),
        ("api_adjust", f"{bos}.api.signatures.AdjustApiCall"),
        ("api_summarize", f"{bos}.api.signatures.SummarizeApiReply"),
        ("sql_schema", f"{bos}.sql.signatures.ChooseTables"),
        ("sql_generate", f"{bos}.sql.signatures.WriteQuery"),
        ("sql_check", f"{bos}.sql.signatures.ReviewQuery"),
        ("sql_answer", f"{bos}.sql.signatures.AnswerFromRows"),
        ("compute_code", f"{bos}.computation.agent.WriteCode"),
        ("compute_summarize", f"{bos}.computation.agent.SummarizeComputation"),
        ("composer", f"{bos}.composer.ComposeAnswer"),
    ]
    assert (SPECS[0], SPECS[-1]) == (PLANNER, COMPOSER)
    assert [spec for spec in SPECS if spec.uses_tools or spec.critic] == []


@pytest.mark.parametrize(
    ("settings", "gaps"),
    [
        (
            {},
            {
                "api_docs": "no API is configured (system.api.documentation)",
                "sql": "no database is configured (system.sql.databases)",
            },
        ),
        (
            {"api": ApiSettings(documentation="docs.md")},
            {"sql": "no database is configured (system.sql.databases)"},
        ),
        (
            {"sql": SqlSettings(databases={"shop": DatabaseSettings(path="shop.db", tables=["*"])})},
            {"api_docs": "no API is configured (system.api.documentation)"},
        ),
    ],
)
def test_an_agent_is_offered_if_what_it_needs_is_configured(settings: dict[str, Any], gaps: dict[str, str]) -> None:
    system = BosSystem(**settings)
    assert {name: gap for name in ORDER if (gap := REGISTRY[name].find_gap(system))} == gaps
    assert system.find_gaps() == gaps


def test_an_entry_is_offered_and_has_no_rivals_unless_it_says_so() -> None:
    entry = AgentEntry("knows nothing", (), make=REGISTRY["sql"].make)
    assert (entry.rivals, entry.find_gap(BosSystem())) == ((), None)


def test_the_api_agent_has_its_steps_and_the_services_of_the_run() -> None:
    services: Any = SimpleNamespace(catalogue="catalogue", settings="settings", tokens="tokens", client="client")
    agent = make("api_docs", resources=Resources(services={API: services}))
    assert isinstance(agent, ApiDocsAgent)
    assert agent.steps == ApiSteps(PREDICTORS["api_plan"], PREDICTORS["api_adjust"], PREDICTORS["api_summarize"])
    assert vars(agent) == {
        "steps": agent.steps,
        "catalogue": "catalogue",
        "settings": "settings",
        "tokens": "tokens",
        "client": "client",
    }


def test_the_sql_agent_has_its_steps_its_session_and_its_retries() -> None:
    agent = make("sql", BosSystem(sql=SqlSettings(max_retries=2)), Resources(services={SQL: "session"}))
    names = ("sql_schema", "sql_generate", "sql_check", "sql_answer")
    assert agent == SqlAgent(SqlSteps(*(PREDICTORS[name] for name in names)), "session", 2)  # type: ignore[arg-type]


def test_the_computation_agent_has_its_steps_and_the_sandbox_of_the_run() -> None:
    own, sandbox = ComputationSettings(["math"], 2), SandboxSettings()
    steps = (PREDICTORS["compute_code"], PREDICTORS["compute_summarize"])
    agent = make("computation", BosSystem(computation=own), Resources(ToolSettings(sandbox=sandbox)))
    assert agent == ComputationAgent(*steps, own, sandbox)
    assert agent.settings is own and agent.sandbox is sandbox


@pytest.mark.parametrize("settings", [SimpleNamespace(), SimpleNamespace(sandbox=None)])
def test_without_a_sandbox_of_the_run_computations_have_the_usual_one(settings: Any) -> None:
    assert make("computation", resources=SimpleNamespace(settings=settings)).sandbox == SandboxSettings()
