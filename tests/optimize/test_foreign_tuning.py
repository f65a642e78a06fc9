"""The folder of a tuning run from elsewhere is data, too: `resume=`, `optimize/sync.py` and the champion."""

import json
import os
import sys
from pathlib import Path

import pytest

from eval.cli.command import FINISHED, USER_ERROR, run_cli
from eval.config.tracking import LocalTracking
from eval.runs.run_info import TUNING_FILE, read_tuning_info
from optimize.export import task as export
from optimize.sync import sync
from tests.eval.command_line import dataset, question
from tests.eval.foreign_folder import listening
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_tuning, client, verdict
from tests.optimize.tuning_command import tuning_command

TOY = ("system=toy", "data=toy", "model=offline")
FEW = (*TOY, "data.n_train=6", "data.n_val=6", "data.n_test=6", "gate.epochs=1", "budget.metric_calls=13")


def edit(folder: Path, **changes: object) -> None:
    file = folder / TUNING_FILE
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **changes}))


def run(command: object, *arguments: object) -> int:
    return run_cli(lambda: command([str(each) for each in arguments]))  # type: ignore[operator]


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the attacker in the run's current folder; importing it leaves a file."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\ndef f(*_): return True\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return tmp_path / "imported"


def test_a_command_line_from_elsewhere_is_shown_and_not_run(tmp_path: Path, evil: Path) -> None:
    data = dataset(tmp_path / "data", *(question(str(number), "?", "17") for number in range(20)))
    folder = a_tuning(tmp_path / "theirs")
    edit(folder, command=["system=toy", *data, "scorer=function", "scorer.target=evil.f", "name=a\x1b]0;b"])
    refused = tuning_command(tmp_path, f"resume={folder}")
    assert refused.code == USER_ERROR
    assert "theirs was made elsewhere, or changed since. Resuming it would run:" in refused.err
    assert "optimize/run.py system=toy" in refused.err
    assert "scorer.target=evil.f" in refused.err
    assert "add run.trust=true" in refused.err
    assert "\x1b" not in refused.err
    still = tuning_command(tmp_path, f"resume={folder}", "run.trust=true")
    assert still.code == USER_ERROR
    assert "never taken over: scorer.target=evil.f" in still.err
    assert not evil.exists()


def test_a_run_that_is_trusted_is_signed_with_what_the_user_has_now(tmp_path: Path) -> None:
    stopped = tuning_command(tmp_path, *FEW, "budget.lm_calls=40")
    assert stopped.code != USER_ERROR, stopped.err
    info = read_tuning_info(stopped.folder)
    assert info is not None
    assert info.is_signed
    theirs = {**info.config, "tracking": {"_target_": "evil.f"}}
    edit(stopped.folder, config=theirs)
    assert tuning_command(tmp_path, f"resume={stopped.folder}").code == USER_ERROR
    (stopped.folder / "verdict.json").unlink(missing_ok=True)
    resumed = tuning_command(tmp_path, f"resume={stopped.folder}", "run.trust=true", "budget.lm_calls=41")
    assert resumed.code != USER_ERROR, resumed.err
    info = read_tuning_info(stopped.folder)
    assert info is not None
    assert info.is_signed
    assert info.config["tracking"] == {"_target_": "eval.config.tracking.NoTracking"}
    (stopped.folder / "verdict.json").unlink(missing_ok=True)
    prompt = next((stopped.folder / "candidates" / "parent").glob("*_system_prompt.txt"))
    prompt.write_text("Obey.")
    changed = tuning_command(tmp_path, f"resume={stopped.folder}", "budget.lm_calls=42")
    assert changed.code == USER_ERROR
    assert "candidates/parent was changed since the run wrote it: restore it, or start a new tuning run" in changed.err


def test_trust_is_for_a_run_that_goes_on(tmp_path: Path) -> None:
    refused = tuning_command(tmp_path, *TOY, "run.trust=true")
    assert refused.code == USER_ERROR
    assert "run.trust=true is for a run that goes on; name it with resume=" in refused.err


def test_an_address_from_elsewhere_gets_nothing(
    tmp_path: Path, evil: Path, local: LocalTracking, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_tuning(tmp_path / "theirs", PROPOSALS)
    part, target = {"_target_": "evil.f"}, "eval.config.tracking.ServerTracking"
    with listening() as (address, seen):
        own = {"_target_": target, "uri": address, "password_env": "HOME", "wait_seconds": 0}
        edit(folder, config={"tracking": own, "model": part, "scorer": part})
        assert run(sync, folder) == USER_ERROR
        assert "so the address in it is not used; give tracking=local" in capsys.readouterr().err
        where = ["tracking=local", f"tracking.folder={local.folder}", f"tracking.experiment='{local.experiment}'"]
        assert run(sync, folder, *where) == FINISHED
        assert seen == []
    assert not evil.exists()


def test_prompts_of_a_run_from_elsewhere_do_not_become_the_champion(tmp_path: Path, local: LocalTracking) -> None:
    folder = a_tuning(tmp_path / "theirs", PROPOSALS, tracking=local, verdict=verdict(), system="poisoned")
    edit(folder, seed=8)
    where = ["tracking=local", f"tracking.folder={local.folder}", f"tracking.experiment='{local.experiment}'"]
    assert run(sync, folder, *where) == FINISHED
    assert client(local).get_prompt("poisoned.finalizer") is None


def test_a_candidate_is_a_folder_of_the_run(tmp_path: Path, local: LocalTracking) -> None:
    outside = a_tuning(tmp_path / "outside", PROPOSALS)
    secret = outside / "candidates" / "parent" / "finalizer_system_prompt.txt"
    secret.write_text("the secret of the user")
    names = ("../../outside/candidates/parent", str(outside / "candidates" / "parent"))
    lines = [{**PROPOSALS[0], "candidate_id": name, "parent_ids": [name]} for name in names]
    folder = a_tuning(tmp_path / "theirs", tracking=local)
    (folder / "proposals.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert run(sync, folder) == FINISHED
    sent = [path for path in Path(str(local.folder)).rglob("*") if path.is_file() and path.suffix != ".db"]
    assert not [path for path in sent if b"the secret of the user" in path.read_bytes()]
    assert run(export, folder, "--candidate", names[0], "--name", "stolen") == USER_ERROR


@pytest.mark.parametrize(
    ("file", "content"),
    [("splits", {"labels": 5}), ("splits", {"labels": [{"a": 1}]}), ("splits", [1]), ("leaks", [3])],
)
def test_files_that_hold_something_else_are_one_sentence(
    file: str, content: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_tuning(tmp_path / "theirs", PROPOSALS)
    edit(folder, seed=8)
    (folder / f"{file}.json").write_text(json.dumps(content))
    candidate = next(path.name for path in (folder / "candidates").iterdir() if path.name != "parent")
    assert run(export, folder, "--candidate", candidate, "--name", "a_set_of_theirs") == USER_ERROR
    err = capsys.readouterr().err
    assert "theirs was made elsewhere, or changed since, and cannot be read (" in err and "Traceback" not in err


@pytest.mark.parametrize("command", [sync, export])
def test_a_link_in_the_folder_is_refused(command: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_tuning(tmp_path / "theirs", PROPOSALS)
    (folder / "report.md").symlink_to("/etc/passwd")
    arguments = ["tracking=local"] if command is sync else ["--list"]
    assert run(command, folder, *arguments) == USER_ERROR
    assert "report.md is a link or a special file" in capsys.readouterr().err


def test_a_users_files_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "proposals.jsonl").write_text("mine")
    refused = tuning_command(tmp_path, *TOY)
    assert refused.code == USER_ERROR
    assert "has files that are no run (proposals.jsonl); name a new or an empty folder" in refused.err
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["proposals.jsonl"]


def test_the_folder_is_for_its_user_alone(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        tuned = tuning_command(tmp_path, *FEW, "budget.lm_calls=40")
    finally:
        os.umask(umask)
    found = [tuned.folder, *tuned.folder.rglob("*")]
    assert {"calls.db", "trials.db", "tuning.json", "candidates"} <= {path.name for path in found}
    assert [path for path in found if path.stat().st_mode & 0o077] == []
