import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.reports.summary_table import print_report_path, print_summary, print_wrong_answers
from eval.runs.record import Record, Usage
from tests.eval.stored_run import summarise_records

Make = Callable[..., Record]


NOT_RUN = {"answer": None, "score": None, "error": "x", "error_class": "not_run"}


def read(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def shown(records: list[Record], simulated: bool = False, width: int = 100, **facts: Any) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_summary(summarise_records(records, simulated=simulated, wall_seconds=12.34, **facts), console)
    return read(console)


def row(text: str, name: str) -> list[str]:
    found = next(line for line in text.splitlines() if line.strip("│ ").startswith(f"{name} "))
    return [cell.strip() for cell in found.strip("│┃ ").split("│")]


def test_accuracy_stands_with_its_interval_for_all_and_by_level(record: Make) -> None:
    text = shown([record("a", score=1.0), record("b", level="2"), record("c", level="2", error="x", score=None)])
    assert row(text, "all") == ["all", "33.3%", "1.7% to 93.7%", "1/3", "1"]
    assert row(text, "level 2") == ["level 2", "0.0%", "0.0% to 84.2%", "0/2", "1"]
    assert "time: 12.3 s" in text


def test_a_run_that_is_not_complete_shows_a_floor_and_how_far_it_came(record: Make) -> None:
    records = [
        record("a", score=1.0),
        record("b"),
        record("c", **{**NOT_RUN, "error_class": "malformed"}),
        *(record(each, level="2", **NOT_RUN) for each in "de"),
        *(record(each, epoch=2, **NOT_RUN) for each in "abcde"),
    ]
    text = shown(records, stopped="interrupted by Ctrl-C", epochs=2)
    assert row(text, "all") == ["all", "at least 10.0%", "1/10", "7", "1"]
    assert row(text, "level 2") == ["level 2", "at least 0.0%", "0/2", "2", "0"]
    assert "stopped: interrupted by Ctrl-C\nincomplete: 1 right of 2 answered, 7 of 10 not run; " in text
    assert "errors: malformed 1\n" in text
    assert not [each for each in ("interval", "ICC", "pass@k:") if each in text]


def test_a_cost_says_why_it_is_unknown_or_zero(record: Make) -> None:
    unpriced = record("a", usage=Usage(lm_calls=1))
    assert "cost: n/a (price of odd-1 unknown)" in shown([unpriced], model="odd-1")
    cut_off = record("a", usage=Usage(lm_calls=3, output_tokens=9, known_cost_usd=0.25, unknown_cost_calls=1))
    assert "cost: at least $0.2500 (1 call of unknown cost)\n" in shown([cut_off], model="odd-1")
    all_cut_off = record("a", usage=Usage(lm_calls=2, unknown_cost_calls=2))
    assert "cost: n/a (2 calls of unknown cost)\n" in shown([all_cut_off], model="odd-1")
    free = record("a", usage=Usage(lm_calls=1, cost_usd=0.0))
    assert "cost: $0.0000 (simulated)" in shown([free], simulated=True)


def test_epochs_say_how_often_one_answer_and_all_are_right(record: Make) -> None:
    records = [record(name, epoch=epoch, score=float(name == "a")) for name in "abc" for epoch in (1, 2)]
    text = shown(records, epochs=2)
    assert "epochs: 2 of each of 3 questions; the interval is clustered by question (ICC 1.00)" in text
    assert "pass@2: 33.3% (1.7% to 93.7%): one of 2 answers is right\n" in text
    assert "pass^2: 33.3% (1.7% to 93.7%): all 2 answers are right\n" in text


def test_wrong_answers_are_one_plain_line_each_cleaned_and_cut(record: Make) -> None:
    hostile = "a\nb\x1b[2J" + "x" * 200
    first_record = record(sample_id="q1", question=hostile, answer=hostile, target=hostile)
    records = [first_record, record(sample_id="q2", answer=None, target="http://127.0.0.1/")]
    console = Console(file=io.StringIO(), width=30, force_terminal=True, color_system="truecolor")
    print_wrong_answers(records, console)
    heading, first, second = read(console).splitlines()
    assert heading == "wrong answers:" and "\x1b" not in first + second and len(first) < 210
    assert first.startswith("  q1: a b") and "…" in first and 'no answer, expected "' in second


def test_the_path_of_the_page_is_whole_and_a_link_in_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / ("a long name " * 9)
    folder.mkdir()
    for terminal in (False, True):
        console = Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system="standard")
        print_report_path(folder, console)
        assert f"python eval/report.py '{folder}'" in read(console), "a run without a page"
    (folder / "report.html").touch()
    print_report_path(folder, console)
    printed = read(console)
    assert f"{(folder / 'report.html').as_uri()}\x1b\\{folder / 'report.html'}\x1b" in printed
