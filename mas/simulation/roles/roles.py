"""Who replies to a request: the seven agents of the GAIA system, the single agent, the three steps of the toy system.

reply = reply_to(chat, World())
reply.calls      # [("read_file", {"file": "sales.csv"})] or, once the file is read, []
reply.fields     # {"result": "Found in sales.csv: …"}
"""

from collections.abc import Callable

from mas.simulation.reply import Reply
from mas.simulation.request import Chat
from mas.simulation.roles import planning, toy
from mas.simulation.roles.expertise import give_answer, work
from mas.simulation.roles.research import reading, research
from mas.simulation.skills.conduct import Conduct, World
from mas.simulation.skills.demos import shown
from mas.simulation.skills.form import final_form
from mas.simulation.skills.slips import UNKNOWN
from mas.simulation.solving.material import question_in, section

_UNUSABLE = "\n\nYour last reply could not be used"


def conduct_of(chat: Chat, world: World) -> Conduct:
    return Conduct(
        world=world,
        role=chat.role or "",
        prompt=chat.prompt,
        demos=shown(chat),
        question=_question(chat),
        occasion=chat.occasion,
        sample=chat.seed,
        revision=len(chat.turns) - 1,
    )


def reply_to(chat: Chat, conduct: Conduct) -> Reply:
    """The reply of the agent that the request is for; any other program's fields get a plain placeholder."""
    role = _REPLIES.get(chat.role or "")
    return role(chat, conduct) if role else Reply(dict.fromkeys(chat.outputs, UNKNOWN))


def _question(chat: Chat) -> str:
    if chat.role == "toy_plan":
        return chat.first_request.strip()
    if chat.role in ("toy_solve", "toy_finalize"):
        return toy.heading(chat.first_request, "PROBLEM")
    if chat.role == "single":
        return chat.first_request.partition(_UNUSABLE)[0].strip()
    return question_in(chat.first_request)


def _finalize(chat: Chat, conduct: Conduct) -> Reply:
    given = section(chat.request, "expert's answer") or UNKNOWN
    reasoning = section(chat.request, "expert's reasoning") or "There was no reasoning to report."
    return Reply({"final_answer": final_form(conduct.question, given, conduct), "final_reasoning_trace": reasoning})


def _alone(chat: Chat, conduct: Conduct) -> Reply:
    """Research, work and final form by one agent in one conversation."""
    material = ""
    if chat.file is not None and "read_file" in chat.tools:
        found = reading(chat, conduct)
        if isinstance(found, Reply):
            return found
        material = found
    worked = work(conduct.question, material, chat, conduct)
    if isinstance(worked, Reply):
        return worked
    value, why = worked
    final = final_form(conduct.question, value, conduct)
    return Reply({"final_answer": final, "final_reasoning_trace": f"{why} The answer is {value}."})


_REPLIES: dict[str, Callable[[Chat, Conduct], Reply]] = {
    "planner": planning.plan,
    "critic_planner": planning.review_plan,
    "researcher": research,
    "critic_researcher": planning.review_research,
    "expert": give_answer,
    "critic_expert": planning.review_answer,
    "finalizer": _finalize,
    "single": _alone,
    "toy_plan": toy.plan,
    "toy_solve": toy.solve,
    "toy_finalize": toy.finalize,
}
