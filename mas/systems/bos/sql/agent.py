"""The SQL agent: it writes a query, checks it, runs it, and says in words what the rows show.

One attempt is a LangGraph, compiled once per process:

    list_tables → [call_get_schema] → generate_query → safety_check → check_query → safety_check → execute_query
    → parse_results

A query that is missing, refused or fails ends the attempt: `last_query_result` says why, and another attempt begins
with the reason, until the retries are used up. The program's own predictors arrive through the graph's runtime context,
as in `mas.systems.bos.program`.
"""

import functools
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import dspy
from dspy.utils.exceptions import AdapterParseError
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command

from mas.agents.tool_adapter import ToolAdapter
from mas.runtime.sample_context import current_context
from mas.runtime.trace import span
from mas.systems.bos.contracts import AgentFailureError, TabularResult, format_data, get_text
from mas.systems.bos.recorder import EventRecorder, RecordedAgent
from mas.systems.bos.sql.guard import Guard, UnsafeQueryError
from mas.systems.bos.sql.server import QUERY_TOOL, QueryResult, fail
from mas.systems.bos.sql.session import SqlSession, format_tables

DATABASE = "database"  # key of a request's context that names the database
MAX_ROWS_CHARS = 20_000  # of a result in a prompt
NO_ROWS = "The query returned no rows."
NO_QUERY = f"No query was written: call the tool {QUERY_TOOL} with one SELECT statement. Text is not run."
_CONFIG: RunnableConfig = {"recursion_limit": 12}  # of one attempt, which takes eight steps


# Input names differ from step to step: GEPA tells predictors by them.
class ChooseTables(dspy.Signature):
    """Choose the tables whose columns are needed to answer a question."""

    question_for_tables: str = dspy.InputField()
    tables: str = dspy.InputField(desc="names of the tables that may be read")
    context: str = dspy.InputField(desc="date, time and further values of the request")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    needed_tables: list[str] = dspy.OutputField(desc="names from the list; empty if no columns are needed")


class WriteQuery(dspy.Signature):
    """Write the query that answers the question."""

    question_for_query: str = dspy.InputField()
    database: str = dspy.InputField(desc="name of the database, and its dialect of SQL")
    table_overview: str = dspy.InputField(desc="tables that may be read, and the columns that are known")
    context: str = dspy.InputField(desc="date, time and further values of the request")
    earlier_results: str = dspy.InputField(desc="what other agents found, if any")
    failed_attempts: str | None = dspy.InputField(desc="your earlier queries and why they failed, if any")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    tools: list[dspy.Tool] = dspy.InputField()
    tool_calls: dspy.ToolCalls = dspy.OutputField(desc="one call of mcp_db_query with the query")
    remark: str = dspy.OutputField(desc="why, if no query can be written; else empty")


class ReviewQuery(dspy.Signature):
    """Review a query before it is run."""

    question_of_query: str = dspy.InputField()
    query_to_review: str = dspy.InputField()
    dialect: str = dspy.InputField()
    known_tables: str = dspy.InputField(desc="tables that may be read, and the columns that are known")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    reviewed_query: str = dspy.OutputField(desc="the query, unchanged if it is right, else corrected; nothing else")


class AnswerFromRows(dspy.Signature):
    """Answer the question from the rows of a query."""

    question_about_rows: str = dspy.InputField()
    executed_query: str = dspy.InputField()
    rows: str = dspy.InputField(desc="columns and rows of the result")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    rows_answer: str = dspy.OutputField(desc="what the rows say about the question, from them alone")


class SQLAgentState(MessagesState, total=False):
    """State of one attempt. `messages` has the question and the feedback of failed attempts."""

    metadata: dict[str, object]  # context, tables (and their schema), reviewed, unreadable
    last_query: str | None
    last_query_result: QueryResult | None
    final_answer: str | None


@dataclass(frozen=True)
class AttemptContext:
    """Inputs of one attempt, besides the state."""

    predictors: Mapping[str, dspy.Predict]  # by the names of `mas.systems.bos.agents`
    session: SqlSession
    database: str
    guard: Guard
    question: str
    recorder: EventRecorder


Changes = dict[str, object]  # the fields of the state that a node has changed
Context = Runtime[AttemptContext]


@functools.cache
def sql_graph() -> CompiledStateGraph[SQLAgentState, AttemptContext, SQLAgentState, SQLAgentState]:
    graph = StateGraph(SQLAgentState, context_schema=AttemptContext)
    for node in (list_tables, call_get_schema, generate_query, safety_check, check_query, execute_query, parse_results):
        graph.add_node(node.__name__, node)  # one that returns a Command says which node is next
    graph.add_edge(START, "list_tables")
    graph.add_edge("call_get_schema", "generate_query")
    graph.add_edge("check_query", "safety_check")
    graph.add_edge("parse_results", END)
    return graph.compile()


async def list_tables(state: SQLAgentState, runtime: Context) -> Command[str]:
    if schema := state["metadata"].get("schema"):  # of an earlier attempt
        return Command(goto="generate_query", update=_note(state, tables=schema))
    names = "\n".join(f"table {name}" for name in runtime.context.guard.tables)
    return Command(goto="call_get_schema", update=_note(state, tables=names))


async def call_get_schema(state: SQLAgentState, runtime: Context) -> Changes:
    """Read the columns of the tables that the model chooses; after a failed query of all tables."""
    own, tables = runtime.context, list(runtime.context.guard.tables)
    chosen: list[object] = [*tables]
    if len(state["messages"]) == 1:
        with suppress(AdapterParseError):
            reply = await own.recorder.call(
                own.predictors["sql_schema"], question_for_tables=own.question, tables=", ".join(tables)
            )
            chosen = list(reply.needed_tables or ())
    if not chosen:
        return {}
    wanted = {str(name).strip().lower() for name in chosen}
    known = [name for name in tables if name.lower() in wanted] or tables
    schema = format_tables((await own.session.read_schema(own.database, known))["tables"])
    own.recorder.add("TOOL", "Read the schema of tables", tables=known)
    return _note(state, tables=schema, schema=schema)


async def generate_query(state: SQLAgentState, runtime: Context) -> Command[str]:
    own, tool = runtime.context, dspy.Tool(mcp_db_query)
    lm = own.predictors["sql_generate"].lm or dspy.settings.lm
    unreadable: AdapterParseError | None = None
    try:
        with dspy.context(adapter=ToolAdapter({QUERY_TOOL: tool}, native=lm.supports_function_calling)):
            reply = await own.recorder.call(
                own.predictors["sql_generate"],
                question_for_query=own.question,
                database=f"{own.database} ({own.guard.dialect})",
                table_overview=state["metadata"]["tables"],
                failed_attempts="\n\n".join(str(message.content) for message in state["messages"][1:]) or None,
                tools=[tool],
            )
        query, remark = _find_query(reply.tool_calls), str(reply.remark or "").strip()
    except AdapterParseError as error:
        query, remark, unreadable = "", str(getattr(error, "lm_response", "") or "").strip()[:500], error
    if not query:
        reason = own.recorder.redact(f"{NO_QUERY} The reply was: {remark}" if remark else NO_QUERY)
        return Command(goto=END, update={"last_query_result": fail(reason), **_note(state, unreadable=unreadable)})
    own.recorder.add("DECISION", "Query was written", query=query)
    return Command(goto="safety_check", update={"last_query": query})


def mcp_db_query(query: str) -> str:
    """Run one SELECT statement on the database and return its rows."""
    return query  # never called: the query is checked and reviewed first


def _find_query(calls: object) -> str:
    made = calls.tool_calls if isinstance(calls, dspy.ToolCalls) else ()
    return next((str(call.args.get("query") or "").strip() for call in made if call.name == QUERY_TOOL), "")


async def safety_check(state: SQLAgentState, runtime: Context) -> Command[str]:
    """Refuse what is not one reading query of listed tables; store the form that will be run."""
    try:
        query = runtime.context.guard.check(state["last_query"] or "")
    except UnsafeQueryError as refusal:
        return Command(goto=END, update={"last_query_result": fail(str(refusal))})
    is_reviewed = state["metadata"].get("reviewed")
    return Command(goto="execute_query" if is_reviewed else "check_query", update={"last_query": query})


async def check_query(state: SQLAgentState, runtime: Context) -> Changes:
    """Let the model review the query; what it returns is checked for safety again."""
    own, query = runtime.context, state["last_query"]
    with suppress(AdapterParseError):
        reply = await own.recorder.call(
            own.predictors["sql_check"],
            question_of_query=own.question,
            query_to_review=query,
            dialect=own.guard.dialect,
            known_tables=state["metadata"]["tables"],
        )
        query = str(reply.reviewed_query or "").strip() or query
    if query != state["last_query"]:
        own.recorder.add("DECISION", "Query was changed by its review", query=query)
    return {"last_query": query, **_note(state, reviewed=True)}


async def execute_query(state: SQLAgentState, runtime: Context) -> Command[str]:
    own, query, started = runtime.context, state["last_query"] or "", time.perf_counter()
    if sample := current_context():
        sample.count_tool_call()
    with span("tool", QUERY_TOOL, inputs={"query": query, "database": own.database}) as current:
        result = await own.session.query(query, own.database)
        current.outputs = {"row_count": result["row_count"], "error": result["error"]}
    facts = {"query": query, "database": own.database, "success": result["success"], "row_count": result["row_count"]}
    own.recorder.add("TOOL", "Executed query", **facts, latency_ms=(time.perf_counter() - started) * 1000)
    return Command(goto="parse_results" if result["success"] else END, update={"last_query_result": result})


async def parse_results(state: SQLAgentState, runtime: Context) -> Changes:
    """Answer from the rows; without rows there is nothing that a model could add."""
    own, result = runtime.context, state["last_query_result"]
    assert result is not None
    rows, answer = format_rows(result), NO_ROWS
    if result["data"]:
        answer = await own.recorder.ask(
            own.predictors["sql_answer"],
            "rows_answer",
            "Rows could not be put into words",
            question_about_rows=own.question,
            executed_query=state["last_query"],
            rows=format_data(QUERY_TOOL, rows),
        )
    return {"final_answer": answer or rows, "messages": [AIMessage(answer or rows)]}


def format_rows(result: QueryResult) -> str:
    """Return columns and rows as text, cut to the length that a prompt can hold."""
    lines = [" | ".join(result["columns"])]
    lines += [" | ".join("NULL" if value is None else str(value) for value in row) for row in result["data"]]
    text = "\n".join(lines)
    is_cut = len(text) > MAX_ROWS_CHARS or result["truncated"]
    return text[:MAX_ROWS_CHARS] + ("\n[there are more rows]" if is_cut else "")


def _note(state: SQLAgentState, **values: object) -> Changes:
    return {"metadata": {**state["metadata"], **values}}


@dataclass(frozen=True)
class SqlAgent(RecordedAgent):
    """Stateless agent."""

    name = "sql"

    predictors: Mapping[str, dspy.Predict]
    session: SqlSession

    async def answer(self, question: str, recorder: EventRecorder) -> tuple[str, TabularResult | None]:
        """Answer from the rows of a query; after a failure another is written, as often as allowed."""
        database = self._choose_database(recorder.context)
        guard = self.session.guards[database]
        own = AttemptContext(self.predictors, self.session, database, guard, question, recorder)
        messages: list[AnyMessage] = [HumanMessage(question)]
        metadata: dict[str, object] = {"context": dict(recorder.context)}
        history: list[dict[str, object]] = []
        max_retries = self.session.settings.max_retries
        for attempt in range(1, max_retries + 2):
            started, first = time.perf_counter(), SQLAgentState(messages=list(messages), metadata=metadata)
            state: SQLAgentState = await sql_graph().ainvoke(first, context=own, config=_CONFIG)  # type: ignore[assignment]
            latency, query = (time.perf_counter() - started) * 1000, state.get("last_query")
            result = state.get("last_query_result") or fail("no query was run")
            error = recorder.redact(result["error"] or "") or None
            made = {"attempt": attempt, "query": query, "success": result["success"], "error": error}
            history.append({**made, "latency_ms": latency})
            if result["success"]:
                recorder.add("RESULT", "SQL agent attempt succeeded", attempt_history=history)
                table = TabularResult.from_lists(result["columns"], result["data"], result["truncated"])
                return state.get("final_answer") or "", table
            recorder.add("ERROR", "SQL agent attempt failed", **history[-1])
            if attempt <= max_retries:
                recorder.add("MESSAGE", "SQL agent tries again with feedback", attempt=attempt + 1, error=error)
            feedback = f"The query:\n{query or '(none)'}\n\nfailed: {error}\n\nWrite another one."
            messages = [*state["messages"], HumanMessage(feedback)]
            metadata |= {"schema": state["metadata"].get("schema")}
        unreadable = state["metadata"].get("unreadable")
        if isinstance(unreadable, AdapterParseError):
            raise unreadable  # the model's fault, no query's
        message = f"No query succeeded in {len(history)} attempts; the last error: {history[-1]['error']}"
        raise AgentFailureError("QueryError", message, {"attempt_history": history})

    def _choose_database(self, context: Mapping[str, object]) -> str:
        known, name = list(self.session.guards), get_text(context, DATABASE)
        if name is None and len(known) == 1:
            return known[0]
        if name in known:
            return str(name)
        wrong = f"names the database {name!r}" if name else "names no database"
        message = f"The request's context {wrong}; set context.{DATABASE} to one of: {', '.join(known)}."
        raise AgentFailureError("ConfigurationError", message)
