"""What tools returned, on the disk: whose it is, what it survives, and what it must not hold."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eval.runs.call_log import SampleResults, ToolCache, remove_tool_results
from mas.runtime.sample_context import KeptResult

ODD = "a\ud83d\0\u202e\udfff'"
BLOCKED = {"name": "blocked page", "seconds": 0.5, "level": "warning", "url": "https://example.org/"}


def as_it_is(text: str) -> str:
    return text


def of_run(folder: Path, run_id: str = "mine", warn: Callable[[str], None] = pytest.fail) -> ToolCache:
    return ToolCache.open_for_run(folder, run_id, as_it_is, warn)


def shared(outputs: Path, run_id: str, warn: Callable[[str], None] = pytest.fail) -> ToolCache:
    return ToolCache.open_shared(outputs, run_id, as_it_is, warn)


@pytest.mark.parametrize("returned", ["", ODD, "é" * 1_000_000])
def test_a_result_comes_back_exactly_and_with_what_was_noted(tmp_path: Path, returned: str) -> None:
    with closing(of_run(tmp_path)) as results:
        results.keep("key", KeptResult(returned, (BLOCKED,)))
        results.keep("key", KeptResult("of a call that was made at the same time"))
    with closing(of_run(tmp_path)) as again:
        assert again.find("key") == KeptResult(returned, (BLOCKED,))
        assert again.find("other") is None


def test_two_runs_share_a_file_and_tell_whose_a_result_is(tmp_path: Path) -> None:
    with closing(shared(tmp_path, "mine")) as mine, closing(shared(tmp_path, "yours")) as yours:
        mine.keep("key", KeptResult("seen"))
        assert mine.find("key") == KeptResult("seen")
        found = yours.find("key")
        assert found is not None and found.returned == "seen" and found.other_run_at is not None
        age = datetime.now(UTC) - datetime.fromisoformat(found.other_run_at)
        assert -1 < age.total_seconds() < 60
        yours.keep("key", KeptResult("seen later"))
        assert yours.find("key") == found, "the first that is kept stays"


def test_no_secret_is_kept(tmp_path: Path) -> None:
    hidden = ToolCache.open_for_run(tmp_path, "mine", lambda text: text.replace("canary", "***"))
    with closing(hidden):
        hidden.keep("key", KeptResult("a canary sings", ({**BLOCKED, "url": "https://canary.example.org/"},)))
        assert hidden.find("key") == KeptResult("a *** sings", ({**BLOCKED, "url": "https://***.example.org/"},))
    assert all(b"canary" not in each.read_bytes() for each in tmp_path.iterdir())


def test_kill_9_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from eval.runs.call_log import ToolCache\n"
        "from mas.runtime.sample_context import KeptResult\n"
        "results = ToolCache.open_for_run(Path(sys.argv[1]), 'mine', str)\n"
        "for n in range(100): results.keep(str(n), KeptResult(f'result {n}'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    with closing(of_run(tmp_path)) as results:
        assert [results.find(str(n)) for n in range(100)] == [KeptResult(f"result {n}") for n in range(100)]


@pytest.mark.parametrize("secret", ['say-"this"-word', "back\\slash-word", "pass-\u00e4-word", "12345678"])
def test_no_secret_is_in_what_was_noted_however_it_is_written(secret: str, tmp_path: Path) -> None:
    with closing(ToolCache.open_for_run(tmp_path, "mine", lambda text: text.replace(secret, "***"))) as results:
        results.keep("key", KeptResult("seen", ({"name": "blocked", "reason": f"key {secret}", "bytes": 123456789},)))
        found = results.find("key")
    assert found == KeptResult("seen", ({"name": "blocked", "reason": "key ***", "bytes": 123456789},))


def test_a_broken_file_is_said_once_and_only_a_runs_own_is_set_aside(tmp_path: Path) -> None:
    nothing, lines = b"no database " * 1000, list[str]()
    (tmp_path / "cache").mkdir()
    for file in (tmp_path / "tools.db", tmp_path / "cache" / "tools.db"):
        file.write_bytes(nothing)
    with closing(of_run(tmp_path, warn=lines.append)) as results:
        results.keep("key", KeptResult("seen"))
        assert results.find("key") == KeptResult("seen")
    assert (tmp_path / "tools.db.broken").read_bytes() == nothing
    with closing(shared(tmp_path, "mine", lines.append)) as results:
        results.keep("key", KeptResult("seen"))
        assert results.find("key") is None
    assert (tmp_path / "cache" / "tools.db").read_bytes() == nothing
    own, everybodys = lines
    assert "tools.db.broken, and calls of tools that were answered before are made again" in own
    assert "the shared cache" in everybodys and everybodys.endswith("are made again; nothing else is lost")


def test_a_disk_that_takes_nothing_costs_calls_alone(tmp_path: Path) -> None:
    lines: list[str] = []
    with closing(of_run(tmp_path, warn=lines.append)) as results:
        results._file.execute("PRAGMA max_page_count = 4")
        results.keep("key", KeptResult("x" * 1_000_000))
        assert results.find("key") is None
    assert len(lines) == 1 and "full" in lines[0]


@pytest.mark.parametrize(("column", "bad"), [("returned", b"\xff\xfe seen"), ("events", b"[{"), ("events", b"\xff")])
def test_a_row_that_cannot_be_read_is_said_and_its_call_made_again(tmp_path: Path, column: str, bad: bytes) -> None:
    lines: list[str] = []
    with closing(of_run(tmp_path)) as results:
        results.keep("key", KeptResult("seen"))
        results.keep("other", KeptResult("whole"))
        results._file.execute(f"UPDATE tool_results SET {column} = ? WHERE key = ?", bad, b"key")
    with closing(of_run(tmp_path, warn=lines.append)) as results:
        assert results.find("key") is None
        assert results.find("key") is None
        results.keep("key", KeptResult("seen again"))
        assert (results.find("key"), results.find("other")) == (KeptResult("seen again"), KeptResult("whole"))
    (line,) = lines
    assert "tools.db cannot be read (" in line and line.endswith("); its call is made again, as of any other such")


def test_it_goes_when_nobody_will_ask_again_whoever_made_it(tmp_path: Path) -> None:
    (tmp_path / "run.db").touch()
    (tmp_path / "tools.db.broken").touch()
    with closing(of_run(tmp_path)) as results:
        results.keep("key", KeptResult("seen"))
        assert (tmp_path / "tools.db-wal").exists()
        remove_tool_results(tmp_path)
    remove_tool_results(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.db", "tools.db.broken"]


def test_it_can_be_closed_twice(tmp_path: Path) -> None:
    results = of_run(tmp_path)
    results.keep("key", KeptResult("seen"))
    results.close()
    results.close()
    assert results.find("key") is None


def test_what_a_sample_was_told_is_among_its_replies() -> None:
    class Replies(dict[str, str]):
        def put(self, key: str, reply: str) -> None:
            self[key] = reply

    results = SampleResults(Replies())
    assert results.find("key") is None
    results.keep("key", KeptResult(ODD, (BLOCKED,)))
    assert results.find("key") == KeptResult(ODD, (BLOCKED,))


def test_a_result_that_another_run_signed_is_asked_again(tmp_path: Path) -> None:
    warnings: list[str] = []
    for run_id in ("mine", "yours"):
        with closing(of_run(tmp_path, run_id)) as results:
            results.keep(run_id, KeptResult("line\nline", (BLOCKED,)))
    with closing(of_run(tmp_path, warn=warnings.append)) as results:
        assert results.find("mine") == KeptResult("line\nline", (BLOCKED,))
        assert results.find("yours") is None
    (warning,) = warnings
    assert "cannot be read (this run did not write it); its call is made again" in warning
