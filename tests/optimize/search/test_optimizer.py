"""Every optimizer in conf/optimizer follows the contract `optimize.search.optimizer.Optimizer`."""

from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from eval.cli.paths import PROJECT_ROOT
from mas.runtime.errors import UserError
from optimize.search.optimizer import PARENT, Optimizer, SearchCost, SearchOutcome
from tests.optimize.toy_search import toy_search

FILES = sorted((PROJECT_ROOT / "conf" / "optimizer").glob("*.yaml"))
CALLS = 80
WRONG = {
    "bootstrap": ("candidates", 0),
    "gepa": ("minibatch_size", 0),
    "halving": ("mixtures", 1),
    "mipro": ("trials", 0),
}  # a setting that `check` refuses


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_optimizer_proposes_candidates_within_its_budget(file: Path, tmp_path: Path) -> None:
    optimizer: Optimizer = instantiate(OmegaConf.load(file))
    assert optimizer.name == file.stem
    optimizer.check()
    cost = optimizer.estimate_cost(12, 12, 3, CALLS)
    assert isinstance(cost, SearchCost) and 0 < cost.metric_calls <= CALLS
    assert bool(cost.reflection_calls) == optimizer.needs_reflection
    with toy_search(tmp_path, max_metric_calls=CALLS) as toy:
        outcome = toy.run(optimizer)
        spend = toy.budget.spend()
    assert isinstance(outcome, SearchOutcome)
    assert bool(outcome.reflections) == optimizer.needs_reflection
    assert spend.metric_calls <= CALLS
    assert toy.proposals and all(each.candidate_id != PARENT for each in toy.proposals)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_wrong_setting_is_found_before_anything_is_spent(file: Path) -> None:
    optimizer = instantiate(OmegaConf.load(file))
    setting, value = WRONG[file.stem]
    setattr(optimizer, setting, value)
    with pytest.raises(UserError, match=f"optimizer.{setting}"):
        optimizer.check()
