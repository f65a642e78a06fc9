from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from eval.benchmarks.sample_set import BundledDataset
from eval.benchmarks.selection import Selection
from eval.cli.paths import PROJECT_ROOT
from eval.config import evaluation
from eval.config.evaluation import CacheSettings, EvalConfig, LogSettings, RunSettings, build_part, read_config
from eval.config.tracking import LocalTracking
from eval.scorers.gaia import GaiaScorer
from mas.runtime.errors import UserError
from mas.runtime.sample_context import SampleLimits
from mas.simulation import SimulatedModel
from mas.systems.gaia.system import AgentSettings, GaiaSystem
from mas.tools.settings import ToolSettings


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


@dataclass
class PlayedPart:
    """A system, model, scorer, dataset or tracking in one; it remembers what it was asked."""

    name: str = "played"
    needs_model: bool = True
    simulated: bool = False
    default_split: str = "dev"
    agent_specs: list[Any] = field(default_factory=list)
    secret: str = ""
    unpriced: list[str] = field(default_factory=list)
    refusal: str = ""
    judge: Any = None
    own: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        if self.refusal:
            raise UserError(self.refusal)

    def secrets(self) -> list[str]:
        return [self.secret]

    def model_names(self) -> list[str]:
        return ["of an agent"]

    def list_unpriced(self, more_names: Sequence[str] = ()) -> list[str]:
        return [*self.unpriced, *more_names] if self.unpriced else []

    def list_traffic(self) -> list[str]:
        return ["traffic"]


PLAYED = f"{__name__}.PlayedPart"


def played(**parts: Any) -> EvalConfig:
    """A configuration of parts that are played, without Hydra."""
    given: dict[str, Any] = {name: PlayedPart() for name in ("system", "model", "scorer", "data", "tracking")}
    rest: dict[str, Any] = {
        "selection": Selection(), "tools": ToolSettings(), "run": RunSettings(), "limits": SampleLimits(),
        "cache": CacheSettings(), "log": LogSettings(), "prompts": None, "split": "dev",
    }  # fmt: skip
    return EvalConfig(**{**given, **rest, **parts})


def read(**plain: Any) -> EvalConfig:
    parts = {name: {"_target_": PLAYED} for name in ("system", "model", "scorer", "data", "tracking")}
    return read_config(OmegaConf.create({**parts, **plain}))


def refusal_of(ask: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        ask()
    return str(refused.value)


def test_a_configuration_with_no_options_has_the_defaults_of_all() -> None:
    assert read() == played()
    assert read(split="", run={}).split == "dev"
    assert read(
        prompts="p", split="s", limit=2, ids=["a"], level="1", shuffle=True, seed=3, experiment="x", debug={"a": 1}
    ) == played(prompts="p", split="s", selection=Selection(2, ["a"], "1", True, 3))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("limit", 0, "at least 1, or null for all questions"),
        ("run.concurrency", 0, "at least 1"),
        ("run.deadline_seconds", 0.0, "more than 0 seconds"),
        ("run.epochs", 0, "1 to 1,000"),
        ("run.epochs", 1001, "1 to 1,000"),
        ("run.drain_seconds", -0.5, "0 seconds or more"),
        ("run.max_seconds", 0.0, "more than 0, or null for no limit"),
        ("run.max_cost_usd", -1.0, "more than 0, or null for no limit"),
        ("run.max_errors", 2.5, "a number of questions from 1, a share between 0 and 1, or null"),
        ("run.max_same_errors", 0, "a number of answers from 1, or null"),
        ("cache.lm", "run", "off or shared"),
        ("cache.tools", "on", "off, run or shared"),
        ("run.fail_under", 1.5, "0 to 1, or null"),
        ("limits.tokens", 0, "more than 0, or null for no limit"),
        ("tools.max_output_chars", 0, "at least 1"),
    ],
)
def test_what_is_out_of_range_is_told_with_the_range(key: str, value: object, expected: str) -> None:
    part, _, name = key.rpartition(".")
    said = refusal_of(lambda: read(**({part: {name: value}} if part else {name: value})))
    assert said == f"{key}={value} is out of range; expected {expected}."


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ({"level": "loud"}, "log.level=loud is not known; choose one of: debug, info, warning, error."),
        ({"format": "xml"}, "log.format=xml is not known; choose one of: json, text."),
    ],
)
def test_a_log_has_one_of_the_known_levels_and_formats(log: dict[str, str], said: str) -> None:
    assert refusal_of(lambda: read(log=log)) == said
    for level in ("debug", "info", "warning", "error"):
        assert read(log={"level": level, "format": "text"}).log == LogSettings(level, "text")


def test_each_part_is_checked_and_the_first_mistake_is_told() -> None:
    parts = {name: PlayedPart(refusal=f"{name} is wrong.") for name in ("data", "tracking", "model", "scorer")}
    parts["extra_scorers"] = {"more": PlayedPart(refusal="scorer.limit is wrong.")}  # type: ignore[assignment]
    parts["system"] = PlayedPart(refusal="system is wrong.")
    told = []
    for fixed in ("run", "system", "scorer", "extra_scorers", "model", "budget", "tracking", "data"):
        run = RunSettings(max_cost_usd=1.0, trust=not told)
        limits = SampleLimits(cost_usd=2.0)
        unpriced = PlayedPart(unpriced=["odd"])
        wrong = {"model": unpriced, **parts, "run": run, "limits": limits}
        told.append(refusal_of(played(**wrong).check))
        if fixed == "budget":
            parts["model"] = PlayedPart()
        elif fixed == "model":
            parts["model"] = unpriced
        else:
            parts.pop(fixed, None)
    assert told[:5] == [
        "run.trust=true is for a run that goes on; name it with run.resume=…, or leave this out.",
        "system is wrong.", "scorer is wrong.", "extra_scorers.more.limit is wrong.", "model is wrong.",
    ]  # fmt: skip
    assert told[5].startswith("run.max_cost_usd=1 cannot be kept, because no price is known for odd, of an agent; give")
    assert told[6:] == ["tracking is wrong.", "data is wrong."]


def test_a_system_without_a_model_of_ours_is_not_asked_about_one() -> None:
    system, model = PlayedPart(needs_model=False), PlayedPart(refusal="wrong.", unpriced=["odd"], simulated=True)
    found = played(system=system, model=model)
    assert found.check() is None
    assert (found.needs_model, found.model_name, found.list_traffic(), found.simulated) == (False, "none", [], False)
    assert found.list_unpriced_models() == ["odd"]
    other = played(model=PlayedPart(simulated=True))
    assert (other.needs_model, other.model_name, other.list_traffic(), other.simulated) == (
        True, "played", ["traffic"], True,
    )  # fmt: skip


PRICES = "{input_usd_per_million: 0.15, output_usd_per_million: 0.6}"


@pytest.mark.parametrize(
    ("run", "limits", "needs_model", "said"),
    [
        (None, None, True, ""),
        (
            0.5, None, False,
            "run.max_cost_usd=0.5 cannot be kept: what this system spends is not seen here; leave it out.",
        ),
        (
            None, 2.0, False,
            "limits.cost_usd=2 cannot be kept: what this system spends is not seen here; leave it out.",
        ),
        (
            None, 2.0, True,
            "limits.cost_usd=2 cannot be kept, because no price is known for a:b, of an agent; give it as "
            f"'++model.prices={{a\\:b: {PRICES}, of\\ an\\ agent: {PRICES}}}' with the prices that hold there, or "
            "leave the budget out.",
        ),
    ],
)  # fmt: skip
def test_a_budget_in_money_needs_the_price_of_each_model(
    run: float | None, limits: float | None, needs_model: bool, said: str
) -> None:
    found = played(
        system=PlayedPart(needs_model=needs_model), model=PlayedPart(unpriced=["a:b"]),
        run=RunSettings(max_cost_usd=run), limits=SampleLimits(cost_usd=limits),
    )  # fmt: skip
    if said:
        assert refusal_of(found.check_budget) == said
    else:
        found.check_budget()


def test_the_price_of_a_judge_is_given_where_the_judge_is() -> None:
    judge = PlayedPart(unpriced=["j/1"])
    found = played(run=RunSettings(max_cost_usd=1.0), extra_scorers={"b": PlayedPart(judge=judge), "a": PlayedPart()})
    assert found.judges == {"extra_scorers.b": judge}
    assert refusal_of(found.check_budget) == (
        "run.max_cost_usd=1 cannot be kept, because no price is known for j/1; give it as "
        f"'++extra_scorers.b.judge.prices={{j/1: {PRICES}}}' with the prices that hold there, or leave the budget out."
    )


def test_secrets_of_every_part_are_removed_from_texts_and_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "list_installation_secrets", lambda: ["key-of-the-installation"])
    names = ("system", "model", "tracking")
    parts = {name: PlayedPart(secret=f"key-of-{name}") for name in names}
    judge = PlayedPart(secret="key-of-model-and-judge")
    found = played(**parts, scorer=PlayedPart(judge=judge))
    assert found.secrets() == [
        "key-of-the-installation", "key-of-model-and-judge", "key-of-tracking", *found.secrets()[3:]
    ]  # fmt: skip
    assert sorted(found.secrets()[3:]) == ["key-of-model", "key-of-system"]
    tree = {
        "a": "key-of-model-and-judge", "key-of-model": [1, ("key-of-system", None)], 3: {"uri": "http://u:p@h"},
        "n": 1.5, "t": True,
    }  # fmt: skip
    cleaned = found.redact_tree(cast(Any, tree))
    assert cleaned == {
        "a": "***", "***": [1, ["***", None]], "3": {"uri": "http://u@h"}, "n": 1.5, "t": True
    }  # fmt: skip
    assert found.redact("x key-of-tracking y") == "x *** y"
    numbers = played(model=PlayedPart(secret="12345678"))
    assert numbers.redact_tree({"n": 12345678, "m": 1234567}) == {"n": "***", "m": 1234567}


def test_extra_scorers_are_other_scorers_each_under_its_name() -> None:
    one = {"_target_": PLAYED, "name": "one"}
    assert read(extra_scorers={"a": one, 2: {**one, "name": "two"}}).extra_scorers == {
        "a": PlayedPart("one"), "2": PlayedPart("two")
    }  # fmt: skip
    assert read(extra_scorers=None).extra_scorers == read(extra_scorers={}).extra_scorers == {}
    assert refusal_of(lambda: read(extra_scorers={"a": one, "b": {"_target_": PLAYED}})) == (
        "extra_scorers.b is the scorer that decides already; leave it out, or change scorer=…."
    )
    assert refusal_of(lambda: read(extra_scorers=["a"])) == (
        "extra_scorers is a list, which only the command line can have; in a file write `- "
        "/scorer@extra_scorers.contains: contains` into its defaults."
    )
    assert refusal_of(lambda: read(extra_scorers={"a": {"name": "???", "_target_": PLAYED}})) == (
        "extra_scorers.a.name has no value; give it on the command line: extra_scorers.a.name=…"
    )


def test_a_part_may_have_parts_of_its_own_and_branches_are_named_in_full() -> None:
    target = {"_target_": PLAYED}
    found = build_part(node(**target, judge={**target, "name": "j", "judge": target}, own={"a": 1}), "scorer")
    assert found == PlayedPart(judge=PlayedPart("j", judge=PlayedPart()), own={"a": 1})
    for value, shown in ((5, "5"), (None, "null"), ("x", "x")):
        assert refusal_of(lambda value=value: build_part(node(**target, own=value), "scorer")) == (  # type: ignore[misc]
            f"scorer.own={shown} is not possible: scorer.own consists of options; give one of them: scorer.own.NAME."
        )
    assert refusal_of(lambda: build_part(node(**target, judge={**target, "own": 1}), "scorer")).startswith(
        "scorer.judge.own=1 is not possible: scorer.judge.own consists of options"
    )
    assert refusal_of(lambda: read(cache="shared")) == (
        "cache=shared is not possible: cache consists of options; give one of them: cache.lm, cache.tools."
    )
    assert refusal_of(lambda: read(tools={"web": None})).startswith("tools.web=null is not possible: tools.web consist")


@pytest.mark.parametrize("key", ["retry_errors", "allow_config_change", "trust"])
def test_an_option_of_a_run_that_goes_on_needs_the_run(key: str) -> None:
    assert refusal_of(played(run=RunSettings(**{key: True})).check) == (  # type: ignore[arg-type]
        f"run.{key}=true is for a run that goes on; name it with run.resume=…, or leave this out."
    )
    assert played(run=RunSettings(resume="latest", **{key: True})).check() is None  # type: ignore[arg-type]
    assert refusal_of(played(run=RunSettings(resume=" ")).check) == (
        "run.resume is empty; name the run to resume (latest, a name or a path), or leave run.resume out."
    )
