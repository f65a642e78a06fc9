import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.analysis.summary.summary import PaceChange, RunNames, SessionSummary
from eval.reports.summary_table import print_report_path, print_summary, print_wrong_answers
from eval.runs.record import Record, Usage
from mas.simulation import SIMULATED_NOTICE

Make = Callable[..., Record]


NOT_RUN = {"answer": None, "score": None, "error": "x", "error_class": "not_run"}


def shown(records: list[Record], simulated: bool = False, width: int = 100, **facts: Any) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_summary(
        summarise(records, RunDetails(run_id="run-1", simulated=simulated, wall_seconds=12.34, **facts)), console
    )
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def row(text: str, name: str) -> list[str]:
    found = next(line for line in text.splitlines() if line.strip("│ ").startswith(f"{name} "))
    return [cell.strip() for cell in found.strip("│┃ ").split("│")]


def test_accuracy_stands_with_its_interval_for_all_and_by_level(record: Make) -> None:
    text = shown([record("a", score=1.0), record("b", level="2"), record("c", level="2", error="x", score=None)])
    assert row(text, "all") == ["all", "33.3%", "1.7% to 93.7%", "1/3", "1"]
    assert row(text, "level 2") == ["level 2", "0.0%", "0.0% to 84.2%", "0/2", "1"]
    assert "time: 12.3 s" in text


def test_notes_are_plain_on_a_terminal_too() -> None:
    console = Console(file=io.StringIO(), width=30, force_terminal=True, color_system="truecolor")
    long = "it [b]broke[/b] 3 times at 'http://127.0.0.1/'"
    facts = RunDetails(run_id="run-1", wall_seconds=12.34, stopped=long)
    print_summary(summarise([], facts), console)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert f"\x1b[1mstopped: \x1b[0m{long}\n" in shown, "neither styled nor wrapped"


def test_wrong_answers_are_plain_on_a_terminal_too(record: Make) -> None:
    console = Console(file=io.StringIO(), width=30, force_terminal=True, color_system="truecolor")
    print_wrong_answers([record("q1", answer="17 or 'http://127.0.0.1/'", target="18")], console)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b" not in console.file.getvalue() and console.file.getvalue().count("\n") == 2


def test_a_level_moves_no_cursor(record: Make) -> None:
    assert "level a\\u001b[31mb c" in shown([record("a", level="a\x1b[31mb\nc")])


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
    assert not [each for each in ("interval", "ICC", "pass@k:", "majority vote:") if each in text]


def test_a_floor_is_told_as_one_wherever_a_share_of_right_answers_stands(record: Make) -> None:
    records = [
        record("a", score=0.5),
        record("b", score=None, error="x", error_class="infrastructure"),
        record("b", attempt=2, score=1.0),
        record("c", score=1.0, leaks=[{"tool": "web_search", "source": "x.org"}]),
        record("d", **NOT_RUN),
    ]
    text = shown(records, stopped="x")
    assert "on first tries the mean score was at least 37.5%" in text
    assert row(text, "all") == ["all", "at least 62.5%", "2/4", "1", "0"]
    assert "fully right: at least 50.0% of the answers; the mean score counts" in text
    assert "mean score without it: at least 50.0% of 3\n" in text
    assert "accuracy" not in text, "a mean of graded scores is no accuracy"
    assert "at least" not in shown(records[:-1])


def test_the_table_says_what_was_measured(record: Make) -> None:
    names = {"folder": "night", "system": "gaia", "data": "sample", "split": "val", "prompts": "p", "scorer": "exact"}
    text = shown([record("a")], names=RunNames(**names, model="m-1"))
    assert text.splitlines()[0] == "gaia · m-1 · sample/val · prompts p · scorer exact · night"
    assert shown([record("a")]).splitlines()[0] == "run-1", "nothing is known of it"


def test_the_table_fits_a_narrow_terminal(record: Make) -> None:
    right = [record(f"{n}-{epoch}", score=1.0) for n in range(69) for epoch in range(5)]
    for records in (right, [*right, record("z", **NOT_RUN)]):
        lines = shown(records, width=60).splitlines()
        rows = [line for line in lines if line.startswith("│")]
        assert len(rows) == 2, "of all, and of level 1; a cell that does not fit makes another line"
        heading = next(line for line in lines if line.startswith("┃"))
        assert "accuracy" in heading and "errors" in heading and "…" not in heading


def test_what_is_not_known_is_shown_as_not_available(record: Make) -> None:
    text = shown([record("a", target=None, score=None)])
    assert row(text, "all")[1:3] == ["n/a", "n/a"]
    assert "cost: n/a" in text
    assert "unscored: 1 " in text


def test_known_cost_and_tokens_are_shown(record: Make) -> None:
    usage = Usage(lm_calls=5, tool_calls=2, input_tokens=12_345, output_tokens=67, cost_usd=0.0125)
    text = shown([record("a", usage=usage)])
    assert "calls: 5 to language models, 2 to tools" in text
    assert "tokens: 12,345 in, 67 out" in text
    assert "cost: $0.0125\n" in text


def test_a_cost_says_why_it_is_unknown_or_zero(record: Make) -> None:
    unpriced = record("a", usage=Usage(lm_calls=1))
    assert "cost: n/a (price of odd-1 unknown)" in shown([unpriced], names=RunNames(model="odd-1"))
    cut_off = record("a", usage=Usage(lm_calls=3, output_tokens=9, known_cost_usd=0.25, unknown_cost_calls=1))
    assert "cost: at least $0.2500 (1 call of unknown cost)\n" in shown([cut_off], names=RunNames(model="odd-1"))
    all_cut_off = record("a", usage=Usage(lm_calls=2, unknown_cost_calls=2))
    assert "cost: n/a (2 calls of unknown cost)\n" in shown([all_cut_off], names=RunNames(model="odd-1"))
    free = record("a", usage=Usage(lm_calls=1, cost_usd=0.0))
    assert "cost: $0.0000 (simulated)" in shown([free], simulated=True)


def test_calls_that_are_no_plain_calls_are_told(record: Make) -> None:
    usage = Usage(lm_calls=9, retries=1, replayed_calls=2, cached_calls=3, input_tokens=100, cached_input_tokens=40)
    text = shown([record("a", usage=usage)])
    told = "1 sent again, 2 replayed from before an interruption, 3 from the shared cache"
    assert f"calls: 9 to language models (of which {told}), 0 to tools" in text
    assert "tokens: 100 in (40 cached by the provider), 0 out" in text


def test_tool_calls_that_were_not_made_are_told_and_how_old_their_results_are(record: Make) -> None:
    assert "6 to tools (of which 5 answered before in this run)" in shown(
        [record("a", usage=Usage(tool_calls=6, replayed_tool_calls=5))]
    )
    usages = [
        Usage(tool_calls=3, cached_tool_calls=n, oldest_cached_tool_result=when)
        for n, when in ((2, "2026-11-02T09:00:00+00:00"), (1, "2026-11-01T23:59:00+00:00"), (0, None))
    ]
    text = shown([record(f"q{n}", usage=usage) for n, usage in enumerate(usages)])
    assert "9 to tools (of which 3 from the shared cache)" in text
    assert "3 tool results come from other runs (cache.tools=shared), the oldest of 2026-11-01" in " ".join(
        text.split()
    )
    assert "tool results" not in shown([record("a", usage=Usage(tool_calls=6))])


def test_infrastructure_errors_and_second_tries_are_apart(record: Make) -> None:
    failed = {"score": None, "error": "x", "error_class": "infrastructure"}
    text = shown([record("a", **failed), record("b", **failed), record("b", attempt=2, score=1.0)])
    assert "infrastructure errors: 1 (of the wrong answers; run again with" in text
    assert "run.retry_errors=true" in text
    assert "retried: 1 after an error, 1 of them without one now; on first tries the accuracy was 0.0%" in text


def test_epochs_have_a_table_of_their_own(record: Make) -> None:
    records = [record(name, epoch=epoch, score=float(name == "a")) for name in "abc" for epoch in (1, 2)]
    text = shown(records, epochs=2)
    assert "epochs: 2 of each of 3 questions; the interval is clustered by question (ICC 1.00)" in text
    assert row(text, "2") == ["2", "33.3%", "1.7% to 93.7%", "33.3%", "1.7% to 93.7%"]
    assert "majority vote: 33.3%" in text
    many = shown([record("a", epoch=epoch) for epoch in range(1, 101)])
    assert row(many, "64")[0] == "64"
    assert row(many, "100")[0] == "100"
    assert " 65 " not in many


def test_a_run_with_a_history_tells_it(record: Make) -> None:
    sessions = (SessionSummary(), SessionSummary(changes={"run.concurrency": "16 → 8"}))
    history = [
        PaceChange(seconds=0.0, pace=500.0, reason="start"),
        PaceChange(seconds=2.5, pace=3.25, reason="rate limit"),
        PaceChange(seconds=4.5, pace=12.0, reason="rate limit"),
    ]
    text = shown([record("a", waited_seconds=2.0)], sessions=sessions, pace_history=history)
    assert "rate: limited 2 times by the server; paced to 3.25 to 12 requests a second" in text
    assert "sessions: 2" in text
    assert "configuration changed: run.concurrency: 16 → 8" in text
    assert "waited: 2.0 s" in text


def test_lines_that_do_not_apply_are_left_out(record: Make) -> None:
    text = shown([record("a", score=1.0)])
    names = [line.partition(":")[0] for line in text.splitlines() if ": " in line]
    assert names == ["errors", "calls", "tokens", "cost", "time"]


def test_a_simulated_run_says_so_before_anything_else(record: Make) -> None:
    text = " ".join(shown([record("a")], simulated=True).split())
    assert text.startswith(SIMULATED_NOTICE)
    assert "Simulated" not in shown([record("a")])


def test_errors_are_listed_by_class_and_are_not_markup(record: Make) -> None:
    failed = {"score": None, "error": "x"}
    text = shown([record("a", error_class="[red]Odd[/]", **failed), record("b", error_class=None, **failed)])
    assert "errors: [red]Odd[/] 1, unknown 1" in text
    assert "errors: none" in shown([record("a")])


def test_format_losses_and_epochs_are_mentioned_only_when_there_are_any(record: Make) -> None:
    text = shown([record("a", parts={"format_loss": 1.0}), record("a", epoch=2)])
    assert "format loss: 1 wrong only in format" in text
    assert "epochs: 2 of each" in text
    plain = shown([record("a")])
    assert "format loss" not in plain
    assert "epochs" not in plain


def test_wrong_answers_are_one_line_each_cleaned_and_cut(record: Make) -> None:
    hostile = "a\nb\x1b[2J" + "x" * 200
    first_record = record(sample_id="q1", question=hostile, answer=hostile, target=hostile)
    records = [first_record, record(sample_id="q2", answer=None)]
    console = Console(file=io.StringIO(), width=80)
    print_wrong_answers(records, console)
    assert isinstance(console.file, io.StringIO)
    heading, first, second = console.file.getvalue().splitlines()
    assert heading == "wrong answers:" and "\x1b" not in first and len(first) < 210
    assert first.startswith("  q1: a b") and "…" in first and 'no answer, expected "' in second


def test_the_path_of_the_page_is_whole_and_a_link_in_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / ("a long name " * 9)
    folder.mkdir()
    for terminal in (False, True):
        console = Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system="standard")
        print_report_path(folder, console)
        assert isinstance(console.file, io.StringIO) and console.file.getvalue() == "", "a run without a page"
    (folder / "report.html").touch()
    print_report_path(folder, console)
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert f"{(folder / 'report.html').as_uri()}\x1b\\{folder / 'report.html'}\x1b" in printed
