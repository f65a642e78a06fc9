"""Digests of the files that decide a tuning run's verdict, signed by this installation: `digests.json`.

    signed = SignedFiles(folder, run_id)           # of a new run
    signed.expect("shortlist.json", text)          # before the file is written
    signed.check("shortlist.json")                 # UserError: somebody has changed it since
    open_signed_files(folder, info)                # in a later session: checks all of them before anything is spent

A folder such as `candidates/c001` has one digest over all its files. Of each name the last two contents are valid: a
process that is killed between the digest and the file leaves the earlier one. A file that is not there has not been
written yet, so its phase is repeated.
"""

import hashlib
import json
from pathlib import Path
from typing import Self

from eval.runs.folder import format_path, write_atomically
from eval.runs.run_info import TUNING_FILE, TuningInfo
from mas.runtime.errors import UserError
from mas.runtime.installation_key import is_signed, sign
from optimize.session.signed_answers import sign_answers

DIGESTS = "digests.json"
_KIND = "files of a tuning run"  # of what is signed
_VALID = 2  # contents of a name
PROPOSALS, SEARCH = "proposals.jsonl", "search.json"  # the second is written when the first is complete
_PATTERNS = ("*.json", PROPOSALS, "config.yaml", "candidates/*", "sealed/judged.json")


class SignedFiles:
    """The digests of one run's files."""

    def __init__(self, folder: Path, run_id: str, digests: dict[str, list[str]] | None = None) -> None:
        self.folder, self._run_id, self._digests = folder, run_id, digests or {}
        self._has_key = True

    @classmethod
    def read(cls, folder: Path, run_id: str) -> Self:
        """Read the digests of a run that this installation made.

        Raises:
            UserError: there are none, or somebody has changed them.
        """
        try:
            content = json.loads((folder / DIGESTS).read_text("utf-8"))
            digests, signature = content["digests"], content["signature"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            digests, signature = None, None
        if digests is None or not is_signed(_KIND, [run_id, digests], signature):
            raise UserError(
                f"{format_path(folder)}/{DIGESTS}, which this installation signs, is missing or was changed, so the "
                "run's files cannot be checked: restore it, or start a new tuning run."
            )
        return cls(folder, run_id, digests)

    def adopt_all(self) -> None:
        """Sign all files as they are now."""
        found = [path for pattern in _PATTERNS for path in sorted(self.folder.glob(pattern))]
        names = [path.relative_to(self.folder).as_posix() for path in found if path.name not in (DIGESTS, TUNING_FILE)]
        self._digests = {name: [each] for name in names if (each := self._compute(name)) is not None}
        self._write()

    def expect(self, name: str, content: str | Path) -> None:
        """Make a content valid that is written next.

        Args:
            name: of a file or folder, relative to the run's.
            content: its text; or the folder that is to be renamed.
        """
        new = _digest_text(content.encode()) if isinstance(content, str) else _digest_folder(content)
        known = self._digests.get(name, [])
        if new in known[-1:]:
            return
        self._digests[name] = [*known, new][-_VALID:]
        self._write()

    def check(self, name: str) -> None:
        """Check that a file or folder is as the run wrote it, if it is there.

        Raises:
            UserError: it is not.
        """
        found = self._compute(name)
        if found is not None and found not in self._digests.get(name, ()):
            raise UserError(
                f"{format_path(self.folder)}/{name} was changed since the run wrote it: restore it, or start a new "
                "tuning run."
            )

    def check_all(self) -> None:
        """Check every file that the run has written.

        Raises:
            UserError: one of them was changed.
        """
        for name in self._digests:
            if name != PROPOSALS or (self.folder / SEARCH).is_file():  # else the search is repeated
                self.check(name)

    def _compute(self, name: str) -> str | None:
        path = self.folder / name
        try:
            if path.is_dir():
                return _digest_folder(path)
            return _digest_text(path.read_bytes()) if path.is_file() else None
        except OSError as error:
            raise UserError(f"{format_path(path)} cannot be read ({error}); check its permissions.") from error

    def _write(self) -> None:
        signature = sign(_KIND, [self._run_id, self._digests]) if self._has_key else ""
        self._has_key = bool(signature)  # else each file would repeat the warning
        with write_atomically(self.folder / DIGESTS) as file:
            json.dump({"digests": self._digests, "signature": signature}, file, indent=1)


def open_signed_files(folder: Path, info: TuningInfo) -> SignedFiles:
    """Return the digests of a run, whose files are checked; those of a run that is trusted are signed as they are.

    Args:
        folder: of the run.
        info: of the run, as its last session left it. If it is not signed, the user has said that it is trusted.

    Raises:
        UserError: somebody has changed a file since the run wrote it.
    """
    if not info.is_signed:
        signed = SignedFiles(folder, info.run_id)
        signed.adopt_all()
        for arm in sorted(folder.glob("sealed/*/")):
            sign_answers(arm)
    else:
        signed = SignedFiles.read(folder, info.run_id)
        signed.check_all()
    return signed


def check_files(folder: Path, info: TuningInfo, *names: str) -> None:
    """Check files of a run that is only read; nothing is known of those of a run that is not signed.

    Args:
        folder: of the run.
        info: of the run.
        names: of the files and folders that are read; none: all.

    Raises:
        UserError: somebody has changed one since the run wrote it.
    """
    if not info.is_signed:
        return
    signed = SignedFiles.read(folder, info.run_id)
    for name in names:
        signed.check(name)
    if not names:
        signed.check_all()


def _digest_text(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_folder(folder: Path) -> str:
    """Return one digest over names and contents of all files in a folder."""
    lines = [f"{path.name} {_digest_text(path.read_bytes())}" for path in sorted(folder.iterdir()) if path.is_file()]
    return _digest_text("\n".join(lines).encode("utf-8", "surrogateescape"))
