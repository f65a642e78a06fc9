"""The server of `running.py`, which rewrites prompts as well, and has a fault that only a better prompt mends.

Its finalizer puts the answer into a sentence, which GAIA's rule calls wrong, unless its instructions hold the first
line of `clause` or the request shows it a worked example. The reflection is DSPy's `InstructionProposer`: it is
answered with the present instructions and the clause below them, whatever the examples and the feedback say.

    with reflecting_llm(clause="Reply with the bare value.") as server: ...
    … careless_about="seal"                          # only requests with that word meet the careless finalizer
    … reflection="garbage", good_reflections=1       # from the second on, replies that hold no prompt

The reflections that it is to spoil are counted in the order in which they come; all other replies depend on the request
alone.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from tests.servers.chat_reply import complete, refuse, wants_json, write_fields
from tests.servers.chat_request import ChatRequest, Reply
from tests.servers.loopback import Answer, answer_json, running
from tests.servers.running import RunningServer

REFLECTION = "reflection"
GARBAGE = "Happy to help! Could you tell me more about what you have in mind?"
_PRESENT = re.compile(
    r"\[\[ ## current_instruction ## \]\]\n(.*?)\n\n\[\[ ## examples_with_feedback ## \]\]\n", re.DOTALL
)


class ReflectingServer(RunningServer):
    def __init__(
        self,
        clause: str = "",
        careless_about: str = "",
        reflection: Literal["rewritten", "garbage", "failing"] = "rewritten",
        good_reflections: int = 0,
    ) -> None:
        """
        Args:
            clause: what the finalizer's instructions lack; empty: nothing.
            careless_about: a word; empty: all requests.
            reflection: what it makes of one.
            good_reflections: so many first ones are rewritten anyway.
        """
        super().__init__()
        self.clause, self.careless_about = clause, careless_about
        self.reflection, self.good_reflections = reflection, good_reflections

    def reply(self, body: bytes) -> Answer:
        request = json.loads(body)
        if "`greeting`" in _system(request):
            return answer_json(complete(write_fields({"reply": "Yes."}, wants_json(_system(request)))))
        return self._reflect(request) if "`new_instruction`" in _system(request) else super().reply(body)

    def respond(self, chat: ChatRequest, body: bytes) -> Reply:
        reply = super().respond(chat, body)
        if not self._is_careless(json.loads(body), chat):
            return reply
        return Reply({**reply.fields, "final_answer": f"That should be {reply.fields['final_answer']}, I believe."})

    def _is_careless(self, request: dict[str, Any], chat: ChatRequest) -> bool:
        """No clause: it is in every text."""
        shown = sum(message["role"] == "user" for message in request["messages"]) > 1
        mended = shown or self._first_line in _system(request)
        return chat.role == "finalizer" and self.careless_about in chat.instruction and not mended

    @property
    def _first_line(self) -> str:
        """The others are indented on their way."""
        return self.clause.partition("\n")[0]

    def _reflect(self, request: dict[str, Any]) -> Answer:
        self.by_role[REFLECTION] += 1
        way = self.reflection if self.by_role[REFLECTION] > self.good_reflections else "rewritten"
        if way == "failing":
            return refuse(500, "the reflection model is out of order")
        if way == "garbage":
            return answer_json(complete(GARBAGE))
        present = _PRESENT.search(request["messages"][-1]["content"])
        if present is None:
            return refuse(400, "the request holds no current_instruction")
        text = present[1] if self._first_line in present[1] else f"{present[1]}\n\n{self.clause}"
        return answer_json(complete(write_fields({"new_instruction": text}, wants_json(_system(request)))))


def _system(request: dict[str, Any]) -> str:
    return str(request["messages"][0].get("content") or "")


@contextmanager
def reflecting_llm(**settings: Any) -> Iterator[ReflectingServer]:
    """Serve a `ReflectingServer` with these settings."""
    with running(ReflectingServer(**settings)) as server:
        yield server
