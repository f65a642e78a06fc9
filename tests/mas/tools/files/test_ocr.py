"""Text in pictures is read in the languages of the installed tesseract, up to five, in the other process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mas.tools.files.kinds import read_document
from mas.tools.files.reader_pool import stop_workers
from tests.mas.tools.files.every_kind import EVERY_KIND

PROGRAM = """#!/bin/sh
[ "$1" = --list-langs ] && printf 'List of available languages:\\nchi_sim\\ndeu\\neng\\nosd\\nMORE' && exit
out=$2; shift 2; echo "called with $*" > "$out.txt"
"""


@pytest.fixture
def tesseract(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that has three languages and more, and tells how it was called."""
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text(PROGRAM.replace("MORE", request.param))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    stop_workers()  # they have the PATH of before
    yield
    stop_workers()


@pytest.mark.usefixtures("tesseract")
@pytest.mark.parametrize(
    ("tesseract", "languages"),
    [("", "eng+chi_sim+deu"), ("fra\\nita\\nspa\\n", "eng+chi_sim+deu+fra+ita")],
    indirect=["tesseract"],
)
def test_the_languages_reach_the_program_in_the_other_process(languages: str, tmp_path: Path) -> None:
    picture = tmp_path / "ships.png"
    picture.write_bytes(EVERY_KIND[".png"][0])
    [line] = [line.text for part in read_document(picture).parts for line in part.lines]
    assert line == f"called with -l {languages} txt"
