"""The jail's command: what is bound, in which order, and where the reader's programs are looked for."""

import sys
from pathlib import Path

import pytest

from mas.runtime.security.bind_mounts import ROOT_LINKS, bind_links
from mas.tools.files import jail
from mas.tools.files.jail import PACKAGE, SYSTEM, build_jail


def build(monkeypatch: pytest.MonkeyPatch, programs: dict[str, str], **system: object) -> list[str]:
    with monkeypatch.context() as patch:
        patch.setattr(jail.shutil, "which", programs.get)
        for name, value in system.items():
            patch.setattr(sys, name, value)
        return build_jail()


def test_the_command_shuts_everything_out_and_binds_what_is_needed_for_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", "/data/tessdata")
    programs = {"bwrap": "/usr/bin/bwrap", "tesseract": "/opt/ocr/bin/tesseract", "soffice": "/usr/bin/soffice"}
    path = ["", "/repo", "/venv/lib/site-packages", "/usr/lib/python3/dist-packages", "/own/dist-packages"]
    command = build(monkeypatch, programs, platform="linux", prefix="/venv", base_prefix="/opt/python", path=path)
    bound = ["/venv", "/opt/python", "/venv/lib/site-packages", "/own/dist-packages", str(PACKAGE)]
    bound += ["/opt/ocr/bin", "/opt/ocr", "/data/tessdata"]
    assert command == [
        *("/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "reader"),
        *("--size", "536870912", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"),
        *(word for path in SYSTEM for word in ("--ro-bind-try", path, path)),
        *bind_links(ROOT_LINKS),
        *(word for path in bound for word in ("--ro-bind-try", path, path)),
        *("--remount-ro", "/", "--chdir", "/tmp", "--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", "/tmp", "--"),
    ]


def test_what_lies_in_usr_or_is_the_root_is_not_bound_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESSDATA_PREFIX", raising=False)
    command = build(
        monkeypatch,
        {"bwrap": "bwrap"},
        platform="linux",
        prefix="/usr",
        base_prefix="/",
        path=["/usr/lib/site-packages"],
    )
    after_links = command[: command.index("--remount-ro")]
    assert after_links[-3:] == ["--ro-bind-try", str(PACKAGE), str(PACKAGE)]
    assert after_links.count("/usr") == 2


def test_where_there_is_no_bubblewrap_there_is_no_jail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert build(monkeypatch, {}, platform="linux") == []
    assert build(monkeypatch, {"bwrap": "/usr/bin/bwrap"}, platform="darwin") == []


def test_the_package_is_that_of_the_harness() -> None:
    assert Path(PACKAGE).name == "mas" and (PACKAGE / "tools" / "files" / "jail.py").exists()
