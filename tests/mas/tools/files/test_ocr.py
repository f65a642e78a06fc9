"""Text in pictures is read in every language that the installed tesseract has, by the program in the other process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mas.tools.files.kinds import read_document
from mas.tools.files.reader_pool import stop_workers
from tests.mas.tools.files.every_kind import EVERY_KIND

PROGRAM = """#!/bin/sh
[ "$1" = --list-langs ] && printf 'List of available languages (4):\\nchi_sim\\ndeu\\neng\\nosd\\n' && exit
out=$2; shift 2; echo "called with $*" > "$out.txt"
"""


@pytest.fixture
def tesseract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that has three languages, and tells how it was called."""
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    stop_workers()  # they have the PATH of before
    yield
    stop_workers()


@pytest.mark.usefixtures("tesseract")
def test_the_languages_reach_the_program_in_the_other_process(tmp_path: Path) -> None:
    picture = tmp_path / "ships.png"
    picture.write_bytes(EVERY_KIND[".png"][0])
    [line] = [line.text for part in read_document(picture).parts for line in part.lines]
    assert line == "called with -l eng+chi_sim+deu txt"
