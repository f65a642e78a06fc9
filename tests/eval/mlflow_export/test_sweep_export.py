"""What a sweep's parent run gets: its children, figures, files, and an end that is no better than theirs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.config.tracking import LocalTracking
from eval.mlflow_export import sweep_export
from eval.mlflow_export.sweep_export import SweepExport, build_parent_tags
from eval.mlflow_export.tracked_run import HOST_TAG, PARENT_TAG, PID_TAG, RUN_TAG, TrackedRun, to_ms
from eval.runs.run_info import SweepJob


class Client:
    """Takes what is written, and finds one child that has no parent yet."""

    def __init__(self, child_tags: dict[str, str]) -> None:
        self.child_tags = child_tags
        self.metrics: dict[str, float] = {}
        self.tags: list[tuple[str, str, str]] = []
        self.texts: dict[str, str] = {}
        self.end: tuple[str, int] | None = None
        self.searched: list[str] = []

    def search_runs(self, experiments: list[str], wanted: str, max_results: int) -> list[Any]:
        self.searched.append(wanted)
        info, data = SimpleNamespace(run_id="child"), SimpleNamespace(tags=self.child_tags)
        return [SimpleNamespace(info=info, data=data)]

    def log_metric(self, run_id: str, key: str, value: float) -> None:
        self.metrics[key] = value

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        self.tags.append((run_id, key, value))

    def log_text(self, run_id: str, text: str, name: str) -> None:
        self.texts[name] = text

    def get_run(self, run_id: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(status="RUNNING", end_time=None))

    def set_terminated(self, run_id: str, status: str, end_ms: int) -> None:
        self.end = (status, end_ms)


def job(number: int, **changes: Any) -> dict[str, Any]:
    figures = {"accuracy": 0.5, "n_error": 1, "cost_usd": None, "wall_seconds": 9.0}
    return {"job": number, "run_id": f"run-{number}", "exit_code": 0, **figures, **changes}


def end(folder: Path, jobs: list[dict[str, Any]], child_tags: dict[str, str] | None = None, **changes: Any) -> Client:
    folder.mkdir(exist_ok=True)
    compared = {"job": 1, "difference": 0.25, "p": 0.04, "wins": 3, "losses": 1, "ties": 0}
    sweep = {
        "id": "sweep-1", "started_at": "2026-11-20T10:00:00+00:00", "ended_at": "2026-11-20T11:00:00+00:00",
        "jobs": jobs, "comparisons": [compared], "simulated": True, **changes,
    }  # fmt: skip
    (folder / "sweep.json").write_text(json.dumps(sweep))
    (folder / "sweep.md").write_text("a table with a secret")
    client = Client(child_tags or {})
    export = SweepExport(folder, LocalTracking(), lambda text: text.replace("secret", "***"))
    export._run = TrackedRun(client, None, "uri", "experiment", "parent")  # type: ignore[arg-type]
    export.end()
    assert client.end is not None and export.state.status == client.end[0]
    return client


def test_figures_of_jobs_and_comparisons_are_metrics_and_unknown_ones_are_left_out(tmp_path: Path) -> None:
    client = end(tmp_path / "s", [job(0), job(1, accuracy=0.75), job(2, accuracy=None, run_id=None)])
    assert client.metrics["jobs"] == 3 and client.metrics["best_accuracy"] == 0.75
    assert client.metrics["accuracy/job_0"] == 0.5 and "accuracy/job_2" not in client.metrics
    assert "cost_usd/job_0" not in client.metrics
    assert (client.metrics["difference/job_1"], client.metrics["ties/job_1"]) == (0.25, 0)
    assert "p_holm/job_1" not in client.metrics
    assert "best_accuracy" not in end(tmp_path / "t", [job(0, accuracy=None)]).metrics


def test_files_and_note_are_sent_without_secrets(tmp_path: Path) -> None:
    client = end(tmp_path / "s", [job(0)])
    assert set(client.texts) == {"sweep.json", "sweep.md"} and client.texts["sweep.md"] == "a table with a ***"
    assert ("parent", "mlflow.note.content", "a table with a ***") in client.tags
    assert ("parent", "simulated", "true") in client.tags


def test_a_child_without_a_parent_is_put_under_it_and_one_that_has_it_is_left_alone(tmp_path: Path) -> None:
    wanted = {PARENT_TAG: "parent", "harness.sweep_id": "sweep-1", "harness.sweep_job": "0"}
    lost = end(tmp_path / "s", [job(0), job(1, run_id=None)])
    assert {(key, value) for run, key, value in lost.tags if run == "child"} == set(wanted.items())
    assert len(lost.searched) == 1 and "'run-0'" in lost.searched[0]
    assert not [run for run, *_ in end(tmp_path / "t", [job(0)], wanted).tags if run == "child"]


@pytest.mark.parametrize(("exit_code", "status"), [(0, "FINISHED"), (1, "FINISHED"), (3, "KILLED"), (None, "KILLED")])
def test_a_sweep_is_finished_if_each_of_its_jobs_is(exit_code: int | None, status: str, tmp_path: Path) -> None:
    assert end(tmp_path / "s", [job(0), job(1, exit_code=exit_code)]).end == (
        status,
        to_ms("2026-11-20T11:00:00+00:00"),
    )


def test_a_sweep_without_an_end_ended_when_it_began(tmp_path: Path) -> None:
    assert end(tmp_path / "s", [job(0)], ended_at=None).end == ("FINISHED", to_ms("2026-11-20T10:00:00+00:00"))


def test_a_child_is_put_under_its_sweeps_parent_which_runs_again_if_it_had_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert build_parent_tags(LocalTracking(), None) == {}, "other runs have no parent"
    begun: list[str] = []

    def a_parent(status: str) -> Any:
        return lambda *_: SimpleNamespace(run_id="parent", status=lambda: status, begin=lambda: begun.append(status))

    a_job = SweepJob(id="s1", name="seeds", job=2, started_at="", host="here", pid=7, differs=["seed=1", "x=2"])
    for status in ("RUNNING", "KILLED", "FINISHED"):
        monkeypatch.setattr(sweep_export, "_open_parent", a_parent(status))
        assert build_parent_tags(LocalTracking(), a_job) == {
            PARENT_TAG: "parent", "harness.sweep_id": "s1", "harness.sweep_job": "2",
            "harness.sweep_differs": "seed=1 x=2",
        }  # fmt: skip
    assert begun == ["KILLED"]


def test_every_figure_that_is_known_is_a_metric_also_one_that_is_zero(tmp_path: Path) -> None:
    compared = {"job": 1, "difference": 0.0, "p": 1.0, "p_holm": 1.0, "wins": 2, "losses": 2, "ties": 6}
    jobs = [job(0, accuracy=0.0, n_error=0, cost_usd=0.0, wall_seconds=0.0), job(1, cost_usd=2.5)]
    client = end(tmp_path / "s", jobs, comparisons=[compared], simulated=False)
    assert client.metrics == {
        "jobs": 2, "best_accuracy": 0.5,
        "accuracy/job_0": 0.0, "n_error/job_0": 0, "cost_usd/job_0": 0.0, "wall_seconds/job_0": 0.0,
        "accuracy/job_1": 0.5, "n_error/job_1": 1, "cost_usd/job_1": 2.5, "wall_seconds/job_1": 9.0,
        "difference/job_1": 0.0, "p/job_1": 1.0, "p_holm/job_1": 1.0,
        "wins/job_1": 2, "losses/job_1": 2, "ties/job_1": 6,
    }  # fmt: skip
    assert ("parent", "simulated", "false") in client.tags


def test_only_the_tags_that_differ_are_set_and_the_file_of_the_sweeps_settings_is_sent(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "multirun.yaml").write_text("key: secret")
    (tmp_path / "s" / "other.txt").write_text("not sent")
    had = {PARENT_TAG: "another", "harness.sweep_id": "sweep-1", "harness.sweep_job": "1"}
    client = end(tmp_path / "s", [job(0)], had)
    assert [tag for tag in client.tags if tag[0] == "child"] == [
        ("child", PARENT_TAG, "parent"),
        ("child", "harness.sweep_job", "0"),
    ]
    assert set(client.texts) == {"sweep.json", "sweep.md", "multirun.yaml"}
    assert client.texts["multirun.yaml"] == "key: ***"
    assert client.searched == [f"tags.`{RUN_TAG}` = 'run-0'"]


def test_a_parent_is_opened_by_the_sweeps_id_whoever_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []

    def open_run(settings: object, run_id: str, **given: Any) -> Any:
        opened.append((settings, run_id, given))
        return SimpleNamespace(run_id="parent", status=lambda: "RUNNING")

    monkeypatch.setattr(sweep_export, "open_run", open_run)
    settings, started = LocalTracking(), "2026-11-20T10:00:00+00:00"
    given = {"name": "sweep seeds", "start_ms": to_ms(started), "has_traces": False}
    differs = ["x" * 999, "y"]
    tags = build_parent_tags(settings, SweepJob("s1", "seeds", started, "here", 7, 2, differs))
    assert tags["harness.sweep_differs"] == "x" * 999 + " "
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "sweep.json").write_text(json.dumps({"id": "s1", "started_at": started}))
    SweepExport(tmp_path / "seeds", settings, str).open_run()
    assert opened == [
        (settings, "s1", {**given, "tags": {"harness.kind": "sweep", HOST_TAG: "here", PID_TAG: "7"}}),
        (settings, "s1", {**given, "tags": {"harness.kind": "sweep"}}),
    ]


def test_a_note_of_exactly_the_limit_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def note(folder: str) -> str:
        return next(text for _, key, text in end(tmp_path / folder, [job(0)]).tags if key == "mlflow.note.content")

    whole = "a table with a ***"
    monkeypatch.setattr(sweep_export, "_MAX_NOTE_CHARS", len(whole))
    assert note("s") == whole
    monkeypatch.setattr(sweep_export, "_MAX_NOTE_CHARS", len(whole) - 1)
    assert note("t") != whole
