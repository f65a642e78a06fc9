"""What the head of the page says was measured."""

from typing import Any

from eval.analysis.summary.summary import summarise
from eval.reports.heading import describe_run, format_duration
from eval.runs.run_info import RunInfo, TaskInfo

MEASURED = {
    "folder": "night", "system": "gaia", "data": "sample", "split": "val", "prompts": "baseline", "scorer": "gaia",
}  # fmt: skip


def lines(info: RunInfo, **facts: Any) -> dict[str, str]:
    return dict(describe_run(info, summarise("run-1", [], **{"simulated": False, "wall_seconds": 75.0, **facts})))


def test_everything_that_the_run_noted_is_told() -> None:
    agents = {"planner": {"model": "big"}, "expert": {"model": None}}
    info = RunInfo(
        config={"system": {"name": "gaia", "agents": agents}},
        task=TaskInfo(data_revision="abc"),
        prompts_sha256="0123456789abcdef",
        prompts_edited=["planner"],
        started_at="2026-11-21T08:00:00.5+00:00",
        origin={"mlflow.source.git.commit": "f" * 40, "mlflow.source.git.dirty": "true"},
    )
    assert lines(info, measured=MEASURED, model="small", command=["model=small", "run.name=a b"], epochs=3) == {
        "run": "night (id run-1)",
        "system": "gaia",
        "model": "small; planner: big",
        "questions": "sample, split val, revision abc: 0, 3 epochs",
        "scorer": "gaia",
        "prompts": "baseline (sha256 0123456789ab), edited since it was published",
        "date": "2026-11-21 08:00 UTC; it took 75.0 s",
        "harness": "commit ffffffffffff, with uncommitted changes",
        "command": "python eval/run.py model=small 'run.name=a b'",
    }


def test_what_a_run_did_not_note_is_left_out() -> None:
    assert lines(RunInfo()) == {"run": "run-1"}


def test_answers_scored_anew_name_their_run() -> None:
    assert lines(RunInfo(rescored_from="evening"))["answers"] == "those of evening, scored anew"


def test_long_runs_are_told_in_hours() -> None:
    assert [format_duration(seconds) for seconds in (4.26, 100, 3_700)] == ["4.3 s", "2 min", "1 h 2 min"]
