"""What a run holds of pages, models and datasets controls no terminal: report, compare, ask, a command's end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eval import compare, report
from eval.cli.command import FINISHED, STOPPED, USER_ERROR, run_cli
from eval.execution.console import Console
from eval.runs.record import Usage
from eval.workflows.single_answer import LiveSteps, print_answer
from mas.runtime.errors import UserError
from mas.runtime.terminal import print_line
from mas.runtime.trace import Span
from tests.eval.stored_run import CONFIG, SESSION, answered, stored_run

EVIL = "\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp.exe"


def run_of(folder: Path, answer: str) -> Path:
    records = [
        answered(f"q{EVIL}", f"{answer}{EVIL}", question=f"How many? {EVIL}", level=f"1{EVIL}", target=f"17{EVIL}",
                 explanation=EVIL),
        answered("q2", None, error=f"failed {EVIL}", error_component=f"tool {EVIL}", error_class=f"tool{EVIL}",
                 score=0.0, usage=Usage(1)),
    ]  # fmt: skip
    return stored_run(
        folder,
        records,
        system=f"toy{EVIL}",
        model=f"m{EVIL}",
        config={**CONFIG, "prompts": f"p{EVIL}{answer}", "name": EVIL},
        prompts_name=f"p{EVIL}",
        sessions=[{**SESSION, "stopped": f"the server said {EVIL}"}],
        finished=False,
        bad_rows=[f"row 3 {EVIL}"],
    )


def check(captured: tuple[str, str], *words: str) -> None:
    for printed in captured:
        assert not [each for each in printed if each not in "\n\t" and not each.isprintable()], printed
    assert all(word in "".join(captured) for word in words), captured


def test_report_and_compare_print_no_control(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = run_of(tmp_path / f"one{EVIL}", "17"), run_of(tmp_path / "two", "18")
    assert report.task([str(first)]) == STOPPED
    check(capsys.readouterr(), "the server said", "tool")
    assert compare.task([str(first), str(second)]) == FINISHED
    check(capsys.readouterr(), "p", "17")


def test_ask_prints_no_control(capsys: pytest.CaptureFixture[str]) -> None:
    span = Span(1, None, "tool", f"read_page{EVIL}", 0.0, inputs={EVIL: EVIL}, outputs={"observation": EVIL})
    agent = Span(2, None, "agent", f"a{EVIL}", 0.0, outputs={"decision": EVIL, EVIL: [EVIL]}, error=f"x: {EVIL}")
    steps = LiveSteps(Console(), str)
    for each in (agent, span, agent):
        steps.observe(each)
        each.end_seconds = 1.0
    steps.observe(span)
    print_answer(answered("q", f"17{EVIL}", reasoning_trace=EVIL), Console(), str)
    check(capsys.readouterr(), "read_page", "answer: 17")


def raising(error: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError(f"no run {EVIL}"), USER_ERROR),
        (KeyboardInterrupt(EVIL), STOPPED),
    ],
)
def test_how_a_command_ends_prints_no_control(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(raising(error)) == code
    print_line(f"stopping: {EVIL}", error=True)
    check(capsys.readouterr(), "stop", "\\u001b[2J")
