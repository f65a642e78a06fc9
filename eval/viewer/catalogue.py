"""Runs that the viewer shows, by the id in their address. Only folders found here are read: no address is a path.

catalogue = Catalogue(OUTPUTS)
catalogue.find("eval~2026-11-21_08-30-31_gaia")     # the folder; None: there is no such run now
catalogue.find_page(folder, "report.html")          # its path; None: it is no page of the run, or a link
"""

import os
import re
from pathlib import Path

from eval.analysis.run_list.read_runs import EVALUATION, TUNING, RunEntry, find_run_folders, read_entry
from eval.runs.folder import TUNING_FILE
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE

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

    def find(self, run_id: str) -> Path | None:
        return next((folder for folder, _ in find_run_folders(self.folder) if self.name(folder) == run_id), None)

    def name(self, folder: Path) -> str:
        """Return the id of a run's folder, as it stands in addresses."""
        return str(folder.relative_to(self.folder)).replace(os.sep, "~") if folder != self.folder else folder.name

    def list_pages(self, folder: Path) -> list[str]:
        return sorted(name for each in folder.glob("*.html") if self.find_page(folder, name := each.name))

    def find_page(self, folder: Path, name: str) -> Path | None:
        """Return the path of a page in a run's folder; None if there is none, or it is a link."""
        path = folder / name
        return path if _PAGE.fullmatch(name) and path.is_file() and not path.is_symlink() else None


def read_run(folder: Path) -> RunEntry:
    return read_entry(folder, TUNING if (folder / TUNING_FILE).is_file() else EVALUATION)


def list_notices(entry: RunEntry) -> list[str]:
    """Return what a reader must know before any number of a run: its model is simulated, it measures nothing."""
    no_measurement = f"No measurement: {entry.no_measurement}." if entry.no_measurement else ""
    return [each for each in (SIMULATED_NOTICE if entry.simulated else "", no_measurement) if each]
