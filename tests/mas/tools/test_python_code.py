"""python_repl_tool as an agent meets it: state for a question, limits that say what to do, and nothing left behind."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.tools.attachments import use_attachments
from mas.tools.results import ToolError
from mas.tools.sandbox.repl import NO_OUTPUT, STATE_KEY, python_repl_tool
from mas.tools.settings import BUBBLEWRAP, Resources, SandboxSettings, ToolSettings, use_tool_context
from tests.needs import skip_without


@pytest.fixture(autouse=True, scope="module")
def _bubblewrap() -> None:
    skip_without("bubblewrap")


@contextmanager
def question(files: list[Path] | None = None, **limits: Any) -> Iterator[SampleContext]:
    settings = ToolSettings()
    settings.sandbox = SandboxSettings(**{"kind": BUBBLEWRAP, "memory_mb": 512, **limits})  # type: ignore[attr-defined,unused-ignore]
    with (
        use_tool_context(Resources(settings)),
        use_attachments(files or []),
        use_context(SampleContext(SampleKey("q1"))) as at,
    ):
        try:
            yield at
        finally:
            at.close()


def calls(*cells: str) -> list[str]:
    """What each cell is answered, errors as `error: …`."""

    async def call(cell: str) -> str:
        try:
            return await python_repl_tool(cell)
        except ToolError as error:
            return f"error: {error}"

    async def one_after_the_other() -> list[str]:
        return [await call(cell) for cell in cells]

    return asyncio.run(one_after_the_other())


def test_variables_last_as_long_as_the_question() -> None:
    with question():
        assert calls("x = 20", "print('so:'); x + 1", "x / 0") == [
            NO_OUTPUT,
            "so:\n21",
            "Traceback (most recent call last):\n"
            '  File "<call 3>", line 1, in <module>\n    x / 0\n    ~~^~~\n'
            "ZeroDivisionError: division by zero",
        ]
    with question():
        assert "NameError: name 'x' is not defined" in calls("x")[0]


def test_the_questions_files_are_there_and_no_others(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.csv", tmp_path / "other.csv"
    for path in (mine, other):
        path.write_text(f"I am {path.name}")
    with question([mine]):
        (answer,) = calls("import os; open('mine.csv').read(), open('/data/mine.csv').read(), os.listdir('/data')")
    assert answer == "('I am mine.csv', 'I am mine.csv', ['mine.csv'])"


def test_after_a_stop_the_agent_is_told_twice_that_variables_are_lost() -> None:
    with question(seconds_per_call=0.4):
        stopped, fresh, settled = calls("x = 1\nwhile True: pass", "'x' in globals()", "1")
    assert stopped.startswith("error: python was stopped: the code ran longer than 0.4 s. All variables are lost")
    assert fresh == "False"
    assert settled == "1"


def test_code_is_bounded_and_wanted() -> None:
    with question() as at:
        long, empty = calls("x" * 20_001, "  \n")
        assert long == "error: The code has 20001 characters; at most 20000 are run: split it."
        assert empty.startswith("error: The code is empty")
        assert STATE_KEY not in at.tool_state, "nothing was started"


def test_calls_made_side_by_side_take_turns_in_one_session() -> None:
    async def eight() -> list[str]:
        await python_repl_tool("found = []")
        return await asyncio.gather(*(python_repl_tool(f"found.append({n}); len(found)") for n in range(8)))

    with question():
        assert sorted(asyncio.run(eight())) == [str(n) for n in range(1, 9)]


def test_the_end_of_the_question_ends_its_python() -> None:
    async def end_while_running(at: SampleContext) -> None:
        running = asyncio.create_task(python_repl_tool("while True: pass"))
        await asyncio.sleep(0.3)
        at.close()
        with pytest.raises(ToolError, match="the question is over"):
            await running
        with pytest.raises(ToolError, match="the question is over"):
            await python_repl_tool("1")

    with question() as at:
        asyncio.run(end_while_running(at))


def test_a_cancelled_call_loses_the_session_and_the_next_says_so() -> None:
    async def cancelled() -> str:
        await python_repl_tool("x = 1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(python_repl_tool("while True: pass"), 0.2)
        return await python_repl_tool("'x' in globals()")

    with question():
        assert asyncio.run(cancelled()) == "False"


def test_refused_where_nothing_can_shut_it_in() -> None:
    with question(kind="refuse"):
        (answer,) = calls("1")
    assert answer.startswith("error: python is not available: ")
    assert "tools.sandbox.kind=refuse" in answer
