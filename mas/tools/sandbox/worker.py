"""Program inside the sandbox: runs cells of Python and keeps their variables, as a notebook does.

It uses only the standard library. A message is one line of JSON: a cell's code, and what `Notebook.run` returns. The
code shares the process and can read, forge or close the pipes: their reader trusts nothing, and loses no more than this
session.
"""

import ast
import contextlib
import io
import json
import linecache
import os
import sys
import traceback
import types

MAX_OUTPUT_CHARS = 10_000  # of what one call prints and returns; the rest is cut and the cut is said
OUT_OF_MEMORY = 70
CELL = "<call {}>"  # the file name in a cell's tracebacks


class Printed(io.BytesIO):
    """What a cell prints; the code's own wrapper, such as for another encoding, cannot close it."""

    def close(self) -> None:
        pass


class Notebook:
    """Variables of one session."""

    def __init__(self) -> None:
        self.cells = 0
        self.module = types.ModuleType("__main__")  # pickle and dataclasses look their classes up there
        sys.modules["__main__"] = self.module

    def run(self, code: str) -> dict[str, str | int]:
        """Return texts, and how many characters are missing; `error` is a traceback, or empty."""
        self.cells += 1
        printed = Printed()
        screen = io.TextIOWrapper(printed, "utf-8", "replace", write_through=True)
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = screen  # type: ignore[misc]
        sys.stdin = io.StringIO()
        value, error = "", ""
        try:
            value = self._execute(code, CELL.format(self.cells))
            if sys.stdout is not None:
                sys.stdout.flush()  # perhaps a wrapper of the code's own
        except BaseException as raised:  # noqa: BLE001  # of the cell: SystemExit is shown, too
            error = _format_traceback(raised)
        texts = {"output": printed.getvalue().decode("utf-8", "replace"), "value": value, "error": error}
        missing = sum(max(0, len(text) - MAX_OUTPUT_CHARS) for text in texts.values())
        return {name: _clip(text) for name, text in texts.items()} | {"missing_chars": missing, "cell": self.cells}

    def _execute(self, code: str, name: str) -> str:
        lines = [f"{line}\n" for line in code.split("\n")]  # without ends the marks under an error move
        linecache.cache[name] = (len(code), None, lines, name)
        tree, variables = ast.parse(code, name), vars(self.module)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), variables)
        if not isinstance(last, ast.Expr):
            return ""
        value = eval(compile(ast.Expression(last.value), name, "eval"), variables)
        if value is None:
            return ""
        variables["_"] = value
        return str(repr(value))


def _clip(text: str) -> str:
    """Cut the middle: a traceback's end says more."""
    half = MAX_OUTPUT_CHARS // 2
    return text if len(text) <= MAX_OUTPUT_CHARS else f"{text[:half]}\n…\n{text[-half:]}"


def _format_traceback(raised: BaseException) -> str:
    """Return a traceback with the cells' own lines only, without this program, libraries and causes."""
    try:
        found = traceback.TracebackException.from_exception(raised)
        found.stack[:] = [line for line in found.stack if line.filename.startswith(CELL[:6])]
        return "".join(found.format(chain=False)).strip()
    except BaseException as error:  # noqa: BLE001  # an exception made to break this, or no memory left
        return f"{type(raised).__name__} (and its traceback cannot be shown: {type(error).__name__})"


def main() -> None:
    """Run cells until the harness closes its end."""
    import resource
    import signal

    settings = json.loads(sys.argv[1])
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # where the code would look for the pipes
        os.dup2(nothing, number)
    os.close(nothing)
    sys.path += settings["packages"]
    sys.argv = [""]
    for name, value in settings["limits"].items():
        with contextlib.suppress(ValueError):  # there is a lower one already
            resource.setrlimit(getattr(resource, name), (value, value))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    notebook = Notebook()
    _send(replies, {"ready": True})
    try:
        with open(requests, "rb") as lines:  # noqa: PTH123  # pathlib takes 10 ms
            for line in lines:
                _send(replies, notebook.run(json.loads(line)))
    except MemoryError:  # no memory left for a reply
        os._exit(OUT_OF_MEMORY)
    os._exit(0)  # also while threads of the code run


def _send(pipe: int, message: object) -> None:
    rest = memoryview(json.dumps(message).encode() + b"\n")
    while rest:
        rest = rest[os.write(pipe, rest) :]


if __name__ == "__main__":
    main()
