from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from eval.benchmarks.sample_set import BundledDataset
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import CacheSettings, EvalConfig, LogSettings, RunSettings, build_part, read_config
from eval.config.tracking import LocalTracking
from eval.scorers.gaia import GaiaScorer
from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel
from mas.systems.gaia.system import AgentSettings, GaiaSystem


def composed(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        return compose("eval", ["experiment=offline", *overrides])


def config(*overrides: str) -> EvalConfig:
    return read_config(composed(*overrides))


def test_parts_become_their_dataclasses() -> None:
    found = config()
    assert isinstance(found.system, GaiaSystem)
    assert isinstance(found.model, SimulatedModel)
    assert isinstance(found.data, BundledDataset)
    assert isinstance(found.scorer, GaiaScorer)
    assert isinstance(found.tracking, LocalTracking)
    assert isinstance(found.system.agents["planner"], AgentSettings)


def test_values_reach_their_fields_with_their_types() -> None:
    found = config(
        "limit=5", "shuffle=true", "seed=7", "level=2", "run.concurrency=3", "run.deadline_seconds=4",
        "run.fail_under=0.5", "system.agents.expert.retry_limit=9", "tools.max_output_chars=100",
    )  # fmt: skip
    assert (found.selection.limit, found.selection.shuffle, found.selection.seed) == (5, True, 7)
    assert found.selection.level == "2", "levels are text"
    assert (found.run.concurrency, found.run.fail_under) == (3, 0.5)
    assert isinstance(found.run.deadline_seconds, float)
    assert found.system.agents["expert"].retry_limit == 9
    assert found.tools.max_output_chars == 100


def test_split_and_prompts_default_to_what_data_and_system_say() -> None:
    assert (config().split, config().prompts) == ("val", "baseline")
    assert config("split=test").split == "test"
    assert config("prompts=null").prompts is None
    assert config("split=null").split == "val"


def test_ids_stay_as_they_were_typed() -> None:
    config = composed("ids=[1e10,007]")
    assert read_config(config, raw_ids=["1e10", "007"]).selection.ids == ["1e10", "007"]
    assert config.ids == ["1e10", "007"], "the configuration that is saved says the same"


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("limit=0", "limit=0"),
        ("limit=-3", "limit=-3"),
        ("run.concurrency=0", "run.concurrency=0"),
        ("run.deadline_seconds=0", "run.deadline_seconds=0"),
        ("run.deadline_seconds=-1", "run.deadline_seconds=-1"),
        ("run.deadline_seconds=nan", "run.deadline_seconds=nan"),
        ("run.fail_under=1.01", "run.fail_under=1.01"),
        ("run.fail_under=-0.1", "run.fail_under=-0.1"),
        ("run.fail_under=nan", "run.fail_under=nan"),
        ("tools.max_output_chars=0", "tools.max_output_chars=0"),
        ("run.epochs=0", "run.epochs=0"),
        ("run.epochs=1001", "run.epochs=1001"),
        ("run.drain_seconds=-1", "run.drain_seconds=-1"),
        ("run.max_seconds=0", "run.max_seconds=0"),
        ("run.max_cost_usd=0", "run.max_cost_usd=0"),
        ("run.max_errors=0", "run.max_errors=0"),
        ("run.max_errors=-1", "run.max_errors=-1"),
        ("run.max_errors=1.5", "run.max_errors=1.5"),
        ("run.max_errors=nan", "run.max_errors=nan"),
        ("run.max_errors=inf", "run.max_errors=inf"),
        ("run.max_same_errors=0", "run.max_same_errors=0"),
        ("limits.working_seconds=0", "limits.working_seconds=0"),
        ("limits.lm_calls=0", "limits.lm_calls=0"),
        ("limits.tokens=-1", "limits.tokens=-1"),
        ("limits.tool_calls=0", "limits.tool_calls=0"),
        ("limits.cost_usd=nan", "limits.cost_usd=nan"),
        ("cache.lm=on", "cache.lm=on"),
        ("cache.tools=on", "cache.tools=on"),
    ],
)
def test_a_value_out_of_range_is_refused_with_what_is_expected(override: str, key: str) -> None:
    with pytest.raises(UserError, match="out of range; expected") as raised:
        config(override)
    assert str(raised.value).startswith(key)


@pytest.mark.parametrize(
    "override",
    ["limit=1", "run.fail_under=0", "run.fail_under=1", "run.concurrency=1", "run.drain_seconds=0", "run.max_errors=1",
     "run.max_errors=0.5", "limits.lm_calls=1", "cache.lm=shared", "cache.lm=off", "cache.tools=off",
     "cache.tools=run", "cache.tools=shared", "run.epochs=1000"],
)  # fmt: skip
def test_the_ends_of_a_range_are_allowed(override: str) -> None:
    assert config(override)


def test_more_ends_of_ranges_are_allowed() -> None:
    tiny = ("run.deadline_seconds", "run.max_seconds", "run.max_cost_usd", "limits.cost_usd", "limits.working_seconds")
    whole = ("run.max_same_errors", "run.epochs", "tools.max_output_chars", "limits.tokens", "limits.tool_calls")
    assert config(*(f"{key}=1e-9" for key in tiny), *(f"{key}=1" for key in whole), "run.max_errors=null")
    nothing = ("limit", "run.max_same_errors", "run.max_seconds", "run.max_cost_usd", "run.fail_under")
    assert config(*(f"{key}=null" for key in nothing), "run.max_errors=2")


@pytest.mark.parametrize(
    "override",
    [
        "limit=many", "limit=1.5", "shuffle=maybe", "seed=x", "ids=a", "run.concurrency=all",
        "run.deadline_seconds=soon", "run.fail_under=high", "tools.fail_fast=perhaps", "model.native_tools=perhaps",
        "system.max_research_steps=few", "model.name=null", "system.agents.expert.tools=calculator", "prompts=[a]",
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(override: str) -> None:
    with pytest.raises(OmegaConfBaseException):
        config(override)


@pytest.mark.parametrize(
    "override",
    ["+nope=1", "+run.nope=1", "+tools.nope=1", "+system.nope=1", "+system.agents.planner.nope=1", "+model.nope=1",
     "+data.nope=1", "+scorer.nope=1", "+tracking.nope=1"],
)  # fmt: skip
def test_a_key_that_no_dataclass_has_is_refused_at_every_depth(override: str) -> None:
    with pytest.raises(OmegaConfBaseException, match="nope"):
        config(override)


@pytest.mark.parametrize("branch", ["cache=shared", "limits=5", "run=5", "tools.web=null", "+model.rate=60"])
def test_a_value_where_options_belong_is_refused_by_name(branch: str) -> None:
    overrides = ["model=openai", "model.name=m", branch.replace("+", "++")] if "model" in branch else [branch]
    key = branch.partition("=")[0].lstrip("+")
    with pytest.raises(UserError, match=rf"{branch.lstrip('+')} is not possible: {key} consists of .*: {key}\.\w+"):
        config(*overrides)


def test_what_only_a_run_that_goes_on_has_is_refused_without_one() -> None:
    with pytest.raises(UserError, match=r"run\.resume is empty"):
        config("run.resume=").check()
    for key in ("retry_errors", "allow_config_change"):
        with pytest.raises(UserError, match=rf"run\.{key}=true is for a run that goes on"):
            config(f"run.{key}=true").check()
        config(f"run.{key}=true", "run.resume=latest").check()
    config("run.resume=null").check()


def node(**values: Any) -> DictConfig:
    return OmegaConf.create(values)


def test_a_mandatory_value_is_named_by_its_full_key() -> None:
    with pytest.raises(UserError, match=r"data\.path has no value.*data\.path=…"):
        build_part(node(_target_="eval.benchmarks.jsonl.JsonlDataset", path="???"), "data")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no.such.Thing", "no.such.Thing cannot be loaded"),
        ("mas.runtime.errors.Nope", "mas.runtime.errors.Nope cannot be loaded"),
        ("math.pi", "math.pi is a float"),
        (None, "data has no _target_"),
    ],
)
def test_a_target_that_cannot_be_had_is_the_users_mistake(target: str | None, words: str) -> None:
    with pytest.raises(UserError) as raised:
        build_part(node(_target_=target), "data")
    assert words in str(raised.value)


def test_checking_returns_the_prompt_set_that_is_named(tmp_path: Path) -> None:
    prompts = config(f"run.dir={tmp_path}").check()
    assert prompts is not None
    assert (prompts.name, len(prompts.texts)) == ("baseline", 7)
    assert config("prompts=null").check() is None


def test_a_scorer_without_a_target_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(UserError, match=r"scorer has no _target_"):
        config("~scorer._target_")


def test_the_judge_is_one_of_the_models_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-judge")
    found = config("scorer=graded", "model@scorer.judge=gpt-4o", "scorer.judge.temperature=0.5")
    assert (found.scorer.judge.name, found.scorer.judge.temperature) == ("gpt-4o", 0.5)
    assert found.redact("key sk-of-the-judge") == "key ***"
    assert found.simulated, "the system's model is"
    real = config("scorer=graded", "model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1")
    assert not real.simulated
    real.scorer.judge.simulated = True
    assert real.simulated


def test_options_that_are_not_given_have_these_values() -> None:
    assert asdict(RunSettings()) == {
        "name": None, "dir": None, "concurrency": 16, "epochs": 1, "deadline_seconds": 900.0, "max_seconds": None,
        "max_cost_usd": None, "max_errors": None, "max_same_errors": 5, "drain_seconds": 30.0, "fail_fast": False,
        "fail_under": None, "resume": None, "retry_errors": False, "allow_config_change": False, "trust": False,
    }  # fmt: skip
    assert asdict(CacheSettings()) == {"lm": "off", "tools": "run"}
    assert asdict(LogSettings()) == {"level": "info", "format": "json", "terminal": False}
    found = config()
    assert (found.cache, found.log) == (CacheSettings(), LogSettings())
    assert (found.run.fail_fast, found.run.retry_errors, found.run.allow_config_change, found.run.trust) == (False,) * 4


def test_a_list_of_unpriced_models_has_those_of_the_judges_unless_they_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-judge")
    local = "base_url=http://127.0.0.1:9/v1"
    found = config(
        "scorer=graded", "model=openai_compatible", f"model.{local}", "model.name=own",
        "model@scorer.judge=openai_compatible", f"scorer.judge.{local}", "scorer.judge.name=judge",
    )  # fmt: skip
    assert found.list_unpriced_models() == ["judge", "own"]
    assert found.list_unpriced_models(judges=False) == ["own"]
    assert found.list_unpriced_models(["more"], judges=False) == ["more", "own"]


def test_one_simulated_judge_makes_the_run_simulated() -> None:
    local = ("model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1")
    second = ("+scorer@extra_scorers.second=graded", "extra_scorers.second.judge.temperature=0.5")
    real = config(*local, "scorer=graded", *second)
    judges = list(real.judges)
    assert judges == ["scorer", "extra_scorers.second"] and not real.simulated
    real.judges["extra_scorers.second"].simulated = True  # type: ignore[misc]
    assert real.simulated


@pytest.mark.parametrize(("value", "is_taken"), [("0", False), ("1.5", False), ("1", True), ("0.01", True)])
def test_errors_are_a_number_from_1_or_a_share(value: str, is_taken: bool) -> None:
    if is_taken:
        assert config(f"run.max_errors={value}").run.max_errors == float(value)
        return
    with pytest.raises(UserError, match=r"expected a number of questions from 1, a share between 0 and 1, or null"):
        config(f"run.max_errors={value}")
