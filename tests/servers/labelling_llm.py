"""A loopback model server that classifies tickets, and does so well only if its instructions list the labels.

with labelling_llm(planted=["Paveldel"]) as server:
    server.base_url            # for model.base_url
    server.briefs              # the reflection requests that it was sent
    server.classified          # number of requests for a label

It understands a ticket by its key word in `MEANINGS`, and knows the labels only from its instructions: where they list
the one that it means it replies with that, otherwise with words of its own. As the reflection it lists the labels that
the brief or the feedback has named; it knows no others. `planted` are texts that it adds, as a model that has memorised
the benchmark would.
"""

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What a ticket holds: the label that is right, and how the model puts it without knowing the labels.
MEANINGS = {
    "invoice": ("billing", "a question of money"),
    "password": ("access", "cannot get in"),
    "crash": ("bug", "something is broken"),
    "manual": ("not a bug", "works as intended"),
}
_OUTPUTS = re.compile(r"Your output fields are:\n(.*?)\nAll interactions", re.DOTALL)
_OBJECTIVE = "your objective is:"
_PRESENT = re.compile(r"\[\[ ## current_instruction ## \]\]\n(.*?)\n\n\[\[ ## ", re.DOTALL)
_IN_BRIEF = re.compile(r"one of these labels: (.*?)\. They are no secret", re.DOTALL)
_IN_FEEDBACK = re.compile(r"The expected label was '([^']*)'")


@dataclass
class LabellingServer:
    """A running server."""

    base_url: str = ""
    planted: Sequence[str] = ()
    reads_brief: bool = True  # False: it lists only labels that the feedback has named
    briefs: list[str] = field(default_factory=list)
    classified: int = 0

    def reply(self, body: bytes) -> str:
        messages = json.loads(body)["messages"]
        system, asked = str(messages[0]["content"]), str(messages[-1]["content"])
        found = _OUTPUTS.search(system)
        names = re.findall(r"^\d+\. `(\w+)`", found[1] if found else "", re.MULTILINE)
        if "new_instruction" in names:
            values = {"new_instruction": self._rewrite(system, asked)}
        else:
            self.classified += "label" in names
            ticket = next((word for word in MEANINGS if word in asked), "")
            values = {name: self._answer(system, ticket) if name == "label" else f"about: {ticket}" for name in names}
        if "Outputs will be a JSON object" in system:
            return json.dumps(values)
        return "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in values.items()) + "[[ ## completed ## ]]"

    def _answer(self, system: str, ticket: str) -> str:
        label, own_words = MEANINGS.get(ticket, ("", "no idea"))
        return label if f"'{label}'" in system.partition(_OBJECTIVE)[2] else own_words

    def _rewrite(self, system: str, asked: str) -> str:
        self.briefs.append(f"{system}\n{asked}")
        known = set(_IN_FEEDBACK.findall(asked))
        for listed in _IN_BRIEF.findall(f"{system}\n{asked}") if self.reads_brief else ():
            known |= set(json.loads(f"[{listed}]"))
        present = _PRESENT.search(asked)
        listed_labels = ", ".join(f"'{name}'" for name in sorted(known))
        rules = f"Reply with exactly one of {listed_labels}." if known else "Be precise."
        return "\n\n".join([present[1].strip() if present else "", rules, *self.planted])


@contextmanager
def labelling_llm(planted: Sequence[str] = (), reads_brief: bool = True) -> Iterator[LabellingServer]:
    labelling = LabellingServer(planted=planted, reads_brief=reads_brief)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = labelling.reply(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "labelling",
                    "choices": [
                        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
                    ],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
                }
            )

        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": "labelling", "object": "model"}]})

        def _send(self, answer: dict[str, object]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        labelling.base_url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield labelling
        finally:
            server.shutdown()
