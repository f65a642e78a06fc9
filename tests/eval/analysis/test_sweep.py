"""The results of a sweep as `sweep.json` holds them."""

from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.sweep import JobComparison, JobResult, SweepResult
from tests.eval.stored_run import answered

FAILED = JobResult(job=1, differs=("seed=2",), folder=None, run_id=None, exit_code=None, error="it broke")


def answered_job(simulated: bool = False) -> JobResult:
    summary = summarise([answered("q1", "17"), answered("q2", "18")], RunDetails(run_id="r", simulated=simulated))
    return JobResult(
        job=0, differs=("seed=1",), folder="0", run_id="r", exit_code=2, error=None, summary=summary, mlflow={"id": "m"}
    )


def test_a_job_has_its_own_facts_and_the_numbers_of_its_summary() -> None:
    job = answered_job()
    assert job.summary is not None
    interval = list(job.summary.accuracy_ci95 or ())
    found = job.to_dict()
    assert {**found, "accuracy_ci95": list(found["accuracy_ci95"]), "score_ci95": list(found["score_ci95"])} == {  # type: ignore[call-overload]
        "job": 0,
        "differs": ("seed=1",),
        "folder": "0",
        "run_id": "r",
        "exit_code": 2,
        "error": None,
        "accuracy": 0.5,
        "accuracy_ci95": interval,
        "n": 2,
        "n_scored": 2,
        "n_correct": 1,
        "n_error": 0,
        "wall_seconds": 0.0,
        "stopped": None,
        "metric": "accuracy",
        "score": 0.5,
        "score_ci95": interval,
        "used_to_tune": None,
        "incomplete": False,
        "n_not_run": 0,
        "cost_usd": 1.0,
        "simulated": False,
        "mlflow": {"id": "m"},
    }
    assert answered_job(simulated=True).to_dict()["simulated"] is True


def test_a_job_without_an_answer_has_no_numbers() -> None:
    found = FAILED.to_dict()
    assert found.keys() == answered_job().to_dict().keys()
    told = {key: value for key, value in found.items() if value is not None}
    assert told == {"job": 1, "differs": ("seed=2",), "error": "it broke", "simulated": False}


def test_a_comparison_has_a_result_or_the_reason_why_there_is_none() -> None:
    result = run_paired_test([Pair((0,), (1,)), Pair((1,), (1,))])
    assert JobComparison(job=1, reason="no answers").to_dict() == {"job": 1, "against": 0, "reason": "no answers"}
    assert JobComparison(job=2, result=result, p_holm=0.5).to_dict() == {
        "job": 2, "against": 0, "reason": None, **result.to_dict(), "p_holm": 0.5
    }  # fmt: skip


def test_a_sweep_is_simulated_if_any_job_is() -> None:
    for jobs, simulated in (
        ([answered_job(), FAILED], False),
        ([FAILED, answered_job(simulated=True), answered_job()], True),
        ([], False),
    ):
        comparisons = [JobComparison(job=1, reason="x")]
        assert SweepResult(jobs, comparisons).to_dict() == {
            "jobs": [each.to_dict() for each in jobs],
            "comparisons": [each.to_dict() for each in comparisons],
            "simulated": simulated,
        }
