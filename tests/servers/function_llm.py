"""A loopback model server whose replies are a function of the fields that DSPy sends, in the process of the test.

with function_llm(lambda asked: {"label": "billing"}) as server:
    server.base_url            # for model.base_url, or api_base of dspy.LM
    server.asked               # every request, read: instructions, inputs, outputs

It answers as the reflection itself: with the present instructions and `rule`, which it takes from the feedback where it
is a function.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.servers.chat_reply import complete, list_outputs, wants_json, write_fields
from tests.servers.loopback import running
from tests.servers.scripted_llm import Body, ScriptedLlm

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


def read_fields(body: Body) -> AskedFields:
    messages = body["messages"]
    system = str(messages[0]["content"])
    inputs = dict(_SECTION.findall(str(messages[-1]["content"])))
    return AskedFields(system, inputs, list_outputs(system), sum(each["role"] == "assistant" for each in messages))


class FunctionServer(ScriptedLlm):
    def __init__(self, reply: Reply, rule: Callable[[AskedFields], str] = lambda asked: "Be precise.") -> None:
        super().__init__()
        self.function, self.rule = reply, rule
        self.asked: list[AskedFields] = []

    @property
    def reflections(self) -> list[AskedFields]:
        return [each for each in self.asked if "new_instruction" in each.outputs]

    def complete(self, body: Body) -> Body:
        asked = read_fields(body)
        if "greeting" in asked.inputs:  # of the model that rewrites prompts, before the first answer
            return complete(write_fields({"reply": "Yes."}, wants_json(asked.system)))
        self.asked.append(asked)
        if "new_instruction" in asked.outputs:
            present = asked.inputs.get("current_instruction", "").strip()
            given: Mapping[str, object] = {"new_instruction": f"{present}\n\n{self.rule(asked)}".strip()}
        else:
            given = self.function(asked)
        values = {name: given.get(name, "") for name in asked.outputs}
        return complete(write_fields(values, wants_json(asked.system)))


@contextmanager
def function_llm(
    reply: Reply, rule: Callable[[AskedFields], str] = lambda asked: "Be precise."
) -> Iterator[FunctionServer]:
    with running(FunctionServer(reply, rule)) as server:
        yield server
