"""What is refused before anything of a replayed proof is spent."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from eval.analysis.attribution.broken_link import BrokenLink
from eval.analysis.attribution.run_attribution import attribute_run
from eval.benchmarks.selection import select_samples
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import read_config
from eval.config.executor import LocalSettings
from eval.execution.console import KeptOutput
from eval.runs.record import Record
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from eval.workflows.evaluate import Request as Evaluation
from eval.workflows.evaluate import evaluate
from eval.workflows.replayed_proof import plan
from eval.workflows.replayed_proof.plan import _check_place, _list_blamed, read_request
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered, stored_run
from tests.eval.workflows.composing import compose_each_once


def refusal(original: Path, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        read_request(original, [], 3, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    "override",
    [
        "model.name=x",
        "system=toy",
        "run.resume=x",
        "run.retry_errors=true",
        "run.allow_config_change=true",
        "run.deadline_seconds=9",
        "run.epochs_of=2",
        "logs.terminal=true",
    ],
)
def test_an_option_that_would_make_another_program_of_it_is_refused(override: str, tmp_path: Path) -> None:
    name = override.partition("=")[0]
    assert refusal(tmp_path, "run.epochs=2", override) == (
        f"{name} cannot be changed here: the same program is asked again; give run.epochs=…, "
        "run.max_cost_usd=…, run.concurrency=… or run.name=…."
    )


@pytest.mark.parametrize("name", ["executor", "executor.workers"])
def test_an_agent_is_corrected_in_this_process_alone(name: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, f"{name}=workers") == (
        f"{name} is not supported here: an agent is corrected in this process alone; leave it out."
    )


@pytest.mark.parametrize(
    "override",
    ["run.epochs=2", "run.dir=x", "run.name=x", "run.trust=true", "run.concurrency=2", "run.max_cost_usd=1",
     "log.terminal=true", "tracking=none", "model.rate.requests_per_minute=5"],
)  # fmt: skip
def test_an_option_that_leaves_the_program_as_it_is_may_be_given(override: str, tmp_path: Path) -> None:
    assert "cannot be changed here" not in refusal(tmp_path / "none", override)


def test_the_arms_lie_in_an_empty_folder_outside_of_runs(tmp_path: Path) -> None:
    run = stored_run(tmp_path / "run", [answered("q1", "1")])
    with pytest.raises(UserError) as caught:
        _check_place(run / "within" / "it")
    assert str(caught.value) == (
        f"run.dir={run / 'within' / 'it'} is within the run {run}; name a folder outside of runs."
    )
    _check_place(tmp_path / "new" / "folder")
    (tmp_path / "used").mkdir()
    _check_place(tmp_path / "used")
    (tmp_path / "used" / "file").touch()
    with pytest.raises(UserError):
        _check_place(tmp_path / "used")


def test_agents_are_tested_from_the_one_that_most_wrong_answers_are_blamed_on() -> None:
    def link(kind: str, name: str) -> BrokenLink:
        return BrokenLink(kind, name, "because")  # type: ignore[arg-type]

    links = [
        link("agent", "planner"),
        *[link("format", "finalizer")] * 2,
        *[link("tool", "calculator")] * 4,
        *[link("agent", "expert")] * 3,
    ]
    assert _list_blamed({f"q{number}": each for number, each in enumerate(links)}) == ["expert", "finalizer", "planner"]
    assert _list_blamed({}) == []


@pytest.fixture(autouse=True, scope="module")
def each_command_line_composed_once() -> Iterator[None]:
    with compose_each_once(plan):
        yield


COMMAND = ["system=toy", "data=toy", "model=offline", "tracking=off", "limit=24"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of the simulated model, which gets some questions wrong."""
    folder = tmp_path_factory.mktemp("made") / "run"
    composed = compose_config([*COMMAND, f"run.dir={folder}"])
    config = read_config(composed)
    resolved: Any = OmegaConf.to_container(composed, resolve=True)
    return evaluate(Evaluation(config, resolved, config.check(), COMMAND), KeptOutput(progress=False)).folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def change(run: Path, info: Callable[[RunInfo], RunInfo]) -> None:
    with RunStore(run / "run.db") as store:
        store.write_info(info(store.read_info()))


def list_wrong(run: Path) -> list[Record]:
    with RunStore(run / "run.db", read_only=True) as store:
        return [each for each in store.final_records() if not each.correct]


def test_what_is_asked_again_is_the_run_as_it_was_with_the_first_wrong_samples(run: Path) -> None:
    wrong = list_wrong(run)
    assert len(wrong) > 3
    ids = [each.sample_id for each in wrong[:3]]
    found = read_request(run, ["solve"], 3, ["run.epochs=3", "run.name=again"])
    composed = compose_config([*COMMAND, "run.epochs=3", "run.name=again"])
    config = replace(read_config(composed), executor=LocalSettings())
    assert (found.original, found.config) == (run, config)
    assert found.stored_config == OmegaConf.to_container(composed, resolve=True)
    assert found.prompts == config.check()
    samples = select_samples(config.data.load("val").samples, config.selection)
    assert found.samples == [each for each in samples if each.id in ids]
    (correction,) = found.corrections
    assert (correction.agent, correction.kind, correction.judged) == ("solve", "answer", None)
    assert {name: each.text for name, each in correction.matchers.items()} == {
        each.sample_id: each.target for each in wrong[:3]
    }
    with RunStore(run / "run.db", read_only=True) as store:
        assert found.info == store.read_info()
        links = attribute_run(store).links
    assert found.links == {each: links[each, 1].name for each in ids}
    assert found.skipped == {}


@pytest.mark.parametrize(
    ("agents", "overrides", "sentence"),
    [
        (["nobody", "solve", "x"], [], "--agents names nobody, x; the agents of toy are plan, solve, finalize."),
        (["finalize"], [], "no agent can be corrected (finalize: its output is the answer"),
        ([], ["run.dir=RUN/proof"], "run.dir=RUN/proof is within the run RUN; name a folder outside of runs."),
        ([], ["run.dir=RUN"], "run.dir=RUN has files that are no run"),
    ],
)
def test_what_cannot_be_proven_is_told(run: Path, agents: list[str], overrides: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        read_request(run, agents, 3, [each.replace("RUN", str(run)) for each in overrides])
    assert str(refused.value).startswith(sentence.replace("RUN", str(run)))


def test_a_run_that_goes_on_or_has_changed_or_is_a_proof_is_refused(run: Path) -> None:
    with RunStore(run / "run.db"):
        assert refusal(run) == f"{run} is still running; ask its wrong questions again when it has ended."
    change(run, lambda info: replace(info, prompts_sha256="4" * 64))
    assert refusal(run).startswith("the run was started otherwise (prompts_sha256: 444444444444 → ")
    change(run, lambda info: replace(info, prompts_sha256="", gold_informed="solve"))
    assert "gave solve the right answers" in refusal(run)


def test_a_run_without_a_wrong_answer_proves_nothing(run: Path) -> None:
    with RunStore(run / "run.db") as store:
        for each in list(store.records()):
            if not each.correct:
                store.write(replace(each, attempt=each.attempt + 1, score=1.0, error=None, error_class=None))
    assert refusal(run) == "run has no wrong answer with a known target: nothing can be proven."
