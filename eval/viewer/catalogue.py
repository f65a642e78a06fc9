"""Runs that the viewer shows, by the id in their address. Only folders found here are read: no address is a path.

catalogue = Catalogue(OUTPUTS)
catalogue.find("2026-11-21_08-30-31_gaia")          # the folder; None: there is no such run now
catalogue.find_page(folder, "report.html")          # its path; None: it is no page of the run, or a link
"""

import re
import stat
from pathlib import Path

from eval.analysis.human_review.labels import GOLD
from eval.cli.paths import OUTPUTS
from eval.runs.folder import DATABASE, list_runs
from eval.runs.run_info import TUNING_FILE
from mas.runtime.errors import UserError

MAX_PAGE_BYTES = 200_000_000
_PAGE = re.compile(r"[A-Za-z0-9][\w.-]*\.html")


class Catalogue:
    """Runs and tuning runs in one folder: of outputs/, of a folder like outputs/eval, or a single run."""

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            UserError: there is no such folder.
        """
        if not folder.is_dir():
            raise UserError(f"{folder} is no folder; name one with runs, such as outputs, or the folder of a run.")
        self.folder = folder.absolute()

    @property
    def gold(self) -> Path:
        """Folder of people's labels."""
        if (self.folder / DATABASE).exists():
            inside = self.folder.parent
        else:
            inside = self.folder if self.folder.name == "eval" else self.folder / "eval"
        return inside.with_name(GOLD) if inside.name == "eval" and inside.is_dir() else OUTPUTS / GOLD

    def list_evaluations(self) -> list[Path]:
        """Return the folders of all evaluations, the newest first."""
        return self._list("eval", DATABASE)

    def list_tuning_runs(self) -> list[Path]:
        return self._list("optimize", TUNING_FILE)

    def _list(self, kind: str, marker: str) -> list[Path]:
        if (self.folder / marker).is_file():
            return [self.folder]
        found = [*list_runs(self.folder / kind, marker), *list_runs(self.folder, marker)]
        return [each for each in dict.fromkeys(found) if not each.is_symlink()]

    def find(self, run_id: str) -> Path | None:
        """Return the folder of an evaluation or a tuning run."""
        runs = [*self.list_evaluations(), *self.list_tuning_runs()]
        return next((each for each in runs if each.name == run_id), None)

    def list_pages(self, folder: Path) -> list[str]:
        """Return the names of the pages in a run's folder."""
        return sorted(name for each in folder.glob("*.html") if self.find_page(folder, name := each.name))

    def find_page(self, folder: Path, name: str) -> Path | None:
        """Return the path of a page in a run's folder; None if there is none, or it is a link or too large."""
        if not _PAGE.fullmatch(name):
            return None
        path = folder / name
        try:
            about = path.lstat()
        except OSError:
            return None
        return path if stat.S_ISREG(about.st_mode) and about.st_size <= MAX_PAGE_BYTES else None
