"""An OpenAI-compatible server behind which the simulated model answers and rewrites prompts: texts only, no tools.

python tests/servers/simulated_llm.py --port 8902       # base URL: http://127.0.0.1:8902/v1
"""

import argparse
import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from dspy.lm15 import Config, Message, Request

from mas.simulation import answer_request, propose_prompt
from tests.servers.llm import Answer, Server, serve
from tests.servers.perfect_model import PerfectModel

MODEL = "offline/normal-0"
REFLECTION = "`new_instruction`"  # the output field of DSPy's proposer


class SimulatedServer(Server):
    """Its routes are those of `llm.py`; the model is the simulated one, whatever name a request gives."""

    def _complete(self, body: bytes) -> Answer:
        self.log.requests += 1
        self.log.bodies.append(body)
        asked = json.loads(body)
        request = read_texts(asked)
        system = str(request.system)
        response = propose_prompt(request) if REFLECTION in system else answer_request(request)
        usage = response.usage
        return 200, {
            "id": f"chatcmpl-{hashlib.sha256(body).hexdigest()[:16]}",
            "object": "chat.completion",
            "created": 0,
            "model": asked.get("model"),
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": response.message.text},
                }
            ],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.total_tokens,
            },
        }


def read_texts(asked: dict[str, Any]) -> Request:
    """The request as the simulated model takes it."""
    messages = asked["messages"]
    turns = [Message.assistant if each["role"] == "assistant" else Message.user for each in messages]
    return Request(
        model=MODEL,
        system="\n".join(each["content"] for each in messages if each["role"] == "system"),
        messages=tuple(
            make(each["content"]) for make, each in zip(turns, messages, strict=True) if each["role"] != "system"
        ),
        config=Config(seed=asked.get("seed")),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="The simulated model behind HTTP.")
    parser.add_argument("--port", type=int, default=8902, help="0: a free one")
    asyncio.run(serve(SimulatedServer(PerfectModel()), parser.parse_args().port))


if __name__ == "__main__":
    main()
