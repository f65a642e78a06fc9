"""Tables, styled texts and live lines show the controls of others' texts as replacement characters.

And what a run says of its progress, second by second: the tests set the clock.
"""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from rich.panel import Panel
from rich.progress import Progress, TextColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from eval.execution import console as consoles
from eval.execution.console import Console, KeptOutput, MissingServices, Output, RunProgress
from eval.runs.record import Usage
from mas.llm.adaptive_pace import Traffic
from tests.eval.stored_run import answered

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


@dataclass
class Clock:
    """The clock and the thread of a RunProgress: at each look of the thread the next step is made."""

    now: float = 100.0
    steps: list[Callable[[], None]] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    is_set: bool = False
    daemon: bool = False

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        if not self.steps:
            return True
        self.steps.pop(0)()
        return False

    def set(self) -> None:
        self.is_set = True

    def make_thread(self, target: Callable[[], None], name: str, daemon: bool) -> SimpleNamespace:
        self.daemon = daemon
        return SimpleNamespace(start=target)

    def at(self, now: float, *before: Callable[[], None]) -> None:
        """At the next look of the thread it is so late, and before that something happens."""

        def step() -> None:
            self.now = now
            for each in before:
                each()

        self.steps.append(step)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(consoles, "time", SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr(consoles, "threading", SimpleNamespace(Event=lambda: made, Thread=made.make_thread))
    return made


def narrow_console(terminal: bool = False) -> tuple[Console, io.StringIO]:
    screen = io.StringIO()
    colours = "standard" if terminal else None
    return Console(file=screen, force_terminal=terminal, width=30, color_system=colours), screen


def test_silences_are_told_at_their_ends_and_each_is_twice_as_long_until_an_answer_comes(clock: Clock) -> None:
    console, screen = narrow_console()
    first = Traffic(answered=1, refused=2, failed=3, in_flight=4, waiting=5, pace=None)
    servers = [first]
    later = [
        Traffic(answered=10, refused=20, failed=30, in_flight=40, waiting=50, pace=9.0),
        Traffic(answered=1, refused=1, failed=1, in_flight=1, waiting=1, pace=0.456),
        Traffic(answered=0, refused=0, failed=0, in_flight=0, waiting=0, pace=None),
    ]
    progress = RunProgress(9, console, list_traffic=lambda: list(servers), silence_seconds=60.0)
    clock.now = 1000.0
    clock.at(1059.9)
    clock.at(1060.0)
    clock.at(1119.9, lambda: servers.__setitem__(slice(None), later))
    clock.at(1120.0)
    clock.at(1130.0, lambda: progress.update(answered("q1", "17")))
    clock.at(1189.9)
    clock.at(1190.0)
    with progress:
        assert not clock.is_set
    assert screen.getvalue().splitlines() == [
        "no answer finished for 60 s: 0 model requests answered, 0 refused (429), 0 failed; 4 in flight, 5 waiting",
        "no answer finished for 120 s: 10 model requests answered, 19 refused (429), 28 failed; 41 in flight, 51 "
        "waiting; the refusals allow 0.46 requests a second",
        "1/9 done, 1 correct, 0 errors, $0.5000, 130.0 s",
        "no answer finished for 60 s: 0 model requests answered, 0 refused (429), 0 failed; 41 in flight, 51 waiting",
    ]
    assert (clock.waited, clock.is_set, clock.daemon) == ([1.0] * 8, True, True)


@pytest.mark.parametrize(("silence_seconds", "wait"), [(0.25, 0.25), (1.0, 1.0), (3.0, 1.0)])
def test_a_silence_on_a_terminal_is_told_in_one_plain_line(silence_seconds: float, wait: float, clock: Clock) -> None:
    console, screen = narrow_console(terminal=True)
    traffic = Traffic(answered=7, refused=0, failed=0, in_flight=0, waiting=0, pace=None)
    clock.at(104.0)
    with RunProgress(9, console, list_traffic=lambda: [traffic], silence_seconds=silence_seconds):
        pass
    line = "no answer finished for 4 s: 0 model requests answered, 0 refused (429), 0 failed; 0 in flight, 0 waiting"
    assert line in screen.getvalue()
    assert "0/9 done, 0 correct, 0 errors" in screen.getvalue()
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l"), "the cursor is back"
    assert clock.waited == [wait] * 2


def test_a_plain_line_comes_once_in_an_interval_and_at_the_end(clock: Clock) -> None:
    console, screen = narrow_console()
    progress = RunProgress(12, console, 2.0, at_once=4)
    clock.now = 200.0
    with progress:
        for now, record in (
            (201.0, answered("a", "17", usage=Usage(cost_usd=1234.5))),
            (202.9, answered("b", "18", usage=Usage(), error="x")),
            (203.0, answered("c", "18", usage=Usage(), error="x")),
            (205.0, answered("d", "17", None, usage=Usage(cost_usd=0.5), scorer_usage=Usage(cost_usd=1.0))),
            *((205.5, answered(each, "17", usage=Usage())) for each in "efghijkl"),
        ):
            clock.now = now
            progress.update(record)
    assert screen.getvalue().splitlines() == [
        "1/12 done, 1 correct, 0 errors, $1,234.5000, 1.0 s",
        "3/12 done, 1 correct, 2 errors, $1,234.5000, 3.0 s",
        "4/12 done, 1 correct, 2 errors, $1,236.0000, 5.0 s, about 10 s left, about $3,708.00 in all",
        "12/12 done, 9 correct, 2 errors, $1,236.0000, 5.5 s",
    ]


def test_a_line_comes_every_second_unless_it_is_said_otherwise(clock: Clock) -> None:
    console, screen = narrow_console()
    with RunProgress(9, console) as progress:
        for now in (100.0, 100.9, 101.0, 101.5, 102.0):
            clock.now = now
            progress.update(answered("a", "17", None, usage=Usage(cost_usd=0.0)))
    assert screen.getvalue().splitlines() == [
        "1/9 done, unscored, 0 errors, 0.0 s",
        "3/9 done, unscored, 0 errors, 1.0 s, about 2 s left",
        "5/9 done, unscored, 0 errors, 2.0 s, about 2 s left",
    ]


LONG = "[bold]12 of 'a' [/] " + "x" * 70


def test_a_line_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    console, screen = narrow_console(terminal=True)
    output = Output(console)
    output.print(LONG)
    assert screen.getvalue() == f"{LONG}\n"
    output.print("red", style="red")
    assert screen.getvalue() == f"{LONG}\n\x1b[31mred\x1b[0m\n"
    assert capsys.readouterr() == ("", "")
    output.print(LONG, error=True)
    assert capsys.readouterr() == ("", f"{LONG}\n")
    assert (output.console, output.shows_results) == (console, True)
    assert not Output().console.quiet


@pytest.mark.parametrize("progress", [True, False])
def test_the_lines_of_a_run_in_a_program_are_kept(progress: bool, capsys: pytest.CaptureFixture[str]) -> None:
    output = KeptOutput(progress)
    output.print("one")
    output.print("two", error=True, style="red")
    assert (output.lines, output.shows_results) == (["one", "two"], False)
    output.console.print("progress")
    assert capsys.readouterr() == ("", "progress\n" if progress else "")


@pytest.mark.parametrize(("simulated", "sentences"), [(False, ["a is missing", "b is missing"]), (True, [])])
def test_missing_services_are_noted_once_on_standard_error(
    simulated: bool, sentences: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    missing, shown = MissingServices(simulated), list[tuple[str, bool]]()
    for each in ("a is missing", "b is missing"):
        missing.note(each)
    assert shown == []
    for _ in range(2):
        missing.report(lambda line, error: shown.append((line, error)))
    assert shown == [(f"note: {each}", True) for each in sentences]
    missing.note("c is missing")
    missing.print_notes()
    assert capsys.readouterr() == ("", "" if simulated else "note: c is missing\n")
