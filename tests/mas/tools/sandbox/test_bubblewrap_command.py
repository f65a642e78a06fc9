"""The jail's command line, without a jail: what is shut, what is bound, and where."""

import asyncio
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mas.tools.sandbox import bubblewrap, seccomp
from mas.tools.sandbox.bubblewrap import (
    INSTALL,
    Bubblewrap,
    _build_command,
    _InnerPid,
    _open_filter,
    build_worker_settings,
    find_installation,
    find_program,
)
from mas.tools.sandbox.process import Launch
from mas.tools.sandbox.session import NotAvailableError
from mas.tools.sandbox.settings import SandboxSettings

LEADING = ["--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
SHUT = ["--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--more", "--clearenv"]


def command(version: tuple[int, ...] = (0, 8, 0), **files: Path) -> list[str]:
    return _build_command("bwrap", version, 1_000, {f"{name}.csv": path for name, path in files.items()}, ["--more"])


@pytest.mark.parametrize(
    ("version", "disables"), [((0, 7, 9), False), ((0, 8), True), ((0, 8, 0), True), ((1, 0), True)]
)
def test_everything_is_shut_before_anything_is_bound(version: tuple[int, ...], disables: bool) -> None:
    assert command(version)[: 16 + disables] == ["bwrap", *LEADING, *["--disable-userns"] * disables, *SHUT]


def test_folders_in_memory_have_a_size_and_the_root_is_read_only() -> None:
    made = command()
    assert made[-5:] == ["--remount-ro", "/", "--chdir", "/scratch", "--"]
    sized = [made[at - 2 : at + 2] for at, word in enumerate(made) if word == "--tmpfs"]
    assert sized == [["--size", "1000", "--tmpfs", folder] for folder in ("/tmp", "/scratch")]
    assert made.count("--setenv") == len(bubblewrap.ENVIRONMENT)


def test_only_devices_are_bound_writable_and_the_harness_is_its_two_programs(tmp_path: Path) -> None:
    made = command()
    assert [made[at + 1 : at + 3] for at, word in enumerate(made) if word == "--dev-bind"] == [
        [device] * 2 for device in bubblewrap.DEVICES
    ]
    assert "--bind" not in made
    bound = {made[at + 2]: made[at + 1] for at, word in enumerate(made) if word in ("--ro-bind", "--ro-bind-try")}
    assert {target for target in bound if target.startswith("/sandbox")} == {
        "/sandbox/worker.py",
        "/sandbox/notebook.py",
    }
    assert find_installation().items() <= {source: target for target, source in bound.items()}.items()
    assert {path for path in bound.values() if "site-packages" in path} >= set(bubblewrap._find_site_packages())


def test_an_attachment_is_bound_by_its_bare_name_if_it_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "other.csv"
    assert str(file) not in command(towns=file)
    file.write_text("a,b\n")
    made = command(towns=file)
    at = made.index(str(file))
    bound = ["--ro-bind", str(file), "/data/towns.csv", "--symlink", "/data/towns.csv", "/scratch/towns.csv"]
    assert made[at - 1 : at + 5] == bound
    assert str(file) not in _build_command("bwrap", (0, 8), 1, {"../towns.csv": file}, ())


def test_the_worker_has_the_limits_of_the_settings() -> None:
    settings = SandboxSettings(max_output_chars=7, memory_mb=128, scratch_mb=3, seconds_per_question=9.9)
    assert build_worker_settings(settings, ["/packages/0"]) == {
        "max_chars": 7,
        "packages": ["/packages/0"],
        "open_files": 64,
        "memory_bytes": 128 * 1024 * 1024,
        "file_bytes": 3 * 1024 * 1024,
        "cpu_seconds": 14,
    }


Say = Callable[[str], Path]


@pytest.fixture
def says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Put a program named bwrap on the path, of which the lines are given."""

    def make(script: str) -> Path:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    monkeypatch.setenv("PATH", str(tmp_path))
    return make


@pytest.mark.parametrize(
    ("said", "version"), [("bubblewrap 0.7.0", (0, 7, 0)), ("bubblewrap 0.7", (0, 7)), ("bubblewrap 1.0.2", (1, 0, 2))]
)
def test_the_program_on_the_path_is_found_with_its_version(said: str, version: tuple[int, ...], says: Say) -> None:
    program = says(f'[ "$1" = --version ] && echo "{said}"')
    assert find_program() == (str(program), version)


def count_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def refuse() -> str:
    with pytest.raises(NotAvailableError) as caught:
        find_program()
    return str(caught.value)


def test_a_program_that_is_missing_too_old_or_broken_is_none(says: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refuse() == f"bubblewrap is not installed: {INSTALL}."
    says("echo bubblewrap 0.6.9")
    assert refuse() == "bubblewrap 0.6.9 is too old; expected 0.7 or newer."

    def fail(*_: object, **__: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(subprocess, "run", fail)
    assert refuse() == "bubblewrap does not start (PermissionError)."


@pytest.mark.parametrize(("system", "machine"), [("linux", "riscv64"), ("darwin", "x86_64")])
def test_other_systems_and_processors_have_no_filter(
    system: str, machine: str, says: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    says("echo bubblewrap 0.8.0")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", system)
    assert refuse() == f"bubblewrap is used on Linux on x86_64 and aarch64, not on {system} {machine}."


@pytest.mark.skipif(seccomp.build_program(platform.machine()) is None, reason="no filter for this processor")
@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("echo '42 []'", None),
        ("echo '42 [1]'", "bubblewrap cannot isolate here (exit 0)."),
        ("echo '42 []'; exit 3", "bubblewrap cannot isolate here (exit 3)."),
        ("printf 'a\\nb c\\n' >&2; exit 1", "bubblewrap cannot isolate here (b c)."),
        (f"echo {'x' * 300} >&2; exit 1", f"bubblewrap cannot isolate here ({'x' * 200})."),
        (
            "echo 'bwrap: no user namespaces' >&2; exit 1",
            "bubblewrap cannot isolate here (bwrap: no user namespaces); allow user namespaces on this machine or "
            "container.",
        ),
    ],
)
def test_a_program_is_tried_with_one_line_of_python(end: str, message: str | None, says: Say) -> None:
    before = count_files()
    says(f'[ "$1" = --version ] && echo bubblewrap 0.8.1 && exit\n[ "$1" = --seccomp ] || exit 9\n{end}')
    if message is None:
        assert Bubblewrap().probe() == "bubblewrap 0.8.1 runs Python in a jail"
    else:
        with pytest.raises(NotAvailableError) as caught:
            Bubblewrap().probe()
        assert str(caught.value) == message
    assert count_files() == before


@pytest.mark.skipif(seccomp.build_program(platform.machine()) is None, reason="no filter for this processor")
def test_a_program_that_does_not_end_is_none(says: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    says('[ "$1" = --version ] && echo bubblewrap 0.8.1 && exit\nexec /bin/sleep 60')
    isolation = Bubblewrap()
    assert isolation._program[1] == (0, 8, 1)
    monkeypatch.setattr(bubblewrap, "PROBE_SECONDS", 0.05)
    with pytest.raises(NotAvailableError, match=r"^bubblewrap cannot isolate here \(TimeoutExpired\)\.$"):
        isolation.probe()


@pytest.mark.skipif(seccomp.build_program(platform.machine()) is None, reason="no filter for this processor")
def test_the_filter_is_read_from_a_pipe_that_has_an_end() -> None:
    end = _open_filter()
    with os.fdopen(end, "rb") as file:
        assert file.read() == seccomp.build_program(platform.machine())


def test_the_pid_of_the_jail_is_known_once_it_is_told_whole() -> None:
    read, write = os.pipe()
    inner = _InnerPid(read)
    assert inner.read() is None
    os.write(write, b'{"child-pid"')
    assert inner.read() is None
    os.write(write, b": 417}")
    assert (inner.read(), inner.read()) == (417, 417)
    inner.close()
    inner.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)
    assert inner.read() == 417
    os.close(write)


def test_a_jail_that_tells_no_pid_has_none() -> None:
    read, write = os.pipe()
    inner = _InnerPid(read)
    os.write(write, b"{}")
    os.close(write)
    assert inner.read() is None
    inner.close()
    assert inner.read() is None


def test_a_python_of_the_system_is_there_already_and_another_one_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = (tmp_path / "python").resolve()
    for folder in ("bin", "lib"):
        (base / folder).mkdir(parents=True)
    (base / "bin" / "python3").touch()
    (tmp_path / "link").symlink_to(base / "bin" / "python3")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "link"))
    monkeypatch.setattr(sys, "base_prefix", str(base))
    find = find_installation.__wrapped__
    assert find() == {str(base / "bin" / "python3"): "/python/bin/python3", str(base / "lib"): "/python/lib"}
    (base / "lib64").mkdir()
    assert find()[str(base / "lib64")] == "/python/lib64"
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "elsewhere"))
    with pytest.raises(NotAvailableError, match="is not in its own installation; use another Python"):
        find()
    for system in ("/usr", "/usr/local"):
        monkeypatch.setattr(sys, "base_prefix", system)
        monkeypatch.setattr(sys, "executable", f"{system}/bin/no-such-python")
        assert find() == {f"{system}/bin/no-such-python": f"{system}/bin/no-such-python"}


def test_python_runs_without_packages_of_the_user_and_writes_nothing() -> None:
    python = bubblewrap._python_command()
    assert python == [find_installation()[str(Path(sys.executable).resolve())], "-s", "-S", "-B", "-P"]
    assert bubblewrap._name_packages() == [f"/packages/{n}" for n in range(len(bubblewrap._find_site_packages()))]


@pytest.mark.skipif(seccomp.build_program(platform.machine()) is None, reason="no filter for this processor")
def test_a_session_is_started_with_the_limits_of_its_settings(
    says: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, waited = list[Launch](), list[bool]()

    class Started:
        def __init__(self, launch: Launch) -> None:
            started.append(launch)

        async def wait_until_ready(self) -> None:
            waited.append(True)

    monkeypatch.setattr(bubblewrap, "ProcessSession", Started)
    program = says("echo bubblewrap 0.8.1")
    file = tmp_path / "towns.csv"
    file.write_text("a")
    settings = SandboxSettings(max_output_chars=7, memory_mb=128, scratch_mb=3, seconds_per_question=9.9)
    session = asyncio.run(Bubblewrap().open({"towns.csv": file}, settings))
    assert isinstance(session, Started) and waited == [True]
    (launch,) = started
    filter_end, info_end = launch.pass_fds
    more = ["--seccomp", str(filter_end), "--info-fd", str(info_end)]
    jail = _build_command(str(program), (0, 8, 1), 3 << 20, {"towns.csv": file}, more)
    assert launch.command[: len(jail)] == jail
    *python, worker, given = launch.command[len(jail) :]
    assert (python, worker) == (bubblewrap._python_command(), "/sandbox/worker.py")
    assert json.loads(given) == build_worker_settings(settings, bubblewrap._name_packages())
    assert (launch.max_message_bytes, launch.max_resident_bytes) == (100_140, 128 << 20)
    assert (launch.env, launch.folders, launch.pauses) == ({}, ("/tmp", "/scratch"), True)
    os.write(info_end, b'{"child-pid": 5}')
    assert launch.inner_pid() == 5
    for end in launch.on_end:
        end()
    for number in launch.pass_fds:
        os.close(number)
