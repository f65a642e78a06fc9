"""One line of the doctor's report.

str(Finding("ocr", WARNING, "no tesseract", "apt-get install tesseract-ocr"))
"""

from __future__ import annotations  # read under Pythons that are too old for the rest

from dataclasses import dataclass

OK, MISSING, WARNING = "ok", "missing", "warning"  # MISSING: the chosen configuration cannot run
NAME_COLUMN = 9  # characters of the mark before it
WHAT_COLUMN = 24


@dataclass(frozen=True)
class Finding:
    name: str
    state: str
    what: str
    mend: str = ""  # how to get what is missing; empty: nothing to do

    def __str__(self) -> str:
        line = f"{self.state:<{NAME_COLUMN}}{self.name:<{WHAT_COLUMN - NAME_COLUMN}}{self.what}"
        return f"{line}\n{' ' * WHAT_COLUMN}→ {self.mend}" if self.mend else line
