"""Runs that the viewer shows, by the id in their address. Only folders found here are read: no address is a path.

catalogue = Catalogue(OUTPUTS)
catalogue.find("eval~2026-11-21_08-30-31_gaia")     # the folder; None: there is no such run now
catalogue.find_page(folder, "report.html")          # its path; None: it is no page of the run, or a link
"""

import os
import re
import stat
from pathlib import Path

from eval.analysis.human_review import GOLD
from eval.analysis.run_list.read_runs import EVALUATION, TUNING, find_run_folders, read_entry
from eval.cli.paths import OUTPUTS
from eval.runs.folder import DATABASE, TUNING_FILE
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE

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

    def list_evaluations(self) -> list[str]:
        """Return the ids of all evaluations."""
        return [run_id for run_id, (_, kind) in self._scan()[0].items() if kind == EVALUATION]

    def find(self, run_id: str) -> Path | None:
        """Return the folder of an evaluation or a tuning run."""
        folder, _ = self._scan()[0].get(run_id, (None, ""))
        return folder

    def find_other_page(self, page_id: str) -> Path | None:
        """Return the path of a page that is of no run, such as a comparison; None if there is none, or it is a link."""
        path = next((each for each in self._scan()[1] if self.name(each) == page_id), None)
        return None if path is None else self.find_page(path.parent, path.name)

    def name(self, path: Path) -> str:
        """Return the id of a run's folder or of a page that is of no run, as it stands in addresses."""
        return str(path.relative_to(self.folder)).replace(os.sep, "~") if path != self.folder else path.name

    def _scan(self) -> tuple[dict[str, tuple[Path, str]], list[Path]]:
        pages: list[Path] = []
        found = sorted(find_run_folders(self.folder, pages), reverse=True)
        return {self.name(folder): (folder, kind) for folder, kind in found}, pages

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


def list_notices(folder: Path) -> list[str]:
    """Return what a reader must know before any number of a run: its model is simulated, it measures nothing."""
    entry = read_entry(folder, TUNING if (folder / TUNING_FILE).is_file() else EVALUATION)
    no_measurement = f"No measurement: {entry.no_measurement}." if entry.no_measurement else ""
    return [each for each in (SIMULATED_NOTICE if entry.simulated else "", no_measurement) if each]
