"""A run's summary from its database alone: whole, while it is going on, and after its process was killed."""

from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.human_review.labels import append_label, describe_label
from eval.analysis.summary.from_store import GOING_ON, WITHOUT_RECORD, read_missing, read_names, summarise_store
from eval.analysis.summary.rows import Row, build_row
from eval.analysis.summary.summary import PaceChange, SessionSummary, Summary
from eval.runs.folder import RunLock
from eval.runs.record import ExtraScore, Record, Usage
from eval.runs.run_info import SILENT, RunInfo, RunState, SessionInfo, TuningUse
from eval.runs.store import RunStore
from eval.scorers.labels import LabelSet
from tests.eval.stored_run import CONFIG as STORED
from tests.eval.stored_run import answered, stored_run

CONFIG = {
    "system": {"name": "gaia"},
    "data": {"name": "sample", "default_split": "val"},
    "scorer": {"_target_": "eval.scorers.gaia.GaiaScorer"},
    "split": "test",
    "prompts": "shelf/careful",
}


def info(**changes: Any) -> RunInfo:
    return RunInfo(config={**CONFIG, **changes})


def test_names_come_from_the_configuration_that_the_run_has_kept() -> None:
    assert vars(read_names(replace(info(), model="m"), "night")) == {
        "folder": "night", "system": "gaia", "data": "sample", "split": "test", "prompts": "careful", "scorer": "gaia",
        "model": "m",
    }  # fmt: skip
    assert set(vars(read_names(RunInfo(), "night")).values()) == {"night", None}


def test_the_prompts_used_last_count_rather_than_those_configured() -> None:
    kept = replace(info(), prompts={"prompts": "careful", "prompts_2": "c014"})
    assert read_names(kept, "winner").prompts == "c014"


@pytest.mark.parametrize(
    ("target", "name"),
    [("eval.scorers.numeric.NumericScorer", "numeric"), ("my_rules.judge.Judge", "my_rules.judge.Judge")],
)
def test_a_scorer_is_called_what_the_command_line_calls_it(target: str, name: str) -> None:
    assert read_names(info(scorer={"_target_": target}), "x").scorer == name


FIRST, SECOND = "2026-11-21T08:00:00+00:00", "2026-11-21T09:00:00+00:00"


def stored(folder: Path, n_answered: int, **facts: Any) -> Path:
    """Two samples, of which as many are answered."""
    return stored_run(folder, [answered(f"q{n + 1}", "17") for n in range(n_answered)], ["q1", "q2"], **facts)


def summary_of(folder: Path, sessions: list[dict[str, Any]] | None = None, read_only: bool = True) -> Summary:
    """`sessions`: that the run has had instead, with ten seconds in those that ended."""
    if sessions is not None:
        with RunStore(folder / "run.db") as store:
            store.write_state(RunState(sessions=[SessionInfo(**each) for each in sessions], wall_seconds=10.0))
    with RunStore(folder / "run.db", read_only=read_only) as store:
        return summarise_store(store)


def session(ended: bool = True, stopped: str | None = None) -> dict[str, Any]:
    return {"started_at": SECOND, "ended_at": "2026-11-21T09:02:00+00:00" if ended else None, "stopped": stopped}


def test_what_is_known_of_a_run_is_in_its_summary(tmp_path: Path) -> None:
    folder = stored_run(
        tmp_path / "night",
        [answered("q1", "yes", "yes", extra_scores={"graded": ExtraScore(0.5)}), answered("q2", "no", "yes", epoch=3)],
        planned=["q1", "q2"],
        epochs=2,
        run_id="run-7",
        system="toy",
        model="m",
        simulated=True,
        gold_informed="solver",
        wall_seconds=12.5,
        config={
            **STORED,
            "data": {"name": "forms", "tags": ["topic", "place"]},
            "split": "test",
            "extra_scorers": {"graded": {"_target_": "eval.scorers.numeric.NumericScorer"}},
        },
        labels=["yes", "no"],
        bad_rows=["row 3: no question"],
        command=["data=forms"],
        sessions=[
            {
                "started_at": FIRST, "ended_at": SECOND, "stopped": "by you", "pid": 7, "host": "h",
                "changes": {"epochs": "1 → 2"}, "peak_memory_mb": 81.5,
            }
        ],
        pace_history=[{"seconds": 1.5, "pace": 2.0, "reason": "slower"}],
        unfinished={"lm_calls": 3, "cost_usd": 0.25},
        tuning_use=TuningUse("careful", ["q1"], [], {}),
    )  # fmt: skip
    found = summary_of(folder)
    assert (found.run_id, found.simulated, found.wall_seconds, found.stopped) == ("run-7", True, 12.5, "by you")
    assert (found.folder, found.system, found.model, found.data, found.split, found.prompts, found.scorer) == (
        "night", "toy", "m", "forms", "test", None, "exact",
    )  # fmt: skip
    assert found.no_measurement.startswith("it gave solver the right answers, on questions")
    assert found.labels and found.labels.by_label["yes"].n == 4, "two samples, twice each"
    assert (found.tags, found.command, found.bad_rows) == (("topic", "place"), ("data=forms",), ("row 3: no question",))
    assert (found.epochs, found.n, found.n_not_run, found.n_outside_plan, found.n_questions) == (2, 4, 3, 1, 2)
    assert found.extra_scorers["graded"].score == pytest.approx(0.5 / 4)
    assert found.sessions == (
        SessionSummary(
            started_at=FIRST, ended_at=SECOND, stopped="by you", changes={"epochs": "1 → 2"}, peak_memory_mb=81.5
        ),
    )
    assert found.pace_history == (PaceChange(seconds=1.5, pace=2.0, reason="slower"),)
    assert found.unfinished == Usage(3, cost_usd=0.25)
    assert found.used_to_tune and (found.used_to_tune.prompts, found.used_to_tune.n_questions) == ("careful", 1)
    assert found.attribution is None and found.critics == {}


def test_what_has_not_been_run_counts_as_an_error_in_every_epoch(tmp_path: Path) -> None:
    folder = stored(tmp_path, n_answered=1, epochs=2)
    with RunStore(folder / "run.db", read_only=True) as store:
        missing = [(each.run_id, each.sample_id, each.epoch, each.error_class) for each in read_missing(store)]
    assert missing == [("run-1", "q2", 1, "not_run"), ("run-1", "q1", 2, "not_run"), ("run-1", "q2", 2, "not_run")]


def test_why_a_run_ended_before_its_last_sample(tmp_path: Path) -> None:
    whole, part = stored(tmp_path / "whole", n_answered=2), stored(tmp_path / "part", n_answered=1)
    gone, open_ = session(stopped="out of money"), session(ended=False)
    for folder, sessions, read_only, expected in (
        (whole, [session()], True, None),
        (whole, [session()], False, None),
        (part, [gone], True, "out of money"),
        (whole, [gone], True, "out of money"),
        (whole, [gone, session()], True, None),
        (part, [session(), gone], False, "out of money"),
        (part, [session()], True, WITHOUT_RECORD),
        (part, [open_], False, WITHOUT_RECORD),  # the run's own process asks at its end
        (whole, [open_], True, None),
        (part, [session(ended=False, stopped="by you")], True, SILENT),
        (part, [], True, SILENT),
        (part, [], False, WITHOUT_RECORD),
    ):
        assert summary_of(folder, sessions, read_only).stopped == expected, (folder.name, sessions, read_only)


def test_a_run_that_another_process_writes_to_is_still_going_on(tmp_path: Path) -> None:
    folder = stored(tmp_path, n_answered=1, sessions=[session(ended=False)])
    lock = RunLock(folder / "run.db")
    lock.take(wait_seconds=0)
    try:
        assert summary_of(folder).stopped == GOING_ON
    finally:
        lock.release()
    assert summary_of(folder).stopped == SILENT


class WhenAnswered(datetime):
    """A clock that stands still, a minute and a half after the second session began."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "WhenAnswered":
        return cls(2026, 11, 21, 9, 1, 30, tzinfo=tz)


def test_a_session_that_has_not_ended_lasts_until_its_last_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.runs.store.datetime", WhenAnswered)
    one, none = stored(tmp_path / "one", n_answered=1), stored(tmp_path / "none", n_answered=0)
    for folder, sessions, expected in (
        (one, [session()], 10.0),
        (one, [session(ended=False)], 100.0),
        (one, [session(), session(ended=False)], 100.0),
        (one, [session(ended=False), session()], 10.0),
        (none, [session(ended=False)], 10.0),
        (one, [], 10.0),
        (one, [{"started_at": "2026-11-21T09:01:00"}], 40.0),  # a time without a zone is UTC
        (one, [{"started_at": "2026-11-21T10:01:00+01:00"}], 40.0),
        (one, [{"started_at": "2026-11-21T09:01:29+00:00"}], 11.0),
        (one, [{"started_at": "2026-11-21T09:05:00+00:00"}], 10.0),  # no answer since it began
    ):
        assert summary_of(folder, sessions).wall_seconds == expected, sessions


def test_labels_that_people_gave_the_answers_are_in_the_summary(tmp_path: Path) -> None:
    folder = stored(tmp_path / "eval" / "night", n_answered=2)
    assert summary_of(folder).human_review is None
    label = describe_label(answered("q1", "17"), "wrong", file_sha256=None, who="ada", run="night")
    append_label(tmp_path / "gold", "d" * 64, label)
    review = summary_of(folder).human_review
    assert review and review.n_pending == 1


def test_the_steps_of_answers_which_may_have_megabytes_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[list[dict[str, Any]]] = []

    def build(record: Record, labels: LabelSet) -> Row:
        steps.append(record.trajectory)
        return build_row(record, labels)

    monkeypatch.setattr("eval.analysis.summary.summarise.build_row", build)
    folder = stored(tmp_path, n_answered=2)
    assert summary_of(folder).n == 2
    assert steps == [[], []]
    with RunStore(folder / "run.db", read_only=True) as store:
        assert all(each.trajectory for each in store.records())
