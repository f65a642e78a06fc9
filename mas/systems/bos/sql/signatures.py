"""Signatures of the SQL agent's four LLM steps. Input names differ from step to step: GEPA tells predictors by them."""

import dspy


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
