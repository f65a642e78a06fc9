"""Runs as data frames."""

import subprocess
import sys
from pathlib import Path

import pytest

from eval.analysis.summary.summarise import summarise_store
from eval.reports.data_frames import CALL_COLUMNS, calls_df, runs_df, samples_df
from eval.runs.store import RunStore
from mas.runtime.errors import UserError
from tests.eval.foreign_folder import edit_info
from tests.eval.stored_run import answered, stored_run

STEPS = [
    {"id": 0, "parent": None, "kind": "question", "name": "q1", "start_seconds": 0.0, "end_seconds": 3.0},
    {"id": 1, "parent": 0, "kind": "agent", "name": "planner", "start_seconds": 0.0, "end_seconds": 2.0},
    {
        **{"id": 2, "parent": 1, "kind": "lm", "name": "gpt", "start_seconds": 0.5, "end_seconds": 1.5},
        "attributes": {"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.25},
    },
    {"id": 3, "parent": 1, "kind": "tool", "name": "search", "start_seconds": 1.5, "error": "ValueError: no"},
]


def test_a_failure_counts_as_zero_so_that_the_mean_is_that_of_the_run(tmp_path: Path) -> None:
    failed = answered("q2", None, score=None, error="the server is down", error_class="infrastructure")
    unscored = answered("q4", "17", gold=None)
    folder = stored_run(tmp_path / "a", [answered("q1", "17"), failed, unscored], planned=["q1", "q2", "q3", "q4"])
    frame = samples_df(folder)
    assert frame.set_index("id")["score"].loc[["q1", "q2", "q3"]].tolist() == [1.0, 0.0, 0.0]
    assert frame["score"].isna().tolist() == [each == "q4" for each in frame["id"]]
    with RunStore(folder / "run.db", read_only=True) as store:
        assert frame["score"].mean() == summarise_store(store).accuracy
    assert frame["error_class"].value_counts().to_dict() == {"infrastructure": 1, "not_run": 1}
    assert frame.loc[0, ["run", "input", "target", "answer", "cost_usd", "model_calls"]].tolist() == [
        *("a", "What is q1?", "17", "17", 0.5, 2)
    ]


def test_only_the_last_attempt_is_a_row_and_tags_and_parts_are_columns(tmp_path: Path) -> None:
    failed = answered("q1", None, score=None, error="down", error_class="infrastructure")
    folder = stored_run(tmp_path / "a", [failed, answered("q1", "17", attempt=2, parts={"recall": 0.5})])
    other = stored_run(tmp_path / "b", [answered("q1", "18")])
    frame = samples_df([folder, other])
    assert frame[["run", "attempt", "score"]].values.tolist() == [["a", 2, 1.0], ["b", 1, 0.0]]
    assert frame["score_recall"].tolist()[0] == 0.5


def test_calls_have_their_agent_their_tokens_and_their_error(tmp_path: Path) -> None:
    frame = calls_df(stored_run(tmp_path / "a", [answered("q1", "17", trajectory=STEPS)]))
    assert tuple(frame.columns) == CALL_COLUMNS
    assert frame[["event", "agent", "name"]].values.tolist() == [
        *(["model", "planner", "gpt"], ["tool", "planner", "search"])
    ]
    assert frame.loc[0, ["total_tokens", "cost_usd", "total_time"]].tolist() == [12, 0.25, 1.0]
    assert frame["error"].tolist()[1] == "ValueError: no" and frame["total_tokens"].isna().tolist() == [False, True]


def test_a_run_is_a_row_with_its_interval_and_a_broken_one_says_so(tmp_path: Path) -> None:
    good = stored_run(tmp_path / "good", [answered("q1", "17"), answered("q2", "1")], system="toy", model="m")
    bad = stored_run(tmp_path / "bad", [answered("q1", "17")])
    edit_info(bad, version=99)
    frame = runs_df([good, bad]).set_index("run")
    assert frame.loc["good", ["state", "system", "model", "score", "n"]].tolist() == [*("complete", "toy", "m", 0.5, 2)]
    assert 0 < frame.loc["good", "ci_low"] < 0.5 < frame.loc["good", "ci_high"] < 1
    assert frame.loc["bad", "state"] == "refused" and "version" in str(frame.loc["bad", "reason"])


def test_a_foreign_folder_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported or resolved, a link in it is refused, and values of wrong types are a sentence."""
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('was_here').touch()\n")
    monkeypatch.chdir(tmp_path)
    folder = stored_run(tmp_path / "theirs", [answered("${oc.env:HOME}", "=cmd|' /C calc'!A0", trajectory=STEPS)])
    edit_info(folder, config={"system": {"_target_": "evil:x", "target": "evil:x", "name": "${oc.env:HOME}"}})
    assert samples_df(folder)["id"].tolist() == ["${oc.env:HOME}"] and len(calls_df(folder)) == 2
    assert runs_df(folder)["state"].tolist() == ["complete"]
    assert not (tmp_path / "was_here").exists()
    wrong = stored_run(tmp_path / "wrong", [answered("q1", "17", wall_seconds="x", trajectory=["x"])])
    edit_info(wrong, system="other")
    for read in (samples_df, calls_df):
        with pytest.raises(UserError, match="wrong was made elsewhere"):
            read(wrong)
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="is a link"):
        samples_df(folder)


def test_what_is_no_run_is_a_sentence() -> None:
    with pytest.raises(UserError, match="is no run"):
        samples_df("no-such-run")


def test_pandas_is_imported_only_when_a_frame_is_built() -> None:
    code = "import sys, eval.reports.data_frames; assert 'pandas' not in sys.modules and 'dspy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
