"""The engines: pure, repeatable, cheap to copy, and fit for everything that DSPy does with an LM."""

import asyncio
import copy
import json
import math
import pickle
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.lm15 import Config, Message, Request, TextPart, ToolCallPart, Usage
from dspy.utils.exceptions import AdapterParseError

from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.simulation import SIMULATED_NOTICE, answer_request, task_model
from mas.simulation.chat import Reply, join_text, read_chat
from mas.simulation.model import AsyncReplyEngine, ReplyEngine
from mas.simulation.skills.behaviour import FORMAT, Behaviour, World
from mas.tools.calculator import calculator

FINALIZER = (
    "Your input fields are:\n1. `answer_request` (str):\nYour output fields are:\n1. `final_answer` (str):\n"
    "2. `final_reasoning_trace` (str):\nAll interactions will be structured in the following way"
)


def finalizer_request(answer: str, seed: int | None = None, model: str = "simulated") -> Request:
    text = (
        f"[[ ## answer_request ## ]]\nGive it.\n\nThe question:\nHow long is {answer}?\n\n"
        f"The expert's answer:\n{answer}\n\nThe expert's reasoning:\nSo."
    )
    return Request(model, (Message.user(text),), system=FINALIZER, config=Config(seed=seed))


def replies(seed: int | None, model: str = "simulated") -> list[str | None]:
    return [answer_request(finalizer_request(f"{n} boats", seed, model)).message.text for n in range(200)]


def lm(**settings: Any) -> dspy.LM:
    return dspy.LM(
        "offline/simulated",
        engine=ReplyEngine(answer_request),
        async_engine=AsyncReplyEngine(answer_request),
        **settings,
    )


def test_equal_requests_have_equal_responses_in_both_engines() -> None:
    request = finalizer_request("42", seed=3)
    first = ReplyEngine(answer_request).complete(request)

    assert ReplyEngine(answer_request).complete(request) == first
    assert asyncio.run(AsyncReplyEngine(answer_request).complete(request)) == first


def test_equal_requests_have_equal_responses_in_another_process() -> None:
    code = "import tests_engine as t, json; print(json.dumps(t.replies(5)[:40]))"
    loader = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('tests_engine', sys.argv[1]);"
        "module = importlib.util.module_from_spec(spec); sys.modules['tests_engine'] = module;"
        "spec.loader.exec_module(module);"
    )
    done = subprocess.run([sys.executable, "-c", loader + code, __file__], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout.splitlines()[-1]) == replies(5)[:40]


def test_the_seed_draws_other_mistakes() -> None:
    assert replies(1) == replies(1)
    assert replies(1) != replies(2)


def test_another_world_has_other_luck() -> None:
    assert replies(1, "offline/normal-0") == replies(1)
    assert replies(1, "offline/normal-5") != replies(1)


def test_mistakes_come_about_as_often_as_their_chance_says() -> None:
    wrapped = sum(" is " in (reply or "") or "arrive" in (reply or "") for seed in range(5) for reply in replies(seed))

    assert 0.3 < wrapped / 1000 < 0.6  # unasked, an answer without prose has the odds 0.55


def test_a_reply_opens_no_file_and_no_connection(agents: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Request] = []
    original = task_model.answer_request
    monkeypatch.setattr(task_model, "answer_request", lambda request: (requests.append(request), original(request))[1])
    question = "The question:\nWhat is 3 times 4?"
    agents.work("expert", [calculator], expert_request=question)
    agents.work("researcher", [], research_request="Research the following: rain")
    agents.ask("planner", request=question, file="a.csv")
    agents.ask("critic_expert", answer_to_review=f"{question}\n\nThe expert's answer:\n12")
    touched: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event.startswith(("open", "socket", "os.", "subprocess", "import")):
            touched.append(f"{event} {arguments}")

    sys.addaudithook(watch)  # cannot be taken off again, so it is switched off
    try:
        for request in requests:
            original(request)
    finally:
        watching = False

    assert len(requests) >= 4
    assert touched == []


def test_the_simulated_model_imports_nothing_of_the_evaluation() -> None:
    loaded = "{name.split('.')[0] for name in sys.modules}"
    code = f"import sys, mas.simulation.task_model; print({loaded} & {{'eval', 'optimize'}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_the_notice_can_be_had_without_importing_dspy() -> None:
    code = "import sys, mas.simulation; print(mas.simulation.SIMULATED_NOTICE, 'dspy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == f"{SIMULATED_NOTICE} False"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda original: pickle.loads(pickle.dumps(original))])
@pytest.mark.parametrize("original", [ReplyEngine(answer_request), AsyncReplyEngine(answer_request)])
def test_engines_can_be_copied_and_pickled(original: Any, copied: Any) -> None:
    assert type(copied(original)) is type(original)


def test_usage_counts_a_token_for_four_characters() -> None:
    response = answer_request(finalizer_request("42"))
    usage = response.usage

    assert usage.output_tokens == -(-len(response.message.text or "") // 4)
    assert (usage.input_tokens or 0) > len(FINALIZER) // 4
    assert usage.total_tokens == (usage.input_tokens or 0) + (usage.output_tokens or 0)
    assert response.finish_reason == "stop"


def broken(monkeypatch: pytest.MonkeyPatch, draw: float) -> None:
    """Every reply draws the same luck: 0 keeps any format, 1 breaks all of them."""
    monkeypatch.setattr(Behaviour, "draw", lambda self, skill: draw if skill == FORMAT else 0.0)


def test_a_malformed_reply_is_asked_again_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, 0.98)  # beyond the odds of 0.96, within those of the second try
    model = lm(cache=False)
    with dspy.context(lm=model):
        reply = dspy.Predict("answer_request -> final_answer, final_reasoning_trace")(answer_request="Give it.")

    assert reply.final_answer
    assert len(model.history) == 2


def test_a_reply_malformed_twice_is_a_parse_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, 1.0)
    with dspy.context(lm=lm(cache=False)), pytest.raises(AdapterParseError):
        dspy.Predict("answer_request -> final_answer, final_reasoning_trace")(answer_request="Give it.")


def test_other_programs_get_a_reply_that_parses() -> None:
    with dspy.context(lm=lm(cache=False)):
        assert dspy.Predict("question -> answer")(question="Why?").answer


def test_a_request_without_any_format_gets_a_reply() -> None:
    response = answer_request(Request("simulated", (Message.user("Hello?"),)))

    assert response.finish_reason == "stop"


def test_a_reply_takes_milliseconds_at_most() -> None:
    requests = [finalizer_request(f"{n} boats") for n in range(100)]
    start = time.process_time()
    for request in requests:
        answer_request(request)

    assert (time.process_time() - start) / len(requests) < 0.005


@pytest.mark.parametrize(
    ("model", "world"),
    [
        ("offline/null-3", World("null", 3)),
        ("null-12", World("null", 12)),
        ("a/b/leaky-0", World("leaky", 0)),
        ("offline/null", World("normal", 0)),
        ("offline/null-3x", World("normal", 0)),
        ("offline/gpt4-3", World("normal", 0)),
    ],
)
def test_world_and_seed_are_read_from_the_name(model: str, world: World) -> None:
    assert task_model.parse_world(model) == world


@pytest.mark.parametrize(
    ("key", "given", "seed"),
    [
        (None, 5, 5),
        (SampleKey("q"), 5, 5),
        (SampleKey("q"), None, None),
        (SampleKey("q", 2, 1), 5, 5 + 1_000_003),
        (SampleKey("q", 1, 2), 5, 5 + 7_919),
        (SampleKey("q", 3, 4), None, 2 * 1_000_003 + 3 * 7_919),
    ],
)
def test_each_epoch_and_attempt_has_a_seed_of_its_own(
    key: SampleKey | None, given: int | None, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []
    create = task_model.create_behaviour

    def note(chat: Any, world: World) -> Behaviour:
        seen.append(chat.seed)
        return create(chat, world)

    monkeypatch.setattr(task_model, "create_behaviour", note)
    if key is None:
        answer_request(finalizer_request("42", given))
    else:
        with use_context(SampleContext(key)):
            answer_request(finalizer_request("42", given))
    assert seen == [seed]


@pytest.mark.parametrize(
    ("wants_json", "draw", "broken"),
    [
        (False, 0.75, False),  # as often as the skill is followed, the format is kept
        (False, 0.751, True),
        (True, 0.8874, False),  # 1 - 0.25 * 0.45
        (True, 0.8876, True),
    ],
)
def test_a_format_is_broken_beyond_its_chance_and_less_often_in_json(
    wants_json: bool, draw: float, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Behaviour, "draw", lambda self, skill: draw if skill == FORMAT else 0.0)
    monkeypatch.setattr(Behaviour, "compute_chance", lambda self, skill, handicap=0.0: 0.75)
    form = "Outputs will be a JSON object with the following fields."
    request = finalizer_request("42")
    if wants_json:
        request = Request("simulated", request.messages, system=f"{FINALIZER}\n{form}")
    assert read_chat(request).wants_json is wants_json
    text = answer_request(request).message.text
    assert (text == "Let me think about this for a moment before I") is broken


def chat(native_tools: bool = True, wants_json: bool = False, results: int = 0, **outputs: str) -> Any:
    return SimpleNamespace(native_tools=native_tools, wants_json=wants_json, results=[None] * results, outputs=outputs)


CALLS: Any = [("search", {"query": "\xe9"}), ("open", {})]
LISTED = {"tool_calls": [{"name": "search", "args": {"query": "\xe9"}}, {"name": "open", "args": {}}]}


def test_calls_are_numbered_after_the_results_there_are() -> None:
    assert task_model._format_reply(chat(results=2, answer="str"), Reply({"answer": "x"}, CALLS)) == [
        ToolCallPart("call_3", "search", {"query": "\xe9"}),
        ToolCallPart("call_4", "open", {}),
    ]


def test_fields_and_calls_are_written_as_the_adapter_reads_them() -> None:
    told = Reply({"answer": "\xe9", "parts": ["a", 1], "other": "left out"}, CALLS)
    asked = {"answer": "str", "missing": "str", "parts": "list", "tool_calls": "ToolCalls"}
    calls = json.dumps(LISTED, ensure_ascii=False)
    assert task_model._format_reply(chat(native_tools=False, **asked), told) == [
        TextPart(
            '[[ ## answer ## ]]\n\xe9\n\n[[ ## missing ## ]]\n\n\n[[ ## parts ## ]]\n["a", 1]\n\n'
            f"[[ ## tool_calls ## ]]\n{calls}\n\n[[ ## completed ## ]]\n"
        )
    ]
    (as_json,) = task_model._format_reply(chat(native_tools=False, wants_json=True, **asked), told)
    assert isinstance(as_json, TextPart) and "\xe9" in as_json.text
    assert json.loads(as_json.text) == {"answer": "\xe9", "missing": "", "parts": ["a", 1], "tool_calls": LISTED}
    assert task_model._format_reply(chat(answer="str"), Reply({"answer": "x"})) == [
        TextPart("[[ ## answer ## ]]\nx\n\n[[ ## completed ## ]]\n")
    ]


def test_a_reply_names_the_model_and_says_whether_it_calls_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Behaviour, "draw", lambda self, skill: 0.0)
    monkeypatch.setattr(task_model, "_format_reply", lambda *_: [TextPart("12345"), ToolCallPart("c", "f", {"a": 1})])
    request = finalizer_request("42", model="offline/null-3")
    response = answer_request(request)
    assert (response.id, response.model, response.finish_reason) == (None, "offline/null-3", "tool_call")
    assert response.message.role == "assistant" and len(response.message.parts) == 2
    read = math.ceil(len(join_text(request)) / 4)
    assert response.usage == Usage(read, 4, read + 4), "5 characters of text and 8 of arguments"
