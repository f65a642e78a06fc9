"""Which two runs may be compared, on which questions, and what becomes of missing answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.answers import Answers, build_answers, collect_answers, read_answers
from eval.analysis.comparison.pairing import (
    ONE_ONLY,
    OTHER_CONTENT,
    UNANSWERED,
    CommonSamples,
    find_common,
    find_obstacle,
    have_same_scorer,
    pair_scores,
)
from eval.benchmarks.dataset import Sample
from eval.runs.record import Usage
from eval.runs.run_info import RunInfo, TaskInfo, describe_task
from eval.runs.store import RunStore
from tests.eval.stored_run import CONFIG, answered, stored_run


def read(folder: Path) -> Answers:
    with RunStore(folder / "run.db", read_only=True) as store:
        return read_answers(store)


def run(folder: Path, *answers: tuple[str, str | None], file: str | None = None, **meta: Any) -> Answers:
    """`answers`: id and answer; the gold answer is 17."""
    return read(stored_run(folder, [answered(id, answer, file=file) for id, answer in answers], **meta))


def test_the_order_of_the_questions_does_not_matter(tmp_path: Path) -> None:
    first = run(tmp_path / "a", ("q1", "17"), ("q2", "18"), dataset_sha256="order 1")
    second = run(tmp_path / "b", ("q2", "17"), ("q1", "17"), dataset_sha256="order 2")
    assert find_obstacle(first, second) is None
    assert first.task_version == second.task_version
    assert [(pair.first, pair.second) for pair in pair_scores(first, second)] == [((1.0,), (1.0,)), ((0.0,), (1.0,))]


def test_other_questions_rules_and_gold_answers_are_told_apart(tmp_path: Path) -> None:
    first = run(tmp_path / "a", ("q1", "17"), ("q2", "18"))
    fewer = run(tmp_path / "b", ("q1", "17"))
    ruled = run(tmp_path / "c", ("q1", "17"), ("q2", "18"), config={**CONFIG, "scorer": {"x": 1}})
    gold = read(stored_run(tmp_path / "d", [answered("q1", "17", gold="18"), answered("q2", "18")]))
    assert find_obstacle(first, fewer) == "their questions differ: 1 of 2 are in both"
    assert find_obstacle(first, ruled) == "their scorers differ"
    assert find_obstacle(first, gold) == "their questions, gold answers or attached files differ"
    assert len({each.task_version for each in (first, fewer, ruled, gold)}) == 4


def test_the_content_of_attached_files_counts(tmp_path: Path) -> None:
    def made(name: str, digest: str) -> Answers:
        folder = stored_run(tmp_path / name, [])
        with RunStore(folder / "run.db") as store:
            store.write_plan([Sample("q1", "What?", Path("/data/a.csv"), "17")], replace=True)
            store.write(answered("q1", "17", file="a.csv"))
            store.write_info(RunInfo(run_id="r", task=TaskInfo(file_sha256={"q1": digest})))
        return read(folder)

    first, same, other = made("a", "aa"), made("b", "aa"), made("c", "bb")
    assert find_obstacle(first, same) is None
    assert find_obstacle(first, other) == "their questions, gold answers or attached files differ"
    assert find_common(first, other).left_out == {OTHER_CONTENT: 1}


def test_missing_answers_are_an_obstacle_and_are_left_out_of_what_is_in_common(tmp_path: Path) -> None:
    whole = [answered(id, "17", epoch=epoch) for id in ("q1", "q2") for epoch in (1, 2)]
    first = read(stored_run(tmp_path / "a", whole, epochs=2))
    second = read(stored_run(tmp_path / "b", [answered("q1", "18")], planned=["q1", "q2"], epochs=2))
    assert find_obstacle(first, second) == "3 answers are still missing"
    common = find_common(first, second)
    assert common.ids == ["q1"]
    assert pair_scores(first, second, common.ids) == [((1.0, 1.0), (0.0,))]


def test_a_question_without_a_gold_answer_is_not_compared(tmp_path: Path) -> None:
    first = read(stored_run(tmp_path / "a", [answered("q1", "17", gold=None)]))
    assert find_obstacle(first, first) == "no question has a gold answer"


def test_the_last_attempt_decides_and_all_are_paid_for() -> None:
    usage = Usage(2, input_tokens=10, output_tokens=5, cost_usd=0.5)
    late = answered("q1", "17", attempt=2, usage=usage, wall_seconds=3.0, waited_seconds=1.0)
    early = answered("q1", None, error="down", error_class="infrastructure", score=None, usage=usage, wall_seconds=1.0)
    for order in ([early, late], [late, early]):
        given = collect_answers(order)["q1"][1]
        assert (given.correct, given.text, given.error_class) == (True, "17", None)
        assert (given.seconds, given.tokens, given.cost_usd) == (3.0, 30, 1.0)
    unknown = collect_answers([early, answered("q1", "17", attempt=2, usage=Usage(1))])["q1"][1]
    assert unknown.cost_usd is None, "a part of the cost would look like the whole"


@pytest.mark.parametrize("changes", [{"error": "x", "error_class": "malformed"}, {"parts": {"format_loss": 1.0}}])
def test_unreadable_replies_and_wrong_formats_are_lost_by_format(changes: dict[str, Any]) -> None:
    assert collect_answers([answered("q1", "18", **changes)])["q1"][1].format_lost
    assert not collect_answers([answered("q1", "18", error="x", error_class="tool")])["q1"][1].format_lost


def test_answers_come_from_records_alone_too() -> None:
    found = build_answers([answered("q1", "17"), answered("q1", "18", epoch=2), answered("q2", "1", gold=None)])
    assert (list(found.questions), found.epochs, found.list_scores("q1")) == (["q1"], 2, (1.0, 0.0))


def test_what_is_kept_of_a_task_is_what_comparing_makes_of_the_store(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1")
    samples = [Sample("q2", "Two?", None, "2"), Sample("q1", "One?", file, "\ud800")]
    task = describe_task(samples, CONFIG["scorer"], "2025-04")
    folder = stored_run(tmp_path / "run", [])
    with RunStore(folder / "run.db") as store:
        store.write_info(RunInfo(run_id="r", config=CONFIG, task=task))
        store.write_plan(samples, replace=True)
    assert read(folder).task_version == task.task_version
    assert task.data_revision == "2025-04"
    assert describe_task(samples[::-1], CONFIG["scorer"], None).task_version == task.task_version
    file.write_text("2")
    assert describe_task(samples, CONFIG["scorer"], "2025-04").task_version != task.task_version


def test_labels_are_part_of_a_task_but_not_of_its_version() -> None:
    samples = [Sample(f"q{at}", f"Is it {at}?", target="yes" if at % 2 else "no") for at in range(12)]
    task = describe_task(samples, None, None, ("no", "yes"))
    assert task.labels == ["no", "yes"]
    assert task.task_version == describe_task(samples, None, None).task_version


def test_scores_are_paired_with_missing_ones_only_where_whole_runs_are_compared() -> None:
    first = build_answers([answered("q1", "17"), answered("q1", "18", epoch=2), answered("q2", "17")])
    second = build_answers([answered("q2", "18", epoch=2), answered("q1", "17", score=0.5)])
    assert pair_scores(first, second) == [((1.0, 0.0), (0.5, 0.0)), ((1.0, 0.0), (0.0, 0.0))]
    assert pair_scores(first, second, ["q2", "q1"]) == [((1.0,), (0.0,)), ((1.0, 0.0), (0.5,))]
    assert pair_scores(first, second, []) == []
    assert pair_scores(first, second, ["q1"], extra="graded") == [((0.0, 0.0), (0.0,))]


def test_what_is_left_out_is_counted_by_reason_and_what_is_not_there_is_not_named(tmp_path: Path) -> None:
    ids = [f"q{n}" for n in range(6)]
    first = read(stored_run(tmp_path / "a", [answered(each, "17") for each in ids[:5]]))
    others = [
        answered("q0", "18"), answered("q1", "17", gold="18"), answered("q5", "17"),
        answered("q3", "17", gold=None), answered("q4", "17"),
    ]  # fmt: skip
    second = read(stored_run(tmp_path / "b", others, planned=["q0", "q1", "q2", "q3", "q4", "q5"]))
    assert find_common(first, second) == CommonSamples(["q0", "q4"], {ONE_ONLY: 2, OTHER_CONTENT: 1, UNANSWERED: 1})
    assert find_common(second, first) == CommonSamples(["q0", "q4"], {ONE_ONLY: 2, OTHER_CONTENT: 1, UNANSWERED: 1})
    assert find_common(first, first) == CommonSamples(ids[:5], {})


def test_one_missing_answer_is_told_in_the_singular_and_scorers_are_compared_by_their_settings(tmp_path: Path) -> None:
    whole = read(stored_run(tmp_path / "a", [answered("q1", "17"), answered("q2", "17")]))
    part = read(stored_run(tmp_path / "b", [answered("q1", "17")], planned=["q1", "q2"]))
    assert find_obstacle(whole, part) == find_obstacle(part, whole) == "1 answer is still missing"
    assert find_obstacle(part, part) == "2 answers are still missing"
    one, same, other = (replace(whole, scorer=each) for each in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3}))
    assert have_same_scorer(one, same) and not have_same_scorer(one, other)
