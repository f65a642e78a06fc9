"""Questions for `eval/run.py` as tests write them.

command("eval", *dataset(tmp_path / "questions", question("q1", SUM, "5")))
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eval.cli.paths import PROJECT_ROOT
from eval.config.tracking import LocalTracking
from tests.command import CONTACT, NO_BROWSER, NO_SEARCH, Finished, without_notes, without_secrets
from tests.patience import PATIENCE_SECONDS

__all__ = ["CONTACT", "NO_BROWSER", "NO_SEARCH", "EvalCommand", "Finished", "without_notes", "without_secrets"]

SCRIPT = PROJECT_ROOT / "eval" / "run.py"
TABLE = "name,price\napple,7\npear,9\n"
PRICE = "In the attached file, what is the price of apple? Give only the number."
SUM = "What is 2 + 3? Give only the number."
EvalCommand = Callable[..., Finished]


def tracked_in(settings: LocalTracking) -> list[str]:
    """The options for a run that is sent there; `settings`: of the fixture `local`."""
    where = [f"tracking.folder={settings.folder}", f"tracking.experiment='{settings.experiment}'"]
    return ["tracking=local", *where, f"++tracking.wait_seconds={PATIENCE_SECONDS}"]


def write_questions(folder: Path, *rows: Mapping[str, Any] | str) -> Path:
    """A folder for `data=jsonl`; a row that is a string is a line as it stands."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def question(id: str, text: str, answer: str | None = None, **columns: Any) -> dict[str, Any]:
    gold = {} if answer is None else {"Final answer": answer}
    return {"task_id": id, "Question": text, "Level": 1, **gold, **columns}


def dataset(folder: Path, *rows: dict[str, Any]) -> list[str]:
    """Overrides for these rows; their attachments are made. `sure_command` answers them without a mistake."""
    write_questions(folder, *rows)
    for row in rows:
        if name := row.get("file_name"):
            (folder / name).write_text(TABLE)
    return ["data=jsonl", f"data.path={folder}"]


def attached(id: str, answer: str | None, file: str, **columns: Any) -> dict[str, Any]:
    return question(id, PRICE, answer, file_name=file, **columns)
