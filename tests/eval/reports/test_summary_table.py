"""A run's summary in the terminal: its table, its last lines, and the exit code that goes with it."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from eval.analysis.summary.from_store import GOING_ON
from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import Counts, EpochNumbers, Estimate, Summary
from eval.cli.command import FAILURES, FINISHED, STOPPED
from eval.reports.summary_table import (
    choose_exit_code,
    print_last_lines,
    print_report_path,
    print_results,
    print_summary,
    print_wrong_answers,
)
from eval.runs.record import Record
from mas.simulation import SIMULATED_NOTICE

Make = Callable[..., Record]


@pytest.fixture
def summary(record: Make) -> Summary:
    """Of two questions, one of which is right."""
    return summarise([record("a", score=1.0), record("b")], RunDetails(run_id="run-1"))


def shown(print_it: Callable[[Console], object], width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_it(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def cells(summary: Summary) -> list[list[str]]:
    lines = shown(lambda console: print_summary(summary, console)).splitlines()
    return [
        [each.strip() for each in line[1:-1].replace("┃", "│").split("│")]
        for line in lines
        if line[:1] in "│┃" and line
    ]


def test_the_table_has_the_metric_its_interval_and_errors(summary: Summary) -> None:
    counted = replace(summary, by_level={}, n_error=3, n_not_run=1, score_ci95=(0.25, 0.75))
    assert cells(counted) == [
        ["", "accuracy", "95% interval", "right", "errors"],
        ["all", "50.0%", "25.0% to 75.0%", "1/2", "2"],
    ]
    halted = replace(counted, incomplete=True, metric="mean score")
    assert cells(halted) == [
        ["", "mean score", "fully right", "not run", "errors"],
        ["all", "at least 50.0%", "1/2", "1", "2"],
    ]


def test_levels_and_named_tags_have_rows_in_groups_of_their_own(summary: Summary) -> None:
    counts: Counts = summary
    tags = {"source": {"web": counts, "mail": counts}, "other": {"x": counts}}
    grouped = replace(summary, by_level={"1": counts, "2": counts}, by_tag=tags, tags=("source", "unseen"))
    assert [row[0] for row in cells(grouped)[1:]] == ["all", "level 1", "level 2", "source web", "source mail"]
    text = shown(lambda console: print_summary(grouped, console))
    assert text.count("├") == 2, "a line before each group, none within one"


def test_repeats_have_a_table_of_pass_at_k(record: Make) -> None:
    records = [record(id, epoch=epoch, score=float(epoch == 1)) for id in "ab" for epoch in (1, 2)]
    text = shown(lambda console: print_summary(summarise(records, RunDetails(run_id="r", epochs=2)), console))
    rows = [[each.strip() for each in line.strip("│").split("│")] for line in text.splitlines() if line.startswith("│")]
    assert [(row[0], row[1], row[3]) for row in rows if row[0] in ("1", "2")] == [
        ("1", "50.0%", "50.0%"),
        ("2", "100.0%", "0.0%"),
    ]


def test_a_simulated_run_begins_with_its_notice(summary: Summary) -> None:
    assert SIMULATED_NOTICE not in shown(lambda console: print_summary(summary, console), 400)
    simulated = replace(summary, simulated=True)
    if simulated.notice is None:
        simulated = replace(simulated, notice=SIMULATED_NOTICE)
    assert shown(lambda console: print_summary(simulated, console), 400).startswith(SIMULATED_NOTICE)


def test_a_note_is_not_broken_in_a_narrow_terminal(summary: Summary) -> None:
    """So that it can be searched for and copied."""
    wide, narrow = (
        [line for line in shown(lambda console: print_summary(summary, console), width).splitlines() if ": " in line]
        for width in (300, 30)
    )
    assert max(map(len, wide)) > 30 and set(wide) <= set(narrow)


def test_the_results_folder_and_the_page_are_named(summary: Summary, tmp_path: Path) -> None:
    assert shown(lambda console: print_results(summary, tmp_path, console)).endswith(f"results: {tmp_path}\n")
    assert shown(lambda console: print_last_lines(summary, tmp_path, console)) == "", "there is no page"
    (tmp_path / "report.html").touch()
    path = f"report: {tmp_path / 'report.html'}\n"
    assert shown(lambda console: print_last_lines(summary, tmp_path, console)) == path
    going_on = replace(summary, stopped=GOING_ON)
    assert shown(lambda console: print_last_lines(going_on, tmp_path, console)) == path
    stopped = shown(lambda console: print_last_lines(replace(summary, stopped="budget"), tmp_path, console))
    assert stopped.startswith(f"{path}continue with: python eval/run.py ")


def test_wrong_answers_are_a_line_each_next_to_the_expected(record: Make) -> None:
    wrong = [record("a", question="Which?\nOne"), record("b", answer=None, target=None)]
    assert shown(lambda console: print_wrong_answers(wrong, console)).splitlines() == [
        "wrong answers:",
        '  a: Which? One → "another", expected "SECRET-GOLD"',
        '  b: Which? → no answer, expected ""',
    ]
    assert shown(lambda console: print_wrong_answers(wrong[:1], console)).startswith("a wrong answer:\n")
    assert shown(lambda console: print_wrong_answers([], console)) == ""


def test_the_exit_code_is_that_of_the_worst(summary: Summary) -> None:
    def code(changed: Summary, fail_under: float | None = None) -> tuple[int, str]:
        found: list[int] = []
        text = shown(lambda console: found.append(choose_exit_code(changed, fail_under, console)))
        return found[0], text

    assert code(summary) == code(summary, 0.5) == (FINISHED, "")
    assert code(summary, 0.51) == (FAILURES, "accuracy 0.5 is below run.fail_under=0.51\n")
    assert code(replace(summary, n_error=1)) == (FAILURES, "")
    assert code(replace(summary, n_error=1, stopped="budget"), 0.9) == (STOPPED, "")
    unscored = replace(summary, score=None)
    assert code(unscored, 0.0) == (FINISHED, "") and code(unscored, 0.1)[0] == FAILURES


def test_lines_are_neither_broken_nor_styled_by_what_is_in_them(summary: Summary, tmp_path: Path) -> None:
    folder = tmp_path / "[b]x[/b] 127.0.0.1 and a long name of a folder"
    console = Console(file=io.StringIO(), width=20, force_terminal=True, color_system="truecolor")
    print_results(summary, folder, console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().endswith(f"\nresults: {folder}\n")
    folder.mkdir(parents=True)
    (folder / "report.html").touch()
    narrow = shown(lambda console: print_last_lines(replace(summary, stopped="budget"), folder, console), 20)
    assert narrow.splitlines()[0] == f"report: {folder / 'report.html'}" and len(narrow.splitlines()) == 2
    low = shown(lambda console: choose_exit_code(summary, 0.75, console), 10)
    assert low == "accuracy 0.5 is below run.fail_under=0.75\n"


def test_the_page_is_a_link_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    console = Console(file=io.StringIO(), width=300, force_terminal=True)
    print_report_path(tmp_path, console)
    assert isinstance(console.file, io.StringIO)
    assert (tmp_path / "report.html").as_uri() in console.file.getvalue()


def test_long_ids_questions_and_answers_are_cut(record: Make) -> None:
    each = record("i" * 41, question="q" * 61, answer="a" * 61, target="t" * 61)
    whole = record("i" * 40, question="q" * 60, answer="a" * 60, target="t" * 60)
    assert shown(lambda console: print_wrong_answers([each, whole], console), 20).splitlines()[1:] == [
        f'  {"i" * 39}…: {"q" * 59}… → "{"a" * 59}…", expected "{"t" * 59}…"',
        f'  {"i" * 40}: {"q" * 60} → "{"a" * 60}", expected "{"t" * 60}"',
    ]


def test_numbers_stand_at_the_right_and_the_caption_at_the_left(record: Make) -> None:
    records = [record(id, epoch=epoch, score=float(epoch == 1)) for id in "ab" for epoch in (1, 2)]
    lines = shown(lambda console: print_summary(summarise(records, RunDetails(run_id="r", epochs=2)), console))
    rows = [line for line in lines.splitlines() if line[:1] in "┃│" and line]
    headings = [[cell.strip() for cell in line[1:-1].replace("┃", "│").split("│")] for line in rows]
    assert headings[0] == ["", "accuracy", "95% interval", "right", "errors"]
    assert ["k", "pass@k", "95% interval", "pass^k", "95% interval"] in headings
    assert "│    50.0% │" in rows[1] and rows[1].endswith("│      0 │")
    assert any(line.startswith("│ 1 │  50.0% │") for line in rows)
    assert "pass@k: one of k answers right; pass^k: all k right" in [line.rstrip() for line in lines.splitlines()]


def test_groups_are_divided_by_lines_and_names_are_cut(summary: Summary) -> None:
    counts: Counts = summary
    grouped = replace(summary, by_level={"1" * 60: counts}, by_tag={}, tags=())
    assert cells(grouped)[2][0] == f"level {'1' * 53}…"
    lines = shown(lambda console: print_summary(grouped, console), 160).splitlines()
    kinds = [line[0] for line in lines if line[:1] in "┏┃┡│├└" and line]
    assert kinds == ["┏", "┃", "┡", "│", "├", "│", "└"]
    alone = shown(lambda console: print_summary(replace(grouped, by_level={}), console))
    assert "├" not in alone


def test_each_k_has_both_shares_each_with_its_own_interval(summary: Summary) -> None:
    numbers = EpochNumbers(
        n_questions=2, icc=0.5, majority=Estimate(value=0.5, ci95=None),
        pass_at={"1": Estimate(value=0.5, ci95=(0.25, 0.75)), "2": Estimate(value=0.625, ci95=None)},
        pass_hat={"1": Estimate(value=0.375, ci95=(0.125, 0.5)), "2": Estimate(value=0.125, ci95=(0.0, 0.25))},
    )  # fmt: skip
    repeated = replace(summary, by_level={}, by_tag={}, by_epochs=numbers, score_ci95=(0.25, 0.75))
    assert cells(repeated)[2:] == [
        ["k", "pass@k", "95% interval", "pass^k", "95% interval"],
        ["1", "50.0%", "25.0% to 75.0%", "37.5%", "12.5% to 50.0%"],
        ["2", "62.5%", "n/a", "12.5%", "0.0% to 25.0%"],
    ]


def test_every_group_has_the_numbers_of_its_own_samples(record: Make) -> None:
    made = [record("a", score=1.0, level="1"), record("b", score=0.0, level="2"), record("c", score=1.0, level="2")]
    rows = cells(replace(summarise(made, RunDetails(run_id="r")), score_ci95=None))
    assert [[row[0], row[1], row[3], row[4]] for row in rows[1:4]] == [
        ["all", "66.7%", "2/3", "0"],
        ["level 1", "100.0%", "1/1", "0"],
        ["level 2", "50.0%", "1/2", "0"],
    ]
    assert rows[1][2] == "n/a"
