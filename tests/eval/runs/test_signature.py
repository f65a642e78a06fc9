"""Only this installation can sign, for one purpose, and every change of what is signed is seen."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from eval.runs.folder import JOURNAL
from eval.runs.run_info import RunInfo, SweepJob, TaskInfo, TuningInfo, TuningState, TuningUse
from eval.runs.store import RunStore
from mas.runtime.installation_key import is_signed, sign
from tests.eval.foreign_folder import edit_info, edited

INFO = RunInfo(
    run_id="r", command=["limit=3"], config={"é": [1.5, None, {"a": True}]}, task=TaskInfo("d", "t", "r", {"q": "f"})
)
OTHER = {
    "run_id": "s", "started_at": "x", "system": "x", "model": "x", "simulated": True, "epochs": 2, "config": {"x": 1},
    "command": ["system.target=os:system"], "task": TaskInfo("e"), "bad_rows": ["x"], "prompts": {"prompts": "x"},
    "program_sha256": "x",
    "prompts_sha256": "x", "prompts_edited": ["x"], "tuning_use": TuningUse("x", [], [], {}), "tools": {"x": []},
    "origin": {"x": "y"}, "sweep": SweepJob("s", "n", "", "", 1, 0, []), "rescored_from": "x", "rescored_by": ["x"],
    "critics": ["x"],
    "gold_informed": "expert",
}  # fmt: skip


def test_a_signature_is_for_one_content_kind_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    signature = sign("run", {"a": 1, "b": [2]})
    assert is_signed("run", {"b": [2], "a": 1}, signature)
    for kind, content in (("sweep", {"a": 1, "b": [2]}), ("run", {"a": 1, "b": [3]}), ("run", None)):
        assert not is_signed(kind, content, signature)
    for other in ("", None, 7, signature[:-1], signature.upper(), "é"):
        assert not is_signed("run", {"a": 1, "b": [2]}, other)
    monkeypatch.setenv("MAS_HARNESS_KEY", "the key of another installation")
    assert not is_signed("run", {"a": 1, "b": [2]}, signature)


def test_without_a_place_for_the_key_a_run_is_not_signed_and_the_user_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("MAS_HARNESS_KEY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert sign("run", {}) == ""
    assert "warning: the run is not signed, so resuming it will ask for run.trust=true" in capsys.readouterr().err
    assert not is_signed("run", {}, "")


def test_every_field_of_a_run_is_signed(tmp_path: Path) -> None:
    assert OTHER.keys() == {each.name for each in fields(RunInfo)} - {"version"}
    with RunStore(tmp_path / "run.db") as store:
        assert not store.is_signed()
        store.write_info(INFO)
        assert store.is_signed()
        store.write_info(INFO, signed=False)
        assert not store.is_signed()
        store.write_info(INFO)
    for name, value in OTHER.items():
        with RunStore(tmp_path / "run.db", read_only=True) as store:
            assert store.is_signed()
        edit_info(tmp_path, **{name: vars(value) if hasattr(value, "__dict__") else value})
        with RunStore(tmp_path / "run.db", read_only=True) as store:
            assert store.read_info() == replace(INFO, **{name: value})  # type: ignore[arg-type]
            assert not store.is_signed()
        edit_info(tmp_path, **{name: getattr(INFO, name) if name != "task" else vars(INFO.task)})


def test_a_run_that_is_restored_from_its_copies_is_still_signed(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write_info(INFO)
    (tmp_path / "run.db").unlink()
    with RunStore(tmp_path / "run.db") as store:
        assert store.is_signed()
    edit_info(tmp_path, command=["system.target=os:system"])
    with edited(tmp_path) as database:
        database.execute("UPDATE meta SET value = value || ' ' WHERE key = 'info'")  # damaged: the journal has another
    assert (tmp_path / JOURNAL).exists()
    with RunStore(tmp_path / "run.db", read_only=True) as store:
        assert store.is_signed() == (store.read_info().command == INFO.command)


def test_the_facts_of_a_tuning_run_are_signed_and_its_course_is_not() -> None:
    info = TuningInfo(run_id="t", command=["limit=3"], config={"a": 1}).sign()
    assert TuningInfo.from_json(info.to_json()).is_signed
    assert replace(info, state=TuningState(phase="gate")).is_signed
    for change in ({"command": []}, {"config": {}}, {"parent_sha256": "x"}, {"signature": ""}, {"split_digest": "x"}):
        assert not replace(info, **change).is_signed  # type: ignore[arg-type]
