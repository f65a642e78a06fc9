"""When a server is asked for a reply by a JSON schema, and what follows where it refuses one."""

import json
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from mas.agents.chat_adapter import ChatAdapter
from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.event_loop import run_blocking
from mas.systems.bos.api.catalogue import ApiCallPlan
from tests.servers.chat_reply import complete
from tests.servers.loopback import Answer, Asked, answer_json, running
from tests.servers.scripted_llm import ScriptedLlm

REFUSAL = {"message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."}


class Server(ScriptedLlm):
    """Its model answers in no form unless it is asked for JSON."""

    refuses_schema = False

    def answer(self, asked: Asked) -> Answer:
        body = json.loads(asked.body)
        self.bodies.append(asked.body)
        if self.refuses_schema and "response_format" in body:
            return answer_json({"error": REFUSAL}, 400)
        wants_json = "JSON object" in body["messages"][-1]["content"]
        return answer_json(complete('{"answer": 42}' if wants_json else "It is 42, I think."))

    @property
    def schemas(self) -> list[bool]:
        """Whether each request had a schema."""
        formats = [json.loads(body).get("response_format") for body in self.bodies]
        assert all(each is None or "answer" in each["json_schema"]["schema"]["required"] for each in formats)
        return [each is not None for each in formats]


def ask(server: Server, *, times: int = 1, blocking: bool = False) -> None:
    lm = OpenAIChatModel(name="m", base_url=server.base_url).create_lm(AgentModel())
    predict = dspy.Predict("question -> answer: int")
    with dspy.context(lm=lm, adapter=ChatAdapter()):
        for number in range(times):
            question = f"What is {number} + {42 - number}?"
            prediction = predict(question=question) if blocking else run_blocking(predict.acall(question=question))
            assert prediction.answer == 42


@pytest.mark.parametrize("blocking", [False, True])
def test_a_schema_is_sent_when_a_reply_cannot_be_read(blocking: bool) -> None:
    with running(Server()) as server:
        ask(server, blocking=blocking)
    assert server.schemas == [False, True]


def test_a_server_that_refuses_a_schema_is_sent_none_any_more() -> None:
    server = Server()
    server.refuses_schema = True
    with running(server):
        ask(server, times=2)
    assert server.schemas == [False, True, False, False, False]


@pytest.mark.parametrize("annotation", [dict[str, int], list[dict[str, int]], ApiCallPlan])
def test_an_output_with_keys_of_its_own_is_asked_for_without_a_schema(annotation: Any) -> None:
    """A strict schema would let it have none of them."""
    signature = dspy.Signature("question -> answer").with_updated_fields("answer", type_=annotation)
    with running(Server()) as server:
        lm = OpenAIChatModel(name="m", base_url=server.base_url).create_lm(AgentModel())
        with dspy.context(lm=lm, adapter=ChatAdapter()), pytest.raises(AdapterParseError):
            dspy.Predict(signature)(question="Which?")
    assert server.schemas and not any(server.schemas)
