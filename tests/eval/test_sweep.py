"""`python eval/run.py -m …` to its table, with real runs."""

import re
from pathlib import Path

import pytest

from eval.reports.formats import format_percent
from eval.runs.folder import DATABASE
from eval.runs.run_info import SweepJob
from eval.runs.store import RunStore
from mas.simulation import SIMULATED_NOTICE
from tests.eval import obedient_agent
from tests.eval.command_line import EvalCommand, Finished, dataset
from tests.eval.obedient_agent import AGENT

RUN_DIR = "run.dir=job-${hydra:job.num}"  # in the test's current folder
SWEEP = ("-m", "experiment=offline", RUN_DIR, "hydra.sweep.dir=sweep")


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def place(job: int) -> SweepJob:
    with RunStore(Path(f"job-{job}") / DATABASE, read_only=True) as store:
        found = store.read_info().sweep
    assert found is not None
    return found


@pytest.mark.slow
def test_a_sweep_ends_with_a_row_a_job_and_the_command_that_compares_them(eval_command: EvalCommand) -> None:
    finished = eval_command(*SWEEP, "model.seed=0,1,2", "limit=5", "split=val")
    runs = [Finished(0, "", "", Path(f"job-{number}")) for number in range(3)]
    for number, run in enumerate(runs):
        accuracy = format_percent(run.summary["accuracy"])
        assert re.search(rf"│ {number} +│ {number} +│ +{accuracy} │", finished.out)
        assert place(number).differs == [f"model.seed={number}"]
    assert finished.code in (0, 2), "2 if a job had errors"
    for text in (SIMULATED_NOTICE, "job 2: job-2", "compare them with: python eval/compare.py job-0 job-1 job-2"):
        assert text in finished.out
    assert not Path("sweep").exists()


@pytest.mark.slow
def test_a_jobs_mistake_has_its_row(eval_command: EvalCommand) -> None:
    finished = eval_command(*SWEEP, "limit=0,2")
    mistake = "limit=0 is out of range; expected at least 1, or null for all questions."
    assert "no result" in finished.out and f"job 0: {mistake}" in finished.out
    assert "eval/compare.py" not in finished.out
    assert (finished.code, finished.err) == (1, f"error: {mistake}\n")


def test_a_stopped_child_has_its_row_and_is_resumed_in_its_place(eval_command: EvalCommand, tmp_path: Path) -> None:
    questions = [obedient_agent.told("bad", "sleep 0 fail always"), obedient_agent.told("good", "sleep 0 say 7")]
    options = [*AGENT, *dataset(tmp_path / "data", *questions), "run.concurrency=1", RUN_DIR, "hydra.sweep.dir=sweep"]
    finished = eval_command("-m", *options, "run.max_errors=1,5")
    assert finished.code == 3
    assert "job 0: continue with: python eval/run.py run.resume=job-0" in finished.out
    assert "compare them with: python eval/compare.py job-0 job-1" in finished.out
    assert "at least 0.0%" in finished.out, "of a run that stopped, a floor"
    before = place(0)
    assert eval_command("run.resume=job-0", "run.max_errors=null").code == 2
    assert place(0) == before
