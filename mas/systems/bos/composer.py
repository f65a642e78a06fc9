"""Composer: one call to the language model makes the answer from the agents' results.

If no agent succeeded, the answer says so without a call: there is nothing to compose, and a model could invent
something. If the model cannot be asked, the answer joins those of the agents. Details of errors stay in the results.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

import dspy

from mas.systems.bos.contracts import AgentError, AgentResult, OrchestratorResponse, TabularResult, format_data
from mas.systems.bos.recorder import EventRecorder

MAX_TABLE_ROWS = 30  # of a table in a prompt
MAX_TABLE_CHARS = 6_000
MAX_ANSWER_CHARS = 8_000  # of one agent in a prompt
NOTHING_RAN = "The question could not be answered: no agent was available to work on it."
ALL_FAILED = "The question could not be answered."

# Sentences for the client; what exactly happened is in `AgentResult.error`.
_FAILURES = {
    "QueryError": "the database query failed",
    "HttpError": "the API refused the request or failed",
    "HttpRequestError": "the API could not be reached",
    "PathResolutionError": "a value for the API's path was missing",
    "SandboxViolation": "the code was not allowed to run",
    "SandboxTimeout": "the code took too long",
    "ConfigurationError": "it is not set up correctly",
    "TurnLimit": "it was not run, because of the request's limit of turns",
}


class ComposeAnswer(dspy.Signature):
    """Compose the answer from the agents' results."""

    question_to_answer: str = dspy.InputField()
    planner_rationale: str = dspy.InputField(desc="why these agents ran")
    agent_summaries: str = dspy.InputField(desc="status and answer, or failure, of each agent, in order")
    table: str = dspy.InputField(desc="the beginning of the table found, if any")
    context: str = dspy.InputField(desc="date, time and further values of the request")
    system_prompt: str | None = dspy.InputField(desc="further instructions of the client, if any")
    final_answer: str = dspy.OutputField(desc="the answer to the question")


async def compose(
    predictor: dspy.Predict,
    *,
    question: str,
    planner_rationale: str,
    agent_results: Iterable[AgentResult],
    metadata: Mapping[str, object] | None = None,
    context: Mapping[str, object] | None = None,
    recorder: EventRecorder | None = None,
) -> OrchestratorResponse:
    """Return the response, without trace and planner. A model's failure is recorded, not raised."""
    results, recorder = list(agent_results), recorder or EventRecorder("composer", context)
    table = next((each.tabular for each in results if each.has_succeeded and each.tabular), None)
    answer = describe_outcome(results)
    if any(each.has_succeeded for each in results):
        composed = await recorder.ask(
            predictor,
            "final_answer",
            "Composer gave no answer",
            question_to_answer=question,
            planner_rationale=planner_rationale,
            agent_summaries=format_results(results),
            table=format_data("table", format_table(table)) if table else "none",
        )
        answer = composed or answer
    answer, facts = recorder.redact(answer), dict(metadata or {})
    return OrchestratorResponse(answer=answer, data=table, agent_results=results, metadata=facts)


def describe_outcome(results: Sequence[AgentResult]) -> str:
    """Return the answer without a model: the agents' answers, and failures in words for the client."""
    if not results:
        return NOTHING_RAN
    failures = [f"{result.agent}: {describe_failure(result.error)}." for result in results if not result.has_succeeded]
    if len(failures) == len(results):
        return " ".join([ALL_FAILED, *failures])
    answers = [text for result in results if result.has_succeeded and (text := (result.answer or "").strip())]
    return "\n\n".join([*(answers or ["The agents finished without an answer in words."]), *failures])


def describe_failure(error: AgentError | None) -> str:
    """Return what failed, without internals such as queries, hosts and stacks."""
    if error is not None and error.type == "PlanningDeclined":
        return error.message  # written for the client
    return _FAILURES.get(error.type if error else "", "it failed")


def format_results(results: Iterable[AgentResult]) -> str:
    """Return each agent's status with its answer, as untrusted data, or with its failure in words."""
    texts = []
    for result in results:
        text = f"{result.agent}: {result.status}"
        if not result.has_succeeded:
            text += f": {describe_failure(result.error)}"
        elif answer := (result.answer or "").strip():
            text += f"\n{format_data(result.agent, answer[:MAX_ANSWER_CHARS])}"
        texts.append(text)
    return "\n\n".join(texts)


def format_earlier(results: Iterable[AgentResult]) -> str:
    """Return what earlier agents found, with the beginnings of their tables."""
    found = [result for result in results if result.has_succeeded]
    tables = [format_data(f"{each.agent}_table", format_table(each.tabular)) for each in found if each.tabular]
    return "\n\n".join([format_results(found), *tables]) if found else ""


def format_table(table: TabularResult) -> str:
    """Return the first rows as lines of JSON below the columns; a cut is said."""
    lines = [json.dumps(table.columns, ensure_ascii=False)]
    for row in table.rows[:MAX_TABLE_ROWS]:
        line = json.dumps(list(row.values()), ensure_ascii=False, default=str)
        if sum(map(len, lines)) + len(line) > MAX_TABLE_CHARS:
            break
        lines.append(line)
    n_shown, more = len(lines) - 1, " or more" if table.truncated else ""
    if n_shown < table.row_count or more:
        lines.append(f"({n_shown} of {table.row_count}{more} rows are shown)")
    return "\n".join(lines)
