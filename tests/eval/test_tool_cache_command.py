"""`cache.tools` through the command: how often the service is asked, what is counted, and what is left on the disk."""

import io
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eval.analysis.comparison.compare_runs import compare_runs
from eval.cli.hydra_compat import compose_config
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import read_config
from eval.execution.termination import StopController
from eval.runs.run_info import RunInfo
from eval.workflows.paired_evaluation import Arm, evaluate_pairs, read_arm_records
from mas.tools.tool_context import Resources
from tests.eval.command_line import CONTACT, NO_BROWSER, SCRIPT, EvalCommand, dataset
from tests.servers.calling_model import CallingModel, calling
from tests.servers.loopback import running
from tests.servers.tavily import KEY, TavilyServer

LIGHT = ("web_search", {"query": "lighthouse Marrow Point"})
PEAK = ("web_search", {"query": "Varga Peak"})
BOTH_ASK_THE_SAME = (calling("q1", LIGHT), calling("q2", LIGHT))


@pytest.fixture
def model() -> Iterator[CallingModel]:
    with running(CallingModel()) as server:
        yield server


@pytest.fixture(autouse=True)
def key(eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the fixture that takes all keys away."""
    monkeypatch.setenv("TAVILY_API_KEY", KEY)


@pytest.fixture(autouse=True)
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("eval.runs.call_log.OUTPUTS", tmp_path / "outputs")
    return tmp_path / "outputs"


def options(model: CallingModel, search: TavilyServer, folder: Path, *rows: dict[str, Any]) -> list[str]:
    return [
        *("system=single_agent", "model=openai_compatible", f"model.base_url={model.base_url}/v1"),
        *("run.concurrency=1", f"tools.web.search_base_url={search.base_url}", "tools.web.attempts=1"),
        *("tools.web.fall_back_to_wikipedia=false", *dataset(folder, *rows)),
    ]


def asked(usage: dict[str, Any]) -> tuple[int, int, int]:
    return usage["tool_calls"], usage["replayed_tool_calls"], usage["cached_tool_calls"]


@pytest.mark.slow
def test_a_search_is_made_each_time_once_a_run_or_once_for_all_runs(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path
) -> None:
    with running(TavilyServer()) as search:
        common = [*options(model, search, tmp_path / "data", *BOTH_ASK_THE_SAME), "run.epochs=2"]
        seen, folders = [], []
        for option in (["cache.tools=off"], [], ["cache.tools=run"], ["cache.tools=shared"], ["cache.tools=shared"]):
            before = len(search.requests)
            finished = eval_command(*common, *option)
            assert (finished.code, finished.summary["accuracy"]) == (0, 1.0), finished.err
            seen.append((len(search.requests) - before, *asked(finished.summary["usage"])))
            assert not (finished.folder / "tools.db").exists(), "nothing is left to ask"
            folders.append(finished.folder)
    assert seen == [(4, 4, 0, 0), (1, 4, 3, 0), (1, 4, 3, 0), (1, 4, 3, 0), (0, 4, 0, 4)]
    today = finished.summary["usage"]["oldest_cached_tool_result"][:10]
    line = f"tool results: 4 tool results come from other runs (cache.tools=shared), the oldest of {today}"
    assert line in finished.out.replace("\n", " ")
    [comparison] = compare_runs([folders[0], folders[-1]], intersection=False).to_dict()["comparisons"]
    assert "4 tool calls of B were not made: another run had made them (cache.tools)" in comparison["notes"]
    record = finished.records["q1"]
    [span] = [each for each in record["trajectory"] if each["kind"] == "tool"]
    assert span["attributes"]["cached"] is True and "replayed" not in span["attributes"]
    assert "1874" in span["outputs"]["observation"]


@pytest.mark.slow
def test_other_settings_and_failures_are_asked_again(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path
) -> None:
    rows = [calling(f"q{n}", LIGHT) for n in range(3)]
    with running(TavilyServer(["503", "ok"])) as search:
        shared = [*options(model, search, tmp_path / "data", *rows), "cache.tools=shared"]
        first = eval_command(*shared)
        assert (len(search.requests), asked(first.summary["usage"])) == (2, (3, 1, 0)), "a failure is not kept"
        eval_command(*shared, "tools.web.blocked_sites=[example.com]")
        assert len(search.requests) == 3, "what is blocked shapes what is shown"
        third = eval_command(*shared, "tools.max_output_chars=10")
        assert (len(search.requests), asked(third.summary["usage"])) == (3, (3, 0, 3)), (
            "the whole is kept, and cut anew"
        )
    with running(TavilyServer()) as other:
        eval_command(*shared, f"tools.web.search_base_url={other.base_url}")
        assert len(other.requests) == 1


def test_a_search_that_dropped_a_blocked_page_says_so_in_every_record(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path
) -> None:
    with running(TavilyServer()) as search:
        finished = eval_command(*options(model, search, tmp_path / "data", calling("q1", PEAK), calling("q2", PEAK)))
        assert len(search.requests) == 1
    for record in finished.records.values():
        [span] = [each for each in record["trajectory"] if each["kind"] == "tool"]
        assert [each["name"] for each in span["events"]] == ["blocked page"]


@pytest.mark.slow
def test_attachments_of_the_same_name_are_told_apart(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path
) -> None:
    call = ("read_file", {"file": "towns.csv"})
    with running(TavilyServer()) as search:
        runs = []
        for town in ("Rome", "Oslo", "Rome"):
            row = calling("q1", call, file_name="towns.csv")
            common = options(model, search, tmp_path / town, row)
            (tmp_path / town / "towns.csv").write_text(f"town\n{town}\n")
            runs.append(eval_command(*common, "cache.tools=shared"))
    assert [asked(each.summary["usage"]) for each in runs] == [(1, 0, 0), (1, 0, 0), (1, 0, 1)]
    assert "Oslo" in json.dumps(runs[1].records) and "Oslo" not in json.dumps(runs[2].records)


def test_calls_with_side_effects_and_a_state_are_made_each_time(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path
) -> None:
    call = ("python", {"code": "1 + 1"})
    with running(TavilyServer()) as search:
        common = options(model, search, tmp_path / "data", calling("q1", call), calling("q2", call))
        finished = eval_command(*common, "tools.sandbox.kind=unsafe_local")
    assert asked(finished.summary["usage"]) == (2, 0, 0)


def test_a_replayed_call_still_counts_against_the_questions_limit(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path
) -> None:
    with running(TavilyServer()) as search:
        common = options(model, search, tmp_path / "data", calling("q1", LIGHT), calling("q2", LIGHT, LIGHT))
        finished = eval_command(*common, "limits.tool_calls=1")
    assert {id: each["limit"] for id, each in finished.records.items()} == {"q1": None, "q2": "tool_calls"}


@pytest.mark.slow
def test_a_run_that_was_killed_asks_for_no_search_twice(
    eval_command: EvalCommand, tmp_path: Path, clean_environment: dict[str, str]
) -> None:
    folder = tmp_path / "killed"
    with running(TavilyServer()) as search, running(CallingModel(["ok", "hang", "ok"])) as model:
        common = options(model, search, tmp_path / "data", calling("q1", LIGHT, PEAK))
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *common, "tracking=off", NO_BROWSER, CONTACT, f"run.dir={folder}"],
            env={**clean_environment, "PYTHONPATH": str(PROJECT_ROOT), "TAVILY_API_KEY": KEY},
            stdout=subprocess.DEVNULL,
        )
        over = time.monotonic() + 60
        while len(model.requests) < 2 and time.monotonic() < over and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (len(model.requests), len(search.requests)) == (2, 2)
        with closing(sqlite3.connect(folder / "tools.db")) as database:
            kept = "".join(str(row) for row in database.execute("SELECT returned, events FROM tool_results"))
        assert "1874" in kept and KEY not in kept
        assert KEY.encode() not in b"".join(each.read_bytes() for each in folder.glob("tools.db*"))
        resumed = eval_command(f"run.resume={folder}")
        assert (resumed.code, len(search.requests)) == (0, 2), resumed.err
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert asked(summary["usage"]) == (2, 2, 0)
    assert summary["usage"]["replayed_calls"] == 1
    assert not (folder / "tools.db").exists()


def test_what_another_session_may_ask_for_stays_until_there_is_none(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path
) -> None:
    rows = (calling("q1", LIGHT), calling("q2", PEAK), calling("q3", LIGHT))
    with running(TavilyServer(["ok", "503"])) as search:
        common = options(model, search, tmp_path / "data", *rows)
        stopped = eval_command(*common, "tools.fail_fast=true", "run.fail_fast=true")
        assert stopped.code == 3 and (stopped.folder / "tools.db").exists()
        resumed = eval_command(f"run.resume={stopped.folder}", "run.fail_fast=false")
        assert (resumed.code, len(search.requests)) == (2, 2), resumed.err
    assert asked(stopped.summary["usage"]) == (3, 1, 0)
    assert not (stopped.folder / "tools.db").exists()


@pytest.mark.parametrize("other", ["off", "shared"])
def test_what_is_kept_goes_also_if_the_last_session_kept_nothing_there(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path, other: str
) -> None:
    with running(TavilyServer(["ok", "503"])) as search:
        rows = (calling("q1", LIGHT), calling("q2", PEAK), calling("q3", LIGHT))
        common = options(model, search, tmp_path / "data", *rows)
        stopped = eval_command(*common, "tools.fail_fast=true", "run.fail_fast=true")
        assert stopped.code == 3 and (stopped.folder / "tools.db").exists()
        changed = [f"cache.tools={other}", "run.allow_config_change=true", "run.fail_fast=false"]
        resumed = eval_command(f"run.resume={stopped.folder}", *changed)
        assert (resumed.code, len(search.requests)) == (2, 3), resumed.err
    assert not list(stopped.folder.glob("tools.db*"))


def test_a_kept_result_that_cannot_be_read_is_asked_for_again_and_fails_no_question(
    eval_command: EvalCommand, model: CallingModel, outputs: Path, tmp_path: Path
) -> None:
    with running(TavilyServer()) as search:
        common = [*options(model, search, tmp_path / "data", calling("q1", LIGHT)), "cache.tools=shared"]
        eval_command(*common)
        with closing(sqlite3.connect(outputs / "cache" / "tools.db")) as database, database:
            database.execute("UPDATE tool_results SET returned = ?", (b"\xff",))
        again, third = eval_command(*common), eval_command(*common)
        assert (again.code, len(search.requests)) == (0, 2)
    assert again.err.count("warning: a tool result in ") == 1 and "its call is made again" in again.err
    assert [asked(each.summary["usage"]) for each in (again, third)] == [(1, 0, 0), (1, 0, 1)]
    assert again.summary["accuracy"] == 1.0 and "can't decode" not in json.dumps(again.records)


def test_side_by_side_programs_have_each_its_own_results(
    eval_command: EvalCommand, model: CallingModel, tmp_path: Path
) -> None:
    with running(TavilyServer()) as search:
        overrides = options(model, search, tmp_path / "data", *BOTH_ASK_THE_SAME)
        config = read_config(compose_config(overrides))
        prompts, info = config.read_prompts(), RunInfo(config={"system": {"name": "single_agent"}})
        assert prompts is not None
        resources = Resources(config.tools)
        arms = [Arm(name, tmp_path / name, prompts, resources) for name in ("parent", "winner")]
        samples = config.data.load(config.split).samples
        console = Console(file=io.StringIO())
        assert evaluate_pairs(arms, config, samples, info, StopController(say=lambda line: None), console) is None
        assert len(search.requests) == 2, "one of each"
    for arm in arms:
        assert sum(each.usage.replayed_tool_calls for each in read_arm_records(arm)) == 1


def test_a_run_that_goes_on_keeps_to_its_choice(eval_command: EvalCommand, model: CallingModel, tmp_path: Path) -> None:
    with running(TavilyServer()) as search:
        common = options(model, search, tmp_path / "data", *BOTH_ASK_THE_SAME)
        finished = eval_command(*common)
        again = eval_command(f"run.resume={finished.folder}", "cache.tools=shared")
    assert again.code == 1 and "cache.tools: run → shared" in again.err
