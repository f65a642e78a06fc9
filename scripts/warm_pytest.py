"""Run pytest again and again in forks of one process that has imported the libraries: they take seconds each time.

    echo '{"arguments": ["tests"], "seconds": 99, "output": "out"}' | .venv/bin/python scripts/warm_pytest.py FOLDER

Each line of standard input asks for one run in FOLDER, the copy of a repository. The answers are a line with the id
of the process (and of its process group) when it begins, and one with its exit code (minus a signal's number) when it
ends. Nothing of the repository is imported here, so that each run finds its files as they are at that moment.
"""

import gc
import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

LIBRARIES = (
    "pytest",
    "dspy",
    "hydra",
    "hypothesis",
    "langgraph.graph",
    "pandas",
    "scipy.stats",
    "structlog",
    "rich.table",
)
PLUGINS = ("anyio.pytest_plugin", "_hypothesis_pytestplugin")  # the others' options are not used here


def main(folder: str) -> None:
    """Serve until standard input ends."""
    for name in (*LIBRARIES, *PLUGINS):
        with suppress(ImportError):
            import_module(name)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # looking for all plugins takes as long as collecting the tests
    gc.freeze()  # a fork shares what the collector never touches
    os.chdir(folder)
    sys.path[0] = folder
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _run(request)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request: dict[str, Any]) -> None:
    os.setsid()
    signal.alarm(request["seconds"])  # whoever waits for it may be dead by then
    with Path(request["output"]).open("wb") as file, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import pytest

    code = 70
    try:
        plugins = [part for name in PLUGINS if name in sys.modules for part in ("-p", name)]
        code = int(pytest.main([*request["arguments"], *plugins, "-W", "ignore::pytest.PytestAssertRewriteWarning"]))
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
