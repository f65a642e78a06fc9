"""`python eval/run.py -m …` to its table, and `eval/sweep.py` that makes it again; with real runs."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval import sweep as sweep_command
from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.cli.command import run_cli
from eval.cli.paths import PROJECT_ROOT
from eval.config.tracking import LocalTracking
from eval.runs.folder import DATABASE
from eval.runs.run_info import SweepJob
from eval.runs.store import RunStore
from mas.simulation import SIMULATED_NOTICE
from tests.eval import obedient_agent
from tests.eval.command_line import SCRIPT, EvalCommand, Finished, dataset, tracked_in
from tests.eval.obedient_agent import AGENT

RUN_DIR = "run.dir=job-${hydra:job.num}"  # in the test's current folder
SWEEP = ("-m", "experiment=offline", RUN_DIR, "hydra.sweep.dir=sweep")


def content(folder: Path = Path("sweep")) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "sweep.json").read_text("utf-8"))
    return found


def place(job: int) -> SweepJob:
    with RunStore(Path(f"job-{job}") / DATABASE, read_only=True) as store:
        found = store.read_info().sweep
    assert found is not None
    return found


def records(job: int) -> dict[str, dict[str, Any]]:
    return Finished(0, "", "", Path(f"job-{job}")).records


def again(*arguments: str) -> int:
    return run_cli(lambda: sweep_command.remake_table(list(arguments)))


@pytest.mark.slow
def test_a_sweep_ends_with_a_row_a_job_and_each_compared_with_the_first(eval_command: EvalCommand) -> None:
    finished = eval_command(*SWEEP, "model.seed=0,1,2", "limit=5", "split=validation")
    found = content()
    rows = found["jobs"]
    assert [row["differs"] for row in rows] == [["model.seed=0"], ["model.seed=1"], ["model.seed=2"]]
    for number, row in enumerate(rows):
        summary = json.loads(Path(f"job-{number}/summary.json").read_text())
        assert (row["job"], row["folder"]) == (number, f"../job-{number}")
        for key in ("run_id", "accuracy", "accuracy_ci95", "n", "n_error", "wall_seconds"):
            assert row[key] == summary[key]
    codes = [row["exit_code"] for row in rows]
    assert finished.code == max(codes), "2 if a job had errors, else 0"
    assert found["simulated"]
    for text in (SIMULATED_NOTICE, "model.seed=2", "job 2: job-2", "p (Holm)", "2 comparisons were made"):
        assert text in finished.out
    for comparison in found["comparisons"]:
        first, second = records(0), records(comparison["job"])
        pairs = [Pair([first[id]["score"] == 1], [second[id]["score"] == 1]) for id in first]
        expected = run_paired_test(pairs).to_dict()
        assert {key: comparison[key] for key in expected} == expected
        assert comparison["p_holm"] >= comparison["p"]


@pytest.mark.slow
def test_a_child_is_an_ordinary_run_that_knows_its_sweep(eval_command: EvalCommand) -> None:
    eval_command(*SWEEP, "model.seed=0,1", "tools.max_output_chars=900,800", "limit=1")
    id = content()["id"]
    facts = [place(job) for job in range(4)]
    assert {each.id for each in facts} == {id}
    assert [(each.job, each.differs) for each in facts] == [
        (0, ["model.seed=0", "tools.max_output_chars=900"]), (1, ["model.seed=0", "tools.max_output_chars=800"]),
        (2, ["model.seed=1", "tools.max_output_chars=900"]), (3, ["model.seed=1", "tools.max_output_chars=800"]),
    ]  # fmt: skip
    assert Path("job-3/report.html").is_file()
    assert yaml.safe_load(Path("sweep/multirun.yaml").read_text())["hydra"]["mode"] == "MULTIRUN"


def test_epochs_are_compared_by_their_questions_means(eval_command: EvalCommand) -> None:
    eval_command(*SWEEP, "model.seed=0,1", "limit=4", "run.epochs=3")
    (comparison,) = content()["comparisons"]
    assert (comparison["n_questions"], comparison["epochs"], comparison["test"]) == (4, 3, "exact sign-flip")
    accuracies = [row["accuracy"] for row in content()["jobs"]]
    assert comparison["difference"] == pytest.approx(accuracies[1] - accuracies[0])
    assert comparison["p_holm"] == comparison["p"], "one comparison needs no allowance"


@pytest.mark.parametrize(
    ("what", "reason"),
    [("seed=0,1 shuffle=true", "their questions differ"), ("scorer=gaia,exact", "their scorers differ")],
)
def test_runs_of_other_questions_or_scorers_are_not_compared(eval_command: EvalCommand, what: str, reason: str) -> None:
    finished = eval_command(*SWEEP, *what.split(), "limit=3")
    (comparison,) = content()["comparisons"]
    assert reason in comparison["reason"]
    assert f"job 1 is not compared with job 0: {reason}" in finished.out
    assert "p (Holm)" not in finished.out


def test_a_jobs_mistake_has_its_row(eval_command: EvalCommand) -> None:
    finished = eval_command(*SWEEP, "limit=0,2")
    mistake = "limit=0 is out of range; expected at least 1, or null for all questions."
    first, second = content()["jobs"]
    assert (first["exit_code"], first["error"], first["folder"], first["accuracy"]) == (1, mistake, None, None)
    assert second["n"] == 2
    assert content()["comparisons"][0]["reason"] == "job 0 has no answers"
    assert (finished.code, again("sweep")) == (1, 1)
    assert f"job 0: {mistake}" in finished.out
    assert finished.err == f"error: {mistake}\n"


def test_a_stopped_child_is_resumed_and_the_table_made_again(
    eval_command: EvalCommand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = [obedient_agent.told("bad", "sleep 0 fail always"), obedient_agent.told("good", "sleep 0 say 7")]
    options = [*AGENT, *dataset(tmp_path / "data", *questions), "run.concurrency=1", RUN_DIR, "hydra.sweep.dir=sweep"]
    finished = eval_command("-m", *options, "run.max_errors=1,5")
    assert finished.code == 3
    assert "job 0: continue with: python eval/run.py run.resume=job-0" in finished.out
    assert "make the table again: python eval/sweep.py sweep" in finished.out
    assert [row["exit_code"] for row in content()["jobs"]] == [3, 2]
    assert content()["comparisons"][0]["reason"] == "1 answer is still missing"
    assert "at least 0.0%" in finished.out, "of a run that stopped, a floor"
    before = place(0)
    assert eval_command("run.resume=job-0", "run.max_errors=null").code == 2
    assert place(0) == before
    capsys.readouterr()
    assert again("sweep") == 2
    assert "compared with job 0" in capsys.readouterr().out
    (comparison,) = content()["comparisons"]
    assert (comparison["reason"], comparison["ties"], comparison["difference"]) == (None, 2, 0.0)


@pytest.mark.slow
def test_an_interrupted_sweep_tells_what_was_not_started(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    orders = {"quick": "sleep 0 say 7", "endless": "sleep 600 say 7", "never": "sleep 0 say 7"}
    data = dataset(tmp_path / "data", *(obedient_agent.told(*each) for each in orders.items()))
    options = [*AGENT, *data, RUN_DIR, "hydra.sweep.dir=sweep", "tracking=off", "run.drain_seconds=0"]
    command = [sys.executable, str(SCRIPT), "-m", *options, "ids=[quick,endless],[never]"]
    environment = {**clean_environment, "PYTHONPATH": str(PROJECT_ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 60
        while not _answered(tmp_path / "job-0" / DATABASE) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 3
    first, second = content(tmp_path / "sweep")["jobs"]
    assert (first["exit_code"], first["n"], first["n_correct"]) == (3, 2, 1)
    assert (second["exit_code"], second["differs"], second["n"]) == (None, ["ids=[never]"], None)
    assert "not started" in out


def _answered(database: Path) -> bool:
    if not database.is_file() or database.stat().st_size == 0:
        return False
    try:
        with RunStore(database, read_only=True) as store:
            return bool(store.read_last_attempts())
    except Exception:  # noqa: BLE001 - it is just being made
        return False


@pytest.mark.slow
def test_a_sweep_is_one_parent_run_with_children_in_mlflow(eval_command: EvalCommand, local: LocalTracking) -> None:
    finished = eval_command(*SWEEP, "model.seed=0,1", "limit=3", *tracked_in(local))
    assert "warning" not in finished.err
    assert finished.out.count("see it:") == 3, "the two runs and the sweep"
    runs = _in_mlflow(local)
    found = content()
    parent, children = runs[found["id"]], [runs[row["run_id"]] for row in found["jobs"]]
    assert len(runs) == 3
    assert [child["parent"] for child in children] == [parent["id"]] * 2
    assert [child["job"] for child in children] == ["0", "1"]
    assert {run["status"] for run in runs.values()} == {"FINISHED"}
    assert parent["metrics"]["accuracy/job_1"] == found["jobs"][1]["accuracy"]
    assert parent["metrics"]["p_holm/job_1"] == found["comparisons"][0]["p_holm"]
    assert set(parent["files"]) == {"sweep.json", "sweep.md", "multirun.yaml"}
    assert again("sweep") == finished.code
    assert _in_mlflow(local) == runs, "the same again"


def _in_mlflow(local: LocalTracking) -> dict[str, dict[str, Any]]:
    """The experiment's runs by our id."""
    from mlflow import MlflowClient

    client = MlflowClient(local.address())
    experiment = client.get_experiment_by_name(local.experiment)
    assert experiment is not None
    return {
        run.data.tags["harness.run_id"]: {
            "id": run.info.run_id,
            "status": run.info.status,
            "parent": run.data.tags.get("mlflow.parentRunId"),
            "job": run.data.tags.get("harness.sweep_job"),
            "metrics": run.data.metrics,
            "files": [each.path for each in client.list_artifacts(run.info.run_id)],
        }
        for run in client.search_runs([experiment.experiment_id])
    }
