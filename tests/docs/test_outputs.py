"""Outputs that the pages show: they are what the commands print, except for times, folders and `…`."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT

VARIES = re.compile(r"time:|\$ |…|results:|^\s*$")


def read_block(page: str, ends: str) -> tuple[str, list[str]]:
    """Return the command of a text block and the lines that it prints."""
    blocks = re.findall(r"^```text\n(.*?)^```", (PROJECT_ROOT / "docs" / page).read_text("utf-8"), re.M | re.S)
    [found] = [part for block in blocks for part in block.split("\n\n$ ") if ends in part.partition("\n")[0] + "\n"]
    command, _, printed = found.partition("\n")
    return command.removeprefix("$ ").partition("  #")[0].strip(), printed.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "ends", "more", "code"),
    [
        ("how-to/ask.md", 'ask.py "What is 17 * 23?" model=offline\n', (), 0),
        ("how-to/ask.md", 'ask.py "What is 17 * 23?"\n', (), 1),
        ("how-to/evaluate.md", "limit=12 run.epochs=3", ("tracking=off",), 2),
    ],
)
def test_the_output_on_the_page_is_what_the_command_prints(
    page: str, ends: str, more: tuple[str, ...], code: int, tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    command, shown = read_block(page, ends)
    words = shlex.split(command.removeprefix("python "))
    if "run.py" in words[0]:
        more = (*more, f"run.dir={tmp_path / 'run'}")
    ended = subprocess.run(
        [sys.executable, *words, *more], cwd=PROJECT_ROOT, env=clean_environment, capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stderr
    printed = ended.stdout + ended.stderr
    assert [line for line in shown if not VARIES.search(line) and line.strip() not in printed] == []
