"""A classifier of support tickets, as the tutorial on own programs makes one: `title, body -> category`.

    sort_ticket(chat, behaviour).fields["category"]    # "billing", or if no prompt names it "Payment problem"

It knows the subject of a ticket by its words, but the names of the categories only from its prompt or its examples.
"""

from mas.simulation.chat import Chat, Reply
from mas.simulation.skills.behaviour import Behaviour

_WORDS = {  # category → words of its tickets, names that the model gives it on its own
    "billing": (("invoice", "charged", "card", "price on"), ("Payment problem", "Invoice question", "billing")),
    "delivery": (("parcel", "courier", "tracking", "dispatched"), ("Shipping", "Late parcel", "delivery")),
    "login": (("password", "sign in", "locked out", "two-factor"), ("Account access", "Password reset", "login")),
    "refund": (("money back", "return it", "refund", "sent it back"), ("Return request", "Reimbursement", "refund")),
    "defect": (("broken", "cracked", "stopped working", "rattles"), ("Product fault", "Technical issue", "defect")),
}
_CATEGORIES = tuple(_WORDS)
_KNOWS, _GUESSES = 0.93, 0.0  # chance of the category's own name where the prompt names all of them, or none


def sort_ticket(chat: Chat, behaviour: Behaviour) -> Reply:
    """Return the category under the name that the prompt and the examples teach."""
    text = " ".join(chat.turns[-1].inputs.values()).lower()
    found = [category for category, (words, _) in _WORDS.items() if any(word in text for word in words)]
    if not found:
        return Reply(_fill(chat, "other"))
    category = found[behaviour.pick(len(found), "category")]
    if behaviour.draw("know the names of the categories") < _compute_chance(chat, behaviour):
        return Reply(_fill(chat, category))
    names = _WORDS[category][1]
    return Reply(_fill(chat, names[behaviour.pick(len(names), "name")]))


def _compute_chance(chat: Chat, behaviour: Behaviour) -> float:
    if behaviour.world.kind == "null":
        return _GUESSES
    taught = chat.prompt.lower() + " ".join(turn.reply.get("category", "") for turn in chat.demos)
    return _GUESSES + (_KNOWS - _GUESSES) * sum(name in taught for name in _CATEGORIES) / len(_CATEGORIES)


def _fill(chat: Chat, category: str) -> dict[str, object]:
    return {name: category if name == "category" else "It follows from the ticket's words." for name in chat.outputs}
