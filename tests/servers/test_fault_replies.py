"""What the failing server says when nothing is wrong."""

import dspy

from mas.llm.profiles.model import AgentModel
from mas.llm.profiles.openai_chat import OpenAIChatModel
from tests.servers.fault_replies import ANSWER
from tests.servers.faults import fault_server


def test_ok_answers_whatever_it_is_asked_for() -> None:
    with fault_server(["ok"]) as server:
        lm = OpenAIChatModel(name="faults", base_url=server.base_url, num_retries=0).create_lm(AgentModel())
        with dspy.context(lm=lm):
            prediction = dspy.Predict("question -> reasoning_trace, answer")(question="What is 6 * 7?")
    assert (prediction.answer, prediction.reasoning_trace) == (ANSWER, "It is the product.")
