"""Every optimizer in conf/optimizer follows the contract `optimize.search.optimizer.Optimizer`."""

from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from eval.cli.paths import PROJECT_ROOT
from eval.execution.budget import BudgetSettings
from optimize.search.optimizer import PARENT, Optimizer, SearchCost, SearchOutcome
from optimize.search.optimizers.few_shot_optimizers import BootstrapOptimizer, MiproOptimizer
from tests.optimize.search.optimizers.test_gepa_optimizer import gepa
from tests.optimize.search.optimizers.test_halving_optimizer import halving
from tests.optimize.toy_search import toy, toy_search

FILES = sorted((PROJECT_ROOT / "conf" / "optimizer").glob("*.yaml"))
CALLS = 80


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_optimizer_proposes_candidates_within_its_budget(file: Path, tmp_path: Path) -> None:
    optimizer: Optimizer = instantiate(OmegaConf.load(file))
    assert optimizer.name == file.stem
    optimizer.check()
    cost = optimizer.estimate_cost(12, 12, 3, CALLS)
    assert isinstance(cost, SearchCost) and 0 < cost.metric_calls <= CALLS
    assert bool(cost.reflection_calls) == optimizer.needs_reflection
    with toy_search(tmp_path, max_metric_calls=CALLS) as search:
        outcome = search.run(optimizer)
        spend = search.budget.spend()
    assert isinstance(outcome, SearchOutcome)
    assert bool(outcome.reflections) == optimizer.needs_reflection
    assert spend.metric_calls <= CALLS
    assert search.proposals and all(each.candidate_id != PARENT for each in search.proposals)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_agents_that_are_not_tuned_keep_their_prompts(file: Path, tmp_path: Path) -> None:
    with toy_search(tmp_path, agents=("solve",)) as search:
        search.run(instantiate(OmegaConf.load(file)))
    assert search.proposals
    for each in search.proposals:
        assert each.agents == ("solve",) and set(each.prompts.demos) <= {"solve"}
        assert {**each.prompts.texts, "solve": ""} == {**toy()[2].texts, "solve": ""}


LONG, SHORT = {"seed": 1, "max_metric_calls": 120}, {"seed": 1, "max_metric_calls": 70}
EQUAL: dict[str, tuple[Optimizer, dict[str, int]]] = {  # a search, and what it may spend
    "bootstrap": (BootstrapOptimizer(), {}),
    "gepa": (gepa(), LONG),
    "gepa of all agents": (gepa(component_selector="all"), LONG),
    "halving": (halving(), SHORT),
    "mipro": (MiproOptimizer(candidates=3, trials=5), {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUAL)
def test_equal_seeds_propose_the_same_and_a_second_session_asks_nothing(name: str, tmp_path: Path) -> None:
    (optimizer, given), told = EQUAL[name], []
    for folder, threads in (("one", 1), ("eight", 8), ("eight", 3)):
        with toy_search(tmp_path / folder, threads=threads, **given) as search:
            search.run(optimizer)
            told.append(search.told if given else search.told[:-1])  # the last one is cut off at any answer
            sent = search.model.sent
    assert told[0] == told[1] == told[2] != []
    assert sent == 0, "all of it was paid for in the session before"


@pytest.mark.parametrize("optimizer", [BootstrapOptimizer(), MiproOptimizer(candidates=3)], ids=["bootstrap", "mipro"])
def test_what_the_budget_cuts_off_is_told_as_that_and_is_the_last(optimizer: Optimizer, tmp_path: Path) -> None:
    with toy_search(tmp_path, budget=BudgetSettings(metric_calls=40)) as search:
        search.run(optimizer)
    assert [each.decision == "cut_off" for each in search.proposals] == [False, True]
    assert search.budget.spend().metric_calls == 40
