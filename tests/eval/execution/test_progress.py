import io
import re
from collections.abc import Callable

from rich.console import Console

from eval.execution.progress import RunProgress
from eval.runs.record import Record, Usage

Make = Callable[..., Record]


def shown(records: list[Record], *, terminal: bool, interval: float = 0.0) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=100, color_system=None)
    with RunProgress(len(records), console, line_interval_seconds=interval) as progress:
        for record in records:
            progress.update(record)
    return output.getvalue()


def test_without_a_terminal_each_line_stands_for_itself(record: Make) -> None:
    lines = shown([record("a", score=1.0), record("b", score=None, error="x")], terminal=False).splitlines()
    assert re.fullmatch(r"1/2 done, 1 correct, 0 errors, \d+\.\d s", lines[0])
    assert re.fullmatch(r"2/2 done, 1 correct, 1 error, \d+\.\d s", lines[1])
    assert len(lines) == 2


def test_a_fast_run_prints_its_first_and_last_line_only(record: Make) -> None:
    lines = shown([record(str(n)) for n in range(50)], terminal=False, interval=60.0).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["1/50", "50/50"]


def test_a_run_without_gold_answers_does_not_speak_of_correct_ones(record: Make) -> None:
    assert "1/1 done, unscored, 0 errors" in shown([record("a", target=None, score=None)], terminal=False)


def test_a_terminal_gets_a_live_bar(record: Make) -> None:
    text = shown([record("a", score=1.0), record("b")], terminal=True)
    assert "\x1b[?25l" in text  # the cursor is hidden: redrawn in place
    assert "2/2 done, 1 correct, 0 errors" in text


def test_cost_is_shown_as_far_as_it_is_known(record: Make) -> None:
    priced = Usage(lm_calls=1, cost_usd=0.25)
    lines = shown([record("a", usage=priced, scorer_usage=priced), record("b")], terminal=False).splitlines()
    assert all(", 0 errors, $0.5000, " in line for line in lines)
