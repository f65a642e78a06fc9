"""What tools returned, on the disk: whose it is, what it survives, and what it must not hold."""

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from eval.runs.caches import ToolCache
from mas.runtime.sample_context import KeptResult

ODD = "a\ud83d\0\u202e\udfff'"
BLOCKED = {"name": "blocked page", "seconds": 0.5, "level": "warning", "url": "https://example.org/"}


def of_run(folder: Path) -> ToolCache:
    return ToolCache(folder / "tools.db", str, pytest.fail)


@pytest.mark.parametrize("returned", ["", ODD, "é" * 1_000_000])
def test_a_result_comes_back_exactly_and_with_what_was_noted(tmp_path: Path, returned: str) -> None:
    with closing(of_run(tmp_path)) as results:
        results.keep("key", KeptResult(returned, (BLOCKED,)))
        results.keep("key", KeptResult("of a call that was made at the same time"))
    with closing(of_run(tmp_path)) as again:
        assert again.find("key") == KeptResult(returned, (BLOCKED,))
        assert again.find("other") is None


def test_no_secret_is_kept(tmp_path: Path) -> None:
    hidden = ToolCache(tmp_path / "tools.db", lambda text: text.replace("canary", "***"))
    with closing(hidden):
        hidden.keep("key", KeptResult("a canary sings", ({**BLOCKED, "url": "https://canary.example.org/"},)))
        assert hidden.find("key") == KeptResult("a *** sings", ({**BLOCKED, "url": "https://***.example.org/"},))
    assert all(b"canary" not in each.read_bytes() for each in tmp_path.iterdir())


def test_kill_9_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from eval.runs.caches import ToolCache\n"
        "from mas.runtime.sample_context import KeptResult\n"
        "results = ToolCache(Path(sys.argv[1], 'tools.db'), str)\n"
        "for n in range(100): results.keep(str(n), KeptResult(f'result {n}'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    with closing(of_run(tmp_path)) as results:
        assert [results.find(str(n)) for n in range(100)] == [KeptResult(f"result {n}") for n in range(100)]
