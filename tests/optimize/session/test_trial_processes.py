"""What a tuning run gives to its workers: how they start, and each question with the prompts that it has now."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.benchmarks.dataset import Sample
from eval.execution.executors.contract import SampleHooks
from eval.execution.executors.trial_workers import Trial
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.sample_context import SampleKey
from optimize.session import trial_processes
from optimize.session.trial_processes import TrialProcesses

PARENT = PromptSet("parent", "toy", {"plan": "You plan."}, Path("parent"))
NOW = PromptSet("now", "toy", {"plan": "You plan well."}, Path("now"))


class Workers:
    """In place of the real ones: keeps what they are given."""

    def __init__(self, *given: Any) -> None:
        self.given, self.trials, self.closed = given, list[Trial](), 0

    async def answer(self, trial: Trial) -> str:
        self.trials.append(trial)
        return "answered"

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def start(*given: Any, **options: Any) -> str:
        seen["start"] = (given, options)
        return "the start"

    def read(program: Any, parent: PromptSet) -> PromptSet:
        seen["read"] = (program, parent)
        return NOW

    def create(*given: Any) -> Workers:
        seen["workers"] = Workers(*given)
        return cast(Workers, seen["workers"])

    monkeypatch.setattr(trial_processes, "describe_start", start)
    monkeypatch.setattr(trial_processes, "read_applied_prompts", read)
    monkeypatch.setattr(trial_processes, "TrialWorkers", create)
    return seen


class Request:
    """Of three trials at once."""

    def __init__(self) -> None:
        self.worker_config = {"cache": {"tools": "on", "dir": "x"}, "seed": 7}
        self.config = SimpleNamespace(run=SimpleNamespace(concurrency=3), build_evaluation=self.build)

    def build(self, epochs: int, concurrency: int) -> tuple[int, int]:
        return epochs, concurrency


def processes(folder: Path) -> tuple[TrialProcesses, SampleHooks]:
    hooks = SampleHooks(folder, read_replies=lambda key: {"asked": str(key)})
    stop, place, info = cast(Any, "stop"), cast(Any, "place"), RunInfo(run_id="r1")
    return TrialProcesses(cast(Any, Request()), PARENT, info, hooks, stop, place), hooks


def test_workers_start_with_the_parent_and_keep_no_results_of_tools(
    started: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, hooks = processes(Path("run"))
    resolved = {"cache": {"tools": "off"}, "seed": 7}
    assert started["start"] == (
        (resolved, PARENT, RunInfo(run_id="r1"), str(tmp_path / "run")),
        {"asks_budget": True},
    )
    assert started["workers"].given == ((1, 3), "the start", hooks, "stop", "place")


def test_a_question_goes_with_the_prompts_of_now_and_with_the_time_at_which_it_began(
    started: dict[str, Any], tmp_path: Path
) -> None:
    trials, hooks = processes(tmp_path)
    program, sample, key = cast(Any, "program"), Sample("q1", "2 + 2?", target="4"), SampleKey("q1", 1, 1)
    began = []

    def open_context(of: SampleKey) -> Any:
        return SimpleNamespace(key=of, read_start_time=lambda: began.append(of))

    assert asyncio.run(trials.answer(program, sample, key, open_context)) == cast(Any, "answered")
    assert started["read"] == ("program", PARENT)
    [trial] = started["workers"].trials
    assert (trial.sample, trial.key, trial.prompts, trial.digest) == (sample, key, NOW, digest(NOW))
    assert trial.read_replies is hooks.read_replies
    assert began == []
    assert trial.open_context(key).key == key and began == [key]


def test_it_ends_its_workers(started: dict[str, Any], tmp_path: Path) -> None:
    trials, _ = processes(tmp_path)
    assert started["workers"].closed == 0
    asyncio.run(trials.close())
    assert started["workers"].closed == 1
