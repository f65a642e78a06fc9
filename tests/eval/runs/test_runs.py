import os
import threading
import time
from pathlib import Path

import pytest

from eval.runs.find import find_run
from eval.runs.folder import TUNING_FILE, RunInUseError, RunLock, is_in_use
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore, check_free
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered, question, stored_run
from tests.patience import PATIENCE_SECONDS, find_least_seconds


def make(parent: Path, name: str, written: float = 0.0) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    for file in (folder / "run.db", folder / "config.yaml"):
        file.touch()
        os.utime(file, (written, written))
    return folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("eval.runs.find.OUTPUTS", tmp_path)
    folder = tmp_path / "eval"
    make(folder, "2026-11-20_09-00-00_smoke", written=500.0)  # touched later, as by a report
    make(folder, "2026-11-21_09-00-00_smoke")
    make(folder, "2026-11-21_10-00-00_gaia_offline_sample")
    (folder / "2026-11-22_10-00-00_empty").mkdir()
    return folder


def test_latest_is_the_run_that_was_started_last(runs: Path) -> None:
    assert find_run("latest").name == "2026-11-21_10-00-00_gaia_offline_sample"
    later = make(runs, "named_by_hand", written=2_000_000_000.0)
    assert find_run("latest") == later
    second = make(runs, "2050-01-01_00-00-00_a_2", written=20.0)
    make(runs, "2050-01-01_00-00-00_a", written=10.0)
    assert find_run("latest") == second


def test_a_run_is_found_by_its_folder_its_name_and_its_path(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaia = runs / "2026-11-21_10-00-00_gaia_offline_sample"
    assert find_run(gaia.name) == find_run("gaia_offline_sample") == gaia
    monkeypatch.chdir(gaia)
    for path in (".", "run.db", f"../{gaia.name}", str(gaia), str(gaia / "run.db"), gaia):
        assert find_run(path).samefile(gaia)
        assert find_run(path).is_absolute()


def test_a_tuning_run_is_found_by_the_name_of_its_prompt_set(runs: Path) -> None:
    folder = make(runs.parent / "optimize", "2026-11-21_09-00-00_my_first_gepa")
    (folder / TUNING_FILE).touch()
    assert find_run("my_first", "optimize") == find_run("my_first_gepa", "optimize") == folder


def test_a_name_that_several_runs_have_is_refused(runs: Path) -> None:
    with pytest.raises(UserError, match=r"2 runs are named smoke.*2026-11-21_09-00-00_smoke, 2026-11-20"):
        find_run("smoke")


def test_a_lock_that_is_soon_released_is_waited_for_and_another_is_not(tmp_path: Path) -> None:
    held = RunLock(tmp_path / "run.db")
    held.take()
    began = time.monotonic()
    with pytest.raises(RunInUseError):
        RunLock(tmp_path / "run.db").take()
    assert time.monotonic() - began > 0.4
    assert is_in_use(tmp_path / "run.db")
    assert find_least_seconds(lambda: is_in_use(tmp_path / "run.db")) < 0.4
    threading.Timer(0.1, held.release).start()
    second = RunLock(tmp_path / "run.db")
    second.take(wait_seconds=PATIENCE_SECONDS)
    second.release()
    assert not is_in_use(tmp_path / "run.db")


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.db").write_text("no database")
    with pytest.raises(UserError, match=f"already holds a run; resume it with run.resume={tmp_path}"):
        check_free(tmp_path)


def test_only_a_folder_where_a_run_died_before_it_began_is_free(tmp_path: Path) -> None:
    database = tmp_path / "run.db"
    (tmp_path / "answers.jsonl").touch()
    with pytest.raises(UserError, match=r"files that are no run \(answers\.jsonl\)"):
        check_free(tmp_path)
    (tmp_path / "answers.jsonl").unlink()
    database.touch()
    check_free(tmp_path)
    with RunStore(database) as store:
        store.write_plan([question("q1", None)])
    check_free(tmp_path)
    with RunStore(database) as store:
        store.write_info(RunInfo(run_id="r", rescored_from="another"))
    with pytest.raises(UserError, match="already holds a run; resume it"):
        check_free(tmp_path)
    answered_only = stored_run(tmp_path / "answered", [answered("q1", "17")])
    with pytest.raises(UserError, match="already holds a run"):
        check_free(answered_only)
    with RunStore(tmp_path / "begun" / "run.db") as store:
        store.write_info(RunInfo(run_id="r", command=[]))
    with pytest.raises(UserError, match=r"resume it with run\.resume"):
        check_free(tmp_path / "begun")
