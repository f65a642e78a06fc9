"""Which two runs may be compared, on which questions, and what becomes of missing answers."""

from pathlib import Path
from typing import Any

from eval.analysis.comparison.comparison import (
    Answers,
    collect_answers,
    count_tokens,
    find_obstacle,
    measure_seconds,
    read_answers,
    read_cost,
)
from eval.runs.record import PlannedQuestion, Usage
from eval.runs.run_info import RunInfo, TaskInfo
from eval.runs.store import RunStore
from tests.eval.stored_run import CONFIG, answered, stored_run


def read(folder: Path) -> Answers:
    with RunStore(folder / "run.db", read_only=True) as store:
        return read_answers(store)


def run(folder: Path, *answers: tuple[str, str | None], file: str | None = None, **meta: Any) -> Answers:
    """`answers`: id and answer; the gold answer is 17."""
    return read(stored_run(folder, [answered(id, answer, file=file) for id, answer in answers], **meta))


def test_other_questions_rules_and_gold_answers_are_told_apart(tmp_path: Path) -> None:
    first = run(tmp_path / "a", ("q1", "17"), ("q2", "18"))
    fewer = run(tmp_path / "b", ("q1", "17"))
    ruled = run(tmp_path / "c", ("q1", "17"), ("q2", "18"), config={**CONFIG, "scorer": {"x": 1}})
    gold = read(stored_run(tmp_path / "d", [answered("q1", "17", gold="18"), answered("q2", "18")]))
    assert find_obstacle(first, fewer) == "their questions differ: 1 of 2 are in both"
    assert find_obstacle(first, ruled) == "their scorers differ"
    assert find_obstacle(first, gold) == "their questions, gold answers or attached files differ"


def test_the_content_of_attached_files_counts(tmp_path: Path) -> None:
    def made(name: str, digest: str) -> Answers:
        folder = stored_run(tmp_path / name, [])
        with RunStore(folder / "run.db") as store:
            store.write_plan([PlannedQuestion("q1", "What?", "a.csv", "17")])
            store.write(answered("q1", "17", file="a.csv"))
            store.write_info(RunInfo(run_id="r", task=TaskInfo(file_sha256={"q1": digest})))
        return read(folder)

    first, same, other = made("a", "aa"), made("b", "aa"), made("c", "bb")
    assert find_obstacle(first, same) is None
    assert find_obstacle(first, other) == "their questions, gold answers or attached files differ"


def test_missing_answers_are_an_obstacle(tmp_path: Path) -> None:
    whole = [answered(id, "17", epoch=epoch) for id in ("q1", "q2") for epoch in (1, 2)]
    first = read(stored_run(tmp_path / "a", whole, epochs=2))
    second = read(stored_run(tmp_path / "b", [answered("q1", "18")], planned=["q1", "q2"], epochs=2))
    assert find_obstacle(first, second) == "3 answers are still missing"


def test_a_question_without_a_gold_answer_is_not_compared(tmp_path: Path) -> None:
    first = read(stored_run(tmp_path / "a", [answered("q1", "17", gold=None)]))
    assert find_obstacle(first, first) == "no question has a gold answer"


def test_the_last_attempt_decides_and_all_are_paid_for() -> None:
    usage = Usage(2, input_tokens=10, output_tokens=5, cost_usd=0.5)
    late = answered("q1", "17", attempt=2, usage=usage, wall_seconds=3.0, waited_seconds=1.0)
    early = answered("q1", None, error="down", error_class="infrastructure", score=None, usage=usage, wall_seconds=1.0)
    for order in ([early, late], [late, early]):
        given = collect_answers(order)["q1", 1]
        assert (given.correct, given.answer, given.error_class) == (True, "17", None)
        assert (measure_seconds(given), count_tokens(given), read_cost(given)) == (3.0, 30, 1.0)
    unknown = collect_answers([early, answered("q1", "17", attempt=2, usage=Usage(1))])["q1", 1]
    assert read_cost(unknown) is None, "a part of the cost would look like the whole"
