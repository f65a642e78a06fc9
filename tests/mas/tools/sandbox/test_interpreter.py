"""Time, loss and end of a question's interpreter, with an isolation that is scripted."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mas.tools.sandbox import interpreter as module
from mas.tools.sandbox.interpreter import Interpreter, TimeSpentError
from mas.tools.sandbox.session import Reply, SessionLostError
from mas.tools.sandbox.settings import SandboxSettings


@dataclass
class Scripted:
    """Isolation, choice of it and session in one; each cell takes as many seconds as its code says."""

    now: float = 0.0
    opened: int = 0
    closed: int = 0
    allowed: list[float] = field(default_factory=list)
    on_open: Callable[[], None] = lambda: None

    @property
    def isolation(self) -> "Scripted":
        return self

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> "Scripted":
        self.opened += 1
        self.on_open()
        return self

    async def run(self, code: str, seconds: float) -> Reply:
        self.allowed.append(seconds)
        self.now += float(code.removesuffix("!"))
        if code.endswith("!"):
            raise SessionLostError("it broke")
        return Reply(value=code)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    made = Scripted()
    monkeypatch.setattr(module, "choose_isolation", lambda kind: made)
    monkeypatch.setattr(module, "now", lambda: made.now)
    return made


def interpreter() -> Interpreter:
    return Interpreter(SandboxSettings(seconds_per_call=30, seconds_per_question=50), {})


def run_cells(*codes: str) -> list[bool]:
    """Return of each cell that did not end its session whether it says that variables are lost."""

    async def run() -> list[bool]:
        python, said = interpreter(), []
        for code in codes:
            if code.endswith("!"):
                with pytest.raises(SessionLostError):
                    await python.run(code)
            else:
                said.append((await python.run(code)).fresh_after_loss)
        return said

    return asyncio.run(run())


def test_a_call_has_its_seconds_and_what_the_question_has_left(scripted: Scripted) -> None:
    with pytest.raises(TimeSpentError):
        run_cells("10", "25", "15", "0")
    assert scripted.allowed == [30, 30, 15], "the third used up the question's seconds exactly"
    assert scripted.opened == 1


def test_the_seconds_of_a_call_that_was_stopped_count(scripted: Scripted) -> None:
    run_cells("30!", "1")
    assert scripted.allowed == [30, 20]


def test_a_loss_is_said_once_by_the_next_call(scripted: Scripted) -> None:
    assert run_cells("1", "2", "3!", "4", "5", "6!", "7!", "8", "9") == [False, False, True, False, True, False]
    assert scripted.opened == 4


def test_nothing_runs_after_the_question(scripted: Scripted) -> None:
    async def run() -> None:
        python = interpreter()
        python.close()
        assert scripted.closed == 0, "nothing was open"
        with pytest.raises(SessionLostError, match="the question is over"):
            await python.run("1")
        assert scripted.opened == 0
        python = interpreter()
        await python.run("1")
        python.close()
        assert scripted.closed == 1

    asyncio.run(run())


def test_a_session_that_opens_as_the_question_ends_is_closed(scripted: Scripted) -> None:
    python = interpreter()
    scripted.on_open = python.close
    with pytest.raises(SessionLostError, match="the question is over"):
        asyncio.run(python.run("1"))
    assert (scripted.closed, scripted.allowed) == (1, [])


def test_the_isolation_that_the_settings_name_gets_the_files_and_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    class Asked(Scripted):
        async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> Scripted:
            asked.extend((files, settings))
            return await super().open(files, settings)

    made = Asked()

    def choose(kind: str) -> Scripted:
        asked.append(kind)
        return made

    monkeypatch.setattr(module, "choose_isolation", choose)
    settings, files = SandboxSettings(kind="deno"), {"a.csv": Path("/data/a.csv")}
    cell = asyncio.run(Interpreter(settings, files).run("1"))
    assert cell == module.Cell(Reply(value="1"), fresh_after_loss=False)
    assert asked == ["deno", files, settings]


def test_cells_of_one_question_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Slow(Scripted):
        async def run(self, code: str, seconds: float) -> Reply:
            order.append(f"{code} begins")
            await asyncio.sleep(0)
            order.append(f"{code} ends")
            return Reply()

    made = Slow()
    monkeypatch.setattr(module, "choose_isolation", lambda kind: made)

    async def run() -> None:
        python = interpreter()
        await asyncio.gather(python.run("1"), python.run("2"))

    asyncio.run(run())
    assert order == ["1 begins", "1 ends", "2 begins", "2 ends"] and made.opened == 1
