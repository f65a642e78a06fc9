"""A run folder is data: whatever is in one from elsewhere, no command imports, resolves, follows or contacts it."""

import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eval.analysis.human_review.labels import append_label, describe_label
from eval.attribute import task as attribute
from eval.cli.command import FINISHED, STOPPED, USER_ERROR, run_cli
from eval.compare import task as compare
from eval.config.tracking import LocalTracking
from eval.report import task as report
from eval.rescore import task as rescore
from eval.sync import sync
from eval.workflows.resume import read_original_arguments
from mas.runtime.errors import UserError
from tests.eval.command_line import EvalCommand, dataset, question
from tests.eval.foreign_folder import edit_info
from tests.eval.stored_run import CONFIG, answered, stored_run
from tests.eval.stored_tuning import make_tuning
from tests.servers.loopback import LoopbackServer, running

KEY = "sk-this-is-the-key-of-the-user-0123456789"
EVIL = "def answer(question):\n    return '17'\n\ndef judge(question, answer, target):\n    return True\n"
Attacked = Callable[..., Path]


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the attacker in the current folder; importing it leaves a file."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "evil.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\n{EVIL}")
    monkeypatch.chdir(here)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path / "imported"


@pytest.fixture
def theirs(tmp_path: Path) -> Attacked:
    """Makes a run, and then changes what it says of itself."""

    def make(**changes: object) -> Path:
        folder = stored_run(tmp_path / "theirs", [answered("q1", "17")])
        edit_info(folder, **changes)
        return folder

    return make


def run(command: Callable[[list[str]], int], *arguments: object) -> int:
    return run_cli(lambda: command([str(each) for each in arguments]))


def test_a_command_line_from_elsewhere_is_shown_and_not_run(
    eval_command: EvalCommand, theirs: Attacked, evil: Path, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "data", question("1", "?", "17"))
    stored = ["system=callable", "system.target=evil:answer", *data, "run.name=a\x1b]0;b\r\n", "run.dir=x"]
    folder = theirs(command=stored)
    os.chdir(evil.parent / "here")
    refused = eval_command(f"run.resume={folder}")
    assert refused.code == USER_ERROR
    assert not evil.exists()
    assert "theirs was made elsewhere, or moved since, so nothing was run. It was started with" in refused.err
    assert "python eval/run.py system=callable system.target=evil:answer" in refused.err
    assert "type these options again" in refused.err
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", refused.err)
    assert eval_command(f"run.resume={folder}", "system=callable", *data).err == refused.err
    assert not evil.exists()


@pytest.mark.parametrize("stored", [[], ["run.name=a"]])
def test_a_run_from_elsewhere_without_options_is_not_resumed_by_its_name_alone(
    stored: list[str], theirs: Attacked
) -> None:
    folder = theirs(command=stored)
    for more in ((), ("run.name=mine",)):
        with pytest.raises(UserError, match=r"\(no options\); to resume it, type an option of yours"):
            read_original_arguments(str(folder), [f"run.resume={folder}", *more])
    assert read_original_arguments(str(folder), [f"run.resume={folder}", "limit=1"]) == []


def test_a_run_from_elsewhere_is_not_asked_again_with_corrections(
    theirs: Attacked, evil: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = theirs(command=["system=callable", "system.target=evil:answer"])
    assert run(attribute, folder) == USER_ERROR and not evil.exists()
    refused = capsys.readouterr().err
    assert "theirs was made elsewhere, or moved since, so nothing was run" in refused
    assert "a run that was made here: move it back, or evaluate again" in refused


def test_a_scorer_from_elsewhere_is_not_loaded(
    theirs: Attacked, evil: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scorer = {"_target_": "eval.scorers.function.FunctionScorer", "target": "evil:judge"}
    folder = theirs(config={**CONFIG, "scorer": scorer})
    gold = tmp_path / "gold"
    append_label(
        gold, "d" * 64, describe_label(answered("q1", "17"), "wrong", file_sha256=None, who="ada", run="theirs")
    )
    new = f"run.dir={tmp_path / 'new'}"
    assert run(rescore, folder, f"gold={gold}", new) == USER_ERROR
    assert "its scorer is not used; name one: scorer=" in capsys.readouterr().err
    assert not evil.exists()
    assert run(rescore, folder, "scorer=exact", new) == FINISHED
    edit_info(tmp_path / "new", config={**CONFIG, "scorer": scorer})
    assert run(rescore, tmp_path / "new", f"gold={gold}", f"run.dir={tmp_path / 'newer'}") == USER_ERROR
    assert not evil.exists()


SERVER = {"_target_": "eval.config.tracking.ServerTracking", "experiment": "x", "wait_seconds": 0}


@pytest.mark.parametrize("changes", [{}, {"uri": "{uri}/${oc.env:HF_TOKEN}"}])
def test_an_address_from_elsewhere_gets_nothing(
    changes: dict[str, str],
    theirs: Attacked,
    evil: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    evil_part = {"_target_": "evil.answer"}
    with running(LoopbackServer()) as attacker:
        uri = {key: each.replace("{uri}", attacker.base_url) for key, each in changes.items()}
        tracking = {**SERVER, "uri": attacker.base_url, **uri}
        folder = theirs(config={**CONFIG, "tracking": tracking, "model": evil_part, "system": evil_part})
        assert run(sync, folder) == USER_ERROR
        assert (
            "made elsewhere, or moved since, so the address in it is not used; give tracking=local"
            in capsys.readouterr().err
        )
        assert run(sync, folder, "++tracking.wait_seconds=1") == USER_ERROR
    assert attacker.requests == []
    assert not evil.exists()


@pytest.mark.parametrize("link", ["logs", "run.db", "summary.json.1.tmp", "pipe"])
def test_a_link_in_a_folder_is_refused_by_every_command(
    link: str, tmp_path: Path, theirs: Attacked, local: LocalTracking, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, secret = theirs(), tmp_path / "secret"
    secret.write_text(KEY)
    (folder / link).parent.mkdir(exist_ok=True)
    if link == "run.db":
        (folder / link).rename(tmp_path / "elsewhere.db")
        (folder / link).symlink_to(tmp_path / "elsewhere.db")
    elif link == "pipe":
        os.mkfifo(folder / link)
    else:
        (folder / link).unlink(missing_ok=True)
        (folder / link).symlink_to(tmp_path if link == "logs" else secret)
    other = stored_run(tmp_path / "ours", [answered("q1", "17")])
    tracking = ["tracking=local", f"tracking.folder={local.folder}"]
    commands = {report: [folder], compare: [folder, other], sync: [folder, *tracking]}
    commands[rescore] = [folder, "scorer=exact", f"run.dir={tmp_path / 'new'}"]
    for command, arguments in commands.items():
        assert run(command, *arguments) == USER_ERROR
        assert f"{folder / link} is a link or a special file" in capsys.readouterr().err
    assert secret.read_text() == KEY
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("side", ["parent", "parent/run.db"])
def test_a_link_in_a_tuning_run_is_refused_for_the_path_of_a_side(
    side: str, tmp_path: Path, theirs: Attacked, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, outside = make_tuning(tmp_path / "tuning"), theirs()
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    (folder / "parent").symlink_to(outside)
    assert run(report, folder / side) == USER_ERROR
    assert f"{folder / 'parent'} is a link or a special file" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


NONSENSE: dict[str, dict[str, object]] = {
    "more epochs than anybody asks": {"epochs": 10**12},
    "a text for an object": {"config": "evil", "task": "evil"},
    "a number for texts": {"prompts": 7, "command": 7, "bad_rows": 7},
    "no time": {"started_at": "yesterday", "sweep": {"id": "x"}},
}


@pytest.mark.parametrize("changes", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_in_a_run_from_elsewhere_is_a_sentence(
    changes: dict[str, object],
    theirs: Attacked,
    tmp_path: Path,
    local: LocalTracking,
    eval_command: EvalCommand,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, other = theirs(**changes), stored_run(tmp_path / "ours", [answered("q1", "17")])
    where = ["tracking=local", f"tracking.folder={local.folder}", f"tracking.experiment='{local.experiment}'"]
    commands = {report: [folder], compare: [folder, other], sync: [folder, *where]}
    commands[rescore] = [folder, "scorer=exact", f"run.dir={tmp_path / 'new'}"]
    codes = {command.__module__: run(command, *arguments) for command, arguments in commands.items()}
    assert USER_ERROR in codes.values()
    assert set(codes.values()) <= {FINISHED, STOPPED, USER_ERROR}
    assert eval_command(f"run.resume={folder}").code == USER_ERROR
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_folder_is_for_its_user_alone(eval_command: EvalCommand, tmp_path: Path) -> None:
    umask, outputs = os.umask(0o022), tmp_path / "outputs"
    try:
        runs = f"run.dir={outputs / 'x'}/${{hydra:job.num}}"
        sweep = eval_command("-m", "experiment=offline", "limit=1", "model.world=normal,null", runs)
        assert sweep.code == FINISHED, sweep.err
        assert run(rescore, outputs / "x" / "0", "scorer=exact", f"run.dir={outputs / 'new'}") == FINISHED
    finally:
        assert os.umask(umask) == 0o022  # it is the user's again
    found = [outputs, *outputs.rglob("*")]
    assert {"logs", "run.db", "entry_point.log", "prompts"} <= {path.name for path in found}
    open_to_others = [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []


@pytest.mark.parametrize("name", ["answers.jsonl", ".git"])
def test_a_users_files_are_never_overwritten(name: str, eval_command: EvalCommand, tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / name).mkdir(parents=True) if "." not in name[1:] else own.mkdir()
    if not (own / name).exists():
        (own / name).write_text("mine")
    before = [path.name for path in own.iterdir()]
    refused = eval_command("experiment=offline", "limit=1", f"run.dir={own}")
    assert refused.code == USER_ERROR
    assert f"run.dir={own} has files that are no run ({name}); name a new or an empty folder." in refused.err
    old = stored_run(tmp_path / "old", [answered("q1", "17")])
    assert run(rescore, old, "scorer=exact", f"run.dir={own}") == USER_ERROR
    assert [path.name for path in own.iterdir()] == before
