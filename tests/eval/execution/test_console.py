"""Tables, styled texts and live lines show the controls of others' texts as replacement characters."""

import io
import re

import pytest
from rich.panel import Panel
from rich.progress import Progress, TextColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from eval.execution.console import Console

HOSTILE = "a\x1b[2Jb\x9b1mc\x07\u202ed"
OWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours and cursor movements of rich


def table() -> Table:
    found = Table(HOSTILE, title=HOSTILE, caption=HOSTILE)
    found.add_row(Text(HOSTILE))
    found.add_row(Table(HOSTILE))
    return found


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "shown",
    [HOSTILE, Text(HOSTILE, style="bold red"), table(), Panel(HOSTILE), [HOSTILE]],
    ids=lambda each: type(each).__name__,
)
def test_no_control_of_a_text_comes_through(shown: object, terminal: bool) -> None:
    screen = io.StringIO()
    Console(file=screen, force_terminal=terminal, width=70).print(shown)
    check(screen.getvalue(), terminal)


@pytest.mark.parametrize("terminal", [False, True])
def test_nor_through_live_lines(terminal: bool) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=70)
    with Status(Text(HOSTILE), console=console) as status:
        status.update(Text(HOSTILE))
    with Progress(TextColumn("{task.description}", markup=False), console=console) as progress:
        progress.add_task(HOSTILE)
    check(screen.getvalue(), terminal)


def test_its_own_colours_stay() -> None:
    screen = io.StringIO()
    Console(file=screen, force_terminal=True, color_system="standard").print(Text("a", style="red"))
    assert screen.getvalue() == "\x1b[31ma\x1b[0m\n"


def check(printed: str, terminal: bool) -> None:
    assert terminal or "\x1b" not in printed
    assert "\x1b[2J" not in printed and "b\x9b" not in printed and "\u202e" not in printed
    assert OWN.sub("", printed).replace("\r", "").replace("\n", "").isprintable()
