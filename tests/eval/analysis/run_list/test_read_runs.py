"""The list of runs: states, numbers and sizes from small files, and folders that are not what they say."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eval.analysis.run_list.read_runs import RunEntry, find_run_folders, read_entry, read_runs
from eval.reports.files import write_reports
from eval.runs.folder import DATABASE, RunLock
from eval.runs.store import RunStore
from tests.eval.stored_run import SESSION, answered, stored_run

FACTS = {"system": "toy", "model": "gpt-4o-mini", "prompts": {"prompts": "baseline"}, "finished": True}
TUNING = {
    "run_id": "t1",
    "name": "tuned",
    "system": "toy",
    "model": "offline",
    "simulated": True,
    "started_at": "2026-11-21T08:00:00+00:00",
    "config": {"data": {"name": "toy"}},
    "state": {"phase": "search", "ended_at": "2026-11-21T09:00:00+00:00", "spend": {"cost_usd": 0.5, "seconds": 60.0}},
}


def finished(folder: Path, **facts: object) -> Path:
    stored_run(folder, [answered("q1", "17"), answered("q2", "18")], **{**FACTS, **facts})  # type: ignore[arg-type]
    with RunStore(folder / DATABASE, read_only=True) as store:
        write_reports(folder, store)
    return folder


def tuning(folder: Path, verdict: dict[str, object] | None = None, **state: object) -> Path:
    folder.mkdir(parents=True)
    began = state.pop("began", TUNING["started_at"])
    text = json.dumps({**TUNING, "started_at": began, "state": {**TUNING["state"], **state}})  # type: ignore[dict-item]
    (folder / "tuning.json").write_text(text)
    if verdict:
        (folder / "verdict.json").write_text(json.dumps(verdict))
    return folder


def test_a_complete_run_is_read_from_its_summary_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = finished(tmp_path / "eval" / "2026-11-21_08-00-00_night", started_at=SESSION["started_at"])
    monkeypatch.setattr("eval.runs.store.RunStore.read_info", lambda _: pytest.fail("the store was opened"))
    found = read_runs([tmp_path])
    [run] = found.runs
    assert (run.name, run.state, run.kind, run.system, run.model) == (
        folder.name,
        "complete",
        "evaluation",
        "toy",
        "gpt-4o-mini",
    )
    assert (run.score, run.n, run.cost_usd, run.prompts) == (0.5, 2, 1.0, "baseline")
    assert run.score_ci95 is not None and run.score_ci95[0] < 0.5 < run.score_ci95[1]
    assert run.started_at == SESSION["started_at"]
    assert run.size_bytes == sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    assert run.report == folder / "report.html"
    assert json.loads(json.dumps(run.to_dict(), default=str))["name"] == folder.name


def test_a_run_whose_records_are_newer_than_its_summary_is_read_from_its_store(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run")
    os.utime(folder / "summary.json", (1, 1))
    run = read_entry(folder, "evaluation")
    assert (run.state, run.score, run.n, run.n_answered, run.cost_usd) == ("complete", None, 2, 2, 1.0)


def test_a_stopped_a_killed_and_a_running_run_are_told_apart(tmp_path: Path) -> None:
    records = [answered("q1", "17")]
    stopped = stored_run(
        tmp_path / "a", records, ["q1", "q2"], sessions=[{**SESSION, "stopped": "Ctrl-C"}], finished=False
    )
    assert (read_entry(stopped, "evaluation").state, read_entry(stopped, "evaluation").reason) == ("stopped", "Ctrl-C")
    killed = stored_run(tmp_path / "b", records, ["q1", "q2"], sessions=[{**SESSION, "ended_at": None}], finished=False)
    run = read_entry(killed, "evaluation")
    assert (run.state, run.reason, run.n_answered, run.n) == ("crashed", "its process ended without notice", 1, 2)
    lock = RunLock(killed / DATABASE)
    lock.take()
    try:
        assert read_entry(killed, "evaluation").state == "running"
    finally:
        lock.release()


def test_tuning_runs_show_gain_outcome_and_phase(tmp_path: Path) -> None:
    numbers = {"gain": 0.1, "gain_ci95": [0.02, 0.18], "winner": {"score": 0.6}, "sealed": {"n_questions": 40}}
    published = {"published": True, "finish_reason": "improved", "set": "prompts/tuned", "resumable": False, **numbers}
    run = read_entry(tuning(tmp_path / "a", published), "tuning")
    assert (run.state, run.reason, run.gain, run.gain_ci95) == (
        "complete",
        "published as prompts/tuned",
        0.1,
        (0.02, 0.18),
    )
    assert (run.n, run.simulated, run.prompts, run.seconds) == (40, True, "tuned", 60.0)
    refused = {**published, "published": False, "finish_reason": "not_significant"}
    assert read_entry(tuning(tmp_path / "b", refused), "tuning").reason == "not published: not significant"
    stopped = read_entry(tuning(tmp_path / "c", stopped="interrupted by Ctrl-C"), "tuning")
    assert (stopped.state, stopped.reason) == ("stopped", "interrupted by Ctrl-C")
    killed = read_entry(tuning(tmp_path / "d", ended_at=None), "tuning")
    assert (killed.state, killed.reason) == ("crashed", "its process ended without notice, in its phase search")
    assert [run.name for run in read_runs([tmp_path]).runs] == ["d", "c", "b", "a"]


def test_folders_of_others_are_rows_that_say_what_is_wrong(tmp_path: Path) -> None:
    linked = finished(tmp_path / "linked")
    (linked / "more").symlink_to("/etc")
    assert "more is a link or a special file" in read_entry(linked, "evaluation").reason
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.db").write_bytes(b"SQLite format 3\x00" + b"\x00" * 200)
    assert read_entry(other, "evaluation").state == "refused"
    for name, text in (("deep", "[" * 100_000), ("list", "[1]"), ("none", "{}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tuning.json").write_text(text)
        assert read_entry(tmp_path / name, "tuning").reason == "tuning.json cannot be read, or names no run."
    odd = tuning(tmp_path / "odd", {"published": 7, "gain": "much", "gain_ci95": [1], "winner": [], "sealed": "x"})
    assert read_entry(odd, "tuning").gain is None
    assert {run.name for run in read_runs([tmp_path]).runs} == {"linked", "other", "deep", "list", "none", "odd"}


def test_a_summary_with_strange_values_breaks_nothing(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run")
    summary = json.loads((folder / "summary.json").read_text())
    odd = {"score": "high", "score_ci95": [None, 1], "accuracy_ci95": "x", "usage": 5, "sessions": [3], "model": ["a"]}
    (folder / "summary.json").write_text(json.dumps({**summary, **odd}))
    run = read_entry(folder, "evaluation")
    assert (run.state, run.score, run.score_ci95, run.cost_usd, run.model) == ("complete", None, None, None, "")


def test_links_are_not_followed_and_other_pages_are_found(tmp_path: Path) -> None:
    finished(tmp_path / "elsewhere" / "run")
    outputs = tmp_path / "outputs"
    (outputs / "multirun" / "a").mkdir(parents=True)
    (outputs / "eval").symlink_to(tmp_path / "elsewhere")
    for name in ("comparison.html", "index.html", "multirun/a/b.html"):
        (outputs / name).write_text("")
    finished(outputs / "multirun" / "a" / "0")
    found = read_runs([outputs])
    assert [run.folder for run in found.runs] == [outputs / "multirun" / "a" / "0"]
    assert found.pages == [outputs / "comparison.html", outputs / "multirun" / "a" / "b.html"]


@pytest.mark.slow
def test_five_hundred_runs_are_listed_in_about_a_second(tmp_path: Path) -> None:
    import shutil
    import time

    folder = finished(tmp_path / "runs" / "0")
    for number in range(1, 500):
        shutil.copytree(folder, tmp_path / "runs" / str(number), copy_function=shutil.copy2)
    start = time.process_time()
    assert {run.state for run in read_runs([tmp_path / "runs"]).runs} == {"complete"}
    seconds = time.process_time() - start
    print(f"CPU seconds for 500 runs: {seconds:.2f}")
    assert seconds < 1


@pytest.mark.parametrize("agent", ["expert", "control"])
def test_a_part_of_a_proof_has_no_score(tmp_path: Path, agent: str) -> None:
    folder = finished(tmp_path / "attribution" / "night" / agent, gold_informed=agent)
    run = read_entry(folder, "evaluation")
    assert (run.state, run.score, run.score_ci95, run.n) == ("complete", None, None, 2)
    assert "measures no system" in run.no_measurement and run.remark == run.no_measurement
    os.utime(folder / "summary.json", (1, 1))
    assert read_entry(folder, "evaluation").no_measurement == run.no_measurement, "without a summary, from its store"
    assert read_entry(finished(tmp_path / "run"), "evaluation").no_measurement == ""


def test_a_summary_as_old_as_the_last_record_is_the_run_s_own(tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", simulated=True)
    summary, journal = folder / "summary.json", folder / "run.journal"
    for summary_time, journal_time, score in ((5, 5, 0.5), (6, 5, 0.5), (5, 6, None)):
        os.utime(summary, (summary_time, summary_time))
        os.utime(journal, (journal_time, journal_time))
        run = read_entry(folder, "evaluation")
        assert (run.score, run.simulated, run.n) == (score, True, 2)
    summary.unlink()
    assert read_entry(folder, "evaluation").score is None


def test_runs_are_found_four_folders_deep_and_not_in_hidden_ones(tmp_path: Path) -> None:
    for name in ("a/b/c/d", "a/b/c/d2/e", ".hidden/x", "cache/x", "a/cache/x", "gold/x"):
        tuning(tmp_path / name)
    found = {each.relative_to(tmp_path).as_posix() for each, _ in find_run_folders(tmp_path, [])}
    assert found == {"a/b/c/d", "a/cache/x"}


def test_an_entry_of_which_nothing_is_known_says_so() -> None:
    entry = RunEntry(folder=Path("/runs/x"), kind="evaluation")
    assert (entry.state, entry.simulated, entry.is_floor, entry.size_bytes, entry.metric) == (
        "refused", False, False, 0, "accuracy"
    )  # fmt: skip
    assert (entry.name, entry.remark, entry.to_dict()["report"]) == ("x", "", None)
    assert replace(entry, reason="a", no_measurement="b").remark == "a; b"


def summarised(folder: Path, **summary: object) -> Path:
    """A run of which the summary is as new as its journal."""
    folder.mkdir(parents=True)
    (folder / "run.db").touch()
    (folder / "run.journal").touch()
    (folder / "summary.json").write_text(json.dumps({"run_id": "r1", **summary}))
    return folder


BEGAN = "2026-11-21T08:00:00+00:00"


def test_an_entry_has_the_numbers_of_its_summary(tmp_path: Path) -> None:
    folder = summarised(
        tmp_path / "night", system="toy", model="m", simulated=True, data="gaia", split="val", prompts="mine",
        metric="mean score", score=0.75, score_ci95=[0.5, 1], accuracy=0.25, accuracy_ci95=[0, 0.5], n=7.0,
        incomplete=False, stopped="by you", usage={"cost_usd": 0.5}, scorer_usage={"known_cost_usd": 0.25},
        sessions=[{"started_at": BEGAN}, {"started_at": "2026-11-22"}], wall_seconds=12.5,
    )  # fmt: skip
    size = sum(each.stat().st_size for each in folder.iterdir())
    assert read_entry(folder, "evaluation") == RunEntry(
        folder=folder, kind="evaluation", state="complete", reason="", run_id="r1", system="toy", model="m",
        simulated=True, data="gaia/val", prompts="mine", metric="mean score", score=0.75, score_ci95=(0.5, 1), n=7,
        cost_usd=0.75, started_at=BEGAN, seconds=12.5, size_bytes=size,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({"score": None, "accuracy": 0.25, "accuracy_ci95": [0, 0.5]}, {"score": None, "score_ci95": (0, 0.5)}),
        ({"accuracy": 0.25, "accuracy_ci95": [0, 0.5]}, {"score": 0.25, "score_ci95": (0, 0.5), "metric": "accuracy"}),
        ({"score": 0.0, "accuracy": 0.25}, {"score": 0.0, "score_ci95": None}),
        ({"score": 0.5, "no_measurement": "a proof", "score_ci95": [0, 1]}, {"score": None, "score_ci95": None}),
        ({"data": "gaia"}, {"data": "gaia", "simulated": False, "n": None, "seconds": None}),
        ({"split": "val"}, {"data": ""}),
        ({"usage": {"cost_usd": 0.5}}, {"cost_usd": 0.5}),
        ({"scorer_usage": {"known_cost_usd": 0.5}}, {"cost_usd": None}),
        ({"simulated": 1, "incomplete": 1}, {"simulated": False, "is_floor": False, "state": "complete"}),
        ({"incomplete": True, "stopped": "by you"}, {"is_floor": True, "state": "stopped", "reason": "by you"}),
        ({"incomplete": True}, {"state": "crashed", "reason": "its process ended without notice"}),
        ({"run_id": ""}, {"state": "refused", "run_id": ""}),
    ],
)
def test_what_a_summary_does_not_say_is_unknown(
    summary: dict[str, object], expected: dict[str, object], tmp_path: Path
) -> None:
    found = read_entry(summarised(tmp_path / "night", **summary), "evaluation")
    assert {name: getattr(found, name) for name in expected} == expected


def test_without_a_session_a_run_began_at_the_time_in_its_name_or_of_its_last_change(tmp_path: Path) -> None:
    named = summarised(tmp_path / "2026-11-21_08-00-00_night")
    began = datetime(2026, 11, 21, 8).astimezone(UTC)
    assert read_entry(named, "evaluation").started_at == began.isoformat()
    other = summarised(tmp_path / "night", sessions=[{"started_at": 7}])
    os.utime(other, (100, 200))
    assert read_entry(other, "evaluation").started_at == "1970-01-01T00:03:20+00:00"
    assert read_entry(tmp_path / "gone", "evaluation").started_at == ""


def test_an_entry_without_a_summary_has_what_its_store_says(tmp_path: Path) -> None:
    records = [answered("q1", "17"), answered("q1", "18", attempt=2), answered("q2", "17", epoch=2)]
    folder = stored_run(
        tmp_path / "night", records, ["q1", "q2", "q3"], epochs=2, system="toy", model="m", simulated=True,
        prompts={"prompts": "first", "prompts_2": "mine"}, started_at=BEGAN, wall_seconds=3.5, finished=True,
        config={"data": {"name": "gaia"}}, sessions=[SESSION, {**SESSION, "stopped": "by you"}],
    )  # fmt: skip
    found = read_entry(folder, "evaluation")
    assert replace(found, size_bytes=0) == RunEntry(
        folder=folder, kind="evaluation", state="stopped", reason="by you", run_id="run-1", system="toy", model="m",
        simulated=True, data="gaia", prompts="mine", n=6, n_answered=2, cost_usd=1.5, started_at=BEGAN, seconds=3.5,
    )  # fmt: skip
    for name, facts, state in (
        ("all", {"finished": True}, ("complete", "")),
        ("unsaid", {"finished": None}, ("crashed", "its process ended without notice")),
        ("none", {"finished": False, "sessions": []}, ("crashed", "its process ended without notice")),
    ):
        found = read_entry(stored_run(tmp_path / name, records[:1], **facts), "evaluation")  # type: ignore[arg-type]
        assert (found.state, found.reason) == state, name


def test_an_entry_of_a_tuning_run_has_the_numbers_of_its_verdict(tmp_path: Path) -> None:
    verdict = {
        "published": True, "set": "prompts/tuned", "finish_reason": "improved", "metric": "mean score", "gain": 0.25,
        "gain_ci95": [0.125, 0.5], "sealed": {"n_questions": 40.0}, "spend": {"cost_usd": 2.5, "seconds": 30.0},
        "winner": {"score": 0.75, "score_ci95": [0.5, 1], "accuracy": 0.25, "ci95": [0, 0.5]},
    }  # fmt: skip
    folder = tuning(tmp_path / "t", verdict)
    (folder / "report.html").touch()
    found = read_entry(folder, "tuning")
    assert replace(found, size_bytes=0) == RunEntry(
        folder=folder, kind="tuning", state="complete", reason="published as prompts/tuned", run_id="t1", system="toy",
        model="offline", simulated=True, data="toy", prompts="tuned", metric="mean score", score=0.75,
        score_ci95=(0.5, 1), gain=0.25, gain_ci95=(0.125, 0.5), n=40, cost_usd=2.5, started_at=BEGAN, seconds=30.0,
        report=folder / "report.html",
    )  # fmt: skip
    older = tuning(tmp_path / "u", {"winner": {"accuracy": 0.25, "ci95": [0, 0.5]}}, began="")
    entry = read_entry(older, "tuning")
    assert (entry.score, entry.score_ci95, entry.metric, entry.n, entry.cost_usd) == (
        0.25, (0, 0.5), "accuracy", None, 0.5,
    )  # fmt: skip
    assert (entry.reason, bool(entry.started_at)) == ("not published: ", True)


@pytest.mark.parametrize(
    ("verdict", "state", "expected"),
    [
        ({"resumable": True}, {}, ("stopped", "a budget was used up")),
        ({"resumable": True}, {"stopped": "by you"}, ("stopped", "by you")),
        ({"resumable": "yes", "finish_reason": "no_gain"}, {}, ("complete", "not published: no gain")),
        ({"published": 1, "finish_reason": "odd"}, {}, ("complete", "not published: odd")),
        (None, {}, ("stopped", "stopped")),
        (None, {"ended_at": None, "stopped": "by you"}, ("stopped", "by you")),
    ],
)
def test_why_a_tuning_run_has_no_verdict(
    verdict: dict[str, object] | None, state: dict[str, object], expected: tuple[str, str], tmp_path: Path
) -> None:
    found = read_entry(tuning(tmp_path / "t", verdict, **state), "tuning")
    assert (found.state, found.reason) == expected


def test_a_cost_of_which_a_part_is_unknown_is_none(tmp_path: Path) -> None:
    for calls, cost in ((0, 0.5), (1, None)):
        spend = {"cost_usd": 0.5, "unknown_cost_calls": calls}
        assert read_entry(tuning(tmp_path / str(calls), spend=spend), "tuning").cost_usd == cost


def test_runs_that_began_at_once_are_ordered_by_name_and_each_is_listed_once(tmp_path: Path) -> None:
    for name in ("b", "c", "a"):
        summarised(tmp_path / "x" / name, sessions=[{"started_at": BEGAN}])
    found = read_runs([tmp_path, tmp_path / "x"])
    assert [run.name for run in found.runs] == ["c", "b", "a"]
    assert found.pages == [] and read_runs([]).runs == []
