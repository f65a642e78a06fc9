"""The SQL agent: it writes a query, checks it, runs it, and says in words what the rows show.

    agent = SqlAgent(predictors, session, max_retries=3)
    result = await agent.invoke("How many customers are there?", context={})
    result.answer, result.tabular

A query that is refused or fails is written anew with the reason, until the retries are used up.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import dspy
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from mas.systems.bos.context import get_text
from mas.systems.bos.contracts import AgentFailureError, AgentResult, EventRecorder, TabularResult
from mas.systems.bos.sql.graph import AttemptContext, SQLAgentState, make_feedback, sql_graph
from mas.systems.bos.sql.session import SqlSession

MAX_STEPS = 12  # of one attempt, which takes eight
DATABASE = "database"  # key of a request's context that names the database


@dataclass(frozen=True)
class SqlAgent:
    """Agent without a state of its own."""

    predictors: Mapping[str, dspy.Predict]
    session: SqlSession
    max_retries: int = 3

    async def invoke(self, question: str, *, context: Mapping[str, object]) -> AgentResult:
        """Answer the question by a query. A failure of it is returned with its reason.

        Raises:
            LMError: the model could not be asked.
            LimitReachedError: a limit of the sample or the run was reached.
        """
        recorder = EventRecorder("sql", context)
        try:
            return await self._attempt_until_success(question, context, recorder)
        except AgentFailureError as error:
            return recorder.fail(error.kind, str(error))

    async def _attempt_until_success(
        self, question: str, context: Mapping[str, object], recorder: EventRecorder
    ) -> AgentResult:
        database = self._choose_database(context)
        attempt_context = AttemptContext(self.predictors, self.session, database, question, context, recorder)
        limit: RunnableConfig = {"recursion_limit": MAX_STEPS}  # the orchestrator's would be inherited
        messages: list[AnyMessage] = [HumanMessage(question)]
        history: list[dict[str, object]] = []
        schema: object = None
        for attempt in range(1, self.max_retries + 2):
            started = time.perf_counter()
            first = SQLAgentState(messages=list(messages), metadata={"context": dict(context), "schema": schema})
            state: SQLAgentState = await sql_graph().ainvoke(first, context=attempt_context, config=limit)  # type: ignore[assignment]
            latency = (time.perf_counter() - started) * 1000
            result, query = state.get("last_query_result"), state.get("last_query")
            if result is not None and result["success"]:
                table = TabularResult.from_lists(result["columns"], result["data"], result["truncated"])
                return recorder.succeed(state.get("final_answer") or "", table)
            error = recorder.redact((result and result["error"]) or "no query was run")
            failed = {"attempt": attempt, "query": query, "error": error}
            history.append({**failed, "success": False, "latency_ms": latency})
            recorder.add("ERROR", "SQL agent attempt failed", **failed)
            if attempt <= self.max_retries:
                recorder.add("MESSAGE", "SQL agent tries again with feedback", attempt=attempt + 1, error=error)
            messages = [*state["messages"], make_feedback(query, error)]
            schema = state["metadata"].get("schema")
        message = f"No query succeeded in {len(history)} attempts; the last error: {history[-1]['error']}"
        return recorder.fail("QueryError", message, {"attempt_history": history})

    def _choose_database(self, context: Mapping[str, object]) -> str:
        """Return the database that the request names, or the only one.

        Raises:
            AgentFailureError: it names none of several, or one that there is not.
        """
        known = ", ".join(self.session.guards)
        name = get_text(context, DATABASE)
        if name is None and len(self.session.guards) == 1:
            return next(iter(self.session.guards))
        if name is None or name not in self.session.guards:
            wrong = f"names the database {name!r}" if name else "names no database"
            message = f"The request's context {wrong}; set context.{DATABASE} to one of: {known}."
            raise AgentFailureError("ConfigurationError", message)
        return name
