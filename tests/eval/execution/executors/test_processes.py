"""Runs in several processes, as the command runs them: the same records, one pace, one budget, nothing lost."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.config.executor import ProcessesSettings
from eval.execution.executors.channel import (
    Answer,
    Answered,
)
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleKey
from tests.eval.command_line import SCRIPT, EvalCommand, dataset, question
from tests.eval.stored_run import answered
from tests.killed_run import SlowServer, slow_server

WORKERS = ("executor=processes", "executor.workers=2")
PRICE = "+model.prices.default={input_usd_per_million: 1.0, output_usd_per_million: 2.0}"
OF_THE_COURSE = {  # of a record: times, ids, and what follows from them
    *("run_id", "thread_id", "started_at", "wall_seconds", "waited_seconds", "seconds_by_agent"),
    *("start_seconds", "end_seconds", "seconds", "timestamp", "correlation_id", "kept_at", "oldest_cached_tool_result"),
}


@pytest.mark.parametrize(
    ("settings", "resolved", "words"),
    [
        (ProcessesSettings(workers=0), {}, "executor.workers=0 is out of range; expected 1 to 256, or null"),
        (ProcessesSettings(), {"system": {"target": "in-memory:mine"}}, "system: an object of this Python program"),
        (ProcessesSettings(), {"scorer": {"target": "in-memory:mine"}}, "or use executor=local"),
    ],
)
def test_what_cannot_run_in_several_processes_is_refused(
    settings: ProcessesSettings, resolved: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=words.replace("(", r"\(")):
        settings.check(resolved)


def test_rows_of_a_python_program_may_be_answered_by_other_processes() -> None:
    ProcessesSettings(workers=2).check({"data": {"target": "in-memory:rows"}, "system": {"target": "os:getcwd"}})


def test_the_command_refuses_a_number_of_workers_before_anything_is_made(eval_command: EvalCommand) -> None:
    finished = eval_command("experiment=offline", "executor=processes", "executor.workers=1000")
    assert (finished.code, finished.err.count("\n")) == (1, 1)
    assert "executor.workers=1000 is out of range" in finished.err
    assert not finished.folder.exists()


def comparable(value: object) -> object:
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items() if key not in OF_THE_COURSE}
    return [comparable(each) for each in value] if isinstance(value, list) else value


@contextmanager
def command(folder: Path, environment: dict[str, str], *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The command in a session of its own; nothing of it is left at the end."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *options, "tracking=off", f"run.dir={folder}"],
        env={**environment, "PYTHONPATH": str(PROJECT_ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(folder: Path, environment: dict[str, str], *options: str) -> str:
    with command(folder, environment, *options) as process:
        output, _ = process.communicate(timeout=240)
    return output


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text("utf-8").splitlines()]


def ready_workers(process: "subprocess.Popen[str]", folder: Path) -> list[int]:
    """Ids of the running workers that have begun to answer, by the run's log."""
    log = folder / "logs" / "entry_point.log"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    ready = [line["pid"] for line in lines if line["event"] == "worker ready"]
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
    return sorted({*ready} & {int(each) for each in found.stdout.split()})


def wait_for_requests(server: SlowServer, number: int) -> None:
    until = time.monotonic() + 60
    while len(server.requests()) < number:
        assert time.monotonic() < until
        time.sleep(0.02)


def options(folder: Path, server: SlowServer, number: int) -> list[str]:
    rows = [question(f"q{n:03}", f"Number {n}: what is 6 * 7?", "42") for n in range(number)]
    model = ["model=openai_compatible", f"model.base_url={server.base_url}", PRICE]
    return ["system=toy", *model, *dataset(folder, *rows), "run.concurrency=8", "run.max_same_errors=null", *WORKERS]


@pytest.mark.slow
def test_records_are_those_of_a_single_process(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    asked = ["experiment=offline", "limit=24", "run.epochs=2", "cache.tools=off"]
    for name, more in (("local", ()), ("processes", WORKERS)):
        output = run(tmp_path / name, clean_environment, *asked, *more)
        assert "Traceback" not in output, output
    local, processes = (sorted(map(json.dumps, map(comparable, records(tmp_path / n)))) for n in ("local", "processes"))
    assert local == processes
    log = (tmp_path / "processes" / "logs" / "multi_agent_system.log").read_text("utf-8").splitlines()
    assert len({json.loads(line)["correlation_id"] for line in log}) == 48


@pytest.mark.slow
def test_workers_that_are_killed_lose_and_double_nothing(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    """20 kills; what their samples had paid is not paid again, but for requests in flight."""
    draw, kills, number = random.Random(7), 0, 120
    with slow_server(0.04) as server:
        with command(tmp_path / "run", clean_environment, *options(tmp_path / "data", server, number)) as process:
            before, wanted = 0, 4
            while process.poll() is None and kills < 20:
                time.sleep(draw.uniform(0.0, 0.1))
                if len(server.requests()) - before < wanted:
                    continue
                if workers := ready_workers(process, tmp_path / "run"):
                    os.kill(draw.choice(workers), signal.SIGKILL)
                    kills, before, wanted = kills + 1, len(server.requests()), draw.randint(4, 20)
            output, _ = process.communicate(timeout=240)
        sent = len(server.requests())
    assert kills >= 10, output
    done = records(tmp_path / "run")
    assert sorted(each["sample_id"] for each in done) == [f"q{n:03}" for n in range(number)], output
    lost = [each for each in done if each["error"]]  # those that three workers were killed with alone
    assert all("the worker process ended 3 times" in each["error"] for each in lost)
    assert len(lost) <= 2
    calls = sum(each["usage"]["lm_calls"] - each["usage"]["replayed_calls"] for each in done)
    assert 3 * (number - len(lost)) <= sent <= 3 * number + 4 * kills
    assert calls <= sent


@pytest.mark.slow
def test_one_budget_and_one_ctrl_c_are_for_all_workers(tmp_path: Path, clean_environment: dict[str, str]) -> None:
    with slow_server(0.05) as server:
        asked = options(tmp_path / "data", server, 200)
        output = run(tmp_path / "budget", clean_environment, *asked, "executor.workers=4", "run.max_cost_usd=0.02")
        assert "run.max_cost_usd=0.02" in output
        usage = json.loads((tmp_path / "budget" / "summary.json").read_text("utf-8"))["usage"]
        spent = re.search(r"the run has spent \$([0-9.]+)", output)
        assert spent is not None, output
        cost = usage["known_cost_usd"] / usage["lm_calls"]
        assert 0.02 <= float(spent[1]) <= 0.02 + 8 * cost
        assert len(server.requests()) < 0.02 / cost + 8, "those in flight when the last dollar was spent, and no more"
        server.start_over([])
        with command(tmp_path / "stopped", clean_environment, *asked) as process:
            wait_for_requests(server, 30)
            os.killpg(process.pid, signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 3, output
        sent = len(server.requests())
    done = records(tmp_path / "stopped")
    assert 0 < len(done) < 200
    assert all(each["error"] is None for each in done)
    assert sent == 3 * len(done), "what was in flight has finished, and nothing new was started"


# Samples and workers, without processes: the tests play the workers.


def sample(name: str) -> Sample:
    return Sample(name, "?", Path("/here") / f"{name}.csv")


def asked(name: str, lease: int, prompts: str | None = None) -> Answer:
    moved = replace(sample(name), file=Path("there") / f"{name}.csv")
    return Answer(lease, moved, SampleKey(name, 2), {name: "kept"}, prompts and f"digest of {prompts}")


def done(name: str, lease: int, calls: bytes = b"") -> Answered:
    return Answered(lease, answered(name, "17"), calls)
