"""`python eval/run.py -m …` to its table, with real runs."""

import re
from pathlib import Path

import pytest

from eval.analysis.comparison.compare_runs import compare_read_runs, read_runs
from eval.execution.console import Output
from eval.reports.formats import format_p_value, format_percent, format_points
from eval.runs.folder import DATABASE
from eval.runs.run_info import SweepJob, TuningUse
from eval.runs.store import RunStore
from eval.workflows.sweep import PAGE_FILE, Job, Sweep, show_sweep
from mas.simulation import SIMULATED_NOTICE
from tests.eval import obedient_agent
from tests.eval.command_line import EvalCommand, Finished, dataset
from tests.eval.obedient_agent import AGENT
from tests.eval.stored_run import answered, stored_run

RUN_DIR = "run.dir=job-${hydra:job.num}"  # in the test's current folder
SWEEP = ("-m", "experiment=offline", RUN_DIR, "hydra.sweep.dir=sweep")
IDS = [f"q{number}" for number in range(8)]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def place(job: int) -> SweepJob:
    with RunStore(Path(f"job-{job}") / DATABASE, read_only=True) as store:
        found = store.read_info().sweep
    assert found is not None
    return found


def in_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def check_comparisons(shown: str, *folders: Path) -> None:
    """Check that the table and the page have the numbers of `eval/compare.py`."""
    page = Path("sweep", PAGE_FILE).read_text("utf-8")
    for made in compare_read_runs(read_runs(folders)).comparisons:
        points = format_points(made.comparison.score.difference)
        assert points in shown and points in page
        assert format_p_value(made.p_holm) in shown


@pytest.mark.slow
def test_a_sweep_ends_with_a_row_a_job_and_each_compared_with_the_first(eval_command: EvalCommand) -> None:
    finished = eval_command(*SWEEP, "model.seed=0,1,2", "limit=5", "split=validation")
    runs = [Finished(0, "", "", Path(f"job-{number}")) for number in range(3)]
    for number, run in enumerate(runs):
        accuracy = format_percent(run.summary["accuracy"])
        assert re.search(rf"│ {number} +│ model\.seed={number} +│ +{accuracy} │", finished.out)
        assert place(number).differs == [f"model.seed={number}"]
    assert finished.code in (0, 2), "2 if a job had errors"
    for text in (SIMULATED_NOTICE, "job 2: job-2", "2 comparisons were made"):
        assert text in finished.out
    check_comparisons(finished.out, *(run.folder for run in runs))


@pytest.mark.slow
def test_epochs_are_compared_by_their_questions_means(eval_command: EvalCommand) -> None:
    finished = eval_command(*SWEEP, "model.seed=0,1", "limit=4", "run.epochs=3")
    assert "p by exact sign-flip" in finished.out and "comparisons were made" not in finished.out
    check_comparisons(finished.out, Path("job-0"), Path("job-1"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "reason"),
    [("seed=0,1 shuffle=true", "their questions differ"), ("scorer=gaia,exact", "their scorers differ")],
)
def test_runs_of_other_questions_or_scorers_are_not_compared(eval_command: EvalCommand, what: str, reason: str) -> None:
    finished = eval_command(*SWEEP, *what.split(), "limit=3")
    assert f"job 1 is not compared with job 0: {reason}" in finished.out
    assert "p by" not in finished.out


@pytest.mark.slow
def test_a_jobs_mistake_has_its_row(eval_command: EvalCommand) -> None:
    finished = eval_command(*SWEEP, "limit=0,2")
    mistake = "limit=0 is out of range; expected at least 1, or null for all questions."
    assert "no result" in finished.out and f"job 0: {mistake}" in finished.out
    assert "job 1 is not compared with job 0: job 0 has no answers" in finished.out
    assert (finished.code, finished.err) == (1, f"error: {mistake}\n")


def test_a_stopped_child_has_its_row_and_is_resumed_in_its_place(eval_command: EvalCommand, tmp_path: Path) -> None:
    questions = [obedient_agent.told("bad", "sleep 0 fail always"), obedient_agent.told("good", "sleep 0 say 7")]
    options = [*AGENT, *dataset(tmp_path / "data", *questions), "run.concurrency=1", RUN_DIR, "hydra.sweep.dir=sweep"]
    finished = eval_command("-m", *options, "run.max_errors=1,5")
    assert finished.code == 3
    assert "job 0: continue with: python eval/run.py run.resume=job-0" in finished.out
    assert "then compare the runs with: python eval/compare.py" in finished.out
    assert "job 1 is not compared with job 0: 1 answer is still missing" in finished.out
    assert "at least 0.0%" in finished.out, "of a run that stopped, a floor"
    before = place(0)
    assert eval_command("run.resume=job-0", "run.max_errors=null").code == 2
    assert place(0) == before


def test_what_prompts_were_tuned_on_is_left_out_as_in_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(name: str, right: int, learnt_from: list[str] | None = None) -> Path:
        records = [answered(each, "17" if number < right else "5") for number, each in enumerate(IDS)]
        use = TuningUse("mine", learnt_from, [], {}) if learnt_from else None
        return stored_run(tmp_path / name, records, tuning_use=use, run_id=name)

    folders = [run("a", 2), run("b", 6, IDS[:4]), run("c", 5)]
    show_sweep(
        Sweep(Path("sweep"), jobs=[Job(number, [f"x={number}"], each, 0) for number, each in enumerate(folders)]),
        Output(),
    )
    shown = capsys.readouterr().out
    check_comparisons(shown, *folders)
    for heading in ("what differs", "accuracy", "difference", "p (Holm)"):
        assert heading in shown, "whole, in 80 columns"
    assert "4 of the 8 questions were used to tune the prompts of job 1, mine" in in_one_line(shown)
