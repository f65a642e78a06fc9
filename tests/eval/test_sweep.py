"""`python eval/run.py -m …` to its table, with real runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.runs.folder import DATABASE
from eval.runs.run_info import SweepJob
from eval.runs.store import RunStore
from mas.simulation import SIMULATED_NOTICE
from tests.eval import obedient_agent
from tests.eval.command_line import EvalCommand, Finished, dataset
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
def test_epochs_are_compared_by_their_questions_means(eval_command: EvalCommand) -> None:
    eval_command(*SWEEP, "model.seed=0,1", "limit=4", "run.epochs=3")
    (comparison,) = content()["comparisons"]
    assert (comparison["n_questions"], comparison["epochs"], comparison["test"]) == (4, 3, "exact sign-flip")
    accuracies = [row["accuracy"] for row in content()["jobs"]]
    assert comparison["difference"] == pytest.approx(accuracies[1] - accuracies[0])
    assert comparison["p_holm"] == comparison["p"], "one comparison needs no allowance"


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_jobs_mistake_has_its_row(eval_command: EvalCommand) -> None:
    finished = eval_command(*SWEEP, "limit=0,2")
    mistake = "limit=0 is out of range; expected at least 1, or null for all questions."
    first, second = content()["jobs"]
    assert (first["exit_code"], first["error"], first["folder"], first["accuracy"]) == (1, mistake, None, None)
    assert second["n"] == 2
    assert content()["comparisons"][0]["reason"] == "job 0 has no answers"
    assert finished.code == 1
    assert f"job 0: {mistake}" in finished.out
    assert finished.err == f"error: {mistake}\n"


def test_a_stopped_child_has_its_row_and_is_resumed_in_its_place(eval_command: EvalCommand, tmp_path: Path) -> None:
    questions = [obedient_agent.told("bad", "sleep 0 fail always"), obedient_agent.told("good", "sleep 0 say 7")]
    options = [*AGENT, *dataset(tmp_path / "data", *questions), "run.concurrency=1", RUN_DIR, "hydra.sweep.dir=sweep"]
    finished = eval_command("-m", *options, "run.max_errors=1,5")
    assert finished.code == 3
    assert "job 0: continue with: python eval/run.py run.resume=job-0" in finished.out
    assert "then compare the runs with: python eval/compare.py" in finished.out
    assert [row["exit_code"] for row in content()["jobs"]] == [3, 2]
    assert content()["comparisons"][0]["reason"] == "1 answer is still missing"
    assert "at least 0.0%" in finished.out, "of a run that stopped, a floor"
    before = place(0)
    assert eval_command("run.resume=job-0", "run.max_errors=null").code == 2
    assert place(0) == before
