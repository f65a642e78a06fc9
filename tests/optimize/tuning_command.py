"""`optimize/run.py` as tests run it: in their own process, with a shelf and a log of sealed sets of their own.

tuned = tuning_command(tmp_path, "system=toy", "data=toy", "model=offline")
tuned.code, tuned.err, tuned.verdict["finish_reason"]      # 0, "", "improved"
tuned.kept.texts["plan"]                                   # of the set that was published, or tested and rejected
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.prompt_set import PromptSet, read_set_folder
from optimize.run import main
from optimize.session.config import TuningRequest
from tests.eval.command_line import without_pauses, without_secrets

OF_TESTS = "tuned_in_a_test_"  # how the names of sets begin that a test has published
NAME = f"{OF_TESTS}{os.getpid()}"  # the command looks for it on the checkout's own shelf, which others use


@dataclass(frozen=True)
class Tuned:
    """One command that has ended; its run's folder and its shelf may not have been made."""

    code: int
    out: str
    err: str
    folder: Path
    shelf: Path

    def read(self, name: str) -> Any:
        """What is in `<name>.json`."""
        return json.loads((self.folder / f"{name}.json").read_text("utf-8"))

    @property
    def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = self.read("verdict")
        return verdict

    @property
    def proposals(self) -> list[dict[str, Any]]:
        lines = (self.folder / "proposals.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    @property
    def kept_folder(self) -> Path:
        """Of the set that was tested, where it is for good: published, or rejected."""
        published, rejected = self.shelf / NAME, sorted(self.folder.glob("rejected/*"))
        (found,) = [published] if published.exists() else rejected
        return found

    @property
    def kept(self) -> PromptSet:
        return read_set_folder(self.kept_folder)


def tuning_command(place: Path, *arguments: str) -> Tuned:
    """Run `python optimize/run.py ARGUMENTS`; what comes twice, counts last. `place` is the run's own folder."""
    shelf, folder = place / "prompts", place / "run"
    given = [f"name={NAME}", "yes=true", "tracking=off", f"run.dir={folder}", *arguments]
    out, err = io.StringIO(), io.StringIO()
    place.mkdir(parents=True, exist_ok=True)
    with _surroundings(place, shelf, given), redirect_stdout(out), redirect_stderr(err):
        code = main()
    return Tuned(code, out.getvalue(), without_pauses(err.getvalue()), folder, shelf)


@contextmanager
def _surroundings(place: Path, shelf: Path, arguments: list[str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**without_secrets({}), "HYDRA_FULL_ERROR": "0", "HF_HOME": str(place / "hub")}.items():
            patch.setenv(name, value)
        patch.setattr("optimize.run.TuningRequest", partial(TuningRequest, shelf=shelf))
        patch.setattr("optimize.gate.sealed_log.find_log", lambda: place / "sealed_tests.jsonl")
        patch.setattr(sys, "argv", [str(PROJECT_ROOT / "optimize" / "run.py"), *arguments])
        patch.chdir(place)
        yield
