"""Settings for reading attached files.

FileSettings(ocr_languages="eng+deu").check()
"""

import re
from dataclasses import dataclass

from mas.runtime.errors import UserError

ENGLISH = "eng"  # tesseract's own default


@dataclass
class FileSettings:
    """The `tools.files` part of the configuration."""

    ocr_languages: str = ENGLISH  # of texts in pictures, in tesseract's codes: eng+deu

    def check(self) -> None:
        """Check the form of the languages; the first picture shows whether tesseract has them.

        Raises:
            UserError: it is not a list of languages.
        """
        if not re.fullmatch(r"\w+(/\w+)?(\+\w+(/\w+)?)*", self.ocr_languages, re.ASCII):
            raise UserError(
                f"tools.files.ocr_languages={self.ocr_languages!r} is no list of languages; expected tesseract's codes "
                "with + between them, such as eng+deu (tesseract --list-langs shows those that are installed)."
            )
