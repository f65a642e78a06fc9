"""The jail's command line, without a jail: what is shut, what is bound, and where."""

from pathlib import Path

import pytest

from mas.tools.sandbox import bubblewrap
from mas.tools.sandbox.bubblewrap import _build_command, build_worker_settings, find_installation
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
