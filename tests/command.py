"""The project's commands as tests run them: in this process, in a folder of their own, without keys.

finished = command("eval", "experiment=offline", "limit=2")     # the fixture in tests/conftest.py
finished.code, finished.err, finished.summary["accuracy"]       # 0, "", 1.0
command("compare", first.folder, second.folder, "--json", "c.json").out

tuned = tuning_command(folder, "system=toy", "data=toy", "model=offline")       # outside the fixture
tuned.verdict["finish_reason"], tuned.kept.texts["plan"]        # "improved", of the set that was tested
"""

import importlib
import io
import json
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from eval.cli.command import run_cli
from eval.reports.run_report.page import write_reports
from eval.runs.record import Record
from eval.runs.store import PROPOSAL, RunStore, open_run, read_run_info
from mas.prompt_sets.prompt_set import PromptSet, read_set_folder
from optimize.export import task as export
from optimize.session.config import TuneConfig, read_config

SECRETS = ("OPENAI_API_KEY", "HF_TOKEN", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TAVILY_API_KEY")
NO_SEARCH = "note: TAVILY_API_KEY is not set: there is no web search; wikipedia_tool searches Wikipedia.\n"
CONTACT = "tools.web.contact=tests@example.org"  # without one each run asks for it
NO_BROWSER = "tools.browser.url=null"  # not one that happens to run on this machine
SEALED_LOG = Path("state", "mas-harness", "sealed_tests.jsonl")  # below the place of a tuning run
TUNED_SET = f"tuned_in_a_test_{os.getpid()}"
_OF_THIS_MACHINE = re.compile(  # it has no isolation for Python code
    r"^note: the tool python_repl_tool will refuse every call: .*\n", re.MULTILINE
)


class RunFolder:
    """What a run has left behind, or has so far."""

    folder: Path

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> Any:
        """Return a result of a tuning run, or the content of `<name>.json`; None: there is none yet."""
        if self.is_tuning:
            return read_result(self.folder, name)
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text("utf-8")) if path.is_file() else None

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a file of JSON lines."""
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = self.read("summary")
        return summary

    @property
    def answers(self) -> list[dict[str, Any]]:
        return self.lines("answers.jsonl")

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """Records by question."""
        return {record["sample_id"]: record for record in self.lines("records.jsonl")}

    def write_report(self) -> Path:
        """Write the page of an evaluation, as `eval/report.py` does."""
        with open_run(self.folder) as store:
            write_reports(self.folder, store)
        return self.folder / "report.html"

    @property
    def system_log(self) -> list[dict[str, Any]]:
        return self.lines("logs/multi_agent_system.log")

    # Of a tuning run:

    @property
    def is_tuning(self) -> bool:
        return (self.folder / "splits.json").is_file()

    @property
    def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = self.read("verdict")
        return verdict

    @property
    def phase(self) -> str | None:
        """By the copy of the run's facts: it is asked for every few milliseconds."""
        try:
            facts = json.loads((self.folder / "run.jsonl").read_text("ascii").partition("\n")[0])
            return str(json.loads(facts["state"])["phase"]) or None
        except (OSError, KeyError):
            return None

    @property
    def proposals(self) -> list[dict[str, Any]]:
        return read_proposals(self.folder) if self.is_tuning else []

    def candidates(self) -> dict[str, str]:
        """Id → digest of its prompts."""
        if not self.is_tuning:
            return {}
        parent = {"parent": read_run_info(self.folder).prompts_sha256}
        with open_run(self.folder) as store:
            return {**parent, **{name: each["sha256"] for name, each in store.read_results("prompts ").items()}}

    def paid(self) -> int:
        """Requests, by the run's own ledger."""
        if not (self.folder / "run.db").is_file():
            return 0
        with closing(sqlite3.connect(self.folder / "run.db")) as database:
            return int(database.execute("SELECT total(lm_calls) FROM payments").fetchone()[0])

    def sealed_rows(self) -> int:
        """Answers to sealed questions that are kept, of both sides."""
        return sum(len(read_side(self.folder, side)) for side in ("parent", "winner"))

    @property
    def shelf(self) -> Path:
        """The folder of prompt sets into which a tuning run publishes."""
        return self.folder.with_name("prompts")

    @property
    def sealed_log(self) -> Path:
        """The list of sealed tests next to the run."""
        return self.folder.parent / SEALED_LOG

    def openings(self) -> int:
        """Sealed tests in that list."""
        return self.sealed_log.read_text("utf-8").count('{"begun":') if self.sealed_log.is_file() else 0

    @property
    def kept_folder(self) -> Path:
        """The folder of the prompt set that was tested: as it was published, or exported if it was not."""
        if (published := self.shelf / TUNED_SET).exists():
            return published
        exported = self.folder.parent / "exported" / TUNED_SET
        if not exported.exists():
            winner = self.verdict["winner"]["candidate_id"]
            export([str(self.folder), "--candidate", winner, "--name", TUNED_SET], exported.parent)
        return exported

    @property
    def kept(self) -> PromptSet:
        return read_set_folder(self.kept_folder)


@dataclass(frozen=True)
class Finished(RunFolder):
    """One command that has ended, and its run's folder (which it may not have made)."""

    code: int
    out: str
    err: str
    folder: Path


def copy_run(run: RunFolder, place: Path) -> RunFolder:
    """Copy a tuning run with its shelf, its log of sealed tests and its line in the list of one's own runs."""
    shutil.copytree(run.folder.parent, place)
    copied = RunFolder(place / run.folder.name)
    own_runs = copied.sealed_log.with_name("runs.jsonl")
    own_runs.write_text(own_runs.read_text("utf-8").replace(str(run.folder), str(copied.folder)), "utf-8")
    return copied


def read_result(folder: Path, name: str) -> Any:
    """Return what a phase of a tuning run has found; None: nothing yet."""
    with open_run(folder) as store:
        return store.read_result(name)


def read_proposals(folder: Path) -> list[dict[str, Any]]:
    with open_run(folder) as store:
        return sorted(store.read_results(PROPOSAL).values(), key=lambda row: row["candidate_id"])


def read_side(folder: Path, side: str) -> list[Record]:
    """Return the answers of a sealed test: of the "parent" or of the "winner", all attempts."""
    with open_run(folder) as store:
        sealed, parent = set(store.read_result("splits")["sealed"]), store.read_info().prompts_sha256
        rows = [each for each in store.records() if each.sample_id in sealed]
    return [each for each in rows if (each.variant == parent) == (side == "parent")]


def forget_answers(folder: Path) -> None:
    """Remove the answers of a sealed test."""
    sealed = set(read_result(folder, "splits")["sealed"])
    lines = (folder / "records.jsonl").read_text("ascii").splitlines(keepends=True)
    kept = [each for each in lines if json.loads(each)["sample_id"] not in sealed]
    (folder / "records.jsonl").write_text("".join(kept), "ascii")
    (folder / "run.db").unlink()
    RunStore(folder / "run.db", warn=lambda line: None).close()  # made again from the copies


def forget_results(folder: Path, *names: str) -> None:
    """Bring a tuning run back to before these results."""
    with RunStore(folder / "run.db") as store:
        store.write_results(dict.fromkeys(names))


def keep_result(folder: Path, name: str, content: object) -> None:
    """Write a result of a tuning run."""
    with RunStore(folder / "run.db") as store:
        store.write_results({name: content})


Command = Callable[..., Finished]


def run_command(
    place: Path, name: str, *options: str | Path, change: Callable[[TuneConfig], None] = lambda config: None
) -> Finished:
    """Run `eval/run.py` ("eval"), `optimize/run.py` ("optimize") or another command ("compare", "optimize/diff").

    Of an option that comes twice the last one counts. Folders of runs and published prompt sets are below `place`.
    `change`: of a tuning run's configuration, before it is checked.
    """
    given = [str(option) for option in options]
    if name == "eval":
        folder = next(path for n in count(1) if not (path := place / f"run-{n}").exists())
        given = [*_eval_defaults(folder, given), *given]
    elif name == "optimize":
        folder = place / "run"
        given = [f"name={TUNED_SET}", "yes=true", "tracking=off", f"run.dir={folder}", *given]
    else:
        folder = place
    out, err = io.StringIO(), io.StringIO()
    with _as_script(place, [f"{name}.py", *given], change), redirect_stdout(out), redirect_stderr(err):
        code = _start(name, given, place)
    return Finished(code, out.getvalue(), without_notes(err.getvalue()), folder)


def _eval_defaults(folder: Path, given: list[str]) -> list[str]:
    flags = list(takewhile(lambda option: option.startswith("-"), given))  # Hydra wants flags before all options
    del given[: len(flags)]
    sweep = [f"hydra.sweep.dir={folder}-sweep"] if {"-m", "--multirun"} & {*flags, *given} else []
    return [*flags, "tracking=off", NO_BROWSER, CONTACT, f"run.dir={folder}", *sweep]


def _start(name: str, given: list[str], place: Path) -> int:
    package, _, command = name.rpartition("/")
    if name in ("eval", "optimize"):
        code: int = importlib.import_module(f"{name}.run").main()
        return code
    module = importlib.import_module(f"{package or 'eval'}.{command}")
    task = partial(module.task, shelf=place / "prompts") if name == "optimize/export" else _find_task(module)
    return run_cli(lambda: task(given))


def _find_task(module: Any) -> Callable[[list[str]], int]:
    return next(getattr(module, name) for name in ("task", "sync", "remake_table", "main") if hasattr(module, name))


@contextmanager
def _as_script(place: Path, argv: list[str], change: Callable[[TuneConfig], None]) -> Iterator[None]:
    def read_changed(composed: DictConfig, overrides: Sequence[str]) -> TuneConfig:
        config = read_config(composed, overrides, place / "prompts")
        change(config)
        return config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", argv)
        patch.setattr("optimize.run.read_config", read_changed)
        yield


@contextmanager
def surroundings(place: Path, current: str = "current") -> Iterator[None]:
    """No keys; the current folder, Hugging Face's cache and the lists of runs and sealed tests are below `place`."""
    (place / current).mkdir(parents=True, exist_ok=True)
    folders = {"HF_HOME": str(place / "hugging-face"), "XDG_STATE_HOME": str(place / "state")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**without_secrets(folders), "HYDRA_FULL_ERROR": "0"}.items():
            patch.setenv(name, value)
        patch.chdir(place / current)
        yield


def tuning_command(place: Path, *options: str, **how: Any) -> Finished:
    """Run `optimize/run.py` in a folder of its own, which is the current folder."""
    with surroundings(place, current="."):
        return run_command(place, "optimize", *options, **how)


def check_mistake(finished: Finished, words: Sequence[str], said: bool = False) -> None:
    """Check all that holds for every mistake. `said`: something may be on stdout, such as how questions were split."""
    assert finished.code == 1, finished.out
    assert said or finished.out == ""
    assert finished.err.startswith("error: ") and finished.err.endswith("\n"), finished.err
    assert len(finished.err.splitlines()) == 1, f"nothing but the mistake is told: {finished.err}"
    for word in [*words, " "]:
        assert word in finished.err
    for noise in ("Traceback", "hydra.cc", "full_key", "object_type", "HYDRA_FULL_ERROR"):
        assert noise not in finished.err


def without_notes(err: str) -> str:
    """Return standard error without what it says of the machine that runs the tests."""
    return _OF_THIS_MACHINE.sub("", err)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with empty secrets: a developer's `.env` fills in only what is absent."""
    return {**environment, **dict.fromkeys(SECRETS, "")}
