import asyncio
from pathlib import Path

import pytest

from eval.execution.console import MissingServices
from eval.execution.run_session import SILENT, begin_session, read_spent_usd, run_to_end
from eval.execution.termination import StopController
from eval.runs.call_log import CallLog
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore, StoreError
from mas.runtime.sample_context import Payment, SampleKey
from tests.eval.stored_run import answered


async def fail(error: Exception) -> None:
    raise error


async def wait(stop: StopController) -> None:
    await stop.supervise([asyncio.create_task(asyncio.sleep(0))])


def test_a_store_that_cannot_be_written_is_the_reason_of_the_stop() -> None:
    assert run_to_end([fail(StoreError("run.db cannot be written"))], StopController()) == "run.db cannot be written"
    with pytest.raises(ValueError, match="a defect"):
        run_to_end([fail(ValueError("a defect"))], StopController())


def test_a_run_that_comes_to_its_end_has_no_reason_and_one_that_was_stopped_has_its_own() -> None:
    assert run_to_end([wait(StopController())], StopController()) is None
    stop = StopController()
    stop.drain("enough")
    assert run_to_end([wait(stop), wait(stop)], stop) == "enough"


def test_a_session_is_recorded_as_it_begins_and_ends(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        first = begin_session(tmp_path, store, RunInfo(), [])
        began = store.read_info()
        assert began.run_id and began.started_at
        assert [each.ended_at for each in store.read_state().sessions] == [None]
        first.note_unfinished({"lm_calls": 1})
        assert store.read_state().unfinished == {"lm_calls": 1}
        first.note_unfinished(None)
        assert store.read_state().unfinished is None
        first.end("enough", [{"limit": 3}])
        (session,) = store.read_state().sessions
        assert (session.stopped, store.read_state().finished) == ("enough", False)
        assert session.ended_at is not None and session.peak_memory_mb
        assert store.read_state().pace_history == [{"limit": 3}]
        second = begin_session(tmp_path, store, RunInfo(run_id="another"), [], changes={"limit": "1 → 2"})
        assert (store.read_info().run_id, store.read_info().started_at) == (began.run_id, began.started_at)
        assert store.read_state().sessions[1].changes == {"limit": "1 → 2"}
        second.end(None, [])
        assert (len(store.read_state().sessions), store.read_state().finished) == (2, True)
    assert (tmp_path / "config.yaml").read_text() == "{}\n"


def test_a_session_that_was_killed_is_closed_by_the_next_one(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        begin_session(tmp_path, store, RunInfo(), [])
        store.write(answered("q1", "17"))
        begin_session(tmp_path, store, RunInfo(), [])
        killed, now = store.read_state().sessions
        assert (killed.stopped, killed.ended_at) == (SILENT, store.last_finished_at())
        assert now.ended_at is None


def test_what_a_run_has_spent_includes_samples_without_a_record(tmp_path: Path) -> None:
    with RunStore(tmp_path / "run.db") as store:
        store.write(answered("q1", "17"))
        assert read_spent_usd(store, tmp_path) == 0.5
        log = CallLog(tmp_path / "calls.db")
        log.pay(SampleKey("q1"), Payment(1, 0, 1, cost_usd=4.0))  # it has a record: counted there
        log.pay(SampleKey("q2"), Payment(1, 0, 1, cost_usd=0.25))
        log.close()
        assert read_spent_usd(store, tmp_path) == 0.75


@pytest.mark.parametrize(("simulated", "printed"), [(False, "note: no search\n"), (True, "")])
def test_a_missing_service_is_noted_once_unless_the_model_is_simulated(
    simulated: bool, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = MissingServices(simulated)
    missing.note("no search")
    assert capsys.readouterr().err == ""
    missing.print_notes()
    missing.print_notes()
    assert capsys.readouterr().err == printed
