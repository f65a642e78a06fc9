import io
import re
import time
from collections.abc import Callable
from unittest.mock import patch

import pytest
from rich.console import Console

from eval.execution import console as console_module
from eval.execution.console import RunProgress, format_duration, project
from eval.runs.record import Record, Usage
from mas.llm import Traffic
from tests.patience import wait_for

Make = Callable[..., Record]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_minute_without_an_answer_is_explained_by_the_requests(terminal: bool) -> None:
    output = io.StringIO()
    screen = Console(file=output, force_terminal=terminal, width=300, color_system=None)
    traffic = [Traffic(answered=9, refused=33, failed=1, in_flight=1, waiting=n) for n in (7, 8)]
    with patch.object(console_module, "SILENCE_SECONDS", 0.05), RunProgress(1, screen, list_traffic=lambda: traffic):
        began = time.monotonic()
        wait_for(lambda: "no answer" in output.getvalue())
        at_most = 1 + (time.monotonic() - began) / 0.05
    lines = [line for line in output.getvalue().splitlines() if "no answer" in line]
    assert 1 <= len(lines) <= at_most
    assert "18 are answered, 66 refused (429), 2 failed, 2 in flight, 15 waiting" in lines[0]


def shown(records: list[Record], *, terminal: bool, width: int = 100, total: int | None = None) -> str:
    output = io.StringIO()
    screen = Console(file=output, force_terminal=terminal, width=width, color_system=None)
    always = patch.object(console_module, "LINE_INTERVAL_SECONDS", 0.0)
    with always, RunProgress(total or len(records), screen) as progress:
        for record in records:
            progress.update(record)
    return output.getvalue()


def test_cost_is_shown_as_far_as_it_is_known(record: Make) -> None:
    priced = Usage(lm_calls=1, cost_usd=0.25)
    lines = shown([record("a", usage=priced, scorer_usage=priced), record("b")], terminal=False).splitlines()
    assert all(", 0 errors, $0.5000, " in line for line in lines)


PRICED = Usage(lm_calls=1, cost_usd=0.25, known_cost_usd=0.25)
LEFT = r"8/40 done, 0 correct, 0 errors, \$2\.0000, \d+\.\d s, about \d+ s left, about \$10\.00 in all"


def test_time_left_and_cost_are_projected_from_the_answers_so_far(record: Make) -> None:
    lines = shown([record(str(n), usage=PRICED) for n in range(8)], terminal=False, total=40).splitlines()
    assert re.fullmatch(LEFT, lines[-1])
    assert "about" not in lines[1], "two answers tell nothing"


def test_a_call_without_a_price_leaves_the_cost_of_the_whole_open(record: Make) -> None:
    unpriced = Usage(lm_calls=1, cost_usd=None, unknown_cost_calls=1)
    records = [record("a", usage=unpriced), *(record(str(n), usage=PRICED) for n in range(7))]
    last = shown(records, terminal=False, total=40).splitlines()[-1]
    assert last.endswith(" s left") and "$1.7500" in last


@pytest.mark.parametrize("width", [30, 80])
def test_nothing_of_a_live_line_is_cut_in_a_narrow_terminal(record: Make, width: int) -> None:
    records = [record(str(n), usage=PRICED, error="x" if n % 2 else None) for n in range(1200)]
    screen = shown(records, terminal=True, width=width, total=10_000)
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen[screen.rindex("1200/10000") :])
    said = " ".join(last.split())
    assert re.match(
        r"1200/10000 done, 0 correct, 600 errors, \$300\.0000, about \d+ s left, about \$2,500\.00 in all", said
    )


def test_nothing_is_projected_from_fewer_answers_than_run_at_once_or_half() -> None:
    assert project(10, 40, 1, 60.0, None) == (180.0, None)
    assert project(5, 10, 16, 30.0, 0.5) == (30.0, 1.0)
    for done, total, at_once in ((0, 66, 1), (2, 66, 1), (15, 66, 16), (4, 10, 16)):
        assert project(done, total, at_once, 10.0, 0.5) == (None, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3_599, "1 h"), (12_000, "3 h 20 min"), (3_600 * 48, "2 d")],
)
def test_a_duration_has_two_units_or_fewer(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
