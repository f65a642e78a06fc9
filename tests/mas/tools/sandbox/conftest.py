"""Sessions that many tests share: a cell that ends one costs the next test a new one, 0.1 s, and nothing else."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mas.tools.sandbox.process import ProcessSession
from mas.tools.sandbox.selection import Isolation, try_isolations
from mas.tools.sandbox.session import Reply, SessionLostError
from mas.tools.settings import BUBBLEWRAP, DENO, SandboxSettings

SETTINGS = SandboxSettings(memory_mb=512, scratch_mb=8, max_output_chars=2_000)


class Sandbox:
    """One isolation, one session at a time; the event loop is new for every cell."""

    def __init__(self, isolation: Isolation, files: dict[str, Path], settings: SandboxSettings) -> None:
        self.isolation, self.files, self.settings = isolation, files, settings
        self.session: ProcessSession | None = None

    def open(self) -> ProcessSession:
        self.close()
        self.session = asyncio.run(self.isolation.open(self.files, self.settings))
        return self.session

    def run(self, code: str, seconds: float = 20) -> Reply:
        session = self.session or self.open()
        try:
            return asyncio.run(session.run(code, seconds))
        except SessionLostError:
            self.session = None
            raise

    def lost(self, code: str, seconds: float = 20) -> str:
        """Why the session was lost; the next one works."""
        with pytest.raises(SessionLostError) as found:
            self.run(code, seconds)
        self.works()
        return str(found.value)

    def error(self, code: str, seconds: float = 20) -> str:
        """The last line of the cell's traceback; the session has survived."""
        reply = self.run(code, seconds)
        assert reply.error, f"nothing was refused: {reply.output}{reply.value}"
        self.works()
        return reply.error.splitlines()[-1]

    def value(self, code: str, seconds: float = 20) -> str:
        reply = self.run(code, seconds)
        assert not reply.error, reply.error
        return reply.value

    def works(self) -> None:
        assert self.run("6 * 7").value == "42"

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None


def offered(kind: str) -> Isolation:
    choice = try_isolations(kind)
    if not choice.probe_result:
        pytest.skip(f"{kind} is missing: {choice.refused[-1]}")
    return choice.isolation


@pytest.fixture(scope="session")
def bubblewrap() -> Isolation:
    return offered(BUBBLEWRAP)


@pytest.fixture(scope="session")
def deno() -> Isolation:
    return offered(DENO)


@pytest.fixture(scope="session")
def attachment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("question") / "towns.csv"
    path.write_text("town,people\nRome,3\nOslo,1\n")
    return path


@pytest.fixture(scope="session")
def jail(bubblewrap: Isolation, attachment: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(bubblewrap, {attachment.name: attachment}, SETTINGS)
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="session")
def wasm(deno: Isolation, attachment: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(deno, {attachment.name: attachment}, SETTINGS)
    yield sandbox
    sandbox.close()


@pytest.fixture
def fresh(bubblewrap: Isolation) -> Iterator[Callable[..., Sandbox]]:
    """Sandboxes of a test's own, with its own files and limits."""
    opened: list[Sandbox] = []

    def make(files: dict[str, Path] | None = None, **limits: float) -> Sandbox:
        sandbox = Sandbox(bubblewrap, files or {}, SandboxSettings(**{**vars(SETTINGS), **limits}))
        opened.append(sandbox)
        return sandbox

    yield make
    for sandbox in opened:
        sandbox.close()
