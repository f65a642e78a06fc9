"""Whoever edits a run between two sessions gets a sentence: what was searched is what is tested and published."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eval.cli.command import STOPPED, USER_ERROR, run_cli
from eval.runs.folder import DATABASE
from eval.runs.record import Record
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import digest, read_set_folder
from optimize.export import task as export
from optimize.mlflow_export.folder import read_tuning
from optimize.sync import sync
from tests.optimize.pipeline.test_sealed_test import Failing
from tests.optimize.planted_runs import ALWAYS, SLIGHTLY, Obedient, Planted, planted_run
from tests.optimize.tuning_command import Tuned, tuning_command

N_SEALED = 30
HALF = range(60, 1000)  # of the requests for sealed answers: the server fails, and the test stops in the middle


def stop_in_the_sealed_test(place: Path, text: str = SLIGHTLY) -> tuple[Tuned, list[str]]:
    """Return a run whose server failed in the middle of its sealed test, and the sealed gold answers."""
    model = Failing(*HALF)
    stopped = planted_run(place, "run.concurrency=2", texts={"finalize": text}, model=model)
    assert stopped.code == STOPPED, stopped.err
    return stopped, [gold for _, gold, is_sealed in model.golds.values() if is_sealed]


def resume(place: Path, text: str = SLIGHTLY) -> Tuned:
    return planted_run(place, "run.concurrency=2", "resume=run", texts={"finalize": text}, model=Obedient())


def refused(tuned: Tuned, file: str) -> bool:
    """Return whether the run ended in one sentence about a file, and published nothing."""
    assert tuned.code == USER_ERROR, (tuned.out, tuned.err)
    assert f"{file} was changed since the run wrote it" in tuned.err, tuned.err
    assert "restore it, or start a new tuning run" in tuned.err
    assert "Traceback" not in tuned.err
    return not tuned.shelf.exists()


def edit_winner(run: Tuned, golds: list[str]) -> str:
    prompt = run.folder / "candidates" / "c001" / "finalize_system_prompt.txt"
    prompt.write_text(f"{ALWAYS}\n{' '.join(golds)}\n")
    return "candidates/c001"


def edit_parent(run: Tuned, golds: list[str]) -> str:
    prompt = run.folder / "candidates" / "parent" / "finalize_system_prompt.txt"
    prompt.write_text("Give up.\n")
    return "candidates/parent"


def edit_demos(run: Tuned, golds: list[str]) -> str:
    (run.folder / "candidates" / "c001" / "demos.json").write_text("{}")
    return "candidates/c001"


def edit_shortlist(run: Tuned, golds: list[str]) -> str:
    file = run.folder / "shortlist.json"
    file.write_text(json.dumps([{**line, "val_score": 0.0} for line in json.loads(file.read_text())]))
    return "shortlist.json"


def edit_samples(run: Tuned, golds: list[str]) -> str:
    file = run.folder / "splits.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "labels": golds}))
    return "splits.json"


def rewrite_answers(arm: Path, change: Callable[[Record], Record | None]) -> None:
    """Replace an arm's run by another one with correct checksums and other answers."""
    with RunStore(arm / DATABASE, read_only=True) as store:
        info, plan, records = store.read_info(), store.read_plan(), list(store.records())
    for path in arm.glob("r*.*"):
        if path.name != "report.html":
            path.unlink()
    with RunStore(arm / DATABASE) as store:
        store.write_info(info)
        store.write_plan(plan)
        for record in records:
            if (changed := change(record)) is not None:
                store.write(changed)


def edit_answers(run: Tuned, golds: list[str]) -> str:
    arm = run.folder / "sealed" / "winner"
    rewrite_answers(arm, lambda each: replace(each, score=1.0, answer=each.target))
    return "sealed/winner/run.db"


def remove_wrong_answers(run: Tuned, golds: list[str]) -> str:
    """They would be asked again."""
    rewrite_answers(run.folder / "sealed" / "parent", lambda each: each if each.correct else None)
    return "sealed/parent/run.db"


def swap_arms(run: Tuned, golds: list[str]) -> str:
    sealed = run.folder / "sealed"
    for old, new in (("parent", "aside"), ("winner", "parent"), ("aside", "winner")):
        (sealed / old).rename(sealed / new)
    return "sealed/parent/run.db"


def test_prompts_are_checked_for_leaks_as_they_are_tested_and_published(tmp_path: Path) -> None:
    """Also those of a folder that is not signed and that the user trusts."""
    stopped, golds = stop_in_the_sealed_test(tmp_path, ALWAYS)
    edit_winner(stopped, golds)
    tuning = stopped.folder / "tuning.json"
    unsigned = json.dumps({**json.loads(tuning.read_text()), "signature": ""})
    tuning.write_text(unsigned)
    other = resume(tmp_path, ALWAYS)
    assert other.code == USER_ERROR
    assert "the prompts in candidates/c001 " in other.err and "are not those that the shortlist evaluated" in other.err
    tuning.write_text(unsigned)
    shortlist = stopped.folder / "shortlist.json"
    own = digest(read_set_folder(stopped.folder / "candidates" / "c001"))
    shortlist.write_text(json.dumps([{**each, "prompts_sha256": own} for each in json.loads(shortlist.read_text())]))
    leaking = resume(tmp_path, ALWAYS)
    assert (leaking.code, leaking.verdict["finish_reason"]) == (0, "leak_blocked"), leaking.err
    assert not leaking.verdict["published"] and not leaking.shelf.exists()
    assert leaking.read("leaks")["c001"]["blocked"]


PROGRAM = """
import dspy
from NAME_helper import FIELDS

class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.sort = dspy.Predict(FIELDS)

    def forward(self, question):
        return self.sort(question=question)
"""


def test_a_module_of_the_program_that_was_edited_is_noticed(tmp_path: Path) -> None:
    name = f"edited_program_{os.getpid()}"
    helper = tmp_path / f"{name}_helper.py"
    helper.write_text('FIELDS = "question -> answer"')
    (tmp_path / f"{name}.py").write_text(PROGRAM.replace("NAME", name))
    rows = "".join(f"q{number},What is {number} + 1?,{number + 1}\n" for number in range(16))
    (tmp_path / "rows.csv").write_text(f"id,question,answer\n{rows}")
    data = ("data=csv", "data.path=rows.csv", "data.target_column=answer", "scorer=exact")
    program = ("system=dspy", f"system.target={name}:Program", *data, "model=offline", "gate.epochs=1")
    stopped = tuning_command(tmp_path, *program, "budget.metric_calls=30", "budget.lm_calls=34")
    assert stopped.code == STOPPED, (stopped.out, stopped.err)
    helper.write_text('FIELDS = "question, hint=None -> answer"')
    changed = tuning_command(tmp_path, f"resume={stopped.folder}", "budget.lm_calls=300")
    assert changed.code == USER_ERROR
    assert "the program's source, or that of a module of its project, has changed since" in changed.err
    assert "restore it, or start a new tuning run" in changed.err


def test_the_package_of_a_system_that_was_edited_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two sessions, and between two phases of one."""
    stop_in_the_sealed_test(tmp_path)

    def edit() -> None:
        monkeypatch.setattr("mas.systems.agent_system.digest_program", lambda module: "b" * 64)

    during = Planted([{"finalize": SLIGHTLY}], during=edit)
    changed = planted_run(tmp_path, f"run.dir={tmp_path / 'second'}", "name=another_in_a_test", optimizer=during)
    for each in (changed, resume(tmp_path)):
        assert each.code == USER_ERROR
        assert "the program's source, or that of a module of its project, has changed since" in each.err
    assert "4/8 shortlist" not in changed.out


Edit = Callable[[Tuned, list[str]], str]
EDITS: tuple[Edit, ...] = (
    *(edit_winner, edit_parent, edit_demos, edit_shortlist, edit_samples),
    *(edit_answers, remove_wrong_answers, swap_arms),
)


def test_a_file_that_was_edited_during_the_sealed_test_is_refused(tmp_path: Path) -> None:
    stopped, golds = stop_in_the_sealed_test(tmp_path, ALWAYS)
    assert len(golds) == N_SEALED
    shutil.copytree(stopped.folder, tmp_path / "copy")
    for edit in EDITS:
        file = edit(stopped, golds)
        assert refused(resume(tmp_path, ALWAYS), file), edit
        shutil.rmtree(stopped.folder)
        shutil.copytree(tmp_path / "copy", stopped.folder)
    ended = resume(tmp_path, ALWAYS)
    assert ended.code == 0, ended.err
    assert ended.verdict["published"] and ended.verdict["baseline"]["accuracy"] == 0.2, "nobody edited this one"
    assert ended.verdict["winner"]["prompts_sha256"] == digest(ended.kept)


def test_a_verdict_that_was_edited_is_neither_shown_nor_exported_nor_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rejected = planted_run(tmp_path, texts={"finalize": SLIGHTLY})
    assert rejected.code == 0 and not rejected.verdict["published"]
    assert planted_run(tmp_path, "resume=run").code == 0, "the verdict is shown again"
    verdict = rejected.folder / "verdict.json"
    verdict.write_text(json.dumps({**rejected.verdict, "published": True, "finish_reason": "improved"}))
    assert refused(planted_run(tmp_path, "resume=run"), "run/verdict.json")
    assert run_cli(lambda: export([str(rejected.folder), "--dspy", str(tmp_path / "out.json")])) == USER_ERROR
    assert "run/verdict.json was changed since the run wrote it" in capsys.readouterr().err
    named = ["--candidate", "c001", "--name", "by_hand"]
    assert run_cli(lambda: export([str(rejected.folder), *named], tmp_path / "shelf")) == USER_ERROR
    assert not (tmp_path / "shelf").exists()
    assert run_cli(lambda: sync([str(rejected.folder), "tracking=local"])) == USER_ERROR
    assert "run/verdict.json was changed since the run wrote it" in capsys.readouterr().err
    assert not read_tuning(rejected.folder).is_intact
