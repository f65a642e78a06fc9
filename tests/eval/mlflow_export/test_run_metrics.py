import pytest

from eval.mlflow_export.run_metrics import RunNumbers
from eval.runs.record import PlannedQuestion
from tests.eval.mlflow_export.records import a_record


def numbers_of(*records: object) -> RunNumbers:
    numbers = RunNumbers()
    for record in records:
        numbers.add(record)  # type: ignore[arg-type]
    return numbers


def test_calls_and_reject_rates_of_each_agent_and_tool() -> None:
    found = numbers_of(a_record("q1", rounds=2), a_record("q2")).build_metrics()
    assert found["agents/planner_calls"] == 2
    assert found["agents/expert_calls"] == 3
    assert found["agents/critic_expert_calls"] == 6
    assert found["agents/critic_expert_reject_rate"] == 0.5
    assert "agents/expert_reject_rate" not in found
    assert (found["tools/calculator_calls"], found["tools/calculator_errors"]) == (3, 0)


def test_latencies_are_of_the_last_attempts_and_of_calls_that_were_made() -> None:
    kept = [dict(step) for step in a_record().trajectory]
    for step in kept:
        step["attributes"] = {**step["attributes"], "replayed": True}
    timed = [{**step, "start_seconds": 0.0, "end_seconds": 3.0} for step in a_record().trajectory]
    found = numbers_of(
        a_record("q1", wall_seconds=100.0, trajectory=[]),
        a_record("q1", wall_seconds=1.0, attempt=2, trajectory=kept),
        a_record("q2", wall_seconds=2.0, trajectory=timed),
    ).build_metrics()
    assert found["latency/question_p50_seconds"] == pytest.approx(1.5)
    assert found["latency/question_p95_seconds"] == pytest.approx(1.95)
    assert found["latency/lm_call_p50_seconds"] == found["latency/lm_call_p95_seconds"] == 3.0
    assert RunNumbers().build_metrics() == {}


def test_accuracy_by_kind_counts_what_was_never_run_as_wrong() -> None:
    planned = [
        PlannedQuestion("q1", "?", target="391", tags={"kind": "xlsx"}),
        PlannedQuestion("q2", "?", target="391", tags={"kind": "xlsx"}),
        PlannedQuestion("q3", "?", target="391", tags={"kind": "none"}),
        PlannedQuestion("q4", "?", target=None, tags={"kind": "none"}),
    ]
    numbers = numbers_of(a_record("q1"), a_record("q1", epoch=2, score=0.0), a_record("q3"), a_record("q3", epoch=2))
    found = numbers.build_metrics(planned, epochs=2)
    assert (found["accuracy/kind_xlsx"], found["accuracy/kind_none"]) == (0.25, 1.0)
    names = [PlannedQuestion(f"q{n}", "?", target="1", tags={"title": f"t{n}"}) for n in range(21)]
    assert not any(name.startswith("accuracy/title") for name in numbers.build_metrics(names))


def test_kinds_count_the_same_rows_as_the_summary() -> None:
    planned = [
        PlannedQuestion("lost", "?", target=None, tags={"kind": "pdf"}),  # its gold answer was taken away later
        PlannedQuestion("never", "?", target=None, tags={"kind": "csv"}),
    ]
    numbers = numbers_of(a_record("lost", target="391"), a_record("lost", epoch=2, score=0.0))  # of an earlier plan
    assert numbers.build_metrics(planned)["accuracy/kind_pdf"] == 0.5
    assert "accuracy/kind_csv" not in numbers.build_metrics(planned)
