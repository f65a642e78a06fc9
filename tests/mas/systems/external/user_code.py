"""Modules as users write them, in the current folder and under names of their own, and a model for them.

module(tmp_path, "def answer(question): return '5'")      # "agent_1"; then system.target=agent_1:answer
"""

import itertools
from pathlib import Path

from dspy.lm15 import Message, Request, Response, TextPart, Usage

from tests.scripted_model import INPUT_TOKENS, OUTPUT_TOKENS, ScriptedModel, written

_NUMBERS = itertools.count(1)


def module(folder: Path, source: str) -> str:
    """The name of a module that no other test has imported."""
    name = f"agent_{next(_NUMBERS)}"
    (folder / f"{name}.py").write_text(source, "utf-8")
    return name


class AnyonesModel(ScriptedModel):
    """A model that gives the same fields to every predictor, whatever its name."""

    def __init__(self, **fields: str) -> None:
        super().__init__(lambda agent, request: dict(fields))

    def respond(self, request: Request) -> Response:
        self.requests.append(("", request))
        answer = self.script("", request)
        assert isinstance(answer, dict)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(written(request, answer))]),
            finish_reason="stop",
            usage=Usage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS),
        )
