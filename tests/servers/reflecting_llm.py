"""The server of `llm.py`, which rewrites prompts as well, and has a fault that only a better prompt mends.

Its finalizer puts the answer into a sentence, which GAIA's rule calls wrong, unless its instructions hold the first
line of `--clause` or the request shows it a worked example. The reflection is DSPy's `InstructionProposer`: it is
answered with the present instructions and the clause below them, whatever the examples and the feedback say.

    python tests/servers/reflecting_llm.py --port 8901 --clause "Reply with the bare value."
    … --careless-about seal                        # only requests with that word meet the careless finalizer
    … --reflection garbage --good-reflections 1    # from the second on, replies that hold no prompt
    … --mishap-every 7                             # of every seventh reply comes a part, a refusal, or small talk

The reflections that it is to spoil are counted in the order in which they come; all other replies depend on the request
alone. The routes are those of `llm.py`; among the roles in `/stats` are the reflection and the mishaps of agents.
"""

import argparse
import asyncio
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.servers.chat_reply import Reply, completion
from tests.servers.chat_request import ChatRequest, read_request
from tests.servers.llm import Answer, Server, _error, serve
from tests.servers.perfect_model import PerfectModel
from tests.servers.running import RunningServer, running_llm

REFLECTION = "reflection"
REPLIES = ("rewritten", "garbage", "failing")
GARBAGE = "Happy to help! Could you tell me more about what you have in mind?"
_PRESENT = re.compile(
    r"\[\[ ## current_instruction ## \]\]\n(.*?)\n\n\[\[ ## examples_with_feedback ## \]\]\n", re.DOTALL
)
MISHAPS = ("length", "content_filter", "garbage")


@dataclass
class ReflectingServer(Server):
    """Its knobs are the options of the command line."""

    clause: str = ""
    careless_about: str = ""
    reflection: str = "rewritten"
    good_reflections: int = 0
    mishap_every: int = 0

    def _complete(self, body: bytes) -> Answer:
        request = _object(body)
        if "`new_instruction`" in _system(request):
            return self._reflect(request, body)
        status, answer = super()._complete(body)
        if status != 200:
            return status, answer
        chat = read_request(body)
        if self._is_careless(request, chat):
            answer = completion(chat, _in_a_sentence(self.model.reply(chat)), answer["model"], body)
        number = int(hashlib.sha256(body).hexdigest(), 16)
        if self.mishap_every and number % self.mishap_every == 0:
            answer = self._spoilt(answer, MISHAPS[number // self.mishap_every % len(MISHAPS)])
        return 200, answer

    def _is_careless(self, request: dict[str, Any], chat: ChatRequest) -> bool:
        """No clause: it is in every text."""
        shown = sum(message["role"] == "user" for message in request["messages"]) > 1
        mended = shown or self._first_line in _system(request)
        return chat.role == "finalizer" and self.careless_about in chat.instruction and not mended

    @property
    def _first_line(self) -> str:
        """The others are indented on their way."""
        return self.clause.partition("\n")[0]

    def _reflect(self, request: dict[str, Any], body: bytes) -> Answer:
        self.log.requests += 1
        self.log.bodies.append(body)
        count = self.log.by_role[REFLECTION] = self.log.by_role.get(REFLECTION, 0) + 1
        way = self.reflection if count > self.good_reflections else "rewritten"
        if way == "failing":
            return _error(500, "the reflection model is out of order")
        present = _PRESENT.search(request["messages"][-1]["content"])
        if present is None:
            return _error(400, "the request holds no current_instruction")
        text = present[1] if self._first_line in present[1] else f"{present[1]}\n\n{self.clause}"
        as_json = "Outputs will be a JSON object" in _system(request)
        chat = ChatRequest(REFLECTION, present[1], None, ("new_instruction",), as_json)
        answer = completion(chat, Reply({"new_instruction": text}), str(request.get("model")), body)
        if way == "garbage":
            answer = _useless(answer, "garbage")
        elif self.mishap_every and count % 3 == 0:
            answer = _useless(answer, MISHAPS[count // 3 % len(MISHAPS)])
        return 200, answer

    def _spoilt(self, answer: dict[str, Any], mishap: str) -> dict[str, Any]:
        self.log.by_role[mishap] = self.log.by_role.get(mishap, 0) + 1
        return _useless(answer, mishap)


def _in_a_sentence(reply: Reply) -> Reply:
    return Reply({**reply.fields, "final_answer": f"That should be {reply.fields['final_answer']}, I believe."})


def _useless(answer: dict[str, Any], mishap: str) -> dict[str, Any]:
    """The completion as something that nobody can use."""
    choice = dict(answer["choices"][0])
    if mishap == "garbage":
        choice |= {"message": {"role": "assistant", "content": GARBAGE}, "finish_reason": "stop"}
    else:
        content = str(choice["message"].get("content") or "")
        choice |= {"message": {"role": "assistant", "content": content[: len(content) // 2]}, "finish_reason": mishap}
    return {**answer, "choices": [choice]}


def _object(body: bytes) -> dict[str, Any]:
    try:
        request = json.loads(body)
    except ValueError:
        return {}
    return request if isinstance(request, dict) else {}


def _system(request: dict[str, Any]) -> str:
    messages = request.get("messages") or [{}]
    return str(messages[0].get("content") or "")


@contextmanager
def reflecting_llm(*arguments: str) -> Iterator[RunningServer]:
    """As `running_llm`; `arguments` are those of this file's command line, without `--port`."""
    with running_llm(*arguments, script=Path(__file__)) as server:
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(description="A local model server that rewrites prompts as well.")
    parser.add_argument("--port", type=int, default=8901, help="0: a free one")
    parser.add_argument("--clause", default="", help="what the finalizer's instructions lack; empty: nothing")
    parser.add_argument("--careless-about", default="", help="a word; empty: all requests")
    parser.add_argument("--reflection", choices=REPLIES, default="rewritten")
    parser.add_argument("--good-reflections", type=int, default=0, help="so many first ones are rewritten anyway")
    parser.add_argument("--mishap-every", type=int, default=0, help="0: none")
    given = vars(parser.parse_args())
    port = given.pop("port")
    asyncio.run(serve(ReflectingServer(PerfectModel(), **given), port))


if __name__ == "__main__":
    main()
