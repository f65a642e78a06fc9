"""The page on extending, followed in a copy of the checkout: its files are written and its commands run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.docs.checkout import Checkout, copy_checkout

PAGE = (PROJECT_ROOT / "docs/how-to/extend.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (An? [\w ]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def change(text: str, lines: list[str]) -> str:
    """Return a text with one stretch of lines changed: " " is there before and after, "-" before, "+" after."""
    before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
    after = "\n".join(line[1:] for line in lines if not line.startswith("-"))
    assert text.count(f"{before}\n") == 1, f"these lines are not there exactly once:\n{before}"
    return text.replace(f"{before}\n", f"{after}\n")


def write_files(checkout: Checkout, section: str) -> set[str]:
    """Write the files of a section; return their names."""
    written = set()
    for language, text in BLOCK.findall(section):
        first, _, rest = text.partition("\n")
        if language == "diff":
            name = first.removeprefix("+++ ")
            checkout.write(name, change((checkout.root / name).read_text("utf-8"), rest.splitlines()))
        elif language in ("python", "yaml", "text") and first.startswith("# "):
            name = first.removeprefix("# ")
            checkout.write(name, rest if language == "text" else text)
        else:
            continue
        written.add(name)
    return written


@pytest.fixture
def checkout(tmp_path: Path, clean_environment: dict[str, str]) -> Checkout:
    return copy_checkout(tmp_path / "checkout", clean_environment)


def test_the_page_has_a_section_for_everything_in_its_table() -> None:
    assert list(SECTIONS) == [f"A{name[1:]}" for name in re.findall(r"^\| \[(an? [\w ]+)\]", PAGE, re.MULTILINE)]
    assert len(SECTIONS) == 7


@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_following_a_section_works(title: str, checkout: Checkout) -> None:
    written = write_files(checkout, SECTIONS[title])
    row = re.search(rf"^\| \[{title.lower()}\].*\| (.*) \|$", PAGE, re.MULTILINE)
    assert row and written
    listed = re.findall(r"`([^`]+)`", row[1])
    assert [name for name in written if not any(name == each or name.startswith(each) for each in listed)] == []
    assert [each for each in listed if not any(name == each or name.startswith(each) for name in written)] == []
    commands = [text for language, text in BLOCK.findall(SECTIONS[title]) if language == "sh"]
    assert commands
    for command in commands:
        checkout.run(re.sub(r"(python (?:eval|optimize)/run\.py)", r"\1 tracking=off", command), 0, 2)
    python = sorted(name for name in written if name.endswith(".py"))
    if python:
        ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--quiet", *python]
        checked = subprocess.run(ruff, cwd=checkout.root, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
