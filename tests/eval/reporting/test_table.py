import io
from collections.abc import Callable

from rich.console import Console

from eval.record import Record, Usage
from eval.reporting.summary import summarise
from eval.reporting.table import print_table
from mas.offline import SIMULATED_NOTICE

Make = Callable[..., Record]


def shown(records: list[Record], simulated: bool = False) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_table(summarise("run-1", records, simulated=simulated, wall_seconds=12.34), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def row(text: str, name: str) -> list[str]:
    found = next(line for line in text.splitlines() if f" {name} " in line)
    return [cell.strip() for cell in found.strip("│┃ ").split("│")]


def test_accuracy_stands_with_its_interval_for_all_and_by_level(record: Make) -> None:
    text = shown([record("a", score=1.0), record("b", level="2"), record("c", level="2", error="x", score=None)])
    assert row(text, "all") == ["all", "33.3%", "6.1% to 79.2%", "1", "3", "3", "1"]
    assert row(text, "level 2") == ["level 2", "0.0%", "0.0% to 65.8%", "0", "2", "2", "1"]
    assert "time: 12.3 s" in text


def test_what_is_not_known_is_shown_as_not_available(record: Make) -> None:
    text = shown([record("a", target=None, score=None)])
    assert row(text, "all")[1:3] == ["n/a", "n/a"]
    assert "cost: n/a" in text
    assert "unscored: 1 " in text


def test_known_cost_and_tokens_are_shown(record: Make) -> None:
    text = shown([record("a", usage=Usage(5, 2, 12_345, 67, 0.0125))])
    assert "tokens: 12,345 in, 67 out" in text
    assert "cost: $0.0125" in text


def test_a_simulated_run_says_so_before_anything_else(record: Make) -> None:
    text = " ".join(shown([record("a")], simulated=True).split())
    assert text.startswith(SIMULATED_NOTICE)
    assert "Simulated" not in shown([record("a")])


def test_errors_are_listed_by_class_and_are_not_markup(record: Make) -> None:
    failed = {"score": None, "error": "x"}
    text = shown([record("a", error_class="[red]Odd[/]", **failed), record("b", error_class=None, **failed)])
    assert "errors: [red]Odd[/] 1, unknown 1" in text
    assert "errors: none" in shown([record("a")])


def test_format_losses_and_repeats_are_mentioned_only_when_there_are_any(record: Make) -> None:
    text = shown([record("a", parts={"format_loss": 1.0}), record("a", epoch=2)])
    assert "format loss: 1 wrong only in format" in text
    assert "repeats: 2 epochs" in text
    plain = shown([record("a")])
    assert "format loss" not in plain
    assert "repeats" not in plain
