"""Whoever edits a run between two sessions gets a sentence: what was searched is what is tested and published."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.cli.command import STOPPED, USER_ERROR, run_cli
from eval.runs.call_log import CALL_LOG, CallLog, Signer, _ReplyFile
from eval.runs.folder import DATABASE
from eval.runs.record import Record
from eval.runs.sqlite_file import encode_text, seal_text
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import digest, read_set_folder
from mas.runtime.sample_context import SampleKey
from optimize.export import task as export
from optimize.reports.snapshot import read_tuning
from optimize.session.signed_answers import sign_replies
from optimize.session.tuning_run import TRIALS
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


class Lucky(Obedient):
    """Answers each sealed question right, whatever its prompts say."""

    def learn(self, data: Any) -> None:
        super().learn(data)
        self.golds = {
            question: (0 if is_sealed else number, gold, is_sealed)
            for question, (number, gold, is_sealed) in self.golds.items()
        }


def record_lucky_replies(place: Path) -> list[tuple[str, str, str]]:
    """Return sample, key and reply of each request of a winner that answers right, with the same prompts."""
    kept: list[tuple[str, str, str]] = []
    put = _ReplyFile.put

    def spy(file: _ReplyFile, sample_key: str, key: str, reply: str) -> None:
        if "winner" in file.path.parts:
            kept.append((sample_key, key, reply))
        put(file, sample_key, key, reply)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_ReplyFile, "put", spy)
        planted_run(place, "run.concurrency=2", texts={"finalize": SLIGHTLY}, model=Lucky())
    return kept


@pytest.mark.slow
def test_forged_replies_and_trials_do_not_help_the_winner(tmp_path: Path) -> None:
    """Neither replies as they were kept before they were signed, nor with another run's signature."""
    stopped, _ = stop_in_the_sealed_test(tmp_path / "ours")
    forged = record_lucky_replies(tmp_path / "lucky")
    assert len({sample for sample, _, _ in forged}) == N_SEALED
    file = _ReplyFile(stopped.folder / "sealed" / "winner" / CALL_LOG, "a forgery", print)
    for number, (sample, key, reply) in enumerate(forged):
        sealed = seal_text(reply) if number % 2 else Signer("another").seal(reply, sample, key)
        file.execute("INSERT OR REPLACE INTO replies VALUES(?, ?, ?)", sample, encode_text(key), sealed)
    file.close()
    with closing(sqlite3.connect(stopped.folder / TRIALS)) as database, database:
        assert database.execute("UPDATE trials SET score = 1, error_class = NULL, cost_usd = 0").rowcount
    ended = resume(tmp_path / "ours")
    assert "sealed/winner/calls.db is damaged (this run did not write it); its call is made again" in ended.err
    assert (ended.code, ended.verdict["published"]) == (0, False), ended.err
    assert ended.verdict["winner"]["accuracy"] == 0.3


def test_replies_of_a_folder_that_is_trusted_are_signed_as_they_are(tmp_path: Path) -> None:
    own, other = Signer("this run"), Signer("another")
    for number, signer in enumerate((other, own, None)):
        with closing(CallLog(tmp_path / CALL_LOG, signer=signer)) as log:
            log.for_sample(SampleKey(f"q{number}")).put("key", "two\nlines")
    sign_replies(tmp_path, own.run_id)
    with closing(CallLog(tmp_path / CALL_LOG, signer=own)) as log:
        assert [log.for_sample(SampleKey(f"q{number}")).get("key") for number in range(3)] == ["two\nlines"] * 3


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


FIELDS = 'FIELDS = "question -> answer"'
SCORERS = (
    "def score(question, answer, target):\n    return right(answer, target)\n",
    "def score(gold, pred, trace=None):\n    return right(pred.answer, gold.answer)\n",
)


@pytest.mark.parametrize("function", SCORERS, ids=["function", "metric of DSPy"])
def test_a_module_of_the_scorer_that_was_edited_is_noticed(tmp_path: Path, function: str) -> None:
    name = f"edited_scorer_{os.getpid()}_{SCORERS.index(function)}"
    helper = tmp_path / f"{name}_helper.py"
    helper.write_text("def right(answer, target):\n    return answer == target\n")
    (tmp_path / f"{name}.py").write_text(f"from {name}_helper import right\n\n{function}")
    (tmp_path / f"{name}_program.py").write_text(PROGRAM.replace("from NAME_helper import FIELDS", FIELDS))
    rows = "".join(f"q{number},What is {number} + 1?,{number + 1}\n" for number in range(16))
    (tmp_path / "rows.csv").write_text(f"id,question,answer\n{rows}")
    data = ("data=csv", "data.path=rows.csv", "data.target_column=answer", "model=offline", "gate.epochs=1")
    options = ("system=dspy", f"system.target={name}_program:Program", "scorer=function", f"scorer.target={name}:score")
    stopped = tuning_command(tmp_path, *options, *data, "budget.metric_calls=30", "budget.lm_calls=34")
    assert stopped.code == STOPPED, (stopped.out, stopped.err)
    helper.write_text("def right(answer, target):\n    return True\n")
    changed = tuning_command(tmp_path, f"resume={stopped.folder}", "budget.lm_calls=90")
    assert changed.code == USER_ERROR
    assert "the scorer's source, or that of a module of its project, has changed since" in changed.err
    helper.write_text("def right(answer, target):\n    return answer == target\n")
    assert tuning_command(tmp_path, f"resume={stopped.folder}", "budget.lm_calls=35").code == STOPPED


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


def check_that_digests_are_needed(
    run: Tuned, resume_run: Callable[[], Tuned], shelf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signed run without them, as all were before there were any, is neither resumed nor exported."""
    digests = run.folder / "digests.json"
    digests.rename(run.folder / "aside")
    sentence = (
        "run/digests.json is missing, so nothing shows that the files are as the tuning run wrote them; it was "
        "removed, or an earlier version, which wrote none, made them: restore it, or start a new tuning run."
    )
    resumed = resume_run()
    assert resumed.code == USER_ERROR and resumed.err.strip().endswith(sentence) and not resumed.shelf.exists()
    named = [str(run.folder), "--candidate", "c001", "--name", "by_hand"]
    assert run_cli(lambda: export(named, shelf)) == USER_ERROR
    assert capsys.readouterr().err.strip().endswith(sentence)
    assert not shelf.exists()
    (run.folder / "aside").rename(digests)


@pytest.mark.slow
def test_a_file_that_was_edited_during_the_sealed_test_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped, golds = stop_in_the_sealed_test(tmp_path, ALWAYS)
    assert len(golds) == N_SEALED
    shutil.copytree(stopped.folder, tmp_path / "copy")
    for edit in EDITS:
        file = edit(stopped, golds)
        assert refused(resume(tmp_path, ALWAYS), file), edit
        shutil.rmtree(stopped.folder)
        shutil.copytree(tmp_path / "copy", stopped.folder)
    check_that_digests_are_needed(stopped, lambda: resume(tmp_path, ALWAYS), tmp_path / "by_hand", capsys)
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
