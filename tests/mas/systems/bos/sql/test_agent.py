"""SQL agent over a real database, with a scripted model and a session without a process of its own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import dspy
import pytest
from dspy.utils import DummyLM
from dspy.utils.exceptions import AdapterParseError, LMServerError

from mas.agents.chat_adapter import ChatAdapter
from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.systems.bos.contracts import AgentFailureError, AgentResult
from mas.systems.bos.settings import DatabaseSettings, SqlSettings
from mas.systems.bos.sql import server
from mas.systems.bos.sql.agent import (
    NO_ROWS,
    AnswerFromRows,
    ChooseTables,
    ReviewQuery,
    SqlAgent,
    SQLAgentState,
    WriteQuery,
    sql_graph,
)
from mas.systems.bos.sql.server import Database, QueryResult, SchemaResult
from mas.systems.bos.sql.session import SqlSession
from tests.mas.systems.bos.building import own_events
from tests.mas.systems.bos.sql.hostile_queries import SECRET, TABLES
from tests.mas.systems.bos.sql.sql_databases import make_sqlite
from tests.mas.systems.bos.test_planner import FixedPredictor

pytestmark = pytest.mark.anyio
COUNT = "SELECT count(*) AS n FROM customers"


class DirectSession:
    """Session whose calls go to the database in this process; it notes them."""

    def __init__(self, database: Database) -> None:
        self.database, self.guards = database, {"shop": database.guard}
        self.settings = SqlSettings()
        self.queries: list[str] = []
        self.schemas: list[list[str]] = []
        self.error: Exception | None = None

    async def query(self, query: str, database: str) -> QueryResult:
        self.queries.append(query)
        if self.error:
            raise self.error
        return self.database.query(query)

    async def read_schema(self, database: str, tables: list[str]) -> SchemaResult:
        self.schemas.append(tables)
        return SchemaResult(dialect="sqlite", tables=self.database.schema(tables))


class World:
    """An agent with its session and its model."""

    def __init__(self, file: Path) -> None:
        settings = DatabaseSettings(str(file), tables=TABLES)
        self.session = DirectSession(Database("shop", settings))
        self.prompts: list[str] = []

    async def ask(
        self,
        *replies: Mapping[str, object],
        context: Mapping[str, object] | None = None,
        question: str = "How many customers are there?",
        unanswered: str | None = None,  # step whose request to the model fails
    ) -> AgentResult:
        texts = [{key: v if isinstance(v, str) else json.dumps(v) for key, v in reply.items()} for reply in replies]
        lm = DummyLM(texts, adapter=ChatAdapter())
        signatures = {
            "sql_schema": ChooseTables,
            "sql_generate": WriteQuery,
            "sql_check": ReviewQuery,
            "sql_answer": AnswerFromRows,
        }
        predictors: dict[str, Any] = {name: dspy.Predict(each) for name, each in signatures.items()}
        if unanswered:
            predictors[unanswered] = FixedPredictor(LMServerError("503: down"))
        agent = SqlAgent(predictors, cast(SqlSession, self.session))
        try:
            with dspy.context(lm=lm, adapter=ChatAdapter()):
                return await agent.invoke(question, context=context or {})
        finally:
            self.prompts = [json.dumps(each["messages"]) for each in lm.history]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(make_sqlite(tmp_path / "shop.sqlite"))


def choose(*tables: str) -> dict[str, object]:
    return {"needed_tables": list(tables)}


def write(query: str) -> dict[str, object]:
    return {"tool_calls": {"tool_calls": [{"name": "mcp_db_query", "args": {"query": query}}]}, "remark": ""}


def review(query: str = "") -> dict[str, object]:
    return {"reviewed_query": query}


def answer(text: str = "There are three.") -> dict[str, object]:
    return {"rows_answer": text}


def messages(result: AgentResult) -> list[tuple[str, str | None]]:
    return [(str(event.event_type), event.message) for event in own_events(result)]


def get_history(result: AgentResult) -> list[dict[str, Any]]:
    assert result.error is not None
    return cast(list[dict[str, Any]], result.error.details["attempt_history"])


async def test_q02_q05_q08_q10_q11_a_question_is_answered_from_one_query(world: World) -> None:
    context = {"current_date": "2026-11-22", "system_prompt": "Be brief."}
    result = await world.ask(choose("customers"), write(COUNT), review(COUNT), answer(), context=context)
    assert (str(result.status), result.answer, result.error) == ("succeeded", "There are three.", None)
    assert result.tabular is not None
    assert (result.tabular.columns, result.tabular.rows, result.tabular.row_count) == (["n"], [{"n": 3}], 1)
    assert world.session.queries == ['SELECT COUNT(*) AS n FROM "main"."customers"']
    assert world.session.schemas == [["customers"]]
    assert messages(result) == [
        ("TOOL", "Read the schema of tables"),
        ("DECISION", "Query was written"),
        ("DECISION", "Query was changed by its review"),
        ("TOOL", "Executed query"),
        ("RESULT", "SQL agent attempt succeeded"),
    ]
    assert "name TEXT" in world.prompts[1] and "sqlite" in world.prompts[1]
    assert "n\\n3" in world.prompts[3]
    assert all("current_date: 2026-11-22" in prompt for prompt in world.prompts[:2])  # T09
    assert all("Be brief." in prompt for prompt in world.prompts)  # R13


def test_q01_q02_the_state_and_the_nodes_are_those_of_the_design() -> None:
    assert set(SQLAgentState.__annotations__) == {
        *("messages", "metadata", "last_query", "last_query_result", "final_answer"),
    }
    assert sql_graph() is sql_graph()
    assert set(sql_graph().get_graph().nodes) - {"__start__", "__end__"} == {
        *("list_tables", "call_get_schema", "generate_query", "safety_check"),
        *("check_query", "execute_query", "parse_results"),
    }


async def test_q03_only_listed_tables_are_shown(world: World) -> None:
    await world.ask(choose(), write(COUNT), review(), answer())
    assert world.prompts and all("secret_users" not in prompt for prompt in world.prompts)
    assert all(f"table {name}" in world.prompts[1] for name in TABLES)


async def test_q04_the_schema_is_not_read_if_the_model_asks_for_none_or_knows_it(world: World) -> None:
    await world.ask(choose(), write(COUNT), review(), answer())
    assert world.session.schemas == []
    result = await world.ask(
        choose("orders", "unknown"), write("SELECT naem FROM orders"), review(), write(COUNT), review(), answer()
    )
    assert str(result.status) == "succeeded" and world.session.schemas == [["orders"]]
    assert "foreign key" in world.prompts[3]  # the second attempt knows it
    await world.ask(choose(), write("SELECT naem FROM orders"), review(), write(COUNT), review(), answer())
    assert world.session.schemas[1:] == [TABLES]  # after a failure, without asking


@pytest.mark.parametrize("reply", [{"tool_calls": {"tool_calls": []}, "remark": f"```sql\n{COUNT}\n```"}])
async def test_q05_q18_text_is_not_run_as_a_query(world: World, reply: dict[str, object]) -> None:
    result = await world.ask(choose(), reply, write(COUNT), review(), answer())
    assert str(result.status) == "succeeded" and len(world.session.queries) == 1
    assert ("ERROR", "SQL agent attempt failed") in messages(result)
    assert "call the tool mcp_db_query" in world.prompts[2]


async def test_q05_a_model_that_is_never_readable_is_the_models_fault_and_no_querys(world: World) -> None:
    world.session.settings.max_retries = 1
    result = await world.ask(choose(), {"prose": "There are three."}, {"prose": "Three."}, {"prose": "Three."})
    assert isinstance(result.model_error, AdapterParseError)
    unsafe = [write("DROP TABLE customers")]
    result = await world.ask(choose(), {"prose": "There are three."}, *unsafe * 2)
    assert result.error is not None and result.error.type == "QueryError"


async def test_q06_q18_an_unsafe_query_is_refused_before_it_is_run_and_written_anew(world: World) -> None:
    result = await world.ask(choose(), write("SELECT * FROM secret_users"), write(COUNT), review(), answer())
    assert str(result.status) == "succeeded"
    assert world.session.queries == ['SELECT COUNT(*) AS n FROM "main"."customers"']
    assert "The table secret_users is not available" in world.prompts[2]


@pytest.mark.parametrize(
    "rewritten", ["SELECT password FROM secret_users", "DROP TABLE customers", "SELECT 1; SELECT 2"]
)
async def test_q07_what_the_reviewer_writes_is_checked_as_well(world: World, rewritten: str) -> None:
    world.session.settings.max_retries = 0
    result = await world.ask(choose(), write(COUNT), review(rewritten))
    assert str(result.status) == "failed" and world.session.queries == []
    assert result.error is not None and result.error.type == "QueryError"
    assert SECRET not in result.model_dump_json()


async def test_q08_the_reviewed_query_is_the_one_that_is_run(world: World) -> None:
    result = await world.ask(choose(), write("SELECT count(*) FROM orders"), review(COUNT), answer())
    assert world.session.queries == ['SELECT COUNT(*) AS n FROM "main"."customers"']
    assert ("DECISION", "Query was changed by its review") in messages(result)


async def test_q12_q13_q14_q19_q21_failed_attempts_are_kept_and_fed_back(world: World) -> None:
    bad = [write(f"SELECT wrong{n} FROM customers") for n in range(4)]
    replies = [step for query in bad for step in (query, review())]
    result = await world.ask(choose(), *replies)
    assert str(result.status) == "failed" and result.error is not None and result.error.type == "QueryError"
    history = get_history(result)
    assert [row["attempt"] for row in history] == [1, 2, 3, 4]
    assert [set(row) for row in history] == [{"attempt", "query", "success", "error", "latency_ms"}] * 4
    assert [row["error"] for row in history] == [f"no such column: wrong{n}" for n in range(4)]
    assert all(not row["success"] and row["latency_ms"] > 0 for row in history)
    errors = [event for event in result.trace if event.message == "SQL agent attempt failed"]
    assert [(event.data["attempt"], event.data["error"]) for event in errors] == [
        (n + 1, f"no such column: wrong{n}") for n in range(4)
    ]
    assert len([each for each in messages(result) if each == ("MESSAGE", "SQL agent tries again with feedback")]) == 3
    last = world.prompts[-2]  # the fourth query: all earlier queries and errors are in its prompt
    assert all(f"no such column: wrong{n}" in last for n in range(3))
    tools = [event for event in result.trace if event.message == "Executed query"]
    assert len(tools) == 4 and {"query", "row_count", "latency_ms"} <= set(tools[0].data)


async def test_q15_a_success_ends_the_attempts(world: World) -> None:
    result = await world.ask(
        choose(), write("SELECT wrong FROM customers"), review(), write(COUNT), review(), answer(), write(COUNT)
    )
    assert str(result.status) == "succeeded" and len(world.session.queries) == 2 and len(world.prompts) == 6


async def test_e05_q14_the_attempts_of_a_success_are_kept_with_their_times(world: World) -> None:
    wrong = write("SELECT wrong FROM customers")
    result = await world.ask(choose(), wrong, review(), write(COUNT), review(), answer())
    history = cast(list[dict[str, Any]], own_events(result)[-1].data["attempt_history"])
    assert [(row["attempt"], row["success"]) for row in history] == [(1, False), (2, True)]
    assert history[0]["error"] and history[1]["error"] is None and all(row["latency_ms"] > 0 for row in history)


async def test_e04_rows_outlive_a_model_that_cannot_put_them_into_words(world: World) -> None:
    result = await world.ask(choose(), write(COUNT), review(), unanswered="sql_answer")
    assert str(result.status) == "succeeded" and result.tabular is not None and result.tabular.rows == [{"n": 3}]
    assert ("ERROR", "Rows could not be put into words") in messages(result)


async def test_q16_q27_a_configuration_error_is_not_retried(world: World) -> None:
    world.session.error = AgentFailureError(
        "ConfigurationError", "The server of the databases has stopped again after 1 restart."
    )
    result = await world.ask(choose(), write(COUNT), review(), answer())
    assert result.error is not None and result.error.type == "ConfigurationError"
    assert "stopped again" in result.error.message and len(world.session.queries) == 1


async def test_q17_other_errors_and_limits_are_not_retried(world: World) -> None:
    world.session.error = ZeroDivisionError("no")
    result = await world.ask(choose(), write(COUNT), review(), answer())
    assert result.error is not None and result.error.type == "ZeroDivisionError"
    assert len(world.session.queries) == 1
    world.session.error = None
    with use_context(SampleContext(SampleKey("q"), SampleLimits(tool_calls=0))), pytest.raises(LimitReachedError):
        await world.ask(choose(), write(COUNT), review(), answer())


async def test_q25_an_empty_result_is_a_success_without_an_invented_value(world: World) -> None:
    result = await world.ask(choose(), write("SELECT name FROM customers WHERE id > 99"), review(), answer("Zed"))
    assert (str(result.status), result.answer) == ("succeeded", NO_ROWS)
    assert result.tabular is not None and (result.tabular.columns, result.tabular.rows) == (["name"], [])


async def test_a08_a10_the_table_keeps_equal_columns_and_says_that_it_was_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT c.id, p.id FROM customers c CROSS JOIN products p ORDER BY 1, 2"
    monkeypatch.setattr(server, "MAX_ROWS", 2)
    result = await world.ask(choose(), write(query), review(), answer())
    assert result.tabular is not None
    assert (result.tabular.columns, result.tabular.rows) == (
        ["id", "id_2"],
        [{"id": 1, "id_2": 1}, {"id": 1, "id_2": 2}],
    )
    assert (result.tabular.row_count, result.tabular.truncated) == (2, True)
    assert "there are more rows" in world.prompts[-1]


async def test_secrets_of_the_context_reach_no_prompt_event_or_error(world: World) -> None:
    context = {"api_bearer_token": "canary-token-1234567"}
    query = write("SELECT 'canary-token-1234567' FROM customers WHERE wrong = 1")
    result = await world.ask(choose(), *[query, review()] * 4, context=context)
    assert all("canary-token" not in prompt for prompt in world.prompts[:2])
    assert "canary-token" not in json.dumps([event.model_dump(mode="json") for event in result.trace])
