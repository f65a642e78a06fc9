"""Runs compared on a page: what its data say. What a browser makes of them is tested with the other pages."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.answers import build_answers
from eval.analysis.comparison.compare_runs import RunComparison, compare_read_runs, read_runs
from eval.analysis.comparison.comparison import HeldOut, compare_answers
from eval.analysis.comparison.differences import Differences
from eval.analysis.statistics.paired_means import MeanDifference
from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.reports.html.blocks import decode_data
from eval.reports.run_comparison import page as module
from eval.reports.run_comparison.charts import build_charts, chart_losses, describe_losses
from eval.reports.run_comparison.page import describe_result, write_comparison
from eval.reports.run_comparison.rows import gather_runs, name_outcome
from eval.runs.record import Usage
from mas.prompt_sets.prompt_set import PromptSet
from tests.eval.stored_run import answered, stored_run


def write_page(folder: Path, *runs: list[Any], epochs: int = 1, **facts: Any) -> str:
    folders = [stored_run(folder / f"run{n}", records, epochs=epochs, **facts) for n, records in enumerate(runs)]
    read = read_runs(folders)
    write_comparison(folder / "page.html", compare_read_runs(read, intersection=False), read)
    return (folder / "page.html").read_text("utf-8")


def read_rows(html: str) -> list[dict[str, Any]]:
    found = re.search(r'data-rows="questions">\s*<script type="([^"]+)" class="data">(.*?)</script>', html, re.S)
    assert found is not None
    data: Any = json.loads(found[2]) if found[1].endswith("json") else decode_data(found[2])
    return [dict(zip(data["keys"], row, strict=True)) for row in data["rows"]]


def test_questions_on_which_the_runs_disagree_come_first_with_their_outcome(tmp_path: Path) -> None:
    first = [answered("a", "17"), answered("b", "3"), answered("c", "17"), answered("d", "17")]
    second = [answered("a", "17"), answered("b", "3"), answered("c", "4"), answered("d", "17")]
    rows = read_rows(write_page(tmp_path, first, second))
    assert [row["id"] for row in rows] == ["c", "a", "b", "d"]
    assert [row["outcome"] for row in rows] == [["better in A", "flips"], ["all right"], ["all wrong"], ["all right"]]
    assert (rows[0]["run A"], rows[0]["run B"], rows[0]["lost A"]) == (["right 17"], ["wrong 4"], [])
    assert rows[0]["lost B"], "its cause"


def test_three_runs_are_a_matrix_of_the_same_questions(tmp_path: Path) -> None:
    runs = [[answered("a", "17"), answered("b", answer)] for answer in ("17", "3", "17")]
    html = write_page(tmp_path, *runs)
    rows = read_rows(html)
    assert [(row["id"], row["outcome"][0]) for row in rows] == [("b", "runs disagree"), ("a", "all right")]
    assert "3 runs compared" in html
    assert len(rows[0]["answers"]) == 3


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (("17", "17"), "No difference is shown between A and B: +0.0 points of accuracy"),
        (("17", "3"), "B is worse than A by 100.0 points of accuracy (95% interval"),
        (("3", "17"), "B is better than A by 100.0 points of accuracy (95% interval"),
    ],
)
def test_the_verdict_is_one_sentence_with_its_interval_and_the_price(
    tmp_path: Path, answers: tuple[str, str], sentence: str
) -> None:
    runs = [
        stored_run(tmp_path / each, [answered(f"q{n}", text) for n in range(12)])
        for each, text in zip("xy", answers, strict=True)
    ]
    found = describe_result(compare_read_runs(read_runs(runs), intersection=False).comparisons[0], 1)
    assert found.startswith(sentence)
    assert found.endswith("; it takes 1.00 times the cost of an answer.")


def test_only_common_questions_are_shown_and_hostile_texts_stay_texts(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    first = stored_run(tmp_path / "x", [answered("a", evil), answered("b", "17")])
    second = stored_run(tmp_path / "y", [answered("a", "17")])
    runs = read_runs([first, second])
    write_comparison(tmp_path / "page.html", compare_read_runs(runs, intersection=True), runs)
    html = (tmp_path / "page.html").read_text("utf-8")
    assert [row["id"] for row in read_rows(html)] == ["a"]
    assert "<script>alert" not in html


def test_an_outcome_of_epochs_is_by_their_mean(tmp_path: Path) -> None:
    both = [answered("a", "17", epoch=1), answered("a", "3", epoch=2)]
    folders = [stored_run(tmp_path / each, both, epochs=2) for each in "xy"]
    runs = read_runs(folders)
    gathered = gather_runs(runs, ["a"], max_questions=5)
    assert [name_outcome(each, "AB") for each in gathered.questions] == ["equal in part"]
    assert gather_runs(runs, ["a"], max_questions=0).n_left_out == 1


def test_losses_come_before_gains_and_flips_are_what_is_kept_where_there_is_no_room(tmp_path: Path) -> None:
    first = stored_run(tmp_path / "x", [answered(*each) for each in (("a", "17"), ("b", "3"), ("c", "17"))])
    second = stored_run(tmp_path / "y", [answered(*each) for each in (("a", "17"), ("b", "17"), ("c", "3"))])
    runs = read_runs([first, second])
    gathered = gather_runs(runs, ["a", "b", "c"], max_questions=2)
    assert [each.question.id for each in gathered.questions] == ["c", "b"]
    assert gathered.n_left_out == 1


def test_the_verdict_is_that_of_questions_that_no_prompt_was_tuned_on(tmp_path: Path) -> None:
    runs = [
        stored_run(tmp_path / each, [answered(f"q{n}", text) for n in range(12)])
        for each, text in zip("xy", ("3", "17"), strict=True)
    ]
    pair = compare_read_runs(read_runs(runs), intersection=False).comparisons[0]
    same = run_paired_test([Pair((1.0,), (1.0,))] * 5)
    held_out = HeldOut({"B": "tuned"}, 7, 5, (1.0, 1.0), (1.0, 1.0), same)
    found = describe_result(replace(pair, used_to_tune=held_out), 1)
    assert found.startswith(
        "No difference is shown between A and B on the 5 questions that were not tuned on: +0.0 points"
    )
    nothing_left = replace(held_out, n_without=0, without=None)
    found = describe_result(replace(pair, used_to_tune=nothing_left), 1)
    assert found.startswith("Nothing can be said about new questions: all 12 were used to tune the prompts")


def test_a_bar_of_lost_points_filters_the_questions_that_were_lost_there(tmp_path: Path) -> None:
    folders = [stored_run(tmp_path / each, [answered("a", text)]) for each, text in zip("xy", ("17", "3"), strict=True)]
    gathered = gather_runs(read_runs(folders), ["a"], max_questions=5)
    cause = gathered.questions[0].answers[1][0].lost
    points = chart_losses(gathered, ["A", "B"]).points
    assert [(each.label, each.group, each.x, each.href) for each in points] == [
        (cause, "A", 0.0, ""),
        (cause, "B", 1.0, f"#?lost+B={cause}"),
    ]
    said = describe_losses(gathered, ["A", "B"])
    assert said.startswith(f"By the first broken link, B lost 100.0 of 100 points more at {cause}, than A")
    assert "100.0 fewer at" in describe_losses(
        gather_runs(read_runs(folders[::-1]), ["a"], max_questions=5), ["A", "B"]
    )


def test_efficient_runs_have_a_sign_and_not_a_colour_alone(tmp_path: Path) -> None:
    paid = {"x": ("17", 0.2), "y": ("3", 0.3), "z": ("3", 0.1)}
    folders = [
        stored_run(tmp_path / each, [answered(f"q{n}", text, usage=Usage(1, cost_usd=cost)) for n in range(3)])
        for each, (text, cost) in paid.items()
    ]
    runs = read_runs(folders)
    *_, chart = build_charts(compare_read_runs(runs, intersection=False), runs)
    assert [each.label for each in chart.points] == ["A ★", "B", "C ★"]


def pair(**score: Any) -> RunComparison:
    """Of two answers each, with other numbers in its result."""
    sides = (build_answers([answered("a", "17"), answered("b", text)]) for text in ("17", "3"))
    made = compare_answers(*sides)
    given = {"difference": 0.25, "ci95": (-0.125, 0.5), "p": 0.04, **score}
    return RunComparison(
        "B", "A", replace(made, score=replace(made.score, **given)), None, {}, Differences({}, {}, {}), (), 0.06
    )


def priced(first: float, second: float) -> MeanDifference:
    return MeanDifference(2, first, second, second - first, None)


PRICE = "; it takes 1.00 times the cost of an answer."
BETTER = "B is better than A by 25.0 points of accuracy"
NO_DIFFERENCE = "No difference is shown between A and B"


@pytest.mark.parametrize(
    ("score", "n_comparisons", "sentence"),
    [
        ({}, 1, f"{BETTER} (95% interval -12.5 to +50.0, p 0.040)"),
        ({}, 2, f"{NO_DIFFERENCE}: +25.0 points of accuracy (95% interval -12.5 to +50.0, p 0.060)"),
        ({"p": 0.05}, 1, f"{BETTER} (95% interval -12.5 to +50.0, p 0.050)"),
        ({"p": 0.051}, 1, f"{NO_DIFFERENCE}: +25.0 points of accuracy (95% interval -12.5 to +50.0, p 0.051)"),
        ({"difference": -0.25}, 1, f"{BETTER.replace('better', 'worse')} (95% interval -12.5 to +50.0, p 0.040)"),
        ({"ci95": None}, 1, "B - A: +25.0 points of accuracy; one question says nothing about others"),
    ],
)
def test_a_verdict_depends_on_p_the_sign_and_the_number_of_comparisons(
    score: dict[str, Any], n_comparisons: int, sentence: str
) -> None:
    assert describe_result(pair(**score), n_comparisons) == sentence + PRICE


@pytest.mark.parametrize(
    ("p", "n_comparisons", "shown"),
    [
        (0.02, 2, f"{BETTER}|, p 0.040)"),
        (0.02, 3, f"{NO_DIFFERENCE}|, p 0.060)"),
        (0.6, 2, f"{NO_DIFFERENCE}|, p 1.000)"),
    ],
)
def test_p_of_questions_that_were_not_tuned_on_is_adjusted_for_the_number_of_comparisons(
    p: float, n_comparisons: int, shown: str
) -> None:
    made = pair()
    held_out = HeldOut({"B": "own"}, 1, 1, (0.5, 0.5), (0.5, 0.75), replace(made.comparison.score, p=p))
    said = describe_result(replace(made, used_to_tune=held_out), n_comparisons)
    begin, end = shown.split("|")
    assert said.startswith(begin) and end in said and "on the 1 questions that were not tuned on" in said
    lost = replace(held_out, without=None)
    assert describe_result(replace(made, used_to_tune=lost), n_comparisons) == (
        "Nothing can be said about new questions: all 2 were used to tune the prompts; "
        "+25.0 points of accuracy on these mean little."
    )


@pytest.mark.parametrize(
    ("cost", "tokens", "price"),
    [
        (priced(0.5, 1.0), priced(10, 10), "; it takes 2.00 times the cost of an answer"),
        (priced(0.0, 1.0), priced(10, 5), "; it takes 0.50 times the tokens of an answer"),
        (None, priced(10, 5), "; it takes 0.50 times the tokens of an answer"),
        (None, priced(0, 5), ""),
        (None, None, ""),
    ],
)
def test_the_price_is_in_money_or_in_tokens(cost: Any, tokens: Any, price: str) -> None:
    made = pair()
    made = replace(made, comparison=replace(made.comparison, cost_usd=cost, tokens=tokens))
    assert describe_result(made, 1) == f"{BETTER} (95% interval -12.5 to +50.0, p 0.040){price}."


def read_data(html: str) -> Any:
    found = re.search(
        r'data-rows="questions">\s*<script type="application/json" class="data">(.*?)</script>', html, re.S
    )
    assert found is not None
    return json.loads(found[1])


def test_each_column_is_drawn_searched_filtered_and_exported_as_it_should_be(tmp_path: Path) -> None:
    columns = read_data(write_page(tmp_path, [answered("a", "17")], [answered("a", "3")]))["columns"]
    assert [each["key"] for each in columns if each["kind"] != "hidden"] == ["question", "target", "run A", "run B"]
    assert [each["key"] for each in columns if each["menu"]] == ["outcome", "lost A", "lost B", "level", "kind"]
    assert [each["key"] for each in columns if each["find"]] == ["question", "target", "run A", "run B", "file"]
    assert [each["key"] for each in columns if not each["export"]] == ["labels", "answers"]
    assert {each["title"] for each in columns} >= {"lost at in A", "gold answer", "attachment"}


@pytest.mark.parametrize(("n", "width"), [(3, "26fr"), (4, "64px")])
def test_the_answers_of_up_to_three_runs_are_written_into_the_table(tmp_path: Path, n: int, width: str) -> None:
    columns = read_data(write_page(tmp_path, *[[answered("a", "17")]] * n))["columns"]
    assert [each["width"] for each in columns if each["key"].startswith("run ")] == [width] * n


def test_a_row_has_the_answers_of_both_runs_in_the_order_of_the_script(tmp_path: Path) -> None:
    usage = Usage(2, input_tokens=3, output_tokens=4, cost_usd=0.5)
    right = answered("a", "17", usage=usage, wall_seconds=1.5, explanation="equal", file="x.csv")
    (row,) = read_rows(write_page(tmp_path, [right], [answered("a", "3", usage=Usage(1), explanation="not equal")]))
    assert row == {
        "id": "a", "question": "What is a?", "target": "17", "run A": ["right 17"], "run B": ["wrong 3"],
        "outcome": ["better in A", "flips"], "lost A": [], "lost B": ["program"], "level": "1", "kind": "table",
        "file": "x.csv", "labels": ["A", "B"],
        "answers": [
            [[1, 1, "right", "17", "equal", "", "", 1.5, 7, 0.5]],
            [[2, 1, "wrong", "3", "not equal", "program", "", 0.0, 0, None]],
        ],
    }  # fmt: skip


def test_there_is_room_for_so_many_answers_of_all_runs_and_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(text: str) -> list[Any]:
        return [answered(each, text, epoch=epoch) for each in ("a", "b", "c") for epoch in (1, 2)]

    monkeypatch.setattr(module, "MAX_ANSWERS", 8)
    html = write_page(tmp_path / "two", answers("17"), answers("3"), epochs=2)
    assert len(read_rows(html)) == 2 and "1 more questions are not shown here" in html
    monkeypatch.setattr(module, "MAX_ANSWERS", 3)
    html = write_page(tmp_path / "one", answers("17"), answers("3"), epochs=2)
    assert len(read_rows(html)) == 1 and "2 more questions are not shown here" in html
    assert "<title>run0 and run1</title>" in html and "By the first broken link" in html


def test_the_settings_that_differ_are_counted_and_the_first_four_options_named(tmp_path: Path) -> None:
    runs = read_runs([stored_run(tmp_path / each, [answered("a", "17")]) for each in "xy"])
    result = compare_read_runs(runs, intersection=False)

    def shown(n: int, prompts: dict[str, str], tools: dict[str, str]) -> str:
        differs = Differences({f"x{at}": "1 → 2" for at in range(n)}, prompts, tools)
        changed = replace(result, comparisons=[replace(result.comparisons[0], differs=differs)])
        write_comparison(tmp_path / "page.html", changed, runs)
        found = re.search("In what they differ: (.*?)</h2>", (tmp_path / "page.html").read_text("utf-8"))
        assert found is not None
        return found[1]

    assert shown(0, {}, {}) == "nothing"
    assert shown(1, {}, {}) == "1 setting (x0)"
    assert shown(4, {"p": "", "q": ""}, {}) == "6 settings (prompts of p, q, x0, x1, x2, x3)"
    assert shown(6, {}, {"t": ""}) == "7 settings (tools of t, x0, x1, x2, x3, 2 more options)"


def test_prompts_that_differ_from_the_first_runs_are_shown_as_both_texts(tmp_path: Path) -> None:
    def made(texts: dict[str, str]) -> PromptSet:
        return PromptSet(name="own", system="toy", texts=texts, folder=tmp_path)

    folders = [stored_run(tmp_path / each, [answered("a", "17")]) for each in "xyz"]
    sets = [made({"p": "Plan.", "q": "Same."}), made({"q": "Same.", "r": "New."}), None]
    runs = [
        replace(run, setup=replace(run.setup, prompts=each)) for run, each in zip(read_runs(folders), sets, strict=True)
    ]
    write_comparison(tmp_path / "page.html", compare_read_runs(runs, intersection=False), runs)
    html = (tmp_path / "page.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="prompts">(.*?)</script>', html)
    assert found is not None
    assert json.loads(found[1]) == [
        {"agent": "p", "runs": ["A", "B"], "texts": ["Plan.", "none"]},
        {"agent": "r", "runs": ["A", "B"], "texts": ["none", "New."]},
        {"agent": "p", "runs": ["A", "C"], "texts": ["Plan.", "none"]},
        {"agent": "q", "runs": ["A", "C"], "texts": ["Same.", "none"]},
    ]
    assert "Prompts that differ, word by word" in html and "<title>3 runs compared</title>" in html
