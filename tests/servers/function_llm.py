"""A loopback model server whose replies are a function of the fields that DSPy sends, in the process of the test.

with function_llm(lambda asked: {"label": "billing"}) as server:
    server.base_url            # for model.base_url, or api_base of dspy.LM
    server.bodies              # every request, as bytes
    server.asked               # the same, read: instructions, inputs, outputs

It answers as the reflection itself: with the present instructions and `rule`, which it takes from the feedback where it
is a function.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_OUTPUTS = re.compile(r"Your output fields are:\n(.*?)\nAll interactions", re.DOTALL)
_SECTION = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nRespond with|\Z)", re.DOTALL)


@dataclass(frozen=True)
class AskedFields:
    """A request to a predictor."""

    system: str
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    n_examples: int = 0  # worked examples in the prompt

    @property
    def instructions(self) -> str:
        return self.system.partition("your objective is:")[2].strip()


Reply = Callable[[AskedFields], Mapping[str, object]]  # outputs that it does not name are empty


@dataclass
class FunctionServer:
    """A running server."""

    reply: Reply
    rule: Callable[[AskedFields], str]
    base_url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    asked: list[AskedFields] = field(default_factory=list)

    @property
    def reflections(self) -> list[AskedFields]:
        return [each for each in self.asked if "new_instruction" in each.outputs]

    def answer(self, body: bytes) -> str:
        messages = json.loads(body)["messages"]
        system = str(messages[0]["content"])
        found = _OUTPUTS.search(system)
        names = tuple(re.findall(r"^\d+\. `(\w+)`", found[1] if found else "", re.MULTILINE))
        n_examples = sum(each["role"] == "assistant" for each in messages)
        asked = AskedFields(system, dict(_SECTION.findall(str(messages[-1]["content"]))), names, n_examples)
        self.bodies.append(body)
        self.asked.append(asked)
        if "new_instruction" in names:
            present = asked.inputs.get("current_instruction", "").strip()
            given: Mapping[str, object] = {"new_instruction": f"{present}\n\n{self.rule(asked)}".strip()}
        else:
            given = self.reply(asked)
        values = {name: given.get(name, "") for name in names}
        if "Outputs will be a JSON object" in system:
            return json.dumps(values)
        texts = {name: each if isinstance(each, str) else json.dumps(each) for name, each in values.items()}
        return "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in texts.items()) + "[[ ## completed ## ]]"


@contextmanager
def function_llm(
    reply: Reply, rule: Callable[[AskedFields], str] = lambda asked: "Be precise."
) -> Iterator[FunctionServer]:
    made = FunctionServer(reply, rule)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = made.answer(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": text}
            self._send(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "function",
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
                }
            )

        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": "function", "object": "model"}]})

        def _send(self, answer: Mapping[str, object]) -> None:
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
        made.base_url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield made
        finally:
            server.shutdown()
