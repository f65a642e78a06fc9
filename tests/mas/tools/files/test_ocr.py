"""`tools.files.ocr_languages`, from the setting to the program in the other process; a language that is not there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mas.runtime.errors import UserError
from mas.tools.files import ocr
from mas.tools.files import reader_pool as apart
from mas.tools.files.document import Document
from mas.tools.files.kinds import read_document
from mas.tools.settings import FileSettings, ToolSettings
from mas.tools.tool_context import Resources, use_tool_context
from tests.mas.tools.files.every_kind import EVERY_KIND
from tests.needs import needs

PROGRAM = """#!/bin/sh
[ "$1" = --list-langs ] && printf 'List of available languages (3):\\nchi_sim\\ndeu\\neng\\n' && exit
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
    apart.stop_workers()  # they have the PATH of before
    ocr.list_installed_languages.cache_clear()
    yield
    apart.stop_workers()
    ocr.list_installed_languages.cache_clear()


def seen(folder: Path, languages: str) -> Document:
    picture = folder / "ships.png"
    picture.write_bytes(EVERY_KIND[".png"][0])
    with use_tool_context(Resources(ToolSettings(files=FileSettings(languages)))):
        return read_document(picture)


@pytest.mark.usefixtures("tesseract")
def test_the_languages_reach_the_program_in_the_other_process(tmp_path: Path) -> None:
    [line] = [line.text for part in seen(tmp_path, "eng+deu").parts for line in part.lines]
    assert line == "called with -l eng+deu txt"
    [line] = [line.text for part in seen(tmp_path, "eng").parts for line in part.lines]
    assert line == "called with -l eng txt", "the same file again, in another run of this process"


@pytest.mark.usefixtures("tesseract")
def test_a_language_that_is_not_installed_is_named_with_its_package(tmp_path: Path) -> None:
    document = seen(tmp_path, "eng+fra+chi_tra")
    assert document.summary.startswith("picture, PNG, ")
    [note] = document.notes
    assert "does not have fra, chi_tra" in note and "tools.files.ocr_languages=eng+fra+chi_tra" in note
    assert "apt-get install tesseract-ocr-fra tesseract-ocr-chi-tra" in note


@needs("tesseract")
def test_the_tesseract_of_this_machine_tells_its_languages() -> None:
    assert "eng" in ocr.list_installed_languages()
    assert ocr.explain_missing() is None
    with ocr.use_languages("eng+no_such"):
        assert "does not have no_such" in (ocr.explain_missing() or "")


@pytest.mark.parametrize("wrong", ["", "eng,deu", "eng+", "-l", "eng deu", "../x", "eng+deu\n"])
def test_what_is_no_list_of_languages_is_refused(wrong: str) -> None:
    for right in ("eng", "eng+deu", "script/Latin", "chi_sim+eng"):
        FileSettings(right).check()
    with pytest.raises(UserError, match=r"tools\.files\.ocr_languages=.* is no list of languages; .*eng\+deu"):
        FileSettings(wrong).check()
