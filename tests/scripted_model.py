"""A model whose replies a test writes: DSPy's real LM, adapters and predictors over a Python function.

The function gets the agent's name (told by the fields that the system message lists) and the request, and returns

| value             | what the model replies                                                              |
|-------------------|-------------------------------------------------------------------------------------|
| dict              | the output fields, as ChatAdapter (or, if asked for, JSONAdapter) writes them       |
| list of Call      | tool calls: native where the request offers tools, else one JSON object a line      |
| str               | that text, whatever the format asked for                                            |
| Reply             | that text with a finish reason of its own, such as "length"                         |
| Exception         | nothing: the engine raises it                                                       |

    model = ScriptedModel(answering(critic_expert=in_turn(reject("units?"), APPROVE)))
    program = GaiaSystem().build(model, None, Resources())
    program(question="…").final_answer      # "42"
    model.agents_asked                      # ["planner", "critic_planner", "expert", "critic_expert", "expert", …]
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from dspy.lm15 import Message, Request, Response, TextPart, ToolCallPart, ToolResultPart, Usage

from mas.llm.profiles.model import AgentModel

INPUT_TOKENS, OUTPUT_TOKENS = 11, 7  # what every scripted reply claims to have cost

# Fields that only this agent has, in the order in which they are looked for.
_AGENTS = (
    ("chosen_agents", "bos_planner"),
    ("agent_summaries", "composer"),
    ("question_for_tables", "sql_schema"),
    ("remark", "sql_generate"),
    ("question_of_query", "sql_check"),
    ("question_about_rows", "sql_answer"),
    ("computation_question", "compute_code"),
    ("computation_to_summarize", "compute_summarize"),
    ("plan_to_review", "critic_planner"),
    ("research_to_review", "critic_researcher"),
    ("answer_to_review", "critic_expert"),
    ("research_steps", "planner"),
    ("expert_answer", "expert"),
    ("final_answer", "finalizer"),
    ("result", "researcher"),
    ("verdict", "judge"),  # eval/scorers/graded.py
)
_FIELD = re.compile(r"^\d+\. `(\w+)` \(", re.MULTILINE)


@dataclass(frozen=True)
class Call:
    """A tool call that the model asks for."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    id: str | None = None  # None: numbered within the conversation


@dataclass(frozen=True)
class Reply:
    """A text as the model's reply, with the reason why it ended there."""

    text: str
    finish_reason: Any = "stop"


Answer = dict[str, Any] | list[Call] | str | Reply | Exception
Script = Callable[[str, Request], Answer]

APPROVE: Answer = {"decision": "approve", "feedback": "good"}
UNREADABLE: Answer = "Let me think about this for a moment."
CUT_OFF: Answer = Reply("[[ ## decision ## ]]\nappro", "length")


def reject(feedback: str) -> Answer:
    return {"decision": "reject", "feedback": feedback}


def plan(*research_steps: str, expert_steps: tuple[str, ...] = ("work it out",)) -> Answer:
    return {"research_steps": list(research_steps), "expert_steps": list(expert_steps)}


STRAIGHT: dict[str, Answer] = {
    "planner": plan(),
    "critic_planner": APPROVE,
    "researcher": {"result": "the finding"},
    "critic_researcher": APPROVE,
    "expert": {"expert_answer": "42", "reasoning_trace": "six times seven"},
    "critic_expert": APPROVE,
    "finalizer": {"final_answer": "42", "final_reasoning_trace": "all agreed"},
    "bos_planner": {"chosen_agents": ["computation"], "needs": {}, "rationale": "a sum", "confidence": "0.9"},
    "sql_schema": {"needed_tables": []},
    "sql_generate": [Call("mcp_db_query", {"query": "SELECT 42"})],
    "sql_check": {"reviewed_query": ""},
    "sql_answer": {"rows_answer": "It is 42."},
    "compute_code": {"code": "6 * 7"},
    "compute_summarize": {"computation_answer": "It is 42."},
    "composer": {"final_answer": "42"},
}


def answering(**agents: Answer | Callable[[Request], Answer]) -> Script:
    """A script in which every agent gives its straightforward answer, but those named give theirs."""
    answers: dict[str, Any] = {**STRAIGHT, **agents}

    def script(agent: str, request: Request) -> Answer:
        answer = answers[agent]
        chosen: Answer = answer(request) if callable(answer) else answer
        return chosen

    return script


def in_turn(*answers: Answer | Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """One answer after the other; the last one again and again."""
    waiting = list(answers)

    def next_answer(request: Request) -> Answer:
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return answer(request) if callable(answer) else answer

    return next_answer


def agent_of(request: Request) -> str:
    """The agent that the request's system message describes.

    Raises:
        ValueError: none of the seven.
    """
    fields = set(_FIELD.findall(system_text(request)))
    for name, agent in _AGENTS:
        if name in fields:
            return agent
    raise ValueError(f"no agent has the fields {sorted(fields)}")


def system_text(request: Request) -> str:
    if isinstance(request.system, str):
        return request.system
    return "".join(getattr(part, "text", "") for part in request.system or ())


def said(request: Request) -> list[tuple[str, str]]:
    """The conversation as (role, text); tool calls and their results are written as text."""
    return [(message.role, "\n".join(_part_text(part) for part in message.parts)) for message in request.messages]


def all_text(request: Request) -> str:
    """Everything that goes over the wire in one string, tool descriptions included."""
    tools = [f"{tool.name} {getattr(tool, 'description', '')}" for tool in request.tools]
    return "\n".join([system_text(request), *(text for _, text in said(request)), *tools])


def tool_results(request: Request) -> list[ToolResultPart]:
    """The results of native tool calls, oldest first."""
    return [part for message in request.messages for part in message.parts if isinstance(part, ToolResultPart)]


def _part_text(part: Any) -> str:
    if isinstance(part, ToolCallPart):
        return f"{part.name}({json.dumps(part.input, ensure_ascii=False)})"
    if isinstance(part, ToolResultPart):
        return "".join(getattr(content, "text", "") for content in part.content)
    return getattr(part, "text", None) or ""


class ScriptedModel:
    """A model profile (`mas/llm/profiles/model.py`); its LMs share one script and one log of requests."""

    name = "scripted"
    max_connections = 1000
    simulated = True

    def __init__(
        self,
        script: Script,
        *,
        native_tools: bool = True,
        deadline_seconds: float = 30.0,
        reply_seconds: float = 0.0,  # how long the model takes to answer
    ) -> None:
        self.script = script
        self.native_tools = native_tools
        self.deadline_seconds = deadline_seconds
        self.reply_seconds = reply_seconds
        self.requests: list[tuple[str, Request]] = []  # agent, request; in the order in which they came
        self._lock = threading.Lock()

    @property
    def agents_asked(self) -> list[str]:
        return [agent for agent, _ in self.requests]

    def asked(self, agent: str) -> list[Request]:
        return [request for name, request in self.requests if name == agent]

    def check(self) -> None:
        """Nothing can be missing."""

    def secrets(self) -> list[str]:
        return []

    def list_unpriced(self, more_names: Collection[str] = ()) -> list[str]:
        return sorted({self.name, *more_names})

    def describe_server(self) -> list[str]:
        return []

    def list_traffic(self) -> list[Any]:
        return []

    def create_lm(self, agent: AgentModel) -> Any:
        from mas.llm import CallSettings
        from mas.llm.agent_lm import AgentLM
        from mas.llm.engine import CallPolicy

        settings = CallSettings(
            call_deadline_seconds=self.deadline_seconds, num_retries=0, takes_images=True, takes_audio=True
        )
        return AgentLM(
            f"scripted/{agent.name or self.name}",
            _AsyncEngine(self),
            CallPolicy(native_tools=self.native_tools, settings=settings),
            temperature=agent.temperature,
            cache=False,
        )

    def create_reflection_lm(self, name: str | None = None) -> Any:
        return self.create_lm(AgentModel(name, agent="reflection"))

    def respond(self, request: Request) -> Response:
        agent = agent_of(request)
        with self._lock:
            self.requests.append((agent, request))
            answer = self.script(agent, request)
        if isinstance(answer, Exception):
            raise answer
        return _response(request, answer)


@dataclass(frozen=True)
class _AsyncEngine:
    model: ScriptedModel

    async def complete(self, request: Request) -> Response:
        await asyncio.sleep(self.model.reply_seconds)
        return self.model.respond(request)


def _response(request: Request, answer: Any) -> Response:
    reply = answer if isinstance(answer, Reply) else Reply(answer if isinstance(answer, str) else "")
    parts: list[TextPart | ToolCallPart] = [TextPart(reply.text)]
    finish_reason = reply.finish_reason
    if isinstance(answer, list) and request.tools:
        first = len(tool_results(request))
        parts = [ToolCallPart(call.id or f"id_{first + i}", call.name, call.args) for i, call in enumerate(answer)]
        finish_reason = "tool_call"
    elif isinstance(answer, list):
        lines = [json.dumps({"tool": call.name, "arguments": call.args}, ensure_ascii=False) for call in answer]
        parts = [TextPart("\n".join(lines))]
    elif isinstance(answer, dict):
        parts = [TextPart(written(request, answer))]
    usage = Usage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, total_tokens=INPUT_TOKENS + OUTPUT_TOKENS)
    return Response(
        id=None, model=request.model, message=Message.assistant(parts), finish_reason=finish_reason, usage=usage
    )


def written(request: Request, values: Mapping[str, Any]) -> str:
    """The output fields in the format that the request asks for; those without a value are left empty."""
    described = system_text(request).partition("Your output fields are:")[2]
    described = re.split("All interactions will be|Your tools are:", described)[0]
    fields = {name: values.get(name, "") for name in _FIELD.findall(described)}
    if "Outputs will be a JSON object with the following fields." in system_text(request):
        return json.dumps(fields, ensure_ascii=False)
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in fields.items()
    }
    return "\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in {**texts, "completed": ""}.items())
