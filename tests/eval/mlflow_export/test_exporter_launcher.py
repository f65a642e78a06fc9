"""The whole command with its exporter process, and everything that can go wrong between the two and MLflow."""

import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.command import run_cli as told_code
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import NoTracking
from eval.config.tracking import LocalTracking, ServerTracking
from eval.mlflow_export.exporter import (
    ExporterLauncher,
    ExportState,
    format_view_line,
    read_state,
    write_state,
)
from eval.runs.folder import is_in_use
from eval.sync import sync
from tests.eval.command_line import EvalCommand, dataset, tracked_in
from tests.eval.mlflow_export.exporting import in_mlflow
from tests.eval.obedient_agent import AGENT, told
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.process import started

NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens
QUICK = [told(f"q{number}", "sleep 0 say 7") for number in range(6)]
HELD = [told("first", "sleep 0 say 7"), *(told(f"held {number}", "await released say 7") for number in range(4))]


def state_of(folder: Path) -> ExportState:
    state = read_state(folder)
    assert state is not None
    return state


def completed(folder: Path, *overrides: str) -> ExportState:
    assert told_code(lambda: sync([str(folder), *overrides])) == 0
    state = state_of(folder)
    assert state.complete
    return state


def test_a_run_is_in_mlflow_when_the_command_ends(
    eval_command: EvalCommand, tmp_path: Path, local: LocalTracking
) -> None:
    finished = eval_command(*AGENT, *dataset(tmp_path / "data", *QUICK), *tracked_in(local))
    state = state_of(finished.folder)
    assert (finished.code, finished.err) == (0, "")
    assert (state.complete, state.status, state.counts["traces"]) == (True, "FINISHED", {"store": 6, "mlflow": 6})
    see_it, last_line = finished.out.splitlines()[-2:]
    assert last_line == f"report: {finished.folder / 'report.html'}", "the exporter has written and sent it"
    assert see_it.startswith("see it: mlflow ui --backend-store-uri sqlite:///")
    assert see_it.endswith(f"#/experiments/{state.experiment_id}/runs/{state.run_id}")
    run = in_mlflow(local, state).client.get_run(state.run_id)
    assert run.data.tags["harness.in_mlflow"] == "complete"
    assert run.data.metrics["accuracy"] == finished.summary["accuracy"]


def test_without_tracking_nothing_is_started(eval_command: EvalCommand, tmp_path: Path) -> None:
    folder = tmp_path / "none"
    folder.mkdir()
    with ExporterLauncher(NoTracking(), folder) as following:
        following.finish(pytest.fail, warn=pytest.fail)
    assert list(folder.iterdir()) == []
    finished = eval_command(*AGENT, *dataset(tmp_path / "data", *QUICK[:1]))
    assert not (finished.folder / "mlflow.json").exists()
    assert not (finished.folder / "logs" / "mlflow.log").exists()
    assert "see it" not in finished.out


@pytest.mark.parametrize("settings", [NoTracking(), LocalTracking()])
def test_what_was_complete_is_not_once_the_run_goes_on(
    settings: LocalTracking | NoTracking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_state(tmp_path, ExportState(uri="sqlite:///x", run_id="0f3a", status="FINISHED", complete=True))
    monkeypatch.setattr(sys, "executable", "/bin/false")  # an exporter that dies before its first word
    with ExporterLauncher(settings, tmp_path) as following:
        following.finish(print, warn=print)
    assert read_state(tmp_path) is None


@pytest.mark.slow
def test_the_run_s_own_process_does_not_load_mlflow() -> None:
    code = "import sys, eval.workflows.evaluate, eval.sync; sys.exit('mlflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_server_that_is_not_there_costs_a_warning_and_sync_sends_the_run_elsewhere(
    eval_command: EvalCommand, tmp_path: Path, local: LocalTracking, capsys: pytest.CaptureFixture[str]
) -> None:
    data = dataset(tmp_path / "data", *QUICK)
    wait = f"++tracking.wait_seconds={PATIENCE_SECONDS}"
    server = ["tracking=server", f"tracking.uri={NOWHERE}", wait]
    finished = eval_command(*AGENT, *data, *server)
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0)
    assert finished.summary["wall_seconds"] < PATIENCE_SECONDS
    assert finished.err.startswith(f"warning: MLflow has nothing of this run ({NOWHERE} cannot be reached); complete")
    assert "python eval/sync.py" in finished.err
    assert told_code(lambda: sync([str(finished.folder), wait])) == 3
    assert "cannot be reached" in capsys.readouterr().err
    state = completed(finished.folder, *tracked_in(local))
    assert state.counts["traces"] == {"store": 6, "mlflow": 6}


@pytest.mark.slow
def test_a_place_that_is_none_costs_a_warning(eval_command: EvalCommand, tmp_path: Path, local: LocalTracking) -> None:
    (tmp_path / "in the way").write_text("a file")
    data = dataset(tmp_path / "data", *QUICK)
    where = LocalTracking(local.experiment, str(tmp_path / "in the way"))
    finished = eval_command(*AGENT, *data, *tracked_in(where))
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0)
    assert "MLflow has nothing of this run" in finished.err
    assert completed(finished.folder, *tracked_in(local)).counts["traces"] == {"store": 6, "mlflow": 6}


@pytest.mark.slow
def test_a_killed_run_shows_as_killed_with_what_it_had(tmp_path: Path, local: LocalTracking) -> None:
    """Its first question is in MLflow, and its others are not answered."""
    folder = tmp_path / "run"
    given = [*AGENT, *dataset(tmp_path / "data", *HELD), *tracked_in(local), "run.drain_seconds=0"]
    with started(folder, *given, cwd=tmp_path) as running:
        run = in_mlflow(local, wait_for(lambda: read_state(folder)))
        wait_for(lambda: run.count()["traces"])
        running.process.kill()
        wait_for(lambda: state_of(folder).status == "KILLED")
        wait_for(lambda: not is_in_use(folder / "mlflow.json"))
    state = state_of(folder)
    assert state.counts["traces"] == {"store": 1, "mlflow": 1}
    run = in_mlflow(local, state)
    shown = run.client.get_run(run.run_id)
    assert (shown.info.status, shown.data.metrics["accuracy"]) == ("KILLED", 0.2)
    assert completed(folder).run_id == state.run_id  # with the files that the killed process did not write
    assert "summary.json" in {each.path for each in run.client.list_artifacts(run.run_id)}


def test_where_to_look() -> None:
    link = ExportState(experiment_id="1", run_id="0f3a")
    page = "#/experiments/1/runs/0f3a"
    assert format_view_line(LocalTracking(), link) == f"see it: make ui, then http://127.0.0.1:5000/{page}"
    assert format_view_line(LocalTracking(folder=str(OUTPUTS)), link) == format_view_line(LocalTracking(), link)
    server = ServerTracking(uri="https://mlflow.example.org/")
    assert format_view_line(server, link) == f"see it: https://mlflow.example.org/{page}"
    assert format_view_line(server, None) is None and format_view_line(server, ExportState()) is None


@pytest.mark.parametrize(
    ("tracking", "given"),
    [
        (LocalTracking(), {"MLFLOW_TRACKING_URI"}),
        (
            ServerTracking(uri="http://127.0.0.1:1"),
            {*("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"), *("AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY")},
        ),
    ],
)
def test_the_exporter_gets_what_leads_to_mlflow_and_no_key_of_a_model(
    tracking: LocalTracking | ServerTracking, given: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = ("OPENAI_API_KEY", "TAVILY_API_KEY", "HF_TOKEN", "AZURE_API_KEY", "MY_OWN_TOKEN")
    for name in (*canaries, "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "canary")
    started: list[dict[str, str]] = []

    def start(*_: object, env: dict[str, str], **__: object) -> object:
        started.append(env)
        raise OSError("not started")

    monkeypatch.setattr(subprocess, "Popen", start)
    ExporterLauncher(tracking, tmp_path)
    [environment] = started
    assert {name for name, value in environment.items() if value == "canary"} | {"MLFLOW_TRACKING_URI"} == given
    assert "PATH" in environment and "MLFLOW_TRACKING_URI" in environment
