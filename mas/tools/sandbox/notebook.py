"""Notebook inside the sandbox: variables stay from cell to cell, and the last expression's value is shown.

Nothing of this project can be imported there, so it uses only the standard library. Whatever a cell does becomes a
reply of plain texts, each of bounded length.

    notebook = Notebook(max_chars=10_000)
    notebook.run("x = 20")
    notebook.run("print('hi'); x + 1")     # {"output": "hi\\n", "output_cut": 0, "value": "21", …, "error": ""}
"""

import ast
import io
import linecache
import sys
import traceback
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

CELL = "<call {}>"  # the file name in a cell's tracebacks


class Screen(io.TextIOBase):
    """Standard output: keeps the first characters and counts the rest."""

    encoding = "utf-8"  # some programs check it before they print

    def __init__(self, max_chars: int) -> None:
        self.parts: list[str] = []
        self.room = max_chars
        self.dropped = 0
        self.buffer = _Bytes(self)  # sys.stdout.buffer

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self.room]
        if kept:
            self.parts.append(str(kept))
            self.room -= len(kept)
        self.dropped += len(text) - len(kept)
        return len(text)


class _Bytes(io.RawIOBase):
    def __init__(self, screen: Screen) -> None:
        self.screen = screen

    def writable(self) -> bool:
        return True

    def write(self, data: "Buffer") -> int:
        written = bytes(data)
        self.screen.write(written.decode("utf-8", "replace"))
        return len(written)


class Notebook:
    """Variables of one session."""

    def __init__(self, max_chars: int) -> None:
        self.max_chars = max_chars
        self.cells = 0
        self.module = types.ModuleType("__main__")  # pickle and dataclasses look their classes up there
        sys.modules["__main__"] = self.module

    def run(self, code: str) -> dict[str, str | int]:
        """Return texts and how many characters of each are missing; `error` is a traceback, empty after success."""
        self.cells += 1
        screen = Screen(self.max_chars)
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = screen  # type: ignore[assignment,misc]
        sys.stdin = io.StringIO()
        value, error = "", ""
        try:
            value = self._execute(code, CELL.format(self.cells))
        except BaseException as raised:  # noqa: BLE001  # of the cell: SystemExit is shown, too
            error = _format_traceback(raised)
        value, value_cut = self._clip(value)
        error, error_cut = self._clip(error)
        return {
            **{"output": "".join(screen.parts), "output_cut": screen.dropped},
            **{"value": value, "value_cut": value_cut, "error": error, "error_cut": error_cut},
        }

    def _execute(self, code: str, name: str) -> str:
        lines = [f"{line}\n" for line in code.split("\n")]  # with ends: without them the marks under an error move
        linecache.cache[name] = (len(code), None, lines, name)
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        variables = vars(self.module)
        exec(compile(tree, name, "exec"), variables)
        if not isinstance(last, ast.Expr):
            return ""
        value = eval(compile(ast.Expression(last.value), name, "eval"), variables)
        if value is None:
            return ""
        variables["_"] = value
        return str(repr(value))

    def _clip(self, text: str) -> tuple[str, int]:
        """Cut the middle: a traceback's end says more."""
        if len(text) <= self.max_chars:
            return text, 0
        half = self.max_chars // 2
        return f"{text[:half]}\n…\n{text[len(text) - half :]}", len(text) - 2 * half


def _format_traceback(raised: BaseException) -> str:
    """Return a traceback with the cells' own lines only, without this program and libraries."""
    try:
        found = traceback.TracebackException.from_exception(raised)
        chain: list[traceback.TracebackException | None] = [found]
        while chain:
            if (each := chain.pop()) is not None:
                kept = [line for line in each.stack if line.filename.startswith(CELL[:6])]
                each.stack = traceback.StackSummary.from_list(kept)
                chain += [each.__cause__, each.__context__, *(getattr(each, "exceptions", None) or [])]
        return "".join(found.format()).strip()
    except BaseException as error:  # noqa: BLE001  # an exception made to break this, or no memory left
        return f"{type(raised).__name__} (and its traceback cannot be shown: {type(error).__name__})"
