import pytest

from eval.mlflow_export.run_metrics import RunNumbers
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


def test_errors_and_rejections_are_counted_by_name_over_all_attempts() -> None:
    def failing(kind: str, name: str) -> list[dict[str, object]]:
        steps = [dict(each) for each in a_record().trajectory]
        return [
            {**each, "error": "it broke"} if (each["kind"], each["name"]) == (kind, name) else each for each in steps
        ]

    found = numbers_of(
        a_record("q1", trajectory=failing("agent", "expert")),
        a_record("q1", attempt=2, trajectory=failing("tool", "calculator")),
        a_record("q2", rounds=2),
    ).build_metrics()
    assert (found["agents/expert_calls"], found["agents/expert_errors"]) == (4, 1)
    assert (found["agents/planner_calls"], found["agents/planner_errors"]) == (3, 0)
    assert (found["tools/calculator_calls"], found["tools/calculator_errors"]) == (4, 1)
    assert found["agents/critic_expert_reject_rate"] == 0.5


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


def test_a_call_that_was_cut_off_or_answered_before_has_no_latency() -> None:
    def step(id: int, end: float | None, **attributes: object) -> dict[str, object]:
        times = {"start_seconds": 1.0, "end_seconds": end, "attributes": attributes}
        return {"id": id, "parent": None, "kind": "lm", "name": "m", **times}

    steps = [step(1, 3.0), step(2, None), step(3, 9.0, replayed=True), step(4, 9.0, cached=True), step(5, 5.0)]
    found = numbers_of(a_record("q1", trajectory=steps, wall_seconds=7.0)).build_metrics()
    assert found == {
        "latency/question_p50_seconds": 7.0, "latency/question_p95_seconds": 7.0,
        "latency/lm_call_p50_seconds": pytest.approx(3.0), "latency/lm_call_p95_seconds": pytest.approx(3.9),
    }  # fmt: skip


def test_of_equal_attempts_the_first_counts_and_of_others_the_last() -> None:
    def seconds(*attempts: tuple[int, float]) -> float:
        records = [a_record("q1", attempt=n, wall_seconds=each, trajectory=[]) for n, each in attempts]
        return numbers_of(*records).build_metrics()["latency/question_p50_seconds"]

    assert seconds((1, 5.0), (1, 6.0)) == 5.0
    assert seconds((2, 5.0), (1, 6.0)) == 5.0 and seconds((1, 5.0), (2, 6.0)) == 6.0
    epochs = numbers_of(*(a_record("q1", epoch=n, wall_seconds=float(n), trajectory=[]) for n in (1, 2)))
    assert epochs.build_metrics()["latency/question_p50_seconds"] == 1.5


def test_every_metric_of_a_run_is_there_and_only_decisions_count_as_decisions() -> None:
    def step(id: int, kind: str, name: str, **facts: object) -> dict[str, object]:
        return {"id": id, "parent": None, "kind": kind, "name": name, "start_seconds": 0.0, **facts}

    decisions = [{"name": "decision", "decision": each} for each in ("approve", "reject", "approve", "approve")]
    other = {"name": "step", "decision": "reject"}
    steps = [
        step(1, "agent", "critic", events=[*decisions, other]), step(2, "agent", "critic", error="it broke"),
        step(3, "agent", "planner", events=[other]), step(4, "tool", "search", end_seconds=9.0, events=decisions),
        step(5, "tool", "search", error="no"), step(6, "orchestrator", "o", events=decisions, end_seconds=9.0),
    ]  # fmt: skip
    found = numbers_of(a_record("q1", trajectory=steps, wall_seconds=7.0)).build_metrics()
    assert found == {
        "agents/critic_calls": 2, "agents/critic_errors": 1, "agents/planner_calls": 1, "agents/planner_errors": 0,
        "agents/critic_reject_rate": 0.25, "tools/search_calls": 2, "tools/search_errors": 1,
        "latency/question_p50_seconds": 7.0, "latency/question_p95_seconds": 7.0,
    }  # fmt: skip
