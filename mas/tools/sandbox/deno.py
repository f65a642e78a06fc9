"""Isolation in Deno: Python compiled to WebAssembly (Pyodide), without permission to read, write, connect or start.

The second choice: slower to start, only the standard library, and no namespaces around it. `dspy.PythonInterpreter`
does the same, but passes the harness's whole environment to Deno, waits without a limit of time, memory or line
length, needs one thread a session, and loads a module from a site that may not be reachable.
"""

import functools
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mas.runtime.security.child_environment import build_child_environment
from mas.tools.sandbox.process import (
    DENO_START_SECONDS,
    DIES_WITH_PARENT,
    Launch,
    ProcessSession,
    die_with_parent,
    find_failure,
)
from mas.tools.sandbox.session import NotAvailableError
from mas.tools.settings import DENO, SandboxSettings

PYODIDE = "npm:pyodide@0.29.4"
INSTALL = f"pip install deno, and once, online: deno cache {PYODIDE}"
QUERY_SECONDS = 30.0
MAX_FILE_BYTES = 50_000_000  # of one attachment: it is copied into the sandbox's memory
OWN_MEMORY_MB = 512  # of Deno and Pyodide, in addition to the code's memory
HERE = Path(__file__).parent


class Deno:
    name = DENO

    @functools.cached_property
    def _program(self) -> tuple[str, str]:
        return _find_program()

    def probe(self) -> str:
        command = [*_build_command(*self._program), "--probe"]
        environment = _build_environment(self._program[1])
        if cause := find_failure(command, "42", DENO_START_SECONDS, env=environment):
            cause = "it is not in Deno's cache" if "npm" in cause else cause
            raise NotAvailableError(f"Deno cannot run Pyodide here ({cause}): {INSTALL}.")
        return "Deno runs Python in WebAssembly (no pandas or numpy)"

    async def open(self, files: Mapping[str, Path], settings: SandboxSettings) -> ProcessSession:
        named = {name: str(path.resolve()) for name, path in files.items() if _is_small(path)}
        options = {"memory_mb": settings.memory_mb, "max_chars": settings.max_output_chars, "files": named}
        launch = Launch(
            command=[*die_with_parent(), *_build_command(*self._program, *named.values()), json.dumps(options)],
            env=_build_environment(self._program[1]),
            max_message_bytes=20 * settings.max_output_chars + 100_000,
            max_resident_bytes=(settings.memory_mb + OWN_MEMORY_MB) << 20,
            cwd="/",
            pauses=DIES_WITH_PARENT,
            start_seconds=DENO_START_SECONDS,
            cpu_seconds=int(settings.seconds_per_question + DENO_START_SECONDS),
        )
        return await ProcessSession.open(launch)


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MAX_FILE_BYTES


def _build_command(deno: str, cache: str, *readable: str) -> list[str]:
    """Return the Deno command, which may read Pyodide and `readable` until runner.js revokes the permission."""
    may_read = [str(Path(cache).resolve()), str(HERE / "notebook.py"), *readable]
    if any("," in path for path in may_read):  # the separator of the list
        raise NotAvailableError("Deno cannot be given a file with a comma in its path; rename the file.")
    return [
        *(deno, "run", "--cached-only", "--no-remote", "--no-prompt", "--no-config", "--no-lock"),
        "--node-modules-dir=none",
        *(f"--allow-read={','.join(may_read)}", str(HERE / "runner.js")),
    ]


def _build_environment(cache: str) -> dict[str, str]:
    """Return the variables that Deno needs to find its cache; the code cannot read them."""
    return {"DENO_DIR": cache, "DENO_NO_UPDATE_CHECK": "1", "DENO_NO_PACKAGE_JSON": "1", "NO_COLOR": "1"}


def _find_program() -> tuple[str, str]:
    """Return the path of deno and its cache folder.

    Raises:
        NotAvailableError: there is no deno.
    """
    found = _packaged() or shutil.which("deno")
    if not found:
        raise NotAvailableError(f"Deno is not installed: {INSTALL}.")
    needed = build_child_environment("DENO_DIR", "XDG_CACHE_HOME")
    try:
        said = subprocess.run(
            [found, "info", "--json"], env=needed, capture_output=True, text=True, timeout=QUERY_SECONDS, check=True
        )
        return found, str(json.loads(said.stdout)["denoDir"])
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        raise NotAvailableError(f"Deno does not run here ({type(error).__name__}): {INSTALL}.") from error


def _packaged() -> str | None:
    """The program that `pip install deno` brings."""
    try:
        from deno import find_deno_bin  # type: ignore[import-untyped]
    except ImportError:
        return None
    try:
        return str(find_deno_bin())
    except OSError:
        return None
