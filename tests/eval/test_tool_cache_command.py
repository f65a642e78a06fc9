"""`cache.tools` through the command: how often the service is asked, what is counted, and what is left on the disk."""

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.eval.command_line import CONTACT, NO_BROWSER, EvalCommand, dataset
from tests.process import started
from tests.servers.loopback import running
from tests.servers.tavily import KEY, TavilyServer
from tests.servers.tool_user import ToolUser, calling

LIGHT = ("tavily_tool", {"query": "lighthouse Marrow Point"})
PEAK = ("tavily_tool", {"query": "Varga Peak"})


@pytest.fixture
def model() -> Iterator[ToolUser]:
    with running(ToolUser()) as server:
        yield server


@pytest.fixture(autouse=True)
def key(eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the fixture that takes all keys away."""
    monkeypatch.setenv("TAVILY_API_KEY", KEY)


def options(model: ToolUser, search: TavilyServer, folder: Path, *rows: dict[str, Any]) -> list[str]:
    return [
        *("system=single_agent", "model=openai_compatible", f"model.base_url={model.base_url}"),
        *("run.concurrency=1", f"+tools.web.search_base_url={search.base_url}"),
        "+tools.web.allow_private_hosts=[127.0.0.1]",
        *dataset(folder, *rows),
    ]


def asked(usage: dict[str, Any]) -> tuple[int, int]:
    return usage["tool_calls"], usage["replayed_tool_calls"]


def test_a_replayed_call_still_counts_against_the_questions_limit(
    eval_command: EvalCommand, model: ToolUser, tmp_path: Path
) -> None:
    with running(TavilyServer()) as search:
        common = options(model, search, tmp_path / "data", calling("q1", LIGHT), calling("q2", LIGHT, LIGHT))
        finished = eval_command(*common, "limits.tool_calls=1")
    assert {id: each["limit"] for id, each in finished.records.items()} == {"q1": None, "q2": "tool_calls"}


@pytest.mark.slow
def test_a_run_that_was_killed_asks_for_no_search_twice(eval_command: EvalCommand, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    with running(TavilyServer()) as search, running(ToolUser(schedule=["ok", "hang", "ok"])) as model:
        common = options(model, search, tmp_path / "data", calling("q1", LIGHT, PEAK))
        key = {"TAVILY_API_KEY": KEY}
        with started(folder, *common, "tracking=off", NO_BROWSER, CONTACT, environment=key) as running_command:
            assert running_command.wait_until(lambda: len(model.requests) >= 2)
            running_command.end(signal.SIGKILL)
        assert (len(model.requests), len(search.requests)) == (2, 2)
        with closing(sqlite3.connect(folder / "run.db")) as database:
            kept = "".join(str(row) for row in database.execute("SELECT reply FROM replies WHERE sample = 'tools'"))
        assert "1874" in kept and KEY not in kept
        assert KEY.encode() not in b"".join(each.read_bytes() for each in folder.glob("run.db*"))
        resumed = eval_command(f"run.resume={folder}")
        assert (resumed.code, len(search.requests)) == (0, 2), resumed.err
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert asked(summary["usage"]) == (2, 2)
    assert summary["usage"]["replayed_calls"] == 1
