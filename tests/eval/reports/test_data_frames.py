"""Runs as data frames."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from eval.analysis.summary.from_store import summarise_store
from eval.reports.data_frames import (
    CALL_COLUMNS,
    RUN_COLUMNS,
    SAMPLE_COLUMNS,
    calls_df,
    find_folders,
    runs_df,
    samples_df,
)
from eval.runs.record import HumanVerdict, PlannedQuestion, Usage
from eval.runs.store import RunStore
from mas.runtime.errors import UserError
from tests.eval.foreign_folder import edit_info
from tests.eval.stored_run import SESSION, answered, stored_run

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
    assert tuple(frame.columns[: len(SAMPLE_COLUMNS)]) == SAMPLE_COLUMNS
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
    assert frame.loc["good", ["status", "system", "model", "accuracy", "total_samples", "n_error"]].tolist() == [
        *("success", "toy", "m", 0.5, 2, 0)
    ]
    assert 0 < frame.loc["good", "ci_low"] < 0.5 < frame.loc["good", "ci_high"] < 1
    assert frame.loc["bad", "status"] == "unreadable" and "version" in str(frame.loc["bad", "error"])


def test_an_empty_run_has_the_columns(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "a", [], planned=[])
    assert list(samples_df(folder).columns) == list(SAMPLE_COLUMNS) and len(calls_df(folder)) == 0


def test_a_foreign_folder_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported or resolved, a link in it is refused, and values of wrong types are a sentence."""
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath('was_here').touch()\n")
    monkeypatch.chdir(tmp_path)
    folder = stored_run(tmp_path / "theirs", [answered("${oc.env:HOME}", "=cmd|' /C calc'!A0", trajectory=STEPS)])
    edit_info(folder, config={"system": {"_target_": "evil:x", "target": "evil:x", "name": "${oc.env:HOME}"}})
    assert samples_df(folder)["id"].tolist() == ["${oc.env:HOME}"] and len(calls_df(folder)) == 2
    assert runs_df(folder)["status"].tolist() == ["success"]
    assert not (tmp_path / "was_here").exists()
    wrong = stored_run(tmp_path / "wrong", [answered("q1", "17", wall_seconds="x", trajectory=["x"])])
    edit_info(wrong, system="other")
    for read in (samples_df, calls_df):
        with pytest.raises(UserError, match="wrong was made elsewhere"):
            read(wrong)
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="is a link"):
        samples_df(folder)


@pytest.mark.parametrize("wrong", [3, [None], "no-such-run"])
def test_what_is_no_run_is_a_sentence(wrong: object) -> None:
    with pytest.raises(UserError, match="is no run"):
        samples_df(wrong)  # type: ignore[arg-type]


def test_pandas_is_imported_only_when_a_frame_is_built() -> None:
    code = "import sys, eval.reports.data_frames; assert 'pandas' not in sys.modules and 'dspy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_labels_of_people_are_columns_where_there_are_any(tmp_path: Path) -> None:
    verdict = HumanVerdict("1", "wrong_gold", "ada", "2026", "old", "table 2", "18", "17", 0.0, is_of_question=True)
    folder = stored_run(tmp_path / "a", [answered("q1", "18", gold="18", human=[verdict]), answered("q2", "17")])
    row = samples_df(folder).set_index("id").loc["q1"]
    assert tuple(row[["human_label", "human_who", "human_note", "target_before", "score_before"]]) == (
        "wrong_gold", "ada", "table 2", "17", 0.0,
    )  # fmt: skip


def test_every_column_of_a_sample_has_its_value(tmp_path: Path) -> None:
    usage = Usage(lm_calls=5, retries=1, tool_calls=2, input_tokens=30, output_tokens=4, cost_usd=0.25)
    record = answered(
        "q1", "18", epoch=1, attempt=2, file="a.csv", explanation="not equal", limit="tokens", usage=usage,
        wall_seconds=3.5, waited_seconds=1.25, started_at="2026-11-21T08:00:00+00:00", parts={"recall": 0.5},
        trajectory=[],
    )  # fmt: skip
    folder = stored_run(tmp_path / "a", [record])
    with RunStore(folder / "run.db") as store:
        store.write_plan([PlannedQuestion("q1", "Which?", target="17", tags={"topic": "x"})], replace=True)
    (row,) = samples_df(folder).to_dict("records")
    assert row == {
        "run": "a", "run_id": "run-1", "id": "q1", "epoch": 1, "attempt": 2, "input": "What is q1?", "file": "a.csv",
        "target": "17", "answer": "18", "level": "1", "score": 0.0, "explanation": "not equal", "error": None,
        "error_class": None, "error_component": None, "limit": "tokens", "lost_at_kind": "limit", "lost_at": "tokens",
        "total_tokens": 34, "input_tokens": 30, "output_tokens": 4, "cost_usd": 0.25, "model_calls": 5,
        "tool_calls": 2, "retries": 1, "total_time": 3.5, "working_time": 2.25,
        "started_at": "2026-11-21T08:00:00+00:00", "thread_id": "thread-q1", "metadata_topic": "x",
        "score_recall": 0.5,
    }  # fmt: skip


def test_answers_outside_the_plan_are_no_rows_and_missing_ones_are(tmp_path: Path) -> None:
    records = [answered("q1", "17"), answered("q1", "17", epoch=2), answered("gone", "17")]
    frame = samples_df(stored_run(tmp_path / "a", records, planned=["q1", "q2"]))
    assert frame[["id", "epoch", "score"]].values.tolist() == [["q1", 1, 1.0], ["q2", 1, 0.0]]
    assert frame["lost_at_kind"].tolist()[1] == "error" and frame["lost_at"].tolist()[1] == "not_run"


def test_every_column_of_a_call_has_its_value_as_far_as_it_is_known(tmp_path: Path) -> None:
    spans = [
        {"id": 1, "parent": None, "kind": "agent", "name": "planner"},
        {"id": 2, "parent": 1, "kind": "other", "name": "between"},
        {"id": 3, "parent": 2, "kind": "agent", "name": "expert"},
        {"id": 4, "parent": 3, "kind": "lm", "name": "m", "start_seconds": 0.5, "end_seconds": 2.0,
         "attributes": {"input_tokens": 10, "output_tokens": 0, "cost_usd": 0.5}},
        {"id": 5, "parent": 2, "kind": "tool", "name": "t", "start_seconds": 1.0, "error": "it broke",
         "attributes": {"input_tokens": True, "output_tokens": "x"}},
        {"id": 6, "parent": None, "kind": "lm", "name": "m", "attributes": "none", "end_seconds": 1.0},
    ]  # fmt: skip
    first = answered("q1", "17", trajectory=spans[:4])
    folder = stored_run(tmp_path / "a", [first, answered("q1", "17", epoch=1, attempt=2, trajectory=spans)])
    frame = calls_df(folder).astype(object)
    rows = frame.where(frame.notna(), None).to_dict("records")
    common = {"run": "a", "run_id": "run-1", "id": "q1", "epoch": 1}
    call = {
        "event": "model", "agent": "expert", "name": "m", "span_id": 4, "parent_id": 3, "total_tokens": 10,
        "input_tokens": 10, "output_tokens": 0, "cost_usd": 0.5, "total_time": 1.5, "started": 0.5, "error": None,
    }  # fmt: skip
    unknown = dict.fromkeys(("total_tokens", "input_tokens", "output_tokens", "cost_usd", "total_time"))
    assert rows == [
        {**common, "attempt": 1, **call},
        {**common, "attempt": 2, **call},
        {**common, "attempt": 2, "event": "tool", "agent": "planner", "name": "t", "span_id": 5, "parent_id": 2,
         **unknown, "started": 1.0, "error": "it broke"},
        {**common, "attempt": 2, "event": "model", "agent": None, "name": "m", "span_id": 6, "parent_id": None,
         **unknown, "started": None, "error": None},
    ]  # fmt: skip


def test_every_column_of_a_run_has_its_value(tmp_path: Path) -> None:
    usage = Usage(lm_calls=2, tool_calls=1, input_tokens=30, output_tokens=4, cost_usd=0.25)
    records = [answered("q1", "17", usage=usage), answered("q2", None, score=None, error="down", usage=Usage())]
    folder = stored_run(
        tmp_path / "a", records, planned=["q1", "q2", "q3"], system="toy", model="m", simulated=True,
        started_at="2026-11-21T08:00:00+00:00", wall_seconds=9.5, sessions=[{**SESSION, "stopped": "a budget"}],
    )  # fmt: skip
    (row,) = runs_df([folder]).to_dict("records")
    assert tuple(row) == RUN_COLUMNS
    interval = {name: row.pop(name) for name in ("ci_low", "ci_high")}
    scorer, prompts, data, split = (row.pop(name) for name in ("scorer", "prompts", "dataset_name", "dataset_split"))
    assert (scorer, prompts, data, split) == ("exact", None, None, None)
    assert row == {
        "run": "a", "run_id": "run-1", "created": "2026-11-21T08:00:00+00:00", "status": "stopped", "system": "toy",
        "model": "m", "epochs": 1, "total_samples": 3, "completed_samples": 2, "metric": "accuracy",
        "score": pytest.approx(1 / 3), "accuracy": pytest.approx(1 / 3), "n_scored": 3, "n_error": 2,
        "model_calls": 2, "tool_calls": 1, "input_tokens": 30, "output_tokens": 4, "total_tokens": 34,
        "cost_usd": 0.25, "total_time": 9.5, "simulated": True, "error": "a budget", "folder": str(folder),
    }  # fmt: skip
    assert interval == {"ci_low": None, "ci_high": None}


def test_the_interval_of_a_run_has_its_lower_bound_first(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "a", [answered("q1", "17"), answered("q2", "1")])
    (row,) = runs_df(folder).to_dict("records")
    with RunStore(folder / "run.db", read_only=True) as store:
        assert (row["ci_low"], row["ci_high"]) == summarise_store(store).score_ci95


def test_a_run_is_named_by_a_path_or_by_anything_that_has_its_folder(tmp_path: Path) -> None:
    @dataclass
    class Given:
        folder: Path

    folder = stored_run(tmp_path / "a", [answered("q1", "17")])
    assert find_folders(Given(folder)) == find_folders(str(folder)) == find_folders([folder]) == [folder]
    assert find_folders(each for each in (folder, Given(folder))) == [folder, folder]
    with pytest.raises(UserError, match=r"^an int is no run; give latest, a name, a path, a Run, or a list of them\.$"):
        find_folders(3)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^an int is no run; give latest, a name, a path, or a Run\.$"):
        find_folders([folder, 3])  # type: ignore[list-item]


def test_of_several_labels_the_latest_says_who_and_when(tmp_path: Path) -> None:
    late = HumanVerdict("1", "right", "ada", "2026-11-23", "old", "late", target_before="18", score_before=0.5)
    early = HumanVerdict("2", "ambiguous", "bob", "2026-11-22", "old", "early", target_before="17", score_before=0.0)
    (row,) = samples_df(stored_run(tmp_path / "a", [answered("q1", "17", human=[late, early])])).to_dict("records")
    assert {name: value for name, value in row.items() if name.startswith("human") or name.endswith("_before")} == {
        "human_label": "right; ambiguous", "human_who": "ada", "human_when": "2026-11-23", "human_note": "late",
        "target_before": "18", "score_before": 0.5,
    }  # fmt: skip
