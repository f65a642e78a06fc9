"""Isolation by DSPy's interpreter: Python compiled to WebAssembly (Pyodide) in Deno, which has no permissions.

The second choice: slower to start, only the standard library, and no namespaces around it. DSPy waits without a limit
and passes its own environment on, so a shell sets a limit, and clears the environment, before it becomes Deno.
"""

import asyncio
import functools
import inspect
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dspy import PythonInterpreter

from mas.tools.sandbox import worker
from mas.tools.sandbox.session import (
    MAX_CPU_SECONDS,
    MAX_MESSAGE_BYTES,
    Files,
    NotAvailableError,
    Reply,
    Session,
    SessionLostError,
)
from mas.tools.settings import DENO, SandboxSettings

INSTALL = """pip install deno, and once, online: python -c 'import dspy; dspy.PythonInterpreter()("1")'"""
START_SECONDS = 60.0
MAX_LINE_CHARS = 2 * MAX_MESSAGE_BYTES  # of Deno's output; a reply is a text in a text
OWN_MEMORY_MB = 512  # of Deno and Pyodide, in addition to the code's memory
_START = ("/bin/sh", "-c", f'ulimit -t {MAX_CPU_SECONDS}; cd /; exec /usr/bin/env -i "$@"', "sh")
_NOTEBOOK = """
import json, os, types
worker = types.ModuleType("worker")
exec({source!r}, vars(worker))
notebook = worker.Notebook()
os.makedirs("/sandbox", exist_ok=True)
os.chdir("/sandbox")
def run(code):
    return json.dumps(notebook.run(code))
None
"""


class DenoSession(Session):
    name = DENO
    description = "Deno runs Python in WebAssembly (no pandas or numpy)"

    def __init__(self, interpreter: "PythonInterpreter", memory_mb: int, executor: ThreadPoolExecutor) -> None:
        super().__init__(interpreter.deno_process, memory_mb)
        self._interpreter, self._executor = interpreter, executor

    @classmethod
    async def open(cls, files: Files, settings: SandboxSettings) -> "DenoSession":
        from dspy import CodeInterpreterError

        interpreter = _build_interpreter(files)
        executor = ThreadPoolExecutor(1, "sandbox-deno")  # DSPy's interpreter is bound to one thread
        try:
            await asyncio.wait_for(asyncio.wrap_future(executor.submit(interpreter.start)), START_SECONDS)
            pipe = interpreter.deno_process.stdout
            # The code can write to the pipe, too: a line without an end would fill the harness's memory.
            pipe.readline = functools.partial(pipe.readline, MAX_LINE_CHARS)  # DSPy passes over a hundred broken ones
            session = cls(interpreter, settings.memory_mb + OWN_MEMORY_MB, executor)
            await session._execute(_NOTEBOOK.format(source=inspect.getsource(worker)), START_SECONDS, "the start took")
            return session
        except BaseException as error:
            executor.shutdown(wait=False)
            if interpreter.deno_process:
                cls(interpreter, 0, executor).close()
            if not isinstance(error, OSError | CodeInterpreterError | SessionLostError | TimeoutError):
                raise  # such as the end of the question
            lines = [line.strip() for line in str(error).splitlines() if "rror" in line] or [type(error).__name__]
            raise NotAvailableError(f"Deno cannot run Pyodide here ({lines[0][:200]}): {INSTALL}.") from error

    async def run(self, code: str, seconds: float) -> Reply:
        return self.parse(await self._execute(f"run({code!r})", seconds, "the code ran"))

    async def _execute(self, code: str, seconds: float, what: str) -> str:
        """Run code outside the notebook and return the value of its last expression as text."""
        return str(await self.watch(lambda: self._interpreter.execute(code), seconds, what, self._executor))

    def close(self) -> None:
        super().close()
        self._executor.shutdown(wait=False)


def _build_interpreter(files: Files) -> "PythonInterpreter":
    """Return an interpreter that may read the files until its code runs, and nothing else afterwards."""
    from dspy import PythonInterpreter

    paths = [str(path.resolve()) for name, path in files.items() if path.is_file() and name == path.name]
    deno, run, *words = PythonInterpreter(enable_read_paths=paths).deno_command
    folders = [f"{name}={os.environ[name]}" for name in ("HOME", "DENO_DIR", "XDG_CACHE_HOME") if name in os.environ]
    environment = [*folders, "DENO_NO_PACKAGE_JSON=1", "NO_COLOR=1"]
    command = [*_START, *environment, deno, run, "--cached-only", "--no-prompt", *words]
    return PythonInterpreter(command, enable_read_paths=paths)
