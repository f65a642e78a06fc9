"""Choice of the agent that replies: of the GAIA system, the single agent, the toy system, or the tutorial's programs.

reply = play_role(chat, create_behaviour(chat, World()))
reply.calls      # [("read_file", {"file": "sales.csv"})] or, once the file is read, []
reply.fields     # {"result": "Found in sales.csv: …"}
"""

import ast
import re
from collections.abc import Callable

from mas.simulation.chat import Chat, Reply
from mas.simulation.roles import planner_and_critics, request_agents, toy
from mas.simulation.roles.expert import give_answer, solve_task
from mas.simulation.roles.researcher import read_attachment, research
from mas.simulation.skills.answer_form import format_answer
from mas.simulation.skills.behaviour import Behaviour
from mas.simulation.skills.demos import count_shown_skills
from mas.simulation.skills.mistakes import UNKNOWN
from mas.simulation.solving.material import extract_question, extract_section
from mas.simulation.worlds import World

_CHOICES = re.compile(r"Literal(\[.*?\])(?:\):|$)", re.DOTALL)  # a type, and perhaps the beginning of a description
_EMPTY: dict[str, object] = {"int": 0, "float": 0.0, "bool": False, "list": [], "dict": {}}
_UNUSABLE = "\n\nYour last reply could not be used"


def create_behaviour(chat: Chat, world: World) -> Behaviour:
    return Behaviour(
        world=world,
        role=chat.role or "",
        prompt=chat.prompt,
        demos=count_shown_skills(chat),
        question=_read_question(chat),
        decision_key=chat.decision_key,
        seed=chat.seed,
        revision=len(chat.turns) - 1,
    )


def play_role(chat: Chat, behaviour: Behaviour) -> Reply:
    """Return the reply of the agent that the request is for; the fields of other programs get a placeholder."""
    role = _REPLIES.get(chat.role or "")
    return role(chat, behaviour) if role else Reply({name: _fill_in(kind) for name, kind in chat.outputs.items()})


def _fill_in(kind: str) -> object:
    """Return a value of a field's type, as the request names it: `unknown` for a text, the last of several choices.

    The last choice of `dspy.ReAct` is to finish.
    """
    if choices := _CHOICES.match(kind):
        try:
            found: object = ast.literal_eval(choices[1])[-1]
        except (ValueError, SyntaxError, IndexError, TypeError, MemoryError, RecursionError):
            return UNKNOWN
        return found
    return _EMPTY.get(re.split(r"\W", kind)[0], UNKNOWN)


def _read_question(chat: Chat) -> str:
    if chat.role in ("toy_plan", "toy_work", "toy_conclude", "ticket"):
        return chat.first_request.strip()
    if chat.role in request_agents.REPLIES:
        return chat.request.strip()
    if chat.role in ("toy_solve", "toy_finalize"):
        return toy.extract_heading(chat.first_request, "PROBLEM")
    if chat.role == "single":
        return chat.first_request.partition(_UNUSABLE)[0].strip()
    return extract_question(chat.first_request)


def _finalize(chat: Chat, behaviour: Behaviour) -> Reply:
    given = extract_section(chat.request, "expert's answer") or UNKNOWN
    reasoning = extract_section(chat.request, "expert's reasoning") or "There was no reasoning to report."
    final = format_answer(behaviour.question, given, behaviour)
    return Reply({"final_answer": final, "final_reasoning_trace": reasoning})


def _answer_alone(chat: Chat, behaviour: Behaviour) -> Reply:
    """Research, solve and format in one conversation."""
    material = ""
    if chat.file is not None and "read_file" in chat.tools:
        found = read_attachment(chat, behaviour)
        if isinstance(found, Reply):
            return found
        material = found
    worked = solve_task(behaviour.question, material, chat, behaviour)
    if isinstance(worked, Reply):
        return worked
    value, why = worked
    final = format_answer(behaviour.question, value, behaviour)
    return Reply({"final_answer": final, "final_reasoning_trace": f"{why} The answer is {value}."})


_REPLIES: dict[str, Callable[[Chat, Behaviour], Reply]] = {
    "planner": planner_and_critics.plan,
    "critic_planner": planner_and_critics.review_plan,
    "researcher": research,
    "critic_researcher": planner_and_critics.review_research,
    "expert": give_answer,
    "critic_expert": planner_and_critics.review_answer,
    "finalizer": _finalize,
    "single": _answer_alone,
    "toy_plan": toy.plan,
    "toy_solve": toy.solve,
    "toy_finalize": toy.finalize,
    "toy_work": toy.work,
    "toy_conclude": toy.conclude,
    "ticket": toy.sort_ticket,
    **request_agents.REPLIES,
}
