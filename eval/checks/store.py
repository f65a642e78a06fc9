"""The local MLflow store, opened as the SQLite file that it is: MLflow itself takes seconds to import.

A run whose store fails keeps everything in its own folder, so nothing here is `missing`.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from eval.checks.finding import OK, WARNING, Finding
from eval.paths import OUTPUTS, PROJECT_ROOT, shown
from eval.tracking import NoTracking


def store(tracking: object) -> Finding:
    if isinstance(tracking, NoTracking):
        return Finding("mlflow", OK, "off (tracking=off)")
    folder = getattr(tracking, "folder", None)
    return _opened((PROJECT_ROOT / folder if folder else OUTPUTS) / "mlflow.db")


def _opened(file: Path) -> Finding:
    if not file.exists():
        return Finding("mlflow", OK, f"{shown(file)}: not there yet, the first run makes it")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as connection:
            connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        return Finding("mlflow", WARNING, f"{shown(file)} is no MLflow store: {error}", "move it away, or tracking=off")
    return Finding("mlflow", OK, f"{shown(file)}, {file.stat().st_size / 1e6:,.1f} MB")
