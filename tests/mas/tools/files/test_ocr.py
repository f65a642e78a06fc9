"""`tools.files.ocr_languages`, from the setting to the program in the other process; a language that is not there."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from mas.runtime.errors import UserError
from mas.tools.files import ocr
from mas.tools.files import reader_pool as apart
from mas.tools.files.document import Document
from mas.tools.files.kinds import read_document
from mas.tools.files.settings import FileSettings
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources, use_tool_context
from tests.mas.tools.files.every_kind import EVERY_KIND

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
        return Document.unpack(read_document(picture).packed)


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
    assert document.notes == [
        "The text in it cannot be read here: tesseract does not have fra, chi_tra, which "
        "tools.files.ocr_languages=eng+fra+chi_tra asks for; it has chi_sim, deu, eng "
        "(apt-get install tesseract-ocr-fra tesseract-ocr-chi-tra)."
    ]


@pytest.mark.skipif(not ocr.is_installed(), reason="no tesseract")
def test_the_tesseract_of_this_machine_tells_its_languages() -> None:
    assert "eng" in ocr.list_installed_languages()
    assert ocr.explain_missing() is None
    with ocr.use_languages("eng+no_such"):
        assert "does not have no_such" in (ocr.explain_missing() or "")


@pytest.mark.parametrize("wrong", ["", "eng,deu", "eng+", "-l", "eng deu", "../x", "eng+deu\n"])
def test_what_is_no_list_of_languages_is_refused(wrong: str) -> None:
    with pytest.raises(UserError, match=r"tools\.files\.ocr_languages=.* is no list of languages; .*eng\+deu"):
        FileSettings(wrong).check()


@pytest.mark.parametrize("right", ["eng", "eng+deu", "script/Latin", "chi_sim+eng"])
def test_codes_are_tesseracts(right: str) -> None:
    FileSettings(right).check()


@pytest.mark.parametrize(
    ("size", "prepared"),
    [((100, 40), (200, 80)), ((400, 800), (500, 1_000)), ((1_000, 10), (1_000, 10)), ((3_000, 500), (3_000, 500)),
     ((8_000, 100), (4_000, 50)), ((2, 8_000), (1, 4_000))],
)  # fmt: skip
def test_a_small_picture_is_enlarged_at_most_twofold_and_a_large_one_reduced(
    size: tuple[int, int], prepared: tuple[int, int]
) -> None:
    found = ocr._prepare(Image.new("RGBA", size, (0, 0, 0, 0)))
    assert (found.size, found.mode, found.getextrema()) == (prepared, "L", (255, 255)), "what is transparent is white"


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What the program is asked for its languages with; it lists two, or fails as the last of them says."""
    asked: list[object] = []

    def run(command: list[str], **how: object) -> subprocess.CompletedProcess[str]:
        if asked and isinstance(asked[-1], Exception):
            raise asked[-1]
        asked.append((command, how))
        return subprocess.CompletedProcess(command, 0, "List of languages (2):\n deu \n\neng\n", "")

    monkeypatch.setattr(subprocess, "run", run)
    ocr.list_installed_languages.cache_clear()
    yield asked
    ocr.list_installed_languages.cache_clear()


def test_the_languages_are_asked_for_once_and_are_the_lines_below_the_heading(
    listed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    monkeypatch.setenv("TESSDATA_PREFIX", "/opt/tessdata")
    assert ocr.list_installed_languages() == ocr.list_installed_languages() == ("deu", "eng")
    [(command, how)] = [each for each in listed if isinstance(each, tuple)]
    assert command == ["tesseract", "--list-langs"]
    assert how["env"]["TESSDATA_PREFIX"] == "/opt/tessdata" and "OPENAI_API_KEY" not in how.pop("env")
    assert how == {"capture_output": True, "text": True, "timeout": 10, "check": True}


@pytest.mark.parametrize(
    "error",
    [OSError(), subprocess.TimeoutExpired("tesseract", 10), subprocess.CalledProcessError(1, "tesseract"),
     UnicodeDecodeError("utf-8", b"", 0, 1, "no")],
)  # fmt: skip
def test_a_program_that_does_not_list_its_languages_is_tried_with_any(error: Exception, listed: list[object]) -> None:
    listed.append(error)
    assert ocr.list_installed_languages() == ()
    assert ocr.explain_missing_languages("fra+deu") is None


@pytest.mark.usefixtures("listed")
def test_a_missing_language_is_told_with_its_package_and_others_are_not() -> None:
    assert ocr.explain_missing_languages("eng+deu") is None
    assert ocr.explain_missing_languages("deu+script/Latin+chi_sim") == (
        "The text in it cannot be read here: tesseract does not have script/Latin, chi_sim, which "
        "tools.files.ocr_languages=deu+script/Latin+chi_sim asks for; it has deu, eng "
        "(apt-get install tesseract-ocr-latin tesseract-ocr-chi-sim)."
    )


@pytest.mark.usefixtures("listed")
def test_a_picture_is_read_in_the_languages_of_the_run_within_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def read(image: Image.Image, **how: object) -> str:
        asked.append((image.size, image.mode, how))
        return " \n Rome\x0cOslo \n\x0c"

    monkeypatch.setattr("pytesseract.image_to_string", read)
    monkeypatch.setattr(ocr, "is_installed", lambda: True)
    picture = Image.new("RGB", (100, 40))
    assert ocr.read_text(picture) == "Rome\nOslo"
    with ocr.use_languages("eng+deu"):
        assert ocr.read_text(picture) == "Rome\nOslo"
        with ocr.use_languages("fra"):
            assert ocr.read_text(picture) is None, "it is not there"
    ocr.read_text(picture)
    assert asked == [((200, 80), "L", {"lang": languages, "timeout": 60}) for languages in ("eng", "eng+deu", "eng")]
    monkeypatch.setattr(ocr, "is_installed", lambda: False)
    assert ocr.read_text(picture) is None and len(asked) == 3
    assert ocr.explain_missing() == (
        "The text in it cannot be read here: the program tesseract is not installed (apt-get install tesseract-ocr)."
    )
