"""What the comparison's table, its sentences and its list of settings say, at their exact edges."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eval.analysis.comparison.answers import build_answers
from eval.analysis.comparison.compare_runs import ComparedRun, ComparisonResult, RunComparison
from eval.analysis.comparison.comparison import ExtraComparison, Flip, HeldOut, compare_answers
from eval.analysis.comparison.differences import Differences
from eval.analysis.statistics.paired_means import MeanDifference
from eval.reports.comparison_table import (
    describe_run,
    describe_verdict,
    list_differences,
    list_numbers,
    print_comparison,
    shorten_differences,
)
from eval.runs.record import Usage
from tests.eval.stored_run import answered

NONE = Differences({}, {}, {})


def compared(label: str, **changes: Any) -> ComparedRun:
    made = ComparedRun(
        label, f"run {label}", str(Path("x")), "id", "gaia", "m1", None, {}, True, 1, 0, "v", False, None
    )  # fmt: skip
    return replace(made, **changes)


def pair(
    of_a: Sequence[str] = ("17", "17", "18"),
    of_b: Sequence[str] = ("17", "18", "18"),
    differs: Differences = NONE,
    **changes: Any,
) -> RunComparison:
    """Of the answers to as many questions; 17 is right."""
    sides = (build_answers([answered(f"q{n}", text) for n, text in enumerate(side)]) for side in (of_a, of_b))
    made = RunComparison("B", "A", compare_answers(*sides), None, {}, differs, (), 0.04)
    return replace(made, comparison=replace(made.comparison, **changes))


def printed(width: int = 120, settings: bool = False, n_pairs: int = 1, **changes: Any) -> str:
    console = Console(file=io.StringIO(), width=width)
    result = ComparisonResult([compared("A"), compared("B")], [pair(**changes)] * n_pairs)
    print_comparison(result, console, settings)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows(made: RunComparison) -> dict[str, tuple[str, ...]]:
    return {name: cells for name, *cells in map(tuple, list_numbers(made))}  # type: ignore[misc]


def test_a_run_is_one_line_that_says_how_often_it_answered() -> None:
    assert describe_run(compared("A")) == "A: run A (system gaia, model m1, prompts none)"
    assert describe_run(compared("A", epochs=2, prompts="own")).endswith("prompts own, 2 answers per question)")


def test_differences_are_the_second_runs_minus_the_firsts() -> None:
    found = rows(pair())
    assert list(found["accuracy"])[:3] == ["66.7%", "33.3%", "-33.3 points"]
    assert list(found["errors"]) == ["none", "none", "", ""]
    assert list(found["cost/answer"]) == ["$0.50000", "$0.50000", "+0.00000", "+0.00000 to +0.00000"]
    assert list(found["tokens in all"]) == ["0", "0", "", ""]
    assert list(found["cost in all"]) == ["$1.5000", "$1.5000", "", ""]
    assert list(found["lost by format"])[:3] == ["0.0%", "0.0%", "+0.0 points"]
    assert "fully right" not in found and not any(name.startswith("on the") for name in found)


def test_amounts_have_their_units_and_signs() -> None:
    amount = MeanDifference(3, 1000.5, 2000.25, 999.75, (-1.5, 2001.0))
    found = rows(pair(seconds=amount, tokens=amount))
    assert list(found["time/answer"]) == ["1,000.50 s", "2,000.25 s", "+999.75 s", "-1.50 to +2,001.00"]
    assert list(found["tokens/answer"]) == ["1,000", "2,000", "+1,000", "-2 to +2,001"]
    unknown = rows(pair(cost_usd=None, seconds=replace(amount, ci95=None)))
    assert list(unknown["cost/answer"]) == ["n/a", "n/a", "n/a", ""]
    assert list(unknown["time/answer"])[-1] == "n/a"


@pytest.mark.parametrize(("first", "second", "shown"), [(0.0, 0.0, False), (0.1, 0.0, True), (0.0, 0.1, True)])
def test_a_cost_of_nothing_on_both_sides_has_no_row(first: float, second: float, shown: bool) -> None:
    cost = MeanDifference(3, first, second, second - first, None)
    assert ("cost/answer" in rows(pair(cost_usd=cost))) is shown


def test_graded_answers_extra_scorers_and_errors_have_rows() -> None:
    made = pair()
    extra = {"judge": ExtraComparison("mean score", 0.25, 0.5, made.comparison.score)}
    side = replace(made.comparison.first, errors_by_class={"tool": 2, "model": 1}, accuracy=0.5)
    found = rows(pair(metric="mean score", extra=extra, first=side))
    assert list(found["fully right"]) == ["50.0%", "33.3%", "", ""]
    assert list(found["judge: mean score"])[:3] == ["25.0%", "50.0%", "-33.3 points"]
    assert found["errors"][0] == "tool 2, model 1"


def held_out(n: int = 2, without: bool = True) -> HeldOut:
    result = pair().comparison.score
    kept = replace(result, difference=0.125, ci95=(-0.25, 0.5), p=0.0004, test="a test")
    sets = {"A": "own (2 for training)", "B": "other (1 for training)"}
    scores = (0.25, 0.375) if without else None
    return HeldOut(sets, n, 7 if without else 0, (0.5, 0.5), scores, kept if without else None)


def test_questions_that_were_not_tuned_on_have_a_row_and_a_warning() -> None:
    made = replace(pair(), used_to_tune=held_out())
    expected = ["25.0%", "37.5%", "+12.5 points", "-25.0 to +50.0"]
    assert list(rows(made)["on the 7 not tuned on"]) == expected
    _, warning, rest, *_ = describe_verdict(made, 1)
    assert warning.startswith("warning: 2 of the 3 questions were used to tune the prompts of A, own (2 for training)")
    assert " and of B, other (1 for training): p and the difference" in warning
    assert rest == "on the other 7: +12.5 points (95% interval -25.0 to +50.0), p <0.001 by a test"
    assert list(describe_verdict(made, 2))[2] == f"{rest}, not adjusted for 2 comparisons"
    all_used = list(describe_verdict(replace(made, used_to_tune=held_out(3, without=False)), 1))
    assert all_used[1].startswith("warning: all 3 questions were used")
    assert all_used[2] == "no question is left that was not"
    assert not any(name.startswith("on the") for name in rows(replace(made, used_to_tune=held_out(3, without=False))))


def test_wins_are_those_of_the_second_run_and_small_data_says_so() -> None:
    score = pair().comparison.score
    lines = list(describe_verdict(pair(score=replace(score, wins=1, losses=5, ties=2, smallest_difference=0.25)), 1))
    assert lines[1:] == [
        "B is better on 1 question, worse on 5, equal on 2",
        "these questions would show a true difference of 25.0 points in 80 of 100 such comparisons",
    ]
    few = list(describe_verdict(pair(score=replace(score, smallest_difference=None)), 1))
    assert few[2] == "too few questions to show any difference reliably"


@pytest.mark.parametrize(("width", "shown"), [(89, False), (90, True)])
def test_the_sides_intervals_need_ninety_columns(width: int, shown: bool) -> None:
    assert ("its 95% interval" in printed(width)) is shown


def test_a_table_of_less_than_eighty_columns_has_no_padding() -> None:
    assert "│ accuracy " in printed(80) and "│accuracy " in printed(79)


@pytest.mark.parametrize(("width", "asked", "level"), [(79, False, False), (80, True, False), (99, True, False)])
def test_a_flips_question_and_level_need_room(width: int, asked: bool, level: bool) -> None:
    heading = next(line for line in printed(width).partition("that flipped")[2].splitlines() if "gold" in line)
    assert ("asked" in heading, "level" in heading) == (asked, level)
    wide = next(line for line in printed(100).partition("that flipped")[2].splitlines() if "gold" in line)
    assert "asked" in wide and "level" in wide


@pytest.mark.parametrize(("n", "more"), [(20, None), (21, "… and 1 more: --html FILE")])
def test_twenty_flips_are_shown_and_the_others_counted(n: int, more: str | None) -> None:
    flips = [Flip(f"q{at}", "1", "Which?", "17", 1.0, (None,), (None,)) for at in range(n)]
    text = printed(flips=flips)
    assert text.count("! not_run") == 2 * 20
    assert ("more: --html" in text) is (more is not None) and (more or "") in text


def test_the_legend_knows_of_partly_right_answers_where_there_are_some() -> None:
    assert "◐" not in printed() and "◐ partly right" in printed(metric="mean score")


def test_equal_answers_have_no_table_of_flips_and_a_simulated_run_its_notice() -> None:
    assert "flipped" in printed()
    assert "flipped" not in printed(of_b=("17", "17", "18"))
    console = Console(file=io.StringIO(), width=100)
    print_comparison(ComparisonResult([compared("A"), compared("B", simulated=True)], [pair()]), console)
    assert isinstance(console.file, io.StringIO)
    assert "simulated" in console.file.getvalue().splitlines()[0].lower()
    assert "simulated" not in printed().lower()
    assert "(Holm)" not in printed() and "one of 2 comparisons (Holm)" in printed(n_pairs=2)


def test_all_settings_are_listed_on_request() -> None:
    options = {f"run.option{n}": "1 → 2" for n in range(4)}
    differs = Differences(options, {"planner": "a → b"}, {"expert": "x → y"})
    assert "4 more settings differ: --settings" in printed(differs=differs)
    text = printed(settings=True, differs=differs)
    assert text.count("option run.option") == 4 and "more settings" not in text
    assert "prompt planner: a → b\n" in text and "tool expert: x → y\n" in text
    assert list(list_differences(pair())) == ["options, prompts and tools are the same"]


def short(differs: Differences, **changes: Any) -> list[str]:
    return list(shorten_differences(pair(differs=differs), [compared("A"), compared("B", **changes)]))


@pytest.mark.parametrize("n", [3, 4])
def test_up_to_three_other_settings_are_named(n: int) -> None:
    found = short(Differences({f"run.x{at}": "1 → 2" for at in range(n)}, {}, {}))
    assert found == (
        ["4 more settings differ: --settings"] if n == 4 else [f"option run.x{at}: 1 → 2" for at in range(3)]
    )


def test_what_another_line_says_is_not_listed_again() -> None:
    options = {"model.name": "m1 → m2", "system.agents.expert.tools": "a → b", "scorer.x": "1 → 2", "run.seed": "3 → 4"}
    differs = Differences(options, {"planner": "", "expert": ""}, {"expert": "a → b"})
    assert short(differs, model="m2", prompts="own") == [
        "model: m1 → m2",
        "prompts: none → own",
        "prompts that differ: planner, expert",
        "tools of expert: a → b",
        "scorer.x: 1 → 2",
        "option run.seed: 3 → 4",
    ]
    assert short(NONE) == ["options, prompts and tools are the same"]
    assert short(Differences({"model.name": "m1 → m2"}, {}, {})) == ["option model.name: m1 → m2"]


def test_a_long_setting_is_cut() -> None:
    (line,) = short(Differences({"run.x": "y" * 500}, {}, {}))
    assert len(line) == 240 and line.endswith("…")
    long = list(list_differences(pair(differs=Differences({"run.x": "y" * 500}, {}, {}))))
    assert len(long[0]) == 240 + len("option run.x: ")


def test_usage_is_of_the_answers_that_there_are() -> None:
    paid = [answered("q1", "17", usage=Usage(1, input_tokens=1_000, output_tokens=500, cost_usd=0.25))]
    made = compare_answers(build_answers(paid), build_answers([answered("q1", "17", usage=Usage(1))]))
    found = rows(replace(pair(), comparison=made))
    assert list(found["tokens in all"])[:2] == ["1,500", "0"]
    assert list(found["cost in all"])[:2] == ["$0.2500", "n/a"]


def test_all_rows_of_a_comparison_stand_in_their_order_with_their_intervals() -> None:
    made = pair()
    side = replace(made.comparison.first, score_ci95=(0.25, 0.75), cost_usd=None, tokens=1_234)
    score = replace(made.comparison.score, difference=-0.5, ci95=(-0.75, 0.25))
    mean = MeanDifference(3, 0.25, 0.5, 0.25, (-0.125, 0.5))
    extra = {"judge": ExtraComparison("mean score", 0.25, 0.5, replace(score, ci95=None))}
    changed = pair(
        first=replace(side, errors_by_class={"tool": 2}), second=replace(side, score_ci95=None, cost_usd=0.5),
        score=score, metric="mean score", extra=extra, format_losses=mean, cost_usd=mean, seconds=mean, tokens=mean,
    )  # fmt: skip
    assert list(list_numbers(replace(changed, used_to_tune=held_out()))) == [
        ("mean score", "66.7%", "66.7%", "-50.0 points", "-75.0 to +25.0"),
        ("its 95% interval", "25.0% to 75.0%", "n/a", "", ""),
        ("on the 7 not tuned on", "25.0%", "37.5%", "+12.5 points", "-25.0 to +50.0"),
        ("fully right", "66.7%", "66.7%", "", ""),
        ("judge: mean score", "25.0%", "50.0%", "-50.0 points", "n/a"),
        ("lost by format", "25.0%", "50.0%", "+25.0 points", "-12.5 to +50.0"),
        ("cost/answer", "$0.25000", "$0.50000", "+0.25000", "-0.12500 to +0.50000"),
        ("time/answer", "0.25 s", "0.50 s", "+0.25 s", "-0.12 to +0.50"),
        ("tokens/answer", "0", "0", "+0", "-0 to +0"),
        ("tokens in all", "1,234", "1,234", "", ""),
        ("cost in all", "n/a", "$0.5000", "", ""),
        ("errors", "tool 2", "none", "", ""),
    ]


def cells(line: str) -> list[str]:
    return [each.strip() for each in line.replace("┃", "│").split("│")[1:-1]]


def test_the_table_is_of_the_second_run_against_the_first() -> None:
    text = printed(120)
    assert "B compared with A" in text
    heading = next(line for line in text.splitlines() if line.startswith("┃"))
    assert cells(heading) == ["", "A", "B", "B - A", "95% interval"]
    row = next(line for line in text.splitlines() if line.startswith("│ accuracy"))
    assert cells(row)[1:4] == ["66.7%", "33.3%", "-33.3 points"]
    assert "│         66.7% │" in text, "numbers stand at the right"


def test_names_of_rows_and_ids_are_not_broken_on_a_narrow_terminal() -> None:
    ids = ["x" * 40 + each for each in "ab"]
    flips = [Flip(id, "1", "Which?", "a long target " * 9, 1.0, (None,), (None,)) for id in ids]
    text = printed(90, flips=flips)
    assert all(f"│ {id} │" in text for id in ids)
    assert all(f"│{name}" in printed(40) for name in ("lost by format│", "tokens/answer "))
    lines = printed(30).splitlines()
    assert "A: run A (system gaia, model m1, prompts none)" in lines
    assert "B is better on 0 questions, worse on 1, equal on 2" in lines


def test_the_flips_table_has_a_row_for_each_with_the_runs_labels_as_headings() -> None:
    text = printed(160).partition("questions that flipped")[2].splitlines()
    heading, row = (cells(line) for line in text if line[:1] in "┃│" and line)
    assert heading == ["question", "A", "B", "gold", "asked", "level"]
    assert row == ["q1", "✓ 17", "✗ 18", "17", "What is q1?", "1"]


def test_what_is_compared_is_told_whole_where_several_runs_are() -> None:
    score = replace(pair().comparison.score, p=0.0004, test="a test", epochs=2, n_questions=1, smallest_difference=0.5)
    lines = list(describe_verdict(pair(score=score), 2))
    assert lines == [
        "p <0.001 by a test, 0.040 as one of 2 comparisons (Holm); 1 question, each answered at least 2 times",
        "B is better on 0 questions, worse on 1, equal on 2",
        "these questions would show a true difference of 50.0 points in 80 of 100 such comparisons",
    ]
    first, *_ = describe_verdict(pair(score=replace(score, epochs=1)), 1)
    assert first == "p <0.001 by a test; 1 question"


def test_an_answer_of_which_the_text_has_spaces_is_one() -> None:
    flip = pair(of_a=("17 and more", "17"), of_b=("17", "17")).comparison.flips
    assert len(flip) == 1
    text = printed(120, flips=flip)
    assert "│ ✗ 17 and more │ ✓ 17 │" in text
