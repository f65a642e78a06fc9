"""What is chosen where something is missing: the next best that was asked for, and never less."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mas.tools.sandbox import deno
from mas.tools.sandbox import selection as choosing
from mas.tools.sandbox.process import Launch, ProcessSession
from mas.tools.sandbox.selection import UnsafeLocal, choose_isolation, try_isolations
from mas.tools.sandbox.session import Isolation, NotAvailableError
from mas.tools.sandbox.settings import SandboxSettings
from tests.mas.tools.sandbox.conftest import Sandbox


@pytest.fixture
def without_deno(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on the path, which tests set, nor as a Python package."""
    monkeypatch.setattr(deno, "_packaged", lambda: None)


def bwrap(folder: Path, script: str, version: str = "0.8.0") -> str:
    program = folder / "bwrap"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap {version} && exit\n{script}\n')
    program.chmod(0o755)
    return str(folder)


def test_bubblewrap_comes_first(bubblewrap: Isolation) -> None:
    choice = try_isolations("auto")
    assert choice.isolation.name == bubblewrap.name
    assert "runs Python in a jail" in choice.probe_result
    assert choose_isolation("auto") is choose_isolation("auto"), "tried once a process"


@pytest.mark.usefixtures("without_deno")
def test_without_both_everything_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    choice = try_isolations("auto")
    assert (choice.isolation.name, choice.probe_result, len(choice.refused)) == ("refuse", "", 2)
    with pytest.raises(NotAvailableError, match=r"apt-get install bubblewrap.*pip install deno"):
        asyncio.run(choice.isolation.open({}, SandboxSettings()))


@pytest.mark.usefixtures("without_deno")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'bwrap: No permissions to create a new namespace' >&2; exit 1", "No permissions to create"),
        ("exit 0", "cannot isolate here"),
        ("echo 42", "cannot isolate here"),
    ],
)
def test_bubblewrap_counts_only_if_it_runs_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    monkeypatch.setenv("PATH", f"{bwrap(tmp_path, script)}:/usr/bin:/bin")
    choice = try_isolations("bubblewrap")
    assert choice.isolation.name == "refuse"
    assert words in choice.refused[0]


@pytest.mark.usefixtures("without_deno")
def test_an_old_bubblewrap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{bwrap(tmp_path, 'exit 0', version='0.6.1')}:/usr/bin:/bin")
    assert "0.6.1 is too old; expected 0.7 or newer" in try_isolations("bubblewrap").refused[0]


def test_no_isolation_only_by_its_name_and_with_a_warning_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert not any("local" in try_isolations(kind).isolation.name for kind in ("bubblewrap", "refuse"))
    assert capsys.readouterr().err == ""
    choosing._chosen.cache_clear()
    assert [choose_isolation("unsafe_local").isolation.name for _ in range(3)] == ["unsafe_local"] * 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: tools.sandbox.kind=unsafe_local: ")


def test_refusing_is_a_choice_too() -> None:
    choice = try_isolations("refuse")
    assert (choice.isolation.name, choice.probe_result) == ("refuse", "")
    assert "tools.sandbox.kind=refuse" in choice.refused[0]


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


def test_it_is_stopped_between_two_calls_and_ends_with_the_harness_all_the_same() -> None:
    program = (
        "import asyncio, os, signal\nfrom pathlib import Path\n"
        "from mas.tools.sandbox.selection import UnsafeLocal\nfrom mas.tools.sandbox.settings import SandboxSettings\n"
        "async def main():\n"
        "    session = await UnsafeLocal().open({}, SandboxSettings())\n"
        "    await session.run('1', 60)\n"
        "    pid = session._process.pid\n    await asyncio.sleep(0.2)\n"
        "    print(pid, Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    harness = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    pid, state = harness.stdout.split()
    assert state == "T"
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


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


def test_a_plain_process_has_the_limits_of_its_settings_and_its_folder_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, waited = list[Launch](), list[bool]()

    class Started:
        def __init__(self, launch: Launch) -> None:
            started.append(launch)

        async def wait_until_ready(self) -> None:
            waited.append(True)

    monkeypatch.setattr(choosing, "ProcessSession", Started)
    (tmp_path / "a.csv").write_text("1,2")
    settings = SandboxSettings(max_output_chars=7, memory_mb=128, scratch_mb=3, seconds_per_question=9.9)
    session = asyncio.run(UnsafeLocal().open({"towns.csv": tmp_path / "a.csv"}, settings))
    assert isinstance(session, Started) and waited == [True]
    (launch,) = started
    assert launch.cwd is not None
    folder = Path(launch.cwd)
    assert [(each.name, each.read_text()) for each in folder.iterdir()] == [("towns.csv", "1,2")]
    assert (launch.max_message_bytes, launch.max_resident_bytes) == (100_140, 128 << 20)
    assert launch.env["HOME"] == launch.env["TMPDIR"] == str(folder) and launch.env["LD_LIBRARY_PATH"] == ""
    assert launch.env["PYTHONHASHSEED"] == "0" and "VIRTUAL_ENV" not in launch.env
    assert launch.pauses is choosing.DIES_WITH_PARENT
    *command, worker, given = launch.command
    assert command == [*choosing.die_with_parent(), sys.executable, "-s", "-S", "-B", "-P"]
    assert worker == str(Path(choosing.__file__).parent / "worker.py")
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    assert json.loads(given) == choosing.build_worker_settings(settings, packages)
    for _ in range(2):  # whatever was there
        for end in launch.on_end:
            end()
    assert not folder.exists()
