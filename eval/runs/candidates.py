"""The sealed test of a tuning run as two runs that every reading command takes: `RUN:parent` and `RUN:c014`.

Such a run has no folder of its own before a report of it is written: it is the rows of the tuning run's database that
these prompts gave on sealed questions. They are shown once no later session can change the verdict.
"""

import json
import re
import sqlite3
from dataclasses import asdict, replace
from typing import Any

from eval.runs.record import PlannedQuestion, escape
from eval.runs.run_info import RunInfo, digest_questions, digest_task
from mas.runtime.errors import UserError

PARENT = "parent"  # id of the prompts that a tuning run starts from
_COLUMNS = "sample_id, epoch, attempt, thread_id, error_class, cost_usd, finished_at, data, details"


def show_candidate(database: sqlite3.Connection, candidate_id: str, info: RunInfo, results: dict[str, Any]) -> None:
    """Let a connection that only reads see the answers of one side of the sealed test, as those of an evaluation."""
    winner = (results.get("verdict") or {}).get("winner") or {}
    if not winner:
        raise UserError("the run has no verdict on a sealed test, whose answers are not read before.")
    sides = {PARENT: info.prompts_sha256, winner["candidate_id"]: winner["prompts_sha256"]}
    if candidate_id not in sides:
        raise UserError(
            f"{candidate_id} has no answers to sealed questions, and those of the search are kept as scores alone; "
            f"choose one of: {', '.join(sides)}."
        )
    sha256 = sides[candidate_id]
    assert re.fullmatch("[0-9a-f]+", sha256), "it becomes part of a view"
    sealed = set(map(escape, results["splits"]["sealed"]))
    rows = database.execute("SELECT sample_id, data FROM records WHERE variant = ? ORDER BY row", (sha256,)).fetchall()
    asked = {sample_id: json.loads(data) for sample_id, data in rows if sample_id in sealed}
    names = ("question", "file", "target", "level")
    planned = [PlannedQuestion(each["sample_id"], **{name: each[name] for name in names}) for each in asked.values()]
    task = digest_task(digest_questions(planned, info.task.file_sha256), info.config.get("scorer"))
    dataset = info.task.dataset_sha256  # of all sealed questions: the test may have stopped before the last
    shown = replace(
        info,
        run_id=f"{info.run_id}-{candidate_id}",
        epochs=info.part("gate")["epochs"],
        command=None,
        prompts_name=None,
        prompts_sha256=sha256,
        task=replace(info.task, task_version=task, dataset_sha256=dataset if len(planned) == len(sealed) else ""),
        tuning=None,
    )
    plan = json.dumps([asdict(each) for each in planned])
    database.execute("PRAGMA query_only = 0")
    database.execute("CREATE TEMP TABLE meta AS SELECT key, value FROM main.meta WHERE key = 'state'")
    database.execute("INSERT INTO temp.meta VALUES('info', ?), ('plan', ?)", (shown.to_json(), plan))
    database.execute("CREATE TEMP TABLE sealed(id TEXT NOT NULL)")
    database.executemany("INSERT INTO temp.sealed VALUES(?)", [(sample_id,) for sample_id in asked])
    database.execute(
        f"CREATE TEMP VIEW records AS SELECT row, '' AS variant, {_COLUMNS} FROM main.records "
        f"WHERE variant = '{sha256}' AND sample_id IN (SELECT id FROM temp.sealed)"
    )
    database.execute("PRAGMA query_only = 1")
