"""What code in the jail can read and write: its question's files and two folders of its own, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.mas.tools.sandbox.conftest import Sandbox

NOT_THERE = "FileNotFoundError: [Errno 2]"
READ_ONLY = "OSError: [Errno 30] Read-only file system"
BY_COURTESY_OF_PROC = [
    *("/proc/1/environ", "/proc/self/environ"),
    *(f"/proc/self/{link}/etc/passwd" for link in ("root", "cwd/..")),
    *("/proc/1/mem", "/proc/self/mem", "/proc/self/maps", "/proc/self/mountinfo", "/proc/1/cmdline", "/proc/kcore"),
]


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/resolv.conf", "/etc/ssl", "/root", "/home", "/var/log"),
        *(
            "/run",
            "/boot",
            "/opt",
            "/srv",
            "/mnt",
            "/sys/kernel",
            "/sys/class/net",
            "/dev/mem",
            "/dev/kmsg",
            "/dev/vda",
        ),
        *("/dev/shm", "/dev/pts", "/dev/tty", "/bin/sh", "/usr/bin/env", "/usr/bin", "/usr/sbin", "/usr/src"),
        *BY_COURTESY_OF_PROC,
    ],
)
def test_no_part_of_the_machine_is_there(jail: Sandbox, path: str) -> None:
    assert jail.error(f"import os; os.stat({path!r})").startswith(NOT_THERE)


def test_neither_home_nor_project_nor_a_neighbours_file_is_there(jail: Sandbox, tmp_path: Path) -> None:
    neighbour = tmp_path / "secret.txt"
    neighbour.write_text("of another question")
    for path in (Path.home(), PROJECT_ROOT, PROJECT_ROOT / "pyproject.toml", Path(__file__), neighbour):
        assert jail.error(f"open({str(path)!r})").startswith(NOT_THERE)


def test_the_questions_file_is_read_under_both_names(jail: Sandbox) -> None:
    assert jail.value("open('/data/towns.csv').read() == open('towns.csv').read()") == "True"
    assert jail.value("open('towns.csv').readline()") == "'town,people\\n'"
    assert jail.value("import os; os.listdir('/data')") == "['towns.csv']"


@pytest.mark.parametrize(
    "code",
    [
        *("open('/data/towns.csv', 'a')", "open('towns.csv', 'w')", "open('/data/other.csv', 'w')"),
        *("import os; os.remove('/data/towns.csv')", "import os; os.rename('/data/towns.csv', '/data/a')"),
        *("import os; os.chmod('/data/towns.csv', 0o666)", "import os; os.truncate('/data/towns.csv', 0)"),
        *("import os; os.utime('/data/towns.csv')", "import os; os.symlink('/tmp', '/data/link')"),
    ],
)
def test_the_questions_file_cannot_be_changed(jail: Sandbox, attachment: Path, code: str) -> None:
    before = attachment.read_bytes(), attachment.stat()
    assert READ_ONLY in jail.error(code) or "Device or resource busy" in jail.error(code)
    assert (attachment.read_bytes(), attachment.stat().st_mode) == (before[0], before[1].st_mode)


@pytest.mark.parametrize(
    "folder",
    [
        "/",
        "/etc",
        "/dev",
        "/data",
        "/sandbox",
        "/python",
        "/python/lib",
        "/packages",
        "/packages/0",
        "/usr",
        "/usr/lib",
    ],
)
def test_nothing_else_can_be_written(jail: Sandbox, folder: str) -> None:
    if "True" not in jail.value(f"import os; os.path.isdir({folder!r})"):
        pytest.skip(f"{folder}: this Python is installed elsewhere")
    assert jail.error(f"open('{folder}/new', 'w')").startswith(READ_ONLY)


def test_links_lead_nowhere_outside(jail: Sandbox) -> None:
    assert jail.error("import os; os.symlink('/etc/passwd', '/scratch/p'); open('/scratch/p')").startswith(NOT_THERE)
    assert jail.error("open('/scratch/../../../etc/passwd')").startswith(NOT_THERE)
    assert "Errno" in jail.error("import os; os.link('/data/towns.csv', '/scratch/hard'); open('/scratch/hard', 'w')")
    assert jail.error("import os; os.mknod('/scratch/disk', 0o60600, os.makedev(254, 0))").startswith("PermissionError")


def test_the_roots_parent_is_the_root(jail: Sandbox) -> None:
    assert jail.value("import os; os.path.samefile('/', '/../..')") == "True"
    found = set(jail.value("import os; ' '.join(sorted(os.listdir('/')))").strip("'").split())
    assert found <= {"data", "dev", "etc", "packages", "python", "sandbox", "scratch", "tmp", "usr"} | {
        path.name for path in Path("/").iterdir() if path.name.startswith("lib")
    }


def test_a_file_with_a_strange_name_is_that_file_alone(fresh: Callable[..., Sandbox], tmp_path: Path) -> None:
    odd = tmp_path / "--bind x\n'.csv"
    odd.write_text("odd")
    sandbox = fresh({odd.name: odd, "..": tmp_path, "gone.csv": tmp_path / "gone.csv"})
    assert sandbox.value(f"open({odd.name!r}).read()") == "'odd'"
    assert sandbox.value("import os; len(os.listdir('/data'))") == "1"


def test_two_sessions_share_no_folder(jail: Sandbox, fresh: Callable[..., Sandbox]) -> None:
    jail.value("open('/tmp/mine', 'w').write('x'); open('/scratch/mine', 'w').write('x')")
    assert fresh().value("import os; os.listdir('/tmp') + os.listdir('/scratch')") == "[]"
    assert not Path("/tmp/mine").exists()
