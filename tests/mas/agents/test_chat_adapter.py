"""The adapter's texts are DSPy's own; examples with a history go over the wire as the conversations that they were."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request, ToolCallPart, ToolResultPart

from mas.agents.chat_adapter import ChatAdapter, JSONAdapter, ProgramAdapter
from mas.agents.react import Toolbox, react
from mas.llm.profiles.model import AgentModel
from mas.prompt_sets.demos import EXAMPLE
from mas.systems.gaia import nodes as signatures
from tests.scripted_model import UNREADABLE, Answer, Call, ScriptedModel, answering, in_turn
from tests.servers.running import RunningServer

ALL = [signatures.Plan, signatures.Research, signatures.ReviewAnswer, signatures.Finalize]
both_ways = pytest.mark.parametrize("native", [True, False], ids=["native", "text"])


@pytest.mark.parametrize("signature", ALL)
@pytest.mark.parametrize("native", [True, False])
def test_the_system_message_is_dspys_own_each_time(signature: type[dspy.Signature], native: bool) -> None:
    ours, dspys = ChatAdapter(use_native_function_calling=native), dspy.ChatAdapter(use_native_function_calling=native)
    for _ in range(2):
        assert ours.format_system_message(signature) == dspys.format_system_message(signature)


def test_new_instructions_are_a_new_message() -> None:
    for text in ("Say it once.", "Say it twice."):
        assert text in ChatAdapter().format_system_message(signatures.Finalize.with_instructions(text))


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
    calls = {"tool_calls": [{"name": "add", "args": {"a": 2, "b": 3}}, {"name": "fail", "args": {}}]}
    assert f"[[ ## tool_calls ## ]]\n{json.dumps(calls)}" in shown.messages()[1].text
    assert shown.messages()[2].text.startswith("[[ ## tool_call_results ## ]]")
    last = shown.messages()[5].text
    assert '[[ ## tool_calls ## ]]\n{"tool_calls": []}' in last and "None" not in last
    assert "[[ ## tools ## ]]" not in "".join(message.text for message in shown.messages()[:-1])


@both_ways
@of_each
def test_the_json_fallback_shows_the_same_example(user: ToolUser, native: bool) -> None:
    demo = Asked(user, native, *CALLS, user.answer).ask("Add 2 and 3.")
    shown = Asked(user, native, UNREADABLE, user.answer, demos=[demo])
    shown.ask("Add 7 and 8.")
    chat, fallback = (list(request.messages) for _, request in shown.model.requests)
    assert [message.role for message in fallback] == [message.role for message in chat]
    assert fallback[0].text.startswith(EXAMPLE)
    answer = json.loads(fallback[-2].text)
    assert {name: answer[name] for name in user.answer} == user.answer
    assert [_ids(message) for message in fallback] == [_ids(message) for message in chat]


def _ids(message: Any) -> list[str]:
    return [part.id for part in message.parts if isinstance(part, ToolCallPart | ToolResultPart)]


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


@pytest.mark.parametrize("adapter", [ChatAdapter(), JSONAdapter(False, {})], ids=["chat", "json"])
def test_an_example_without_an_attachment_is_whole_and_says_so_as_a_request_does(adapter: Any) -> None:
    """DSPy's own opens with the remark that some fields are not supplied."""
    demos = [plan_reviewed(), plan_reviewed(file=None)]
    with_file, _, without_file, reply, request = adapter.format(
        signatures.ReviewPlan, demos, {"plan_to_review": "Guess.", "file": None}
    )[1:]
    assert with_file["content"] == "[[ ## plan_to_review ## ]]\nGuess.\n\n[[ ## file ## ]]\na.csv"
    assert without_file["content"] == "[[ ## plan_to_review ## ]]\nGuess.\n\n[[ ## file ## ]]\nNone"
    assert request["content"].startswith(without_file["content"])
    assert "reject" in reply["content"]
    assert demos[1].file is None, "the example itself is as it was"


@pytest.mark.parametrize(
    "demo",
    [
        dspy.Example(question="q", answer="a"),
        dspy.Example(research_request="Find.", file=None, tool_calls=dspy.ToolCalls.from_dict_list([
            {"name": "add", "args": {}}]), result=None),
    ],
    ids=["fields of something else", "ends in a call"],
)  # fmt: skip
def test_what_is_no_whole_request_is_not_shown(demo: dspy.Example) -> None:
    for native in (True, False):
        assert ChatAdapter(use_native_function_calling=native).format_demos(signatures.Research, [demo]) == []


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


class WithHistory(dspy.Signature):
    """Answer."""

    question: str = dspy.InputField()
    hint: str | None = dspy.InputField()
    history: dspy.History = dspy.InputField()
    answer: str = dspy.OutputField()


def test_a_users_program_sends_examples_as_dspy_itself_does() -> None:
    demos = [
        dspy.Example(question="One?", answer="1"),
        dspy.Example(question="Two?", hint="2", history=dspy.History(messages=[{"question": "One?"}]), answer="2"),
    ]
    ours, of_dspy = ProgramAdapter(), dspy.ChatAdapter()
    pairs = [(ours, of_dspy), (ours._make_json_adapter_fallback(), dspy.JSONAdapter())]
    for own, plain in pairs:
        assert own.format_demos(WithHistory, demos) == plain.format_demos(WithHistory, demos)
        assert EXAMPLE not in str(own.format_demos(WithHistory, demos))
    assert ChatAdapter().format_demos(WithHistory, demos) != of_dspy.format_demos(WithHistory, demos)


MARK = "<<CUSTOM-TYPE-START-IDENTIFIER>>"
PICTURE: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
FILES = {"map.png": PICTURE}
BOTH = pytest.mark.parametrize(
    "make", [lambda files: ChatAdapter(files=files), lambda files: JSONAdapter(False, files)], ids=["chat", "json"]
)


class Look(dspy.Signature):
    """Look at it."""

    question: str = dspy.InputField()
    file: str | None = dspy.InputField()
    hint: str = dspy.InputField()
    history: dspy.History = dspy.InputField()
    answer: str = dspy.OutputField()


def looked(**inputs: Any) -> dict[str, Any]:
    return {"question": "What?", "file": "map.png", "hint": "north", "history": dspy.History(messages=[]), **inputs}


def texts_of(messages: list[Any]) -> list[Any]:
    """The content of the user's messages."""
    return [message["content"] for message in messages if message["role"] == "user"]


@BOTH
def test_a_file_is_shown_next_to_its_name_within_the_text(make: Any) -> None:
    (plain,) = texts_of(make({}).format(Look, [], looked()))
    (shown,) = texts_of(make(FILES).format(Look, [], looked()))
    before, name, after = plain.partition("[[ ## file ## ]]\nmap.png")
    assert shown == [{"type": "text", "text": before + name}, *PICTURE, {"type": "text", "text": after}]
    assert "north" in after and "What?" in before


@BOTH
def test_a_file_is_shown_once_where_the_conversation_first_names_it(make: Any) -> None:
    turns = [
        {"question": "One?", "file": None, "hint": "a", "answer": "1"},
        {"question": "Two?", "file": "map.png", "hint": "b", "answer": "2"},
        {"question": "Three?", "file": "map.png", "hint": "c", "answer": "3"},
    ]
    inputs = looked(history=dspy.History(messages=turns))
    plain = texts_of(make({}).format(Look, [], inputs))
    shown = texts_of(make(FILES).format(Look, [], inputs))
    assert [isinstance(content, list) for content in shown] == [False, True, False, False]
    assert [part for part in shown[1] if part["type"] != "text"] == PICTURE
    assert "".join(part.get("text", "") for part in shown[1]) == plain[1]
    assert [shown[index] for index in (0, 2, 3)] == [plain[index] for index in (0, 2, 3)]
    assert inputs["history"].messages == turns and inputs["file"] == "map.png"


@BOTH
@pytest.mark.parametrize("file", [None, "other.png", "MAP.PNG", ""])
def test_a_name_of_no_picture_is_text_alone(make: Any, file: str | None) -> None:
    assert make(FILES).format(Look, [], looked(file=file)) == make({}).format(Look, [], looked(file=file))


@BOTH
def test_an_example_never_shows_a_file(make: Any) -> None:
    demo = dspy.Example(**looked(answer="north"))
    example, real = texts_of(make(FILES).format(Look, [demo], looked()))
    assert isinstance(example, str) and example.startswith(f"{EXAMPLE}\n\n") and "map.png" in example
    assert [part for part in real if part["type"] != "text"] == PICTURE


def test_a_file_at_the_end_of_the_text_has_no_empty_part_after_it() -> None:
    adapter = ChatAdapter(files=FILES)
    named = adapter.format(signatures.ReviewPlan, [], {"plan_to_review": "p", "file": "map.png"})
    parts = texts_of(named)[0]
    assert [part["type"] for part in parts] == ["text", "image_url", "text"]
    inputs = {"question": "What? [[ ## file ## ]]\nmap.png", "file": "map.png"}
    short = dspy.Signature("question: str, file: str -> answer: str")
    (shown,) = texts_of(adapter.format(short, [], inputs))
    assert shown[0]["text"].count("map.png") == 2, "the file stands at its own field, not where a text names it"


@BOTH
def test_dspys_mark_in_a_text_is_made_harmless_unless_an_input_may_be_a_picture(make: Any) -> None:
    (text,) = texts_of(make({}).format(Look, [], looked(question=f"a {MARK} b")))
    assert "a <<CUSTOM-TYPE>> b" in text and MARK not in text
    with_picture = dspy.Signature("question: str, picture: dspy.Image -> answer: str")
    adapter = make({})
    content = adapter.format_user_message_content(with_picture, {"question": f"a {MARK} b"})
    assert f"a {MARK} b" in content


class AllText(dspy.Signature):
    """Use tools."""

    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.InputField()
    results: dspy.ToolCallResults = dspy.InputField()
    answer: str = dspy.OutputField()


def test_tools_their_calls_and_their_results_are_text() -> None:
    content = ChatAdapter().format_user_message_content(AllText, {"question": f"a {MARK} b"})
    assert "a <<CUSTOM-TYPE>> b" in content


@pytest.mark.parametrize("native", [True, False])
def test_the_adapter_that_repeats_a_request_has_the_same_settings(native: bool) -> None:
    for kind, repeats in ((ChatAdapter, JSONAdapter), (ProgramAdapter, JSONAdapter)):
        adapter = kind(use_native_function_calling=native, files=FILES)
        fallback: Any = adapter._make_json_adapter_fallback()
        assert isinstance(fallback, repeats)
        assert (adapter.use_native_function_calling, adapter.files) == (native, FILES)
        assert (fallback.use_native_function_calling, fallback.files) == (native, FILES)
    assert (ChatAdapter().use_native_function_calling, ChatAdapter().files) == (False, {})


@BOTH
def test_a_file_that_the_text_does_not_name_comes_before_it(make: Any) -> None:
    inputs = {"question": "What?", "file": "map.png"}
    short = dspy.Signature("question: str -> answer: str")
    (plain,) = texts_of(make({}).format(short, [], inputs))
    assert texts_of(make(FILES).format(short, [], inputs)) == [[*PICTURE, {"type": "text", "text": plain}]]


@BOTH
def test_several_files_in_one_field_are_no_name(make: Any) -> None:
    several = dspy.Signature("question: str, file: list[str] -> answer: str")
    inputs = {"question": "What?", "file": ["map.png"]}
    assert make(FILES).format(several, [], inputs) == make({}).format(several, [], inputs)


def test_an_example_is_completed_only_in_inputs_that_may_be_missing() -> None:
    demos = [plan_reviewed(plan_to_review=None), plan_reviewed(file=None).without("plan_to_review")]
    first, _, second, _ = ChatAdapter().format_demos(signatures.ReviewPlan, demos)
    own = dspy.ChatAdapter().format_demos(signatures.ReviewPlan, demos)
    assert first == own[0]
    assert second["content"].endswith("[[ ## file ## ]]\nNone")
