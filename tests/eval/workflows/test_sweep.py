"""What a sweep keeps of its jobs while it goes on, and of which folders it is read again."""

import json
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from eval.cli.command import STOPPED, USER_ERROR, InterruptedRunError
from eval.cli.hydra_compat import MultirunJob
from eval.config.tracking import NoTracking
from eval.runs.run_info import SweepJob
from eval.workflows import sweep
from eval.workflows.sweep import Job, Sweep, add_run_to_sweep, end_sweep, find_sweep, read_sweep, run_as_job
from mas.runtime.errors import UserError

SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Folder of a multirun of two jobs, as Hydra makes it."""
    found = tmp_path / "outputs" / "multirun" / "2026-11-21"
    found.mkdir(parents=True)
    task = ["model=a,b", "mlflow.uri=http://me:pass@host"]
    node = {"hydra": {"sweeper": {"_target_": SWEEPER, "params": None}, "overrides": {"task": task}}}
    (found / "multirun.yaml").write_text(yaml.safe_dump(node))
    yield found
    end_sweep()


def kept(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "sweep.json").read_text())
    return found


def config() -> Any:
    return SimpleNamespace(
        redact=lambda text: text.replace("s3cret", "***"), secrets=lambda: ["s3cret"], tracking=NoTracking()
    )


def test_all_jobs_are_known_before_the_first_one_has_run(folder: Path) -> None:
    seen: list[Any] = []

    def run() -> int:
        seen.append([(each["job"], each["differs"], each["exit_code"]) for each in kept(folder)["jobs"]])
        return 0

    assert run_as_job(MultirunJob(folder, 0), run) == 0
    assert seen == [[(0, ["model=a"], None), (1, ["model=b"], None)]]
    assert [each["exit_code"] for each in kept(folder)["jobs"]] == [0, None]
    assert "pass" not in (folder / "multirun.yaml").read_text(), "a job may end before it is known what is secret"


def test_a_run_is_noted_where_it_is_and_knows_its_place(folder: Path) -> None:
    run = folder.parents[1] / "eval" / "run-1"
    run.mkdir(parents=True)
    places: list[Any] = []
    run_as_job(MultirunJob(folder, 0), lambda: 0)
    run_as_job(MultirunJob(folder, 1), lambda: places.append(add_run_to_sweep(run, config())) or 4)
    assert (places[0].job, places[0].name, places[0].differs) == (1, "2026-11-21", ["model=b"])
    found = read_sweep(folder)
    assert found.jobs[1].folder == "../../eval/run-1" and found.find_run(found.jobs[1]) == run.resolve()
    assert found.find_run(found.jobs[0]) is None and found.jobs[1].exit_code == 4 and found.is_ours


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (InterruptedRunError("stopped"), STOPPED, "stopped by Ctrl-C"),
        (KeyboardInterrupt(), STOPPED, "stopped by Ctrl-C"),
        (UserError("there is no http://me:pass@host."), USER_ERROR, "there is no http://"),
        (ZeroDivisionError("x"), None, "a defect of this program (ZeroDivisionError)"),
    ],
)
def test_a_job_that_fails_keeps_its_reason(folder: Path, error: BaseException, code: int | None, reason: str) -> None:
    def fail() -> int:
        raise error

    with pytest.raises(type(error)):
        run_as_job(MultirunJob(folder, 0), fail)
    job = kept(folder)["jobs"][0]
    assert job["exit_code"] == code and job["error"].startswith(reason) and "pass" not in job["error"]


def test_a_sweep_ends_once_and_the_next_one_is_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as_job(MultirunJob(folder, 0), lambda: 0)
    run_as_job(MultirunJob(folder, 1), lambda: 0)
    first = end_sweep()
    assert first is not None and kept(folder)["ended_at"] == first.sweep.ended_at is not None
    assert end_sweep() is None
    run_as_job(MultirunJob(folder, 0), lambda: 0)
    second = end_sweep()
    assert second is not None and second.sweep.id != first.sweep.id


def test_jobs_that_nobody_could_foresee_are_added(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "get_task_overrides", lambda: ["x=http://me:pass@host"])
    run_as_job(MultirunJob(folder, 3), lambda: 0)
    jobs = kept(folder)["jobs"]
    assert [each["job"] for each in jobs] == [0, 1, 2, 3] and "pass" not in json.dumps(jobs)


def test_secrets_are_taken_out_of_what_is_kept(folder: Path) -> None:
    (folder / "multirun.yaml").write_text((folder / "multirun.yaml").read_text().replace("model=a", "model=s3cret"))
    run_as_job(MultirunJob(folder, 0), lambda: bool(add_run_to_sweep(folder / "run", config())) - 1)
    assert kept(folder)["jobs"][0]["differs"] == ["model=***"]
    assert "s3cret" not in (folder / "multirun.yaml").read_text()
    end_sweep()
    assert "model=***" in (folder / "multirun.yaml").read_text()


def written(folder: Path, run: str, **changes: Any) -> Path:
    Sweep(folder, "id", "2026-11-21T08:00:00+00:00", jobs=[Job(0, ["a=1"], run)]).write({"table": 1})
    (folder / "sweep.json").write_text(json.dumps({**kept(folder), **changes}))
    return folder


def test_a_sweep_of_ours_may_name_runs_anywhere_and_one_of_others_only_its_own(folder: Path) -> None:
    assert kept(written(folder, "../../../elsewhere"))["table"] == 1
    assert read_sweep(folder).is_ours
    with pytest.raises(UserError, match=r"was made elsewhere, or changed since, and names .*elsewhere, which is not"):
        read_sweep(written(folder, "../../../elsewhere", signature="none"))
    assert not read_sweep(written(folder, "../../eval/run-1", id="another")).is_ours
    assert not read_sweep(written(folder, "../../eval/run-1", signature=None)).is_ours


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"jobs": [{}]}', '{"jobs": 5}', "[" * 100_000])
def test_a_folder_without_a_sweep_is_said_to_have_none(folder: Path, content: str) -> None:
    (folder / "sweep.json").write_text(content)
    with pytest.raises(UserError, match=r"is no sweep with a readable sweep\.json; name a folder of outputs/multirun"):
        read_sweep(folder)


def test_a_sweep_is_found_by_its_name_its_path_or_as_the_latest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "OUTPUTS", folder.parents[1])
    for name in ("latest", "2026-11-21"):
        with pytest.raises(UserError, match="no sweep"):
            find_sweep(name)
    written(folder, "../../eval/run-1")
    later = folder.with_name("2026-11-22")
    written(later, "../../eval/run-2")
    assert find_sweep("latest") == later and find_sweep("2026-11-21") == find_sweep(str(folder)) == folder
    assert sorted(each.name for each in (folder, later)) == ["2026-11-21", "2026-11-22"]
    assert later.stat().st_mode & 0o777 == 0o700


def test_a_run_has_its_whole_place_in_the_sweep_and_the_sweep_its_tracking(folder: Path) -> None:
    found: list[SweepJob] = []
    run_as_job(MultirunJob(folder, 0), lambda: found.append(add_run_to_sweep(folder / "run", config())) or 0)
    (place,) = found
    content = kept(folder)
    assert place == SweepJob(
        content["id"], folder.name, content["started_at"], socket.gethostname(), os.getpid(), 0, ["model=a"]
    )
    assert (len(content["id"]), content["ended_at"]) == (12, None)
    assert datetime.fromisoformat(content["started_at"]).tzinfo is not None
    assert content["jobs"][0] == {
        "job": 0, "differs": ["model=a"], "folder": "run", "run_id": None, "exit_code": 0, "error": None,
    }  # fmt: skip
    running = end_sweep()
    assert running is not None
    assert isinstance(running.tracking, NoTracking)
    assert (running.secrets, running.redact("s3cret"), running.current) == (["s3cret"], "***", None)
    assert datetime.fromisoformat(kept(folder)["ended_at"]).tzinfo is not None
    with pytest.raises(AssertionError, match="called by a job of the sweep"):
        add_run_to_sweep(folder, config())


def test_a_sweep_in_another_folder_is_another_one_and_a_full_disk_ends_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as_job(MultirunJob(folder, 0), lambda: 0)
    first = kept(folder)["id"]
    run_as_job(MultirunJob(folder, 1), lambda: 0)
    assert kept(folder)["id"] == first
    other = folder.with_name("2026-11-22")
    other.mkdir()
    (other / "multirun.yaml").write_text((folder / "multirun.yaml").read_text())
    run_as_job(MultirunJob(other, 1), lambda: 0)
    assert kept(other)["id"] != first

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Sweep, "write", fail)
    assert run_as_job(MultirunJob(other, 0), lambda: 5) == 5


def test_a_sweep_is_read_as_it_was_written(folder: Path) -> None:
    jobs = [Job(0, ["a=1"], "../../eval/run-1", "r", 2, "why"), Job(1, ["a=2"])]
    made = Sweep(folder, "id", "2026-11-21T08:00:00+00:00", "2026-11-21T09:00:00+00:00", jobs)
    made.write()
    assert read_sweep(folder) == made
    made.is_ours = False
    made.write()
    assert kept(folder)["signature"] == ""
    assert read_sweep(folder) == made


def test_a_sweep_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "OUTPUTS", tmp_path)
    parent = tmp_path / "multirun"
    for name, sentence in (
        ("latest", f"there is no sweep under {parent} yet; start one with python eval/run.py -m model=a,b."),
        ("night", f"night is no sweep: neither a folder with a sweep.json nor one of {parent}."),
    ):
        with pytest.raises(UserError) as refused:
            find_sweep(name)
        assert str(refused.value) == sentence
