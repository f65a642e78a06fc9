"""Digests of a folder's files, signed by this installation: an edited file is noticed.

    class SignedFiles(SignedDigests):
        FILE, KIND, OWNER = "digests.json", "files of a tuning run", "tuning run"

    signed = SignedFiles(folder, run_id)           # of a new run
    signed.expect("shortlist.json", text)          # before the file is written
    signed.check("shortlist.json")                 # UserError: somebody has changed it since
    signed = SignedFiles.read(folder, run_id)      # in a later session

A folder such as `candidates/c001` has one digest over all its files. Of each name the last two contents are valid: a
process that is killed between the digest and the file leaves the earlier one. A file that is not there has not been
written yet.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Self

from mas.runtime.errors import UserError
from mas.runtime.installation_key import is_signed, sign
from mas.runtime.security.private_file import write_atomically

_VALID = 2  # contents of a name


class SignedDigests:
    """Digests of the files of one owner, such as a run."""

    FILE: ClassVar[str]
    KIND: ClassVar[str]  # of what is signed
    OWNER: ClassVar[str]  # in sentences

    def __init__(self, folder: Path, owner_id: str, digests: dict[str, list[str]] | None = None) -> None:
        self.folder, self._owner_id, self._digests = folder, owner_id, digests or {}
        self._has_key = True

    @classmethod
    def read(cls, folder: Path, owner_id: str) -> Self:
        """Read the digests that this installation has signed.

        Raises:
            UserError: there are none, or somebody has changed them.
        """
        try:
            content = json.loads((folder / cls.FILE).read_text("utf-8"))
            digests, signature = content["digests"], content["signature"]
        except FileNotFoundError as error:
            raise UserError(
                f"{cls.show(folder / cls.FILE)} is missing, so nothing shows that the files are as the {cls.OWNER} "
                "wrote them; it was removed, or an earlier version, which wrote none, made them: restore it, or start "
                f"a new {cls.OWNER}."
            ) from error
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            digests, signature = None, None
        if digests is None or not is_signed(cls.KIND, [owner_id, digests], signature):
            raise UserError(
                f"{cls.show(folder / cls.FILE)}, which this installation signs, was changed, so the {cls.OWNER}'s "
                f"files cannot be checked: restore it, or start a new {cls.OWNER}."
            )
        return cls(folder, owner_id, digests)

    @staticmethod
    def show(path: Path) -> str:
        """Return the path as sentences have it."""
        return str(path)

    @property
    def names(self) -> list[str]:
        return list(self._digests)

    def adopt(self, names: Iterable[str]) -> None:
        """Sign these files as they are now, and no others."""
        self._digests = {name: [each] for name in names if (each := self._compute(name)) is not None}
        self._write()

    def expect(self, name: str, content: str | Path) -> None:
        """Make a content valid that is written next.

        Args:
            name: of a file or folder, relative to the owner's.
            content: its text; or the folder that is to be renamed.
        """
        new = _digest_text(content.encode()) if isinstance(content, str) else _digest_folder(content)
        known = self._digests.get(name, [])
        if new in known[-1:]:
            return
        self._digests[name] = [*known, new][-_VALID:]
        self._write()

    def check(self, name: str) -> None:
        """Check that a file or folder is as its owner wrote it, if it is there.

        Raises:
            UserError: it is not.
        """
        found = self._compute(name)
        if found is not None and found not in self._digests.get(name, ()):
            raise UserError(
                f"{self.show(self.folder / name)} was changed since the run wrote it: restore it, or start a new "
                f"{self.OWNER}."
            )

    def _compute(self, name: str) -> str | None:
        path = self.folder / name
        try:
            if path.is_dir():
                return _digest_folder(path)
            return _digest_text(path.read_bytes()) if path.is_file() else None
        except OSError as error:
            raise UserError(f"{self.show(path)} cannot be read ({error}); check its permissions.") from error

    def _write(self) -> None:
        signature = sign(self.KIND, [self._owner_id, self._digests]) if self._has_key else ""
        self._has_key = bool(signature)  # else each file would repeat the warning
        with write_atomically(self.folder / self.FILE) as file:
            json.dump({"digests": self._digests, "signature": signature}, file, indent=1)


def _digest_text(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_folder(folder: Path) -> str:
    """Return one digest over names and contents of all files in a folder."""
    lines = [f"{path.name} {_digest_text(path.read_bytes())}" for path in sorted(folder.iterdir()) if path.is_file()]
    return _digest_text("\n".join(lines).encode("utf-8", "surrogateescape"))
