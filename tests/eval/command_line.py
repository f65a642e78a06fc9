"""`eval/run.py` as tests run it: in their own process where that will do, and what a run left behind.

finished = eval_command("experiment=offline", "limit=2")      # the fixture in tests/conftest.py
finished.code, finished.err, finished.summary["accuracy"]     # 0, "", 1.0
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.config.tracking import LocalTracking
from eval.run import main

SCRIPT = PROJECT_ROOT / "eval" / "run.py"
TABLE = "name,price\napple,7\npear,9\n"
PRICE = "In the attached file, what is the price of apple? Give only the number."
SUM = "What is 2 + 3? Give only the number."
SECRETS = ("OPENAI_API_KEY", "HF_TOKEN", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TAVILY_API_KEY")
NO_SEARCH = "note: TAVILY_API_KEY is not set: there is no web search; Wikipedia's search answers instead.\n"
CONTACT = "tools.web.contact=tests@example.org"  # without one each run asks for it
_PAUSE = re.compile(
    r"^warning: this process could not run for \d+ s \(was it stopped\?\): deadlines are extended by that\.\n", re.M
)
NO_BROWSER = "tools.browser.url=null"  # one that happens to run on this machine is none of a test's business


@dataclass(frozen=True)
class Finished:
    """One command that has ended, and its run's folder (which it may not have made)."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads((self.folder / "summary.json").read_text("utf-8"))
        return summary

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The objects of a file of JSON lines."""
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    @property
    def answers(self) -> list[dict[str, Any]]:
        return self.lines("answers.jsonl")

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """By question."""
        return {record["sample_id"]: record for record in self.lines("records.jsonl")}

    @property
    def system_log(self) -> list[dict[str, Any]]:
        return self.lines("logs/multi_agent_system.log")


EvalCommand = Callable[..., Finished]


def without_pauses(err: str) -> str:
    """Standard error without the one line that says nothing of the command: other processes had all CPU time."""
    return _PAUSE.sub("", err)


def command_in_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: Sequence[str]
) -> Finished:
    """Run the command as `python eval/run.py ARGUMENTS` would; what comes twice, counts last.

    A run whose agents may search, with a model that is not simulated, says `NO_SEARCH` on stderr, and nothing else.
    """
    flags = list(takewhile(lambda argument: argument.startswith("-"), arguments))
    sweep = [f"hydra.sweep.dir={folder}-sweep"] if {"-m", "--multirun"} & set(arguments) else []
    given = [*flags, "tracking=off", NO_BROWSER, CONTACT, f"run.dir={folder}", *sweep, *arguments[len(flags) :]]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *given])
    capsys.readouterr()
    code = main()
    out, err = capsys.readouterr()
    return Finished(code, out, without_pauses(err), folder)


def tracked_in(settings: LocalTracking, wait_seconds: float = 60) -> list[str]:
    """The options for a run that is sent there; `settings`: of the fixture `local`."""
    where = [f"tracking.folder={settings.folder}", f"tracking.experiment='{settings.experiment}'"]
    return ["tracking=local", *where, f"tracking.wait_seconds={wait_seconds}"]


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Empty rather than absent, since a developer's `.env` fills in only what is absent."""
    return {**environment, **dict.fromkeys(SECRETS, "")}


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
