"""The table of a sweep, from runs that were made before."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.cli.command import FAILURES, FINISHED, STOPPED, USER_ERROR
from eval.config.tracking import LocalTracking, NoTracking
from eval.mlflow_export.exporter_launcher import SWEEP, ExportOutcome
from eval.runs.record import Record
from eval.runs.store import RunStore
from eval.workflows import sweep_table
from eval.workflows.sweep import Job, RunningSweep, Sweep
from eval.workflows.sweep_table import build_result, finish_sweep, make_table, read_tracking
from mas.runtime.errors import UserError
from tests.eval.stored_run import CONFIG, answered, stored_run

Add = Callable[..., Job]
IDS = [f"q{number:02}" for number in range(12)]


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path / "outputs" / "multirun" / "night", "id", "2026-11-21T08:00:00+00:00")


@pytest.fixture
def add(sweep: Sweep, tmp_path: Path) -> Add:
    """Add a job with a run, of which so many answers are right; None: it has no run."""

    def add_job(right: int | None, records: Sequence[Record] | None = None, **facts: Any) -> Job:
        number = len(sweep.jobs)
        job = Job(number, [f"a={number}"], exit_code=None, error="it never ran")
        if right is not None:
            some = [answered(each, "17" if n < right else "18") for n, each in enumerate(IDS)]
            stored_run(tmp_path / "outputs" / "eval" / f"run-{number}", some if records is None else records,
                       **{"run_id": f"id-{number}", **facts})  # fmt: skip
            job = replace(job, folder=f"../../eval/run-{number}", error=None)
        sweep.jobs.append(job)
        return job

    return add_job


def break_store(run: Path) -> None:
    for each in run.iterdir():
        each.unlink()
    (run / "run.db").write_text("this is no database")


def test_each_job_is_compared_with_the_first_as_one_of_all(sweep: Sweep, add: Add) -> None:
    for right in (4, 12, None, 6):
        add(right)
    result = build_result(sweep)
    assert [(each.job, list(each.differs), each.run_id) for each in result.jobs] == [
        (0, ["a=0"], "id-0"), (1, ["a=1"], "id-1"), (2, ["a=2"], None), (3, ["a=3"], "id-3"),
    ]  # fmt: skip
    assert [(each.exit_code, each.error) for each in result.jobs] == [
        (FINISHED, None), (FINISHED, None), (None, "it never ran"), (FINISHED, None),
    ]  # fmt: skip
    assert [each.summary and each.summary.n_correct for each in result.jobs] == [4, 12, None, 6]
    better, none, other = result.comparisons
    assert (none.job, none.reason, none.result, none.p_holm) == (2, "it has no answers", None, None)
    assert better.result is not None and other.result is not None
    assert (better.job, better.reason, better.result.difference) == (1, None, pytest.approx(8 / 12))
    assert (other.job, other.reason, other.result.difference) == (3, None, pytest.approx(2 / 12))
    assert better.p_holm == pytest.approx(2 * better.result.p) and other.p_holm == other.result.p


def test_without_answers_of_the_first_nothing_is_compared(sweep: Sweep, add: Add) -> None:
    add(None)
    add(4)
    assert [(each.job, each.reason, each.result) for each in build_result(sweep).comparisons] == [
        (1, "job 0 has no answers", None)
    ]


def test_runs_of_other_questions_are_not_compared(sweep: Sweep, add: Add) -> None:
    add(4)
    add(1, [answered("another", "17")])
    (compared,) = build_result(sweep).comparisons
    assert compared.result is None and compared.p_holm is None and compared.reason


@pytest.mark.parametrize(
    ("floor", "right", "code"),
    [(None, 0, FINISHED), (0.5, 6, FINISHED), (0.51, 6, FAILURES), (0.5, 7, FINISHED), (0.01, 0, FAILURES)],
)
def test_a_job_below_its_floor_has_failed(sweep: Sweep, add: Add, floor: float | None, right: int, code: int) -> None:
    add(right, config={**CONFIG, "run": {"fail_under": floor}})
    assert build_result(sweep).jobs[0].exit_code == code


def test_a_job_with_an_error_has_failed_and_one_without_all_answers_was_stopped(sweep: Sweep, add: Add) -> None:
    add(1, [answered("q1", "17"), answered("q2", None, score=0.0, error="broke", error_class="tool")])
    add(1, [answered("q1", "17")], planned=["q1", "q2"])
    add(1, [answered("q1", "17", gold=None)], config={**CONFIG, "run": {"fail_under": 0.1}})
    assert [each.exit_code for each in build_result(sweep).jobs] == [FAILURES, STOPPED, FAILURES]


def test_a_run_without_an_answer_says_why(sweep: Sweep, add: Add) -> None:
    add(1, [], planned=["q1"])
    told = add(1, [], planned=["q1"])
    told.error, told.exit_code = "a mistake", USER_ERROR
    first, second = build_result(sweep).jobs
    assert first.error and (first.exit_code, first.summary, first.run_id) == (None, None, None)
    assert (second.error, second.exit_code, second.summary) == ("a mistake", USER_ERROR, None)


def test_a_run_that_cannot_be_read_is_an_error_of_its_job(sweep: Sweep, add: Add, tmp_path: Path) -> None:
    add(4)
    broken = add(4)
    run = sweep.find_run(broken)
    assert run is not None
    break_store(run)
    gone = add(4)
    (tmp_path / "outputs" / "eval" / "run-2" / "run.db").unlink()
    found = build_result(sweep)
    assert found.jobs[0].error is None
    assert found.jobs[1].error and "run.db" in found.jobs[1].error and found.jobs[1].summary is None
    assert (found.jobs[2].error, found.jobs[2].folder) == (None, gone.folder)
    assert [each.reason for each in found.comparisons] == ["it has no answers"] * 2


def test_the_table_is_shown_kept_and_sent_nowhere(
    sweep: Sweep, add: Add, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(4)
    add(12)
    result = make_table(sweep, NoTracking(), [])
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[-2].startswith("sweep: ") and lines[-2].endswith("multirun/night")
    assert lines[-1].startswith("page: ") and lines[-1].endswith("multirun/night/sweep.html")
    assert "a=1" in shown.out and shown.err == ""
    kept = json.loads((sweep.folder / "sweep.json").read_text())
    made = json.loads(json.dumps(result.to_dict()))
    assert (kept["jobs"], kept["comparisons"], kept["id"]) == (made["jobs"], made["comparisons"], "id")
    assert "a=1" in (sweep.folder / "sweep.md").read_text("utf-8")
    page = (sweep.folder / "sweep.html").read_text("utf-8")
    assert "a=0" in page and "a=1" in page


def test_a_job_that_was_stopped_is_shown_with_the_way_to_go_on(
    sweep: Sweep, add: Add, capsys: pytest.CaptureFixture[str]
) -> None:
    add(4)
    add(1, [answered("q1", "17")], planned=["q1", "q2"])
    make_table(sweep, NoTracking(), [])
    lines = capsys.readouterr().out.splitlines()
    (hint,) = [each for each in lines if "run.resume=" in each]
    assert hint.startswith("job 1: ") and "run-1" in hint
    assert lines[-1].startswith("then make the table again: ") and "night" in lines[-1]
    assert not (sweep.folder / "sweep.html").exists(), "there are no two runs of the same questions"


def test_a_job_that_never_ran_is_waited_for(sweep: Sweep, add: Add, capsys: pytest.CaptureFixture[str]) -> None:
    add(4)
    add(None)
    make_table(sweep, NoTracking(), [])
    lines = capsys.readouterr().out.splitlines()
    assert "job 1: it never ran" in lines and "run.resume=" not in str(lines)
    assert lines[-1].startswith("then make the table again: ")


def test_tracking_is_that_of_the_last_job_with_a_run(sweep: Sweep, add: Add, tmp_path: Path) -> None:
    assert isinstance(read_tracking(sweep), NoTracking)
    add(None)
    assert isinstance(read_tracking(sweep), NoTracking)
    for name in ("first", "last"):
        node = {"_target_": "eval.config.tracking.LocalTracking", "folder": str(tmp_path / name)}
        add(1, config={**CONFIG, "tracking": node})
    add(None)
    add(2)
    (tmp_path / "outputs" / "eval" / "run-4" / "run.db").unlink()
    found = read_tracking(sweep)
    assert isinstance(found, LocalTracking) and found.folder == str(tmp_path / "last")


def test_an_address_in_a_run_from_elsewhere_is_not_used(sweep: Sweep, add: Add, tmp_path: Path) -> None:
    add(1)
    run = tmp_path / "outputs" / "eval" / "run-0"
    with RunStore(run / "run.db") as store:
        store.write_info(store.read_info(), signed=False)
    with pytest.raises(
        UserError, match=r"run-0 was made elsewhere, or changed since, so the address in it is not used"
    ):
        read_tracking(sweep)
    break_store(run)
    with pytest.raises(UserError, match=r"run\.db.*\.$"):
        read_tracking(sweep)


@pytest.mark.parametrize(
    ("error", "why"),
    [(KeyboardInterrupt(), "stopped by Ctrl-C"), (OSError(28, "No space left"), "[Errno 28] No space left")],
)
def test_a_table_that_could_not_be_made_is_a_warning_with_the_command_that_makes_it(
    sweep: Sweep, error: BaseException, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = list[object]()

    def fail(*arguments: object) -> None:
        given.extend(arguments)
        raise error

    monkeypatch.setattr(sweep_table, "make_table", fail)
    running = RunningSweep(sweep, tracking=NoTracking(), secrets=["s"])
    finish_sweep(running)
    assert given == [sweep, running.tracking, ["s"]]
    assert capsys.readouterr().err == (
        f"warning: the sweep's table could not be made: {why}; make it with: python eval/sweep.py night\n"
    )


class Launcher:
    """In place of the process that sends a sweep to MLflow: it says one line, and has one outcome."""

    outcome = ExportOutcome()
    calls: list[tuple[object, ...]] = []  # noqa: RUF012

    def __init__(self, *given: object) -> None:
        self.calls.append(given)

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append(("closed",))

    def finish(self, say: Callable[[str], None]) -> ExportOutcome:
        say("it takes [a while]")
        return self.outcome


@pytest.mark.parametrize(
    ("outcome", "out", "err"),
    [
        (ExportOutcome(view_line="look there"), ["look there"], ""),
        (ExportOutcome(), [], ""),
        (ExportOutcome(None, "no server", "look there"), [],
         "warning: the sweep's page is not in MLflow: no server\n"),
    ],
)  # fmt: skip
def test_the_page_is_sent_to_mlflow_and_a_failure_is_a_warning(
    sweep: Sweep,
    add: Add,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    outcome: ExportOutcome,
    out: list[str],
    err: str,
) -> None:
    monkeypatch.setattr(sweep_table, "ExporterLauncher", Launcher)
    monkeypatch.setattr(Launcher, "outcome", outcome)
    Launcher.calls.clear()
    add(4)
    tracking = LocalTracking()
    make_table(sweep, tracking, ["s"])
    said = capsys.readouterr()
    assert said.out.splitlines()[-2 - len(out) :] == [
        "sending the sweep's page to MLflow …", "it takes [a while]", *out,
    ]  # fmt: skip
    assert said.err == err
    assert Launcher.calls == [(tracking, sweep.folder, ["s"], SWEEP), ("closed",)]


def test_the_page_has_the_jobs_that_can_be_compared_with_the_first_by_what_differs(
    sweep: Sweep, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    monkeypatch.setattr(sweep_table, "write_comparison", lambda *given: written.append(given))
    for right in (4, 12):
        add(right)
    add(1, [answered("another", "17")])
    add(None)
    sweep.jobs[1].differs = []
    add(6)
    make_table(sweep, NoTracking(), [])
    ((page, compared, runs),) = written
    assert page == sweep.folder / "sweep.html"
    assert [each.name for each in compared.runs] == ["a=0", "run-1", "a=4"]
    assert [each.folder.name for each in runs] == ["run-0", "run-1", "run-4"]
    monkeypatch.setattr(sweep_table, "MAX_RUNS", 2)
    make_table(sweep, NoTracking(), [])
    assert [each.folder.name for each in written[1][2]] == ["run-0", "run-1"]


def test_a_job_has_the_numbers_and_the_link_of_its_run(sweep: Sweep, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_table, "read_link", lambda run: {"run_id": run.name})
    job = add(6)
    job.error, job.exit_code = "it was stopped", STOPPED
    (found,) = build_result(sweep).jobs
    assert found.summary is not None
    assert (found.job, list(found.differs), found.folder) == (0, ["a=0"], "../../eval/run-0")
    assert (found.run_id, found.error, found.exit_code, found.mlflow) == ("id-0", None, FINISHED, {"run_id": "run-0"})
    assert (found.summary.n, found.summary.n_correct) == (12, 6)


def test_tracking_that_cannot_be_used_is_a_mistake(sweep: Sweep, add: Add, tmp_path: Path) -> None:
    node = {"_target_": "eval.config.tracking.LocalTracking", "wait_seconds": -1}
    add(1, config={**CONFIG, "tracking": node})
    with pytest.raises(UserError, match="wait_seconds"):
        read_tracking(sweep)
    run = tmp_path / "outputs" / "eval" / "run-0"
    (run / "link").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="is a link"):
        read_tracking(sweep)
