"""The callable system as a program: threads and loops, files, models, tuning, and failures of a user's code."""

from pathlib import Path
from typing import Any

import pytest

from mas.runtime.errors import AgentReplyError, AgentUnavailableError
from mas.runtime.event_loop import run_blocking
from mas.runtime.trace import Trace, record_trace
from mas.systems.external.system import CallableSystem
from mas.tools.settings import Resources
from tests.mas.systems.external.user_code import AnyonesModel, module


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
        "import threading\nfrom mas.runtime.trace import current_trace, span\n"
        "def answer(question, file):\n"
        "    with span('tool', 'lookup'):\n"
        "        return {'answer': threading.current_thread().name, 'reasoning': current_trace().thread_id, 'n': 1}\n"
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
    "nothing": ("return None", AgentReplyError, "returned None"),
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


def test_a_questions_deadline_still_cancels_a_coroutine(tmp_path: Path) -> None:
    agent = program(tmp_path, "import asyncio\nasync def answer(question): await asyncio.sleep(60)")

    async def hurried() -> None:
        import asyncio

        async with asyncio.timeout(0.05):
            await agent.acall(question="?")

    with pytest.raises(TimeoutError):
        run_blocking(hurried())


def test_dspy_inside_a_plain_function_gets_the_runs_model_too(tmp_path: Path) -> None:
    source = "import dspy\ndef answer(question): return dspy.Predict('question -> answer')(question=question)"
    agent = program(tmp_path, source, "answer", AnyonesModel(answer="42"), needs_model=True)
    assert agent(question="?").final_answer == "42"
