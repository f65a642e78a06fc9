"""Messages of log lines for people, in the words of the design; the fields of a line stay next to its message.

describe_line({"event": "agent started", "component": "planner"})       # "Planner starting execution"
describe_line({"event": "tool started", "component": "calculator", "arguments": {"expression": "2+2"}})
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePath

_EVENTS = {  # event of a line → its message, with fields of the line in braces; {Agent}: the agent's name as a title
    "input interface started": "Input interface starting execution",
    "input interface completed": "Input interface completed successfully",
    "orchestrator started": "Orchestrator starting execution. Current step: {step}",
    "orchestrator finished": "Orchestrator completed successfully. Next step: {step}",
    "agent started": "{Agent} starting execution",
    "agent finished": "{Agent} completed successfully",
    "agent ended in failure": "{Agent} failed",
    "message": "Agent message stored successfully",
    "tool calls": "{Agent} tool calls: {calls}",
    "approved": "{Agent} approved.",
    "rejected": "{Agent} rejected. Retry count: {retry_count}",
    "retries exhausted": "Graceful Failure: Retry limit exceeded for {agent}",
    "application started": "Application started",
    "configuration loaded": "Created {agents} agent configurations",
    "loading prompts": "Loading prompts from directory: {folder}",
    "prompt loaded": "Successfully loaded prompt from: {path}",
    "prompts loaded": "Successfully loaded {number} prompts",
    "program built": "Graph created successfully!",
    "run started": "Starting to process {questions} questions",
    "question started": "Processing question: {task_id}",
    "question finished": "Completed question: {task_id}",
    "files written": "Successfully wrote {answers} items to: {path}",
    "run ended": "Application finished successfully",
    "application failed": "Application failed: {error}",
}
_TOOLS = {  # tool → messages of its beginning and its end, with its arguments in braces
    "youtube_transcript_tool": (
        "YouTube transcript tool processing URL: {url}",
        "YouTube transcript tool completed successfully",
    ),
    "wikipedia_tool": ("Wikipedia tool searching for: {query}", ""),
    "tavily_tool": ("Tavily tool searching for: {query}", ""),
    "unit_converter": ("Unit converter converting {quantity} to {to_unit}", "Unit converter result: {observation}"),
    "calculator": ("Calculator evaluating expression: {expression}", "Calculator result: {observation}"),
    "python_repl_tool": ("Executing the following python code: {code}", ""),
}
_FILES = {".xlsx": "Excel", ".xls": "Excel", ".pptx": "PowerPoint", ".ppt": "PowerPoint", ".pdf": "PDF"}
_FILES |= dict.fromkeys((".txt", ".csv", ".tsv", ".json", ".jsonl", ".md", ".py", ".xml", ".html"), "text")
_NO_TRANSCRIPT = "No transcript found"


def describe_line(line: Mapping[str, object]) -> str:
    """Return the message of a line: that of the design, else its event."""
    event, component = str(line.get("event") or ""), str(line.get("component") or "")
    arguments, agent = line.get("arguments"), str(line.get("agent") or component)
    fields: defaultdict[str, object] = defaultdict(str, line)  # what a line lacks is left out of its message
    if event in ("tool started", "tool finished", "tool failed"):
        if _NO_TRANSCRIPT in str(line.get("error")):
            return "No transcript found for YouTube video"
        fields |= arguments if isinstance(arguments, Mapping) else {}
        if component == "read_file" and event == "tool started":
            kind = _FILES.get(PurePath(str(fields["file"])).suffix.lower())
            return f"Loading {f'{kind} ' if kind else ''}file: {fields['file']}"
        started, finished = _TOOLS.get(component, ("", ""))
        template = {"tool started": started, "tool finished": finished}.get(event, "")
        return template.format_map(fields) or event
    if component.startswith("critic") and event in ("agent started", "agent finished"):
        is_end = event == "agent finished"
        return "Critic completed successfully" if is_end else f"Critic starting execution - {component}"
    if event == "agent finished" and line.get("status") == "failed":
        event = "agent ended in failure"
    fields["Agent"], fields["step"] = agent.replace("_", " ").capitalize(), line.get("step") or "input"
    return _EVENTS[event].format_map(fields) if event in _EVENTS else event  # which may have braces
