"""Programs asked side by side: each arm is a run of its own, and goes on where it was cut short."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from rich.console import Console

from eval.benchmarks.toy_set import ToyDataset
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import EvalConfig, read_config
from eval.execution.termination import StopController
from eval.runs.folder import find_run
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from eval.workflows.paired_evaluation import Arm, evaluate_pairs, read_arm_records, write_arm_reports
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.tools.tool_context import Resources

EXAMPLES = ToyDataset(n_test=6).load("test").samples
EPOCHS = 2


@pytest.fixture
def config() -> EvalConfig:
    read = read_config(compose_config(["system=toy", "data=toy", "model=offline", f"run.epochs={EPOCHS}"]))
    return replace(read, run=replace(read.run, concurrency=2))


@pytest.fixture
def prompts(config: EvalConfig) -> PromptSet:
    config.prompts = "toy_baseline"
    found = config.read_prompts()
    assert found is not None
    return found


def info(simulated: bool = True) -> RunInfo:
    kept = OmegaConf.to_container(compose_config(["system=toy", "data=toy", "model=offline"]), resolve=True)
    return RunInfo(config=kept, system="toy", model="offline", simulated=simulated)


def arms(config: EvalConfig, folder: Path, prompts: PromptSet) -> list[Arm]:
    shorter = replace(prompts, texts={**prompts.texts, "plan": "Plan."})
    return [
        Arm(name, folder / name, each, Resources(config.tools))
        for name, each in (("parent", prompts), ("winner", shorter))
    ]


def asked(
    made: Sequence[Arm],
    config: EvalConfig,
    stop: StopController | None = None,
) -> tuple[str | None, str]:
    screen = io.StringIO()
    console = Console(file=screen)
    reason = evaluate_pairs(made, config, EXAMPLES, info(), stop or StopController(say=lambda line: None), console)
    return reason, screen.getvalue()


def test_each_arm_is_a_run_that_every_command_can_read(config: EvalConfig, prompts: PromptSet, tmp_path: Path) -> None:
    made = arms(config, tmp_path, prompts)
    reason, screen = asked(made, config)
    write_arm_reports(arm.folder for arm in made)
    assert reason is None
    assert f"{2 * EPOCHS * len(EXAMPLES)}/{2 * EPOCHS * len(EXAMPLES)} done" in screen
    for arm in made:
        assert find_run(arm.folder) == arm.folder
        assert {(each.sample_id, each.epoch) for each in read_arm_records(arm)} == {
            (sample.id, epoch) for sample in EXAMPLES for epoch in (1, 2)
        }
        summary = json.loads((arm.folder / "summary.json").read_text("utf-8"))
        assert (summary["n"], summary["simulated"]) == (EPOCHS * len(EXAMPLES), True)
        assert {"report.html", "answers.jsonl", "config.yaml"} <= {path.name for path in arm.folder.iterdir()}
        with RunStore(arm.folder / "run.db", read_only=True) as store:
            assert store.read_info().prompts_sha256 == digest(arm.prompts)
    ids = {read_arm_records(arm)[0].run_id for arm in made}
    assert len(ids) == 2, "two runs"


@pytest.mark.slow
def test_what_is_there_is_not_asked_again(config: EvalConfig, prompts: PromptSet, tmp_path: Path) -> None:
    made, stop = arms(config, tmp_path, prompts), StopController(say=lambda line: None)
    stop.stop_now("because")
    assert asked(made, config, stop=stop)[0] == "because"
    assert read_arm_records(made[0]) == []
    assert asked(made[:1], config)[0] is None
    before = [each.thread_id for each in read_arm_records(made[0])]
    assert len(before) == EPOCHS * len(EXAMPLES)
    assert asked(made, config)[0] is None
    assert [each.thread_id for each in read_arm_records(made[0])] == before
    assert len(read_arm_records(made[1])) == len(before)


def test_a_folder_that_another_process_writes_to_is_refused(
    config: EvalConfig, prompts: PromptSet, tmp_path: Path
) -> None:
    made = arms(config, tmp_path, prompts)
    made[0].folder.mkdir(parents=True)
    with RunStore(made[0].folder / "run.db"), pytest.raises(UserError, match=r"another process|in use"):
        asked(made, config)
