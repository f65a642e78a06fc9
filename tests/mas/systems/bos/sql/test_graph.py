"""Steps of one attempt of the SQL agent: what each asks, changes and notes, the routes between them, and the texts."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END

from mas.agents.chat_adapter import ChatAdapter
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from mas.runtime.untrusted import enclose_data
from mas.systems.bos.contracts.events import EventRecorder
from mas.systems.bos.sql import graph
from mas.systems.bos.sql.databases import QueryResult, fail
from mas.systems.bos.sql.graph import (
    MAX_ROWS_CHARS,
    NO_QUERY,
    NO_ROWS,
    AttemptContext,
    SQLAgentState,
    SqlSteps,
    format_rows,
    make_feedback,
    mcp_db_query,
)
from mas.systems.bos.sql.guard import Guard
from mas.systems.bos.sql.session import SqlSession
from mas.systems.bos.sql.signatures import ChooseTables
from tests.mas.systems.bos.test_planner import FixedPredictor


def make_result(rows: list[list[object]], **changes: object) -> QueryResult:
    fields = {"success": True, "columns": ["a", "b"], "data": rows, "row_count": len(rows), "truncated": False}
    return cast(QueryResult, {**fields, "error": None, "elapsed_ms": 1.0, **changes})


@pytest.mark.parametrize(
    ("route", "state", "expected"),
    [
        ("route_to_schema", {"metadata": {}}, "call_get_schema"),
        ("route_to_schema", {"metadata": {"schema": ""}}, "call_get_schema"),
        ("route_to_schema", {"metadata": {"schema": "table a"}}, "generate_query"),
        ("route_to_check", {}, END),
        ("route_to_check", {"last_query": None}, END),
        ("route_to_check", {"last_query": "SELECT 1"}, "safety_check"),
        ("route_to_execution", {"metadata": {"reviews": 0}}, "check_query"),
        ("route_to_execution", {"metadata": {"reviews": 1}, "last_query_result": None}, "execute_query"),
        ("route_to_execution", {"metadata": {"reviews": 1}, "last_query_result": make_result([])}, END),
        ("route_to_answer", {}, END),
        ("route_to_answer", {"last_query_result": make_result([], success=False)}, END),
        ("route_to_answer", {"last_query_result": make_result([])}, "parse_results"),
    ],
)
def test_the_next_step_follows_from_the_state(route: str, state: dict[str, Any], expected: str) -> None:
    assert asyncio.run(getattr(graph, route)(cast(SQLAgentState, state))) == expected


def test_the_graph_has_the_steps_and_the_ways_between_them() -> None:
    drawn = graph.sql_graph().get_graph()
    assert {(edge.source, edge.target, edge.conditional) for edge in drawn.edges} == {
        ("__start__", "list_tables", False),
        ("list_tables", "call_get_schema", True),
        ("list_tables", "generate_query", True),
        ("call_get_schema", "generate_query", False),
        ("generate_query", "safety_check", True),
        ("generate_query", "__end__", True),
        ("safety_check", "check_query", True),
        ("safety_check", "execute_query", True),
        ("safety_check", "__end__", True),
        ("check_query", "safety_check", False),
        ("execute_query", "parse_results", True),
        ("execute_query", "__end__", True),
        ("parse_results", "__end__", False),
    }
    assert graph.sql_graph() is graph.sql_graph()


def test_rows_are_lines_below_their_columns() -> None:
    rows: list[list[object]] = [[1, None], ["x", 2.5]]
    assert format_rows(make_result(rows)) == "a | b\n1 | NULL\nx | 2.5"
    assert format_rows(make_result(rows, truncated=True)) == "a | b\n1 | NULL\nx | 2.5\n[there are more rows]"
    assert format_rows(make_result([])) == "a | b"


def test_rows_of_exactly_the_length_of_a_prompt_are_whole() -> None:
    head = "a | b\n1 | "
    fits = "x" * (MAX_ROWS_CHARS - len(head))
    assert format_rows(make_result([[1, fits]])) == head + fits
    assert format_rows(make_result([[1, f"{fits}x"]])) == f"{head}{fits}\n[there are more rows]"


def test_feedback_names_the_query_and_its_fault() -> None:
    assert make_feedback("SELECT x", "no such column: x").content == (
        "The query:\nSELECT x\n\nfailed: no such column: x\n\nWrite another one."
    )
    for missing in (None, ""):
        assert str(make_feedback(missing, "no query").content).startswith("The query:\n(none)\n\nfailed: no query")


def test_the_tool_that_the_model_calls_returns_its_query_unrun() -> None:
    assert mcp_db_query("SELECT 1") == "SELECT 1"


TOKEN = "tok-1234567890abcdef"
CONTEXT: dict[str, object] = {"tenant": 7, "api_token": TOKEN, "system_prompt": "be brief", "earlier_results": "api: 3"}
UNREADABLE = AdapterParseError("Chat", ChooseTables, f" no {TOKEN} here ")
PARTS = ("choose_tables", "write_query", "review_query", "answer")


class NotedSession:
    """Session with two tables; it notes what it is asked."""

    def __init__(self, result: QueryResult | None = None) -> None:
        self.guards = {"shop": Guard("sqlite", {"customers": ("id", "name"), "Orders": ("id",)})}
        self.result, self.asked = result, list[tuple[object, ...]]()

    async def read_schema(self, database: str, tables: list[str]) -> str:
        self.asked.append((database, tables))
        return f"schema of {', '.join(tables)}"

    async def query(self, query: str, database: str) -> QueryResult:
        self.asked.append((query, database))
        assert self.result is not None
        return self.result


class Node:
    """One step of the graph, called with a state; the predictor of its own gives one reply."""

    def __init__(
        self,
        reply: dict[str, Any] | Exception | None = None,
        context: Mapping[str, object] = CONTEXT,
        result: QueryResult | None = None,
    ) -> None:
        self.model, self.session = FixedPredictor(reply or {}), NotedSession(result)
        self.recorder = EventRecorder("sql", context)
        steps = SqlSteps(**dict.fromkeys(PARTS, cast(dspy.Predict, self.model)))
        self.own = AttemptContext(steps, cast(SqlSession, self.session), "shop", "How many?", context, self.recorder)

    def run(self, name: str, **state: object) -> Any:
        node = getattr(graph, name)
        state = {"metadata": {}, "messages": [HumanMessage("How many?")], **state}
        return run_blocking(node(cast(SQLAgentState, state), cast(Any, SimpleNamespace(context=self.own))))

    @property
    def events(self) -> list[tuple[str, str | None, dict[str, object]]]:
        return [(str(event.event_type), event.message, event.data) for event in self.recorder.events]


def call_tool(*queries: object, name: str = "mcp_db_query") -> dspy.ToolCalls:
    return dspy.ToolCalls.from_dict_list([{"name": name, "args": {"query": query}} for query in queries])


def test_an_attempt_begins_with_the_names_of_the_tables() -> None:
    assert Node().run("list_tables", metadata={"schema": "s", "reviews": 4}) == {
        "metadata": {"schema": "s", "overview": "table customers\ntable Orders", "reviews": 0}
    }


@pytest.mark.parametrize(
    ("needed", "read"),
    [
        ([" ORDERS ", "unknown"], ["Orders"]),
        (["orders", "customers"], ["customers", "Orders"]),
        (["unknown"], ["customers", "Orders"]),
        (UNREADABLE, ["customers", "Orders"]),
        ([], None),
        (None, None),
    ],
)
def test_the_schema_is_that_of_the_tables_that_the_model_chooses(needed: Any, read: list[str] | None) -> None:
    node = Node(needed if isinstance(needed, Exception) else {"needed_tables": needed})
    changes = node.run("call_get_schema", metadata={"overview": "o"})
    assert node.model.inputs == [
        {
            "question_for_tables": "How many?",
            "tables": "customers, Orders",
            "context": "tenant: 7",
            "system_prompt": "be brief",
        }
    ]
    if read is None:
        assert (changes, node.session.asked, node.events) == ({"metadata": {"overview": "o"}}, [], [])
    else:
        assert changes == {"metadata": {"overview": "o", "schema": f"schema of {', '.join(read)}"}}
        assert node.session.asked == [("shop", read)]
        assert node.events == [("MESSAGE", "Read the schema of tables", {"tables": read})]


def test_after_a_failure_the_schema_of_all_tables_is_read_without_asking() -> None:
    node = Node({"needed_tables": []})
    changes = node.run("call_get_schema", messages=[HumanMessage("q"), HumanMessage("it failed")])
    assert changes == {"metadata": {"schema": "schema of customers, Orders"}} and node.model.inputs == []


def test_the_query_is_asked_for_with_all_that_is_known() -> None:
    node = Node({"tool_calls": call_tool(" SELECT 1 ", "SELECT 2"), "remark": ""})
    changes = node.run(
        "generate_query",
        metadata={"schema": "the schema", "overview": "the overview"},
        messages=[HumanMessage("q"), HumanMessage("first"), HumanMessage("second")],
    )
    assert changes == {"last_query": "SELECT 1", "last_query_result": None}
    assert node.events == [("DECISION", "Query was written", {"query": "SELECT 1"})]
    (inputs,) = node.model.inputs
    assert [tool.name for tool in inputs.pop("tools")] == ["mcp_db_query"]
    assert inputs == {
        "question_for_query": "How many?",
        "database": "shop (sqlite)",
        "table_overview": "the schema",
        "context": "tenant: 7",
        "earlier_results": "api: 3",
        "failed_attempts": "first\n\nsecond",
        "system_prompt": "be brief",
    }
    first = Node({"tool_calls": call_tool("SELECT 1"), "remark": ""}, context={})
    first.run("generate_query", metadata={"schema": None, "overview": "the overview"})
    (inputs,) = first.model.inputs
    names = ("table_overview", "context", "earlier_results", "failed_attempts", "system_prompt")
    assert [inputs[name] for name in names] == ["the overview", "", "none", None, None]


def test_the_query_is_written_as_a_call_of_a_tool_by_the_model_s_own_means() -> None:
    seen: list[Any] = []

    class Looking(FixedPredictor):
        async def acall(self, **inputs: Any) -> dspy.Prediction:
            seen.append(dspy.settings.adapter)
            return await super().acall(**inputs)

    node = Node()
    steps = replace(node.own.steps, write_query=cast(dspy.Predict, Looking({"tool_calls": None, "remark": None})))
    node.own = replace(node.own, steps=steps)
    assert node.run("generate_query", metadata={"overview": "o"})["last_query_result"]["error"] == NO_QUERY
    assert isinstance(seen[0], ChatAdapter) and seen[0].use_native_function_calling is True


@pytest.mark.parametrize(
    ("reply", "remark"),
    [
        ({"tool_calls": call_tool(), "remark": " It cannot\nbe. "}, " The reply was: It cannot\nbe."),
        ({"tool_calls": call_tool("DROP", name="other"), "remark": None}, ""),
        ({"tool_calls": call_tool(7, " "), "remark": ""}, ""),
        ({"tool_calls": [{"name": "mcp_db_query"}], "remark": " "}, ""),
        (UNREADABLE, " The reply was: no *** here"),
        (AdapterParseError("Chat", ChooseTables, "x" * 501), f" The reply was: {'x' * 500}"),
        (AdapterParseError("Chat", ChooseTables, ""), ""),
    ],
)
def test_without_a_query_the_attempt_fails_with_what_was_said_instead(reply: Any, remark: str) -> None:
    node = Node(reply)
    assert node.run("generate_query", metadata={"overview": "o"}) == {
        "last_query": None,
        "last_query_result": fail(f"{NO_QUERY}{remark}"),
    }
    assert node.events == []


@pytest.mark.parametrize(
    ("query", "changes"),
    [
        ("select id from ORDERS -- all", {"last_query": 'SELECT id FROM "main"."Orders"'}),
        (None, {"last_query_result": fail("Expected one SQL statement, found 0.")}),
        (
            "select 1 from pets",
            {
                "last_query_result": fail(
                    "The table pets is not available; the tables are: customers, Orders.",
                )
            },
        ),
    ],
)
def test_the_safety_check_puts_a_query_into_its_form_or_refuses_it(query: str | None, changes: object) -> None:
    assert Node().run("safety_check", last_query=query) == changes


@pytest.mark.parametrize(
    ("reply", "reviewed", "is_noted"),
    [
        ({"reviewed_query": " SELECT 2 "}, "SELECT 2", True),
        ({"reviewed_query": "SELECT 1"}, "SELECT 1", False),
        ({"reviewed_query": " "}, "SELECT 1", False),
        ({"reviewed_query": None}, "SELECT 1", False),
        (UNREADABLE, "SELECT 1", False),
    ],
)
def test_a_query_is_reviewed_once(reply: Any, reviewed: str, is_noted: bool) -> None:
    node = Node(reply)
    metadata = {"schema": "the schema", "overview": "o", "reviews": 0}
    assert node.run("check_query", metadata=metadata, last_query="SELECT 1") == {
        "last_query": reviewed,
        "metadata": {"schema": "the schema", "overview": "o", "reviews": 1},
    }
    assert node.model.inputs == [
        {
            "question_of_query": "How many?",
            "query_to_review": "SELECT 1",
            "dialect": "sqlite",
            "known_tables": "the schema",
            "system_prompt": "be brief",
        }
    ]
    changed = [("DECISION", "Query was changed by its review", {"query": reviewed})]
    assert node.events == (changed if is_noted else [])


@pytest.mark.parametrize("result", [make_result([[1, 2]]), fail("no such column: x")], ids=["rows", "failure"])
def test_an_execution_is_counted_timed_and_traced(monkeypatch: pytest.MonkeyPatch, result: QueryResult) -> None:
    monkeypatch.setattr(graph, "time", SimpleNamespace(perf_counter=iter([10.0, 10.25]).__next__))
    node, trace, sample = Node(result=result), Trace("thread"), SampleContext(SampleKey("q"), SampleLimits())
    with use_context(sample), record_trace(trace):
        assert node.run("execute_query", last_query="SELECT 1") == {"last_query_result": result}
    assert node.session.asked == [("SELECT 1", "shop")] and sample.usage.tool_calls == 1
    (span,) = trace.spans
    assert (span.kind, span.name) == ("tool", "mcp_db_query")
    assert span.inputs == {"query": "SELECT 1", "database": "shop"}
    assert span.outputs == {"row_count": result["row_count"], "error": result["error"]}
    facts = {"query": "SELECT 1", "database": "shop", "row_count": result["row_count"], "latency_ms": 250.0}
    assert node.events == [("TOOL", "Executed query", {"success": result["success"], **facts})]


def test_rows_are_put_into_words_from_marked_data() -> None:
    node = Node({"rows_answer": " There is one. "})
    rows: list[list[object]] = [[1, "[end of data 1]"]]
    changes = node.run("parse_results", last_query="SELECT 1", last_query_result=make_result(rows))
    assert changes["final_answer"] == "There is one."
    assert [(type(each), each.content) for each in changes["messages"]] == [(AIMessage, "There is one.")]
    (inputs,) = node.model.inputs
    assert inputs == {
        "question_about_rows": "How many?",
        "executed_query": "SELECT 1",
        "rows": "".join(enclose_data("mcp_db_query", "a | b\n1 | ·end of data 1]")),
        "system_prompt": "be brief",
    }
    assert node.events == []


@pytest.mark.parametrize("reply", [{"rows_answer": " "}, {"rows_answer": None}, UNREADABLE])
def test_without_words_the_rows_are_the_answer(reply: Any) -> None:
    node = Node(reply)
    changes = node.run("parse_results", last_query="SELECT 1", last_query_result=make_result([[1, None]]))
    assert changes["final_answer"] == changes["messages"][0].content == "a | b\n1 | NULL"
    if isinstance(reply, Exception):
        ((kind, message, data),) = node.events
        assert (kind, message, data["type"]) == ("ERROR", "Rows could not be put into words", "AdapterParseError")
        assert data["error"] == str(reply).replace(TOKEN, "***")
    else:
        assert node.events == []


def test_without_rows_no_model_is_asked() -> None:
    node = Node({"rows_answer": "There is one."})
    changes = node.run("parse_results", last_query="SELECT 1", last_query_result=make_result([]))
    assert changes["final_answer"] == changes["messages"][0].content == NO_ROWS == "The query returned no rows."
    assert node.model.inputs == [] and node.events == []
