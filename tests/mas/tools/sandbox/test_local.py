"""The plain process: not shut in, yet limited, ended and tidied up; and how any session's pipes are watched."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mas.tools.sandbox.process import Launch, ProcessSession
from mas.tools.sandbox.selection import UnsafeLocal
from mas.tools.sandbox.session import NotAvailableError
from mas.tools.sandbox.settings import SandboxSettings
from tests.mas.tools.sandbox.conftest import Sandbox


@pytest.fixture
def local(attachment: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(UnsafeLocal(), {attachment.name: attachment}, SandboxSettings(memory_mb=256, scratch_mb=4))
    yield sandbox
    sandbox.close()


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("mas-python-*"))


def test_it_works_as_the_jail_does_on_a_copy_of_the_files(
    local: Sandbox, attachment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-this-must-never-be-inside")
    before = folders()
    assert local.value("open('towns.csv').readline()") == "'town,people\\n'"
    local.value("open('towns.csv', 'w').write('changed')")
    assert attachment.read_text().startswith("town,")
    assert local.value("import os; 'OPENAI_API_KEY' in os.environ") == "False"
    local.close()
    until = time.monotonic() + 5
    while folders() - before and time.monotonic() < until:
        time.sleep(0.01)
    assert folders() == before


def test_its_limits_hold(local: Sandbox) -> None:
    assert local.error("x = bytearray(10**9)") == "MemoryError"
    assert local.lost("while True: pass", seconds=0.3) == "the code ran longer than 0.3 s"
    assert local.error("open('big', 'wb').write(bytes(10**7))").startswith("OSError: [Errno 27]")


def test_a_pipe_closed_by_code_that_runs_on_does_not_hold_up_the_harness(local: Sandbox) -> None:
    begun = time.monotonic()
    assert "disturbed" in local.lost("import os; os.close(4)\nwhile True: pass", seconds=30)
    assert time.monotonic() - begun < 15


def test_a_program_that_is_not_there_or_says_no_is_told_with_its_words() -> None:
    def launch(*command: str) -> Launch:
        return Launch(command, env={}, max_message_bytes=100, max_resident_bytes=1 << 30)

    with pytest.raises(NotAvailableError, match="/no/such/program could not be started: No such file"):
        ProcessSession(launch("/no/such/program"))
    with pytest.raises(NotAvailableError, match=r"exit code 3\) \(no user namespaces"):
        asyncio.run(ProcessSession(launch("/bin/sh", "-c", "echo no user namespaces >&2; exit 3")).wait_until_ready())
