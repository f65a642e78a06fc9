"""Digests of the files that decide a tuning run's verdict: `digests.json`, signed by this installation.

    signed = open_signed_files(folder, info)       # in a later session: checks all of them before anything is spent
    check_files(folder, info, "verdict.json")      # before a file of a run is shown or exported

A file that is not there has not been written yet, so its phase is repeated.
"""

from pathlib import Path
from typing import ClassVar

from eval.runs.folder import format_path
from eval.runs.run_info import TUNING_FILE, TuningInfo
from mas.runtime.security.signed_digests import SignedDigests
from optimize.session.signed_answers import sign_answers, sign_replies

DIGESTS = "digests.json"
PROPOSALS, SEARCH = "proposals.jsonl", "search.json"  # the second is written when the first is complete
_PATTERNS = ("*.json", PROPOSALS, "config.yaml", "candidates/*", "sealed/judged.json", "sealed/looks.json")


class SignedFiles(SignedDigests):
    """The digests of one tuning run's files."""

    FILE: ClassVar[str] = DIGESTS
    KIND: ClassVar[str] = "files of a tuning run"
    OWNER: ClassVar[str] = "tuning run"

    @staticmethod
    def show(path: Path) -> str:
        return format_path(path)

    def adopt_all(self) -> None:
        """Sign all files as they are now."""
        found = [path for pattern in _PATTERNS for path in sorted(self.folder.glob(pattern))]
        self.adopt(
            path.relative_to(self.folder).as_posix() for path in found if path.name not in (DIGESTS, TUNING_FILE)
        )

    def check_all(self) -> None:
        """Check every file that the run has written.

        Raises:
            UserError: one of them was changed.
        """
        for name in self.names:
            if name != PROPOSALS or (self.folder / SEARCH).is_file():  # else the search is repeated
                self.check(name)


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
        sign_replies(folder, info.run_id)
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
