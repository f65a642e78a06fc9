"""The adapters' texts are DSPy's own; examples with a history go over the wire as the conversations that they were."""

import asyncio
import itertools
import json
from dataclasses import dataclass
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request, ToolCallPart, ToolResultPart

from mas.agents.chat_adapter import ChatAdapter
from mas.agents.react import Toolbox, react
from mas.llm.profiles.model import AgentModel
from mas.prompt_sets import EXAMPLE
from mas.systems.gaia import nodes as signatures
from tests.scripted_model import UNREADABLE, Answer, Call, ScriptedModel, answering, in_turn
from tests.servers.running import RunningServer

both_ways = pytest.mark.parametrize("native", [True, False], ids=["native", "text"])


@dataclass(frozen=True)
class ToolUser:
    """One of GAIA's agents with tools, as `mas/systems/gaia/nodes.py` asks it."""

    agent: str
    signature: Any
    asks: str  # the field of the request
    answer: dict[str, str]


TOOL_USERS = [
    ToolUser("researcher", signatures.Research, "research_request", {"result": "It is 5: «ü»."}),
    ToolUser("expert", signatures.Solve, "expert_request", {"expert_answer": "5", "reasoning_trace": "2 + 3\nis 5"}),
]
of_each = pytest.mark.parametrize("user", TOOL_USERS, ids=lambda user: user.agent)
CALLS: list[Answer] = [[Call("add", {"a": 2, "b": 3}), Call("fail")], [Call("add", {"b": 1, "a": 4})]]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail() -> str:
    """Never works."""
    raise ValueError("broken, wie üblich")


BOX = Toolbox({tool.__name__: dspy.Tool(tool) for tool in (add, fail)})


class Asked:
    """An agent with demos, asked one request after the other in one conversation."""

    def __init__(self, user: ToolUser, native: bool, *answers: Answer, demos: list[Any] | None = None) -> None:
        self.user = user
        script: dict[str, Any] = {user.agent: in_turn(*answers)}
        self.model = ScriptedModel(answering(**script), native_tools=native)
        self.predictor = dspy.Predict(user.signature)
        self.predictor.lm = self.model.create_lm(AgentModel())
        self.predictor.demos = demos or []
        self.turns: list[dict[str, Any]] = []

    def ask(self, request: str, file: str | None = None) -> Any:
        """The last call of the request, as a demo."""
        with dspy.context(trace=[]):
            inputs = {self.user.asks: request, "file": file}
            self.turns, _ = asyncio.run(react(self.predictor, inputs, self.turns, BOX))
            _, told, prediction = dspy.settings.trace[-1]
        return dspy.Example(augmented=True, **told, **dict(prediction.items()))

    def messages(self) -> list[Any]:
        return list(self.model.requests[-1][1].messages)


def without_ids(messages: list[Any]) -> list[tuple[str, list[Any]]]:
    return [(message.role, [_part(part) for part in message.parts]) for message in messages]


def _part(part: Any) -> Any:
    if isinstance(part, ToolCallPart):
        return part.name, list(part.input.items())
    if isinstance(part, ToolResultPart):
        return part.name, "".join(getattr(content, "text", "") for content in part.content)
    text = part.text.removeprefix(f"{EXAMPLE}\n\n")
    if '"call_id"' in text:
        head, _, told = text.partition("\n")
        results = json.loads(told)["tool_call_results"]
        return head, [{key: value for key, value in each.items() if key != "call_id"} for each in results]
    return text


@both_ways
@of_each
def test_an_example_is_rendered_as_what_the_conversation_itself_was(user: ToolUser, native: bool) -> None:
    """The history of a second request shows the first one; as an example it has the same messages."""
    first = Asked(user, native, *CALLS, user.answer)
    demo = first.ask("Add 2 and 3.", "a.csv")
    assert demo.get(user.asks) is None and len(demo.history.messages) == 2  # the request is in the first message
    history_of_first = Asked(user, native, user.answer)
    history_of_first.turns = first.turns
    history_of_first.ask("Use the following feedback to improve it:\nBetter.")
    shown = Asked(user, native, user.answer, demos=[demo])
    shown.ask("Add 7 and 8.")
    example, real = shown.messages()[:-1], shown.messages()[-1]
    assert without_ids(example) == without_ids(history_of_first.messages()[:-1])
    assert example[0].text.startswith(EXAMPLE)
    assert EXAMPLE not in real.text and "Add 7 and 8." in real.text


@of_each
def test_a_native_example_has_calls_results_and_an_answer(user: ToolUser) -> None:
    demo = Asked(user, True, *CALLS, user.answer).ask("Add 2 and 3.")
    shown = Asked(user, True, user.answer, demos=[demo])
    shown.ask("Add 7 and 8.")
    assert [message.role for message in shown.messages()] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    parts = [part for message in shown.messages() for part in message.parts]
    calls = [(part.id, part.name, part.input) for part in parts if isinstance(part, ToolCallPart)]
    assert calls == [
        ("d01t01c01", "add", {"a": 2, "b": 3}), ("d01t01c02", "fail", {}), ("d01t02c01", "add", {"b": 1, "a": 4}),
    ]  # fmt: skip
    results = [(part.id, part.content[0].text) for part in parts if isinstance(part, ToolResultPart)]
    assert [call_id for call_id, _ in results] == [call_id for call_id, _, _ in calls]
    assert [text for _, text in results] == ["5", "fail failed: broken, wie üblich", "5"]
    texts = [message.text or "" for message in shown.messages()]
    assert not any("None" in text for text in texts if "[[ ## file ## ]]" not in text)
    assert "[[ ## tool_calls ## ]]" not in "".join(texts)


@both_ways
def test_several_examples_and_rejected_turns_keep_their_ids_apart(native: bool) -> None:
    user = TOOL_USERS[0]
    asked = Asked(user, native, CALLS[0], user.answer, CALLS[1], user.answer)
    demos = [asked.ask("Add 2 and 3."), asked.ask("Use the following feedback to improve the research:\nAgain.")]
    assert len(demos[1].history.messages) == 3
    shown = Asked(user, native, *CALLS, user.answer, demos=demos)
    shown.ask("Add 7 and 8.")
    users = [message.text for message in shown.messages() if message.role == "user"]
    requests = [text for text in users if "[[ ## research_request ## ]]" in text]
    assert [text.startswith(f"{EXAMPLE}\n\n[[ ## research_request ## ]]\n") for text in requests] == [True] * 3 + [
        False
    ]
    parts = [part for message in shown.messages() for part in message.parts]
    ids = [part.id for part in parts if isinstance(part, ToolCallPart)]
    assert len(set(ids)) == len(ids) == (8 if native else 0)
    assert [part.id for part in parts if isinstance(part, ToolResultPart)] == ids


@of_each
def test_text_examples_put_nothing_native_on_the_wire(user: ToolUser) -> None:
    demo = Asked(user, True, *CALLS, user.answer).ask("Add 2 and 3.")  # made with a model that has native calls
    shown = Asked(user, False, user.answer, demos=[demo])
    shown.ask("Add 7 and 8.")
    assert [message.role for message in shown.messages()] == ["user", "assistant"] * 3 + ["user"]
    texts = [message.text for message in shown.messages()]
    calls = ['{"tool": "add", "arguments": {"a": 2, "b": 3}}', '{"tool": "fail", "arguments": {}}']
    assert texts[1].splitlines() == calls
    assert texts[2].startswith("Result of add:\n5\n\nResult of fail:\n")
    assert all(f"[[ ## {name} ## ]]\n{text}" in texts[5] for name, text in user.answer.items())


@both_ways
@of_each
def test_each_request_begins_with_the_whole_of_the_one_before(user: ToolUser, native: bool) -> None:
    """Within the loop, after an unreadable reply, and in a second request: a server reads the rest from its cache."""
    demo = Asked(user, native, *CALLS, user.answer).ask("Add 2 and 3.")
    asked = Asked(user, native, *CALLS, UNREADABLE, user.answer, CALLS[0], user.answer, demos=[demo])
    asked.ask("Add 7 and 8.", "a.csv")
    repeated = asked.model.requests[3][1]
    asked.ask("Use the following feedback to improve it:\nBetter.")
    requests = [request for _, request in asked.model.requests if request is not repeated]
    for before, after in [*itertools.pairwise(requests), (asked.model.requests[2][1], repeated)]:
        assert (after.system, after.tools) == (before.system, before.tools)
        assert after.messages[: len(before.messages)] == before.messages
    assert [message.text for message in repeated.messages][-2] == UNREADABLE
    assert repeated.messages[-1].text.startswith("This reply cannot be used. ")


def planned(demo: dspy.Example, *answers: Answer) -> Request:
    model = ScriptedModel(answering(planner=in_turn(*answers)))
    predictor = dspy.Predict(signatures.Plan)
    predictor.lm, predictor.demos = model.create_lm(AgentModel()), [demo]
    with dspy.context(adapter=ChatAdapter(use_native_function_calling=True)):
        predictor(request="Plan it.", file=None, history=dspy.History(messages=[]))
    return model.requests[-1][1]


PLAN = {"research_steps": ["Look: «ü»."], "expert_steps": ["Add."]}


@pytest.mark.parametrize("fallback", [False, True], ids=["chat", "json"])
def test_an_example_of_the_planner_shows_no_history_object(fallback: bool) -> None:
    earlier = {"request": "Plan that.", "file": "a.csv", "research_steps": [], "expert_steps": ["Guess."]}
    for turns, requests in (([], 2), ([earlier], 3)):
        demo = dspy.Example(request="Plan this.", file=None, history=dspy.History(messages=turns), **PLAN)
        request = planned(demo, *([UNREADABLE] if fallback else []), PLAN)
        assert [message.role for message in request.messages] == (["user", "assistant"] * requests)[:-1]
        texts = [message.text or "" for message in request.messages]
        assert not any("history" in text or "messages" in text for text in texts)
        assert [text.startswith(EXAMPLE) for text in texts[::2]] == [True] * (requests - 1) + [False]
        assert "Look: «ü»." in texts[-2] and "Plan this." in texts[-3]


def plan_reviewed(**changes: Any) -> dspy.Example:
    return dspy.Example(
        **{"plan_to_review": "Guess.", "file": "a.csv", "decision": "reject", "feedback": "No."} | changes
    )


@pytest.mark.parametrize("demos", [[plan_reviewed()], [plan_reviewed().without("file"), plan_reviewed(decision=None)]])
def test_examples_without_a_history_are_rendered_by_dspy(demos: list[dspy.Example]) -> None:
    rendered = ChatAdapter().format_demos(signatures.ReviewPlan, demos)
    assert rendered == dspy.ChatAdapter().format_demos(signatures.ReviewPlan, demos)
    assert [message["role"] for message in rendered] == ["user", "assistant"] * len(demos)


def test_an_openai_server_gets_calls_and_results_of_an_example(
    llm_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")

    class LM(dspy.LM):
        supports_function_calling = True

    user = TOOL_USERS[0]
    predictor = dspy.Predict(user.signature)
    predictor.demos = [Asked(user, True, CALLS[0], user.answer).ask("Add 2 and 3.")]
    predictor.lm = LM("openai/perfect", api_base=llm_server.base_url, api_key="none", cache=False, num_retries=0)
    llm_server.reset()
    asyncio.run(react(predictor, {"research_request": "Say something.", "file": None}, [], Toolbox()))
    body = llm_server.requests()[-1]["messages"]
    assert [message["role"] for message in body][:6] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert [call["id"] for call in body[2]["tool_calls"]] == [message["tool_call_id"] for message in body[3:5]]
    assert json.loads(body[2]["tool_calls"][0]["function"]["arguments"]) == {"a": 2, "b": 3}
    assert body[6]["role"] == "user" and "Say something." in str(body[6]["content"])
