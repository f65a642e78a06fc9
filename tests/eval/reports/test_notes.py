"""Facts and titles of a run, in words."""

from dataclasses import replace
from typing import Any

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import RunFacts, RunNames
from eval.reports.notes import describe_run, format_duration, format_title
from eval.runs.run_info import RunInfo, TaskInfo

NAMES = RunNames(
    folder="night", system="gaia", model="small", data="sample", split="val", prompts="baseline", scorer="gaia"
)


def lines(info: RunInfo, **facts: Any) -> dict[str, str]:
    return dict(describe_run(info, summarise([], RunDetails(run_id="run-1", wall_seconds=75.0, **facts))))


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
    assert lines(info, names=NAMES, command=("model=small", "run.name=a b"), epochs=3) == {
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
    assert lines(RunInfo(rescored_from="evening"))["answers"] == "those of evening, scored again"


def test_long_runs_are_told_in_hours() -> None:
    assert [format_duration(seconds) for seconds in (4.26, 100, 3_700)] == ["4.3 s", "2 min", "1 h 2 min"]


def test_a_title_leaves_out_what_is_unknown_or_usual() -> None:
    run = RunFacts(run_id="r1", **vars(NAMES))
    assert format_title(run) == "gaia · small · sample/val · prompts baseline · night"
    assert format_title(replace(run, split=None, prompts=None)) == "gaia · small · sample · night"
    assert format_title(RunFacts(run_id="r1")) == "r1"


def test_a_name_cannot_move_the_terminal() -> None:
    assert format_title(RunFacts(run_id="r1", model="a\n\x1b[31mb" + "x" * 99)).startswith("a \\u001b[31mbxxx")
    assert len(format_title(RunFacts(run_id="r1", model="x" * 999))) < 80
