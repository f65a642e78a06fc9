"""Sessions that many tests share: a cell that ends one costs the next test a new one, 0.1 s, and nothing else."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mas.tools.sandbox.repl import try_isolations
from mas.tools.sandbox.session import Isolation, Reply, Session, SessionLostError
from mas.tools.settings import BUBBLEWRAP, DENO, SandboxSettings
from tests.patience import PATIENCE_SECONDS

SETTINGS = SandboxSettings(memory_mb=512)
READ_LINES = """\
export async function* readLines(reader) {
  const decoder = new TextDecoder(), bytes = new Uint8Array(65536);
  let rest = "";
  for (let read; (read = await reader.read(bytes)) !== null;) {
    const lines = (rest + decoder.decode(bytes.subarray(0, read), { stream: true })).split("\\n");
    rest = lines.pop();
    yield* lines;
  }
}
// denoCacheMetadata={"headers":{},"url":"https://deno.land/std@0.186.0/io/mod.ts"}"""


class Sandbox:
    """One isolation, one session at a time; the event loop is new for every cell."""

    def __init__(self, isolation: Isolation, files: dict[str, Path], settings: SandboxSettings) -> None:
        self.isolation, self.files, self.settings = isolation, files, settings
        self.session: Session | None = None

    def open(self) -> Session:
        self.close()
        self.session = asyncio.run(self.isolation.open(self.files, self.settings))
        return self.session

    def run(self, code: str, seconds: float = PATIENCE_SECONDS) -> Reply:
        session = self.session or self.open()
        try:
            return asyncio.run(session.run(code, seconds))
        except SessionLostError:
            self.session = None
            raise

    def lost(self, code: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Why the session was lost; the next one works."""
        with pytest.raises(SessionLostError) as found:
            self.run(code, seconds)
        self.works()
        return str(found.value)

    def error(self, code: str, seconds: float = PATIENCE_SECONDS) -> str:
        """The last line of the cell's traceback; the session has survived."""
        reply = self.run(code, seconds)
        assert reply.error, f"nothing was refused: {reply.output}{reply.value}"
        self.works()
        return reply.error.splitlines()[-1]

    def value(self, code: str, seconds: float = PATIENCE_SECONDS) -> str:
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
    isolation, refused = try_isolations(kind)
    if isolation is None:
        pytest.skip(f"{kind} is missing: {refused[-1]}")
    return isolation


@pytest.fixture(scope="session")
def bubblewrap() -> Isolation:
    return offered(BUBBLEWRAP)


@pytest.fixture(scope="session")
def deno(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolation]:
    """DSPy's interpreter, with the cache that a first start online leaves."""
    cache, module = tmp_path_factory.mktemp("deno"), hashlib.sha256(b"/std@0.186.0/io/mod.ts").hexdigest()
    own = Path(os.environ.get("DENO_DIR") or Path("~/.cache/deno").expanduser())
    if not (own / "npm").is_dir():
        pytest.skip("pyodide is missing: deno cache npm:pyodide@0.29.4")
    shutil.copytree(own / "npm", cache / "npm", copy_function=os.link)
    remote = cache / "remote" / "https" / "deno.land" / module
    remote.parent.mkdir(parents=True)
    remote.write_text(READ_LINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENO_DIR", str(cache))
        yield offered(DENO)


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
