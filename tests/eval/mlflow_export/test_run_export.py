"""The steps of a run's way to MLflow, with an MLflow that only notes what it is told."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.config.tracking import LocalTracking
from eval.mlflow_export import run_export
from eval.mlflow_export.assessments import CORRECT
from eval.mlflow_export.run_export import COMPLETE_TAG, RunExport
from eval.mlflow_export.tracked_run import HEARTBEAT_TAG, Sent, to_ms
from eval.mlflow_export.values import derive_assessment_id, derive_trace_id
from eval.reports.files import write_summary
from eval.runs.record import Record
from eval.runs.run_info import SweepJob
from tests.eval.stored_run import SESSION, answered, stored_run

NAMES = ("q1", "q2", "q3")
STARTED, ENDED = "2026-11-21T08:00:00+00:00", SESSION["ended_at"]
FILES = {"files": {"store": 2, "mlflow": 2}}


def a_record(name: str, **changes: Any) -> Record:
    return answered(name, "17", **{"trajectory": [], **changes})


class Noted:
    """MLflow's run, which has what `there` names, and refuses the records of the ids in `refuses`."""

    run_id, experiment_id, link = "m1", "7", {"uri": "u", "experiment_id": "7", "run_id": "m1"}

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.refuses: set[str] = set()
        self.batches: list[list[str]] = []
        self.deleted: list[tuple[str, str]] = []
        self.tags: list[tuple[str, str, str]] = []
        self.ends: list[tuple[str, int]] = []
        self.calls: list[Any] = []
        self.files = FILES
        self.client = SimpleNamespace(set_tag=lambda *tag: self.tags.append(tag))
        self.tracing = SimpleNamespace(delete_assessment=lambda *ids: self.deleted.append(ids))

    def send(self, records: Sequence[Record]) -> Sent:
        names = [each.sample_id for each in records]
        if self.refuses & set(names):
            raise ValueError("refused")
        self.batches.append(names)
        return Sent(len(names), 10 * len(names), 3 * len(names))

    def finish(self, status: str, end_ms: int) -> None:
        self.ends.append((status, end_ms))


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Noted:
    run = Noted()

    def open_run(settings: object, run_id: str, **given: Any) -> Noted:
        run.calls.append(("open", run_id, given))
        return run

    def compare_files(_: object, folder: Path, prompts: object, known_only: bool = False) -> Any:
        run.calls.append(("compare files", folder.name, prompts, known_only))
        return run.files

    def compare_metrics(_: object, metrics: dict[str, float]) -> Any:
        return {"metrics": {"store": len(metrics), "mlflow": len(metrics)}}

    monkeypatch.setattr(run_export, "open_run", open_run)
    monkeypatch.setattr(run_export, "format_now", lambda: "now")
    monkeypatch.setattr(run_export, "build_parent_tags", lambda _, job: {"parent": job.id} if job else {})
    monkeypatch.setattr(run_export, "read_trace_ids", lambda given: given.there)
    monkeypatch.setattr(run_export, "count_in_mlflow", lambda _: Sent(1, 2, 3))
    monkeypatch.setattr(run_export, "compare_files", compare_files)
    monkeypatch.setattr(run_export, "compare_metrics", compare_metrics)
    monkeypatch.setattr(run_export, "write_page", lambda _, page: run.calls.append(("page", page)))
    monkeypatch.setattr(
        run_export, "write_artifacts", lambda _, folder, prompts: run.calls.append(("files", folder.name, prompts))
    )
    return run


Opened = Callable[..., RunExport]


@pytest.fixture
def opened(tmp_path: Path, mlflow: Noted) -> Iterator[Opened]:
    exports: list[RunExport] = []

    def opened(records: Sequence[Record] | None = None, redact: Callable[[str], str] = str, **facts: Any) -> RunExport:
        kept = [a_record(name) for name in NAMES] if records is None else records
        facts = {"system": "toy", "model": "small", "started_at": STARTED, "finished": True, **facts}
        exports.append(RunExport(stored_run(tmp_path / "night", kept, **facts), LocalTracking(), redact))
        return exports[-1]

    yield opened
    for each in exports:
        each.close()


def trace_id(name: str, attempt: int = 1) -> str:
    return derive_trace_id(("run-1", name, 1, attempt))


def test_a_run_is_opened_under_its_own_name_start_and_origin(opened: Opened, mlflow: Noted) -> None:
    job = SweepJob("s1", "nightly", STARTED, "here", 1, 0, [])
    assert opened(origin={"git": "abc"}, sweep=job).open_run().run_id == "m1"
    tags = {"git": "abc", "parent": "s1", HEARTBEAT_TAG: "now"}
    given = {"name": "toy small · night", "start_ms": to_ms(STARTED), "tags": tags}
    assert mlflow.calls == [("open", "run-1", given)]


def test_records_come_in_batches_until_none_is_left(
    opened: Opened, mlflow: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_export, "BATCH_TRACES", 2)
    export = opened()
    assert export.describe_sent() == "sent nothing new"
    assert [export.send_new() for _ in range(3)] == [2, 1, 0]
    assert mlflow.batches == [["q1", "q2"], ["q3"], []]
    assert export.sent == Sent(3, 30, 9) and export.describe_sent() == "sent 3 traces, 30 spans, 9 assessments"
    assert export.expected.sent.traces == 3
    assert export.count_sent() == {"traces": {"store": 3, "mlflow": 3}}


def test_a_batch_ends_with_the_record_that_fills_it(
    opened: Opened, mlflow: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = opened()
    first = len(next(iter(export.store.lines_after(0)))[1])
    for limit, batch in ((first, ["q1"]), (first + 1, ["q1", "q2"])):
        monkeypatch.setattr(run_export, "BATCH_CHARS", limit)
        export.send_all_again()
        export.send_new()
        assert mlflow.batches[-1] == batch


def test_what_mlflow_has_is_counted_and_not_sent_unless_all_is_sent_again(opened: Opened, mlflow: Noted) -> None:
    mlflow.there = {trace_id("q1"), trace_id("q3")}
    export = opened()
    assert export.run.run_id == export.state.run_id == "m1"
    assert export.send_new() == 3 and mlflow.batches == [["q2"]]
    assert export.count_sent() == {"traces": {"store": 3, "mlflow": 3}}
    export.send_all_again()
    assert export.count_sent() == {"traces": {"store": 3, "mlflow": 0}}
    assert export.send_new() == 3 and mlflow.batches[1:] == [["q1", "q2", "q3"]]
    assert export.count_sent() == {"traces": {"store": 3, "mlflow": 3}}


def test_a_batch_that_is_refused_three_times_is_sent_one_by_one(opened: Opened, mlflow: Noted) -> None:
    mlflow.refuses = {"q2"}
    export = opened()
    for _ in range(3):
        with pytest.raises(ValueError, match="refused"):
            export.send_new()
        export.note_refusal()
    assert mlflow.batches == []
    assert export.send_new() == 3 and mlflow.batches == [["q1"], ["q3"]]
    assert export.count_sent() == {"traces": {"store": 3, "mlflow": 2}}
    export.send_all_again()
    with pytest.raises(ValueError, match="refused"):  # a new batch has its own three tries
        export.send_new()
    mlflow.refuses = set()
    export.send_new()
    assert export.count_sent() == {"traces": {"store": 3, "mlflow": 3}}


def test_an_attempt_that_is_replaced_loses_its_verdict_and_no_other(opened: Opened, mlflow: Noted) -> None:
    export = opened([a_record("q1"), a_record("q2", attempt=3)])
    export.send_new()
    assert mlflow.deleted == [(trace_id("q2", n), derive_assessment_id(("run-1", "q2", 1, n), CORRECT)) for n in (1, 2)]


@pytest.mark.parametrize(
    ("planned", "finished", "status"),
    [
        (NAMES, True, "FINISHED"),
        (NAMES, None, "FINISHED"),
        (NAMES, False, "KILLED"),
        ((*NAMES, "q4"), None, "KILLED"),
    ],
)
def test_a_run_ends_at_the_last_moment_that_is_known_of_it(
    planned: Sequence[str], finished: bool | None, status: str, opened: Opened, mlflow: Noted
) -> None:
    export = opened(planned=planned, finished=finished)
    last = export.store.last_finished_at()
    assert last is not None
    export.close_run()
    assert mlflow.ends == [(status, max(to_ms(last), to_ms(ENDED)))]
    assert export.state.status == status


def test_a_run_without_records_ends_with_its_last_session_or_when_it_began(
    opened: Opened, mlflow: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = opened()
    monkeypatch.setattr(export.store, "last_finished_at", lambda: None)
    export.close_run()
    sessionless = replace(export.store.read_state(), sessions=[])
    monkeypatch.setattr(export.store, "read_state", lambda: sessionless)
    export.close_run()
    assert [moment for _, moment in mlflow.ends] == [to_ms(ENDED), to_ms(STARTED)]


def test_the_end_counts_what_there_was_no_time_for_and_says_that_it_is_not_sent(
    opened: Opened, mlflow: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_export, "BATCH_TRACES", 1)
    mlflow.there = {trace_id("q3")}
    export = opened(redact=lambda text: text.replace("secret", "***"), origin={"git": "secret"})
    export.send_new()
    export.end()
    assert mlflow.batches == [["q1"]] and export.expected.sent.traces == 3
    assert export.count_sent() == {"traces": {"store": 3, "mlflow": 2}}
    assert export.send_new() == 0
    pages = [call[1] for call in mlflow.calls if call[0] == "page"]
    assert [page.tags["git"] for page in pages] == ["***"] and pages[0].metrics
    assert [status for status, _ in mlflow.ends] == ["FINISHED"]
    counts, sent = export.count(), export.expected.sent
    assert counts["traces"] == {"store": 3, "mlflow": 1} and counts["assessments"]["store"] == sent.assessments
    assert counts["metrics"] == {"store": len(pages[0].metrics), "mlflow": len(pages[0].metrics)}
    assert counts["files"] == FILES["files"]
    assert mlflow.calls[-1] == ("compare files", "night", {}, False)


def test_files_are_sent_if_one_is_missing_or_of_unknown_length(opened: Opened, mlflow: Noted) -> None:
    export = opened()
    export.end()
    assert ("compare files", "night", {}, True) in mlflow.calls and ("files", "night", {}) not in mlflow.calls
    mlflow.files = {"files": {"store": 2, "mlflow": 1}}
    export.end()
    assert ("files", "night", {}) in mlflow.calls


def test_the_summary_is_given_the_link_once(opened: Opened, mlflow: Noted, monkeypatch: pytest.MonkeyPatch) -> None:
    export = opened()
    export.end()
    assert not (export.folder / "summary.json").exists()
    written = []
    monkeypatch.setattr(run_export, "write_summary", lambda *given: (written.append(given[1]), write_summary(*given)))
    write_summary(export.folder, run_export.summarise_store(export.store))
    export.end()
    export.end()
    assert [each.mlflow for each in written] == [mlflow.link]
    assert run_export.read_summary(export.folder / "summary.json").mlflow == mlflow.link


def test_the_page_of_a_run_that_goes_on_has_no_numbers(opened: Opened, mlflow: Noted) -> None:
    export = opened(origin={"git": "abc"})
    export.show()
    [page] = [call[1] for call in mlflow.calls if call[0] == "page"]
    assert page.metrics == {} and page.tags["git"] == "abc"


def test_the_page_says_what_is_missing(opened: Opened, mlflow: Noted) -> None:
    export = opened()
    for warning in (None, "1 of 2 traces", "x" * (run_export.MAX_TAG_CHARS + 1)):
        export.show_warning(warning)
    assert mlflow.tags[:2] == [("m1", COMPLETE_TAG, "complete"), ("m1", COMPLETE_TAG, "1 of 2 traces")]
    assert len(mlflow.tags[2][2]) <= run_export.MAX_TAG_CHARS


def test_an_export_that_is_closed_has_closed_its_store(tmp_path: Path, mlflow: Noted) -> None:
    folder = stored_run(tmp_path / "night", [a_record("q1")])
    with closing(RunExport(folder, LocalTracking(), str)) as export:
        assert export.store.last_finished_at() is not None
    with pytest.raises(Exception, match="closed"):
        export.store.last_finished_at()


def test_prompts_are_those_of_now_only_while_the_run_goes_on(
    opened: Opened, mlflow: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[Any] = []
    monkeypatch.setattr(run_export, "register_prompts", lambda run, *sets, **how: registered.append((run, sets, how)))
    monkeypatch.setattr(run_export, "name_owner", lambda prompts, system: (prompts, system["name"]))
    export = opened()
    export.show()
    export.end()
    assert registered == [], "a run without prompts"
    monkeypatch.setattr(run_export, "read_kept_prompts", lambda folder, names: {"prompts": "first", "prompts_2": "new"})
    export.show()
    export.end()
    sets = (("first", "toy"), ("new", "toy"))
    assert registered == [(mlflow, sets, {"is_now": True}), (mlflow, sets, {"is_now": False})]
