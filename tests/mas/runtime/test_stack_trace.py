"""Stacks of records and logs: they name code, and nothing of the machine or of what the code worked on."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.runtime import stack_trace
from mas.runtime.stack_trace import MAX_CHAIN, MAX_FRAMES, format_stack, is_call, remove_folders
from mas.tools.calculator import calculator

HERE = "tests.mas.runtime.test_stack_trace"


def catch(cause: type[Exception], text: str) -> str:
    password = "local-password-1"
    try:
        try:
            int(text)
        except ValueError as error:
            raise cause(f"{text!r} is no number") from error
    except Exception as error:  # noqa: BLE001  whatever it is
        assert password
        return format_stack(error)
    raise AssertionError


def test_a_stack_names_module_line_and_function_of_each_call_and_every_cause() -> None:
    first, inner, second, outer = catch(KeyError, "seven").splitlines()
    assert first.startswith(f"{HERE}:") and first.endswith(" in catch")
    assert inner == "ValueError: invalid literal for int() with base 10: 'seven'"
    assert second.startswith(f"{HERE}:") and outer.startswith("KeyError:") and "is no number" in outer
    assert [is_call(line) for line in (first, inner, second, outer)] == [True, False, True, False]


def test_variables_and_code_are_not_in_it() -> None:
    stack = catch(KeyError, "seven")
    assert "local-password-1" not in stack and "raise" not in stack and "int(text)" not in stack


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (f"no file {PROJECT_ROOT}/conf/model/openai.yaml", "no file openai.yaml"),
        (f"[Errno 2] '{tempfile.gettempdir()}/run-1/a b.csv'", "[Errno 2] 'a b.csv'"),
        (f"{Path.home()}/keys.txt: denied", "keys.txt: denied"),
        ("https://example.org/tmp/page.html", "https://example.org/tmp/page.html"),
        ("a ratio of 1/2, /etc/hosts", "a ratio of 1/2, /etc/hosts"),
    ],
)
def test_messages_lose_the_folders_of_this_machine(text: str, cleaned: str) -> None:
    assert remove_folders(text) == cleaned
    assert catch_message(text) == f"OSError: {cleaned}"


def catch_message(text: str) -> str:
    try:
        raise OSError(text)
    except OSError as error:
        return format_stack(error).splitlines()[-1]


def test_a_failing_tool_is_named_where_it_failed() -> None:
    try:
        calculator("1/0")
    except Exception as error:  # noqa: BLE001  a tool's own
        assert "mas.tools.calculator:" in format_stack(error)
        assert str(PROJECT_ROOT) not in format_stack(error)


def test_deep_recursion_and_long_chains_stay_short() -> None:
    def fall(depth: int) -> None:
        if depth:
            fall(depth - 1)
        raise RecursionError("deep")

    def chain(length: int) -> None:
        try:
            if length:
                chain(length - 1)
        except ValueError as error:
            raise ValueError(f"link {length}") from error
        raise ValueError(f"link {length}")

    with pytest.raises(RecursionError) as fallen:
        fall(500)
    lines = format_stack(fallen.value).splitlines()
    assert len(lines) == MAX_FRAMES + 2 and f"… {502 - MAX_FRAMES} calls …" in lines
    with pytest.raises(ValueError) as linked:
        chain(20)
    messages = [line for line in format_stack(linked.value).splitlines() if not is_call(line)]
    assert messages == [f"ValueError: link {n}" for n in range(20 - MAX_CHAIN + 1, 21)]


def test_a_folder_with_a_space_inside_another_one_is_removed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: f"{Path.home()}/My Files")
    assert stack_trace._compile_folders().sub("", f"no file {Path.home()}/My Files/run/a.csv") == "no file a.csv"


def format_of(call: Callable[[], object]) -> list[str]:
    with pytest.raises((OSError, ValueError, RecursionError)) as raised:
        call()
    return format_stack(raised.value).splitlines()


@pytest.mark.parametrize("n_left_out", [0, 1, 2])
def test_of_more_than_forty_calls_those_after_the_tenth_are_left_out(n_left_out: int) -> None:
    def fall(depth: int) -> None:
        if depth:
            fall(depth - 1)
        raise RecursionError

    n_calls = MAX_FRAMES + n_left_out
    lines = format_of(lambda: fall(n_calls - 3))  # and two calls that lead to it
    functions = [line.rpartition(" ")[2] for line in lines]
    left_out = [f"… {n_left_out} calls …"] if n_left_out else []
    assert lines[10 : 10 + len(left_out)] == left_out
    del functions[10 : 10 + len(left_out)]
    assert functions == ["format_of", "<lambda>", *["fall"] * (MAX_FRAMES - 2), "RecursionError"]


def test_what_was_raised_while_another_was_handled_is_told_unless_it_was_hidden() -> None:
    def chain(hidden: bool) -> None:
        try:
            raise KeyError("first")
        except KeyError:
            if hidden:
                raise ValueError("second  of\ntwo") from None
            raise ValueError("second  of\ntwo")  # noqa: B904  a context, not a cause

    told = [line for line in format_of(lambda: chain(False)) if not is_call(line)]
    assert told == ["KeyError: 'first'", "ValueError: second of two"]
    assert [line for line in format_of(lambda: chain(True)) if not is_call(line)] == told[1:]


def test_exceptions_that_caused_each_other_are_told_once_each() -> None:
    first, second = ValueError("first"), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert format_stack(first) == "KeyError\nValueError: first"


def test_calls_that_every_stack_passes_through_are_left_out() -> None:
    @contextlib.contextmanager
    def fail() -> Iterator[None]:
        raise OSError("down")
        yield

    def enter() -> None:
        with fail():
            pass

    functions = [line.rpartition(" ")[2] for line in format_of(enter)]
    assert functions == ["format_of", "enter", "fail", "down"]
