"""Languages of texts in pictures, in the form that tesseract takes."""

import pytest

from mas.runtime.errors import UserError
from mas.tools.files.settings import FileSettings


@pytest.mark.parametrize("languages", ["eng", "eng+deu", "chi_sim+script/Latin+jpn", "a"])
def test_a_list_of_languages_is_accepted(languages: str) -> None:
    FileSettings(languages).check()


@pytest.mark.parametrize(
    "languages", ["", "eng+", "+eng", "eng deu", "eng,deu", "a/b/c", "-l", "\N{LATIN SMALL LETTER E WITH ACUTE}ng"]
)
def test_anything_else_is_refused(languages: str) -> None:
    with pytest.raises(UserError) as refused:
        FileSettings(languages).check()
    assert str(refused.value) == (
        f"tools.files.ocr_languages={languages!r} is no list of languages; expected tesseract's codes with + between "
        "them, such as eng+deu (tesseract --list-langs shows those that are installed)."
    )


def test_english_is_read_unless_another_language_is_named() -> None:
    assert FileSettings().ocr_languages == "eng"
