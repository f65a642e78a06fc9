"""The callable system as a program: threads and loops, files, models, tuning, and failures of a user's code."""

import threading
import time
from pathlib import Path
from typing import Any

import dspy
import pytest

from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import AgentReplyError, AgentUnavailableError, UserError
from mas.runtime.event_loop import run_blocking
from mas.runtime.trace import Trace, record_trace
from mas.system import agent_names
from mas.systems.external.callable_system import CallableSystem
from mas.tools.tool_context import Resources
from tests.mas.systems.external.user_code import AnyonesModel, module
from tests.scripted_model import system_text


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def system(folder: Path, source: str, name: str = "answer", **settings: Any) -> CallableSystem:
    made = CallableSystem(f"{module(folder, source)}:{name}", **settings)
    made.check()
    return made


def program(folder: Path, source: str, name: str = "answer", model: Any = None, **settings: Any) -> Any:
    return system(folder, source, name, **settings).build(model, None, Resources())


def test_a_function_runs_in_a_thread_of_its_own_context(tmp_path: Path) -> None:
    source = (
        "import threading\nfrom mas.runtime.trace import current_thread_id, span\n"
        "def answer(question, file):\n"
        "    with span('tool', 'lookup'):\n"
        "        return {'answer': threading.current_thread().name, 'reasoning': current_thread_id(), 'n': 1}\n"
    )
    agent = program(tmp_path, source)
    with record_trace(Trace("thread-1")) as trace:
        prediction = agent(question="How many?")
    assert prediction.final_answer.startswith("mas-blocking")
    assert prediction.final_reasoning_trace == "thread-1"
    assert [(each.kind, each.name, each.parent) for each in trace.spans] == [
        ("agent", agent.name, None),
        ("tool", "lookup", 0),
    ]
    assert (
        trace.state
        == prediction.state
        == {
            "question": "How many?",
            "file": None,
            "correlation_id": "thread-1",
            "final_answer": prediction.final_answer,
            "final_reasoning_trace": "thread-1",
            "reply": {"n": 1},
        }
    )


@pytest.mark.parametrize(
    "source",
    [
        "import threading\nasync def answer(question): return threading.current_thread().name",
        "import threading\nasync def inner(question): return threading.current_thread().name\n"
        "def answer(question): return inner(question)",
        "import threading\nclass Agent:\n"
        "    async def __call__(self, question): return threading.current_thread().name\n"
        "answer = Agent()",
    ],
    ids=["coroutine function", "function that returns a coroutine", "object"],
)
def test_a_coroutine_runs_on_the_loop_of_all_questions(tmp_path: Path, source: str) -> None:
    assert program(tmp_path, source)(question="?").final_answer == "mas-loop"


def test_blocking_functions_run_side_by_side(tmp_path: Path) -> None:
    agent = program(tmp_path, "import time\ndef answer(question):\n    time.sleep(0.3)\n    return question")
    started = time.monotonic()

    async def all_of_them() -> list[Any]:
        import asyncio

        return list(await asyncio.gather(*(agent.acall(question=str(number)) for number in range(16))))

    answers = [prediction.final_answer for prediction in run_blocking(all_of_them())]
    assert answers == [str(number) for number in range(16)]
    assert time.monotonic() - started < 16 * 0.3 / 3


def test_the_file_arrives_as_a_path_and_by_its_bare_name_for_the_tools(tmp_path: Path) -> None:
    source = (
        "from mas.tools.read_file import read_file\n"
        "def answer(question, file):\n"
        "    return {'answer': file.read_text(), 'reasoning': read_file(file.name), 'kind': type(file).__name__}\n"
    )
    file = tmp_path / "towns.txt"
    file.write_text("Rome")
    prediction = program(tmp_path, source)(question="?", file=str(file))
    assert prediction.final_answer == "Rome"
    assert prediction.final_reasoning_trace.startswith("towns.txt: ")
    assert prediction.state["file"] == "towns.txt"
    assert prediction.state["reply"] == {"kind": "PosixPath"}


FAILURES: dict[str, tuple[str, type[Exception], str]] = {
    "its own": ("raise KeyError('city')", KeyError, "city"),
    "nothing": ("return None", AgentReplyError, "returned a NoneType"),
    "its own timeout": (
        "raise TimeoutError('socket')",
        AgentUnavailableError,
        "gave up waiting (TimeoutError: socket)",
    ),
    "exit": ("import sys; sys.exit(2)", AgentReplyError, "ended with SystemExit (2)"),
    "interrupt": ("raise KeyboardInterrupt", AgentReplyError, "ended with KeyboardInterrupt instead"),
    "cancelled": ("import asyncio; raise asyncio.CancelledError", AgentReplyError, "ended with CancelledError"),
    "future cancelled": (
        "import concurrent.futures; raise concurrent.futures.CancelledError",
        AgentReplyError,
        "ended with CancelledError",
    ),
}


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_the_questions_and_the_loop_goes_on(tmp_path: Path, failure: str, kind: str) -> None:
    body, error, words = FAILURES[failure]
    agent = program(tmp_path, f"{kind} answer(question):\n    if question == 'fail': {body}\n    return '5'\n")
    with record_trace(Trace("t")) as trace, pytest.raises(error) as caught:
        agent(question="fail")
    assert words in str(caught.value)
    assert trace.spans[0].error
    assert trace.state["question"] == "fail"
    assert agent(question="?").final_answer == "5"


def test_next_on_an_empty_iterator_does_not_hang(tmp_path: Path) -> None:
    """asyncio cannot carry a StopIteration out of a thread: on Python 3.11 whoever waits would wait for ever."""
    agent = program(tmp_path, "def answer(question): return next(iter([]))")
    with pytest.raises(AgentReplyError, match="ended with StopIteration instead of an answer"):
        agent(question="?")


def test_a_questions_deadline_still_cancels_a_coroutine(tmp_path: Path) -> None:
    agent = program(tmp_path, "import asyncio\nasync def answer(question): await asyncio.sleep(60)")

    async def hurried() -> None:
        import asyncio

        async with asyncio.timeout(0.05):
            await agent.acall(question="?")

    with pytest.raises(TimeoutError):
        run_blocking(hurried())


TWO_STEPS = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.draft = dspy.Predict("question -> notes")
        self.solve = dspy.ChainOfThought("question, notes -> answer")
    {0}def {1}(self, question, file=None):
        notes = ({2}self.draft{3}(question=question)).notes
        return {2}self.solve{3}(question=question, notes=notes)
program = Program()
"""
FORWARD = TWO_STEPS.format("", "forward", "", "")
AFORWARD = TWO_STEPS.format("async ", "aforward", "await ", ".acall")


@pytest.mark.parametrize("source", [FORWARD, AFORWARD], ids=["forward", "aforward"])
@pytest.mark.parametrize("name", ["Program", "program"])
def test_a_dspy_module_gets_the_runs_model_and_shows_its_calls(tmp_path: Path, source: str, name: str) -> None:
    model = AnyonesModel(notes="six", reasoning="six times seven", answer="42")
    agent = program(tmp_path, source, name, model, needs_model=True)
    with record_trace(Trace("t")) as trace:
        prediction = agent(question="How many?")
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("42", "six times seven")
    assert [(each.kind, each.parent) for each in trace.spans] == [("agent", None), ("lm", 0), ("lm", 0)]


def test_the_predictors_have_the_users_names_and_take_prompts(tmp_path: Path) -> None:
    made = system(tmp_path, AFORWARD, "program", needs_model=True)
    assert list(agent_names(made)) == ["draft", "solve.predict"]
    texts = {"draft": "Note what matters.", "solve.predict": "Be brief."}
    model = AnyonesModel(notes="six", reasoning="six times seven", answer="42")
    agent = made.build(model, PromptSet("mine", "callable", texts, tmp_path), Resources())
    assert [name for name, _ in agent.named_predictors()] == list(agent_names(made))
    agent(question="How many?")
    systems = [system_text(request) for _, request in model.requests]
    assert "Note what matters." in systems[0] and "Be brief." in systems[1]


def test_a_copy_can_be_changed_and_run_without_touching_the_original(tmp_path: Path) -> None:
    """What an optimizer does to a program."""
    model = AnyonesModel(notes="six", reasoning="six times seven", answer="42")
    agent = program(tmp_path, AFORWARD, "program", model, needs_model=True)
    copy = agent.deepcopy()
    dict(copy.named_predictors())["draft"].signature = dspy.Signature("question -> notes", "Changed.")
    assert copy.dump_state().keys() == {"draft", "solve.predict"}
    for each, changed in ((copy, True), (agent, False)):
        model.requests.clear()
        assert each(question="How many?").final_answer == "42"
        assert ("Changed." in system_text(model.requests[0][1])) == changed


def test_one_runs_model_does_not_stay_on_the_users_module(tmp_path: Path) -> None:
    """`-m model=a,b` runs both in one process, on one imported module."""
    made = system(tmp_path, AFORWARD, "program", needs_model=True)
    first, second = (AnyonesModel(notes="six", reasoning="so", answer=answer) for answer in ("1", "2"))
    assert made.build(first, None, Resources())(question="?").final_answer == "1"
    assert made.build(second, None, Resources())(question="?").final_answer == "2"


def test_a_predictor_with_a_model_of_its_own_keeps_it(tmp_path: Path) -> None:
    source = f"{FORWARD}\nfrom dspy import LM\nprogram.draft.lm = LM('openai/mine', api_key='none')\n"
    made = system(tmp_path, source, "program", needs_model=True)
    agent = made.build(AnyonesModel(answer="42"), None, Resources())
    assert {name: predictor.lm.model for name, predictor in agent.named_predictors()} == {
        "draft": "openai/mine",
        "solve.predict": "scripted/scripted",
    }


def test_dspy_inside_a_plain_function_gets_the_runs_model_too(tmp_path: Path) -> None:
    source = "import dspy\ndef answer(question): return dspy.Predict('question -> answer')(question=question)"
    agent = program(tmp_path, source, "answer", AnyonesModel(answer="42"), needs_model=True)
    assert agent(question="?").final_answer == "42"


def test_a_module_without_any_model_is_refused_before_the_first_question(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no language model \(draft, solve\.predict\).*system\.needs_model=true"):
        system(tmp_path, FORWARD, "Program")


def test_the_target_is_loaded_once(tmp_path: Path) -> None:
    source = "import dspy\nmade = []\ndef make():\n    made.append(1)\n    return dspy.Predict('question -> answer')\n"
    made = system(tmp_path, source, "make", needs_model=True)
    assert (list(agent_names(made)), agent_names(made)) == (["self"], ["self"])
    agent = made.build(AnyonesModel(answer="42"), None, Resources())
    assert agent(question="?").final_answer == "42"
    import sys

    assert sys.modules[made.target.partition(":")[0]].made == [1]


def test_nothing_is_left_running(tmp_path: Path) -> None:
    before = {thread.name for thread in threading.enumerate() if not thread.name.startswith("mas-")}
    program(tmp_path, "def answer(question): return '5'")(question="?")
    assert {thread.name for thread in threading.enumerate() if not thread.name.startswith("mas-")} <= before
