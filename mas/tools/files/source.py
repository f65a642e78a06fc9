"""A file as its readers get it: a name and bytes. It was opened once, by `kinds`; no reader opens anything.

So a member of an archive is read as an attachment is, and nothing is ever unpacked to a disk.

    Source("towns.csv", b"town\\nRome\\n").suffix      # ".csv"
"""

import io
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Source:
    name: str  # for messages: the attachment's bare name, or "data.zip: tables/x.csv"
    data: bytes

    @classmethod
    def of(cls, path: Path) -> "Source":
        with path.open("rb") as file:
            return cls(path.name, file.read())

    @property
    def suffix(self) -> str:
        """With its dot, in lower case."""
        return PurePosixPath(self.name).suffix.lower()

    def stream(self) -> io.BytesIO:
        return io.BytesIO(self.data)
