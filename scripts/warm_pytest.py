"""Run pytest again and again in forks of one process that has imported the libraries: they take seconds each time.

    echo '{"arguments": ["-q", "tests/mas"], "output": "/tmp/out"}' | .venv/bin/python scripts/warm_pytest.py FOLDER

Each line of standard input asks for one run in FOLDER, the copy of a repository. The answers are a line with the id
of the process (and of its process group) when it begins, and one with its exit code (minus a signal's number) when it
ends. Nothing of the repository is imported here, so that each run finds its files as they are at that moment.
"""

import gc
import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

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


def main(folder: str) -> None:
    """Serve until standard input ends."""
    for name in LIBRARIES:
        with suppress(ImportError):
            import_module(name)
    gc.freeze()  # what the libraries made is no garbage; collecting it again took most of the tests' time
    os.chdir(folder)
    sys.path[0] = folder
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _run(request["arguments"], request["output"])
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(arguments: list[str], output: str) -> None:
    os.setsid()
    with Path(output).open("wb") as file, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import pytest

    code = 70
    try:
        code = int(pytest.main([*arguments, "-W", "ignore::pytest.PytestAssertRewriteWarning"]))
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
