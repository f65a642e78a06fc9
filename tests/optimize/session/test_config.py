"""The configuration of a tuning run as it is read and checked; the mistakes themselves: test_mistakes.py."""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from eval.cli.paths import PROJECT_ROOT
from mas.llm.profiles.model import AgentOverride
from mas.runtime.errors import UserError
from optimize.session.config import (
    HeadroomSettings,
    OptimizeConfig,
    TuningRequest,
    _check_ranges,
    _Options,
    read_config,
)
from tests.mas.llm.loopback import complete_with, serving
from tests.servers.running import RunningServer


def configured(*overrides: str) -> OptimizeConfig:
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        return read_config(compose("optimize", ["system=toy", "data=toy", "model=offline", *overrides]))


def test_the_defaults_are_the_owners_command() -> None:
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        config = read_config(compose("optimize"))
    base = config.base
    assert (base.system.name, base.model.name, base.data.name, base.prompts) == (
        "gaia", "gpt-4o-mini", "gaia", "baseline",
    )  # fmt: skip
    assert (config.optimizer.name, config.name, config.gate.objective) == ("gepa", "tuned", "score")
    assert config.yes is False, "nothing is spent unasked"


def test_all_agents_are_tuned_unless_some_are_named() -> None:
    config = configured()
    config.check()
    assert config.agents == ["plan", "solve", "finalize"]
    some = configured("agents=[finalize]")
    some.check()
    assert some.agents == ["finalize"]


def test_the_reflection_may_be_at_another_server_with_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "key-of-ours")
    monkeypatch.setenv("THEIR_KEY", "key-of-theirs")
    with serving(complete_with("hello")) as ours, serving(complete_with("hello")) as theirs:
        model = ["model=openai_compatible", f"model.base_url={ours.base_url}", "model.api_key_env=OUR_KEY"]
        there = [f"reflection_base_url={theirs.base_url}", "reflection_api_key_env=THEIR_KEY"]
        config = configured(*model, *there, "reflection_model=strong", "reflection_max_tokens=20000")
        config.check()
        lm = config.base.model.create_reflection_lm(config.reflection_model)
        assert lm("rewrite this") == ["hello"]
        keyless = configured(*model, there[0]).base.model
        assert keyless.create_reflection_lm()("rewrite this") == ["hello"]
    assert ours.requests == []
    asked = [(each.body["model"], each.headers["authorization"]) for each in theirs.requests]
    assert asked == [("strong", "Bearer key-of-theirs"), ("default", "Bearer none")]
    assert (theirs.requests[0].body["max_tokens"], "max_tokens" in theirs.requests[1].body) == (20000, False)
    assert config.redact("key-of-theirs, key-of-ours") == "***, ***"


def test_a_profile_may_name_the_reflections_model_as_well() -> None:
    model = ["model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1"]
    config = configured(*model, "+model.agents.reflection={name: strong}")
    assert config.reflection_model == "strong"
    assert config.base.model.create_reflection_lm(config.reflection_model).model == "openai/strong"


@pytest.mark.parametrize("option", ["base_url=http://127.0.0.1:9/v1", "api_key_env=SOME_KEY", "max_tokens=9"])
def test_a_server_for_a_simulated_reflection_is_refused(option: str) -> None:
    with pytest.raises(UserError, match=rf"^reflection_{option} would not be used, since model=offline simulates"):
        configured(f"reflection_{option}")


def test_answers_outside_the_search_have_the_same_terms_and_their_own_epochs() -> None:
    config = configured("run.deadline_seconds=7", "limits.lm_calls=3", "tools.max_output_chars=9", "run.dir=/nowhere")
    evaluation = config.build_evaluation(epochs=5, concurrency=2)
    assert (evaluation.run.epochs, evaluation.run.concurrency, evaluation.run.deadline_seconds) == (5, 2, 7)
    assert (evaluation.run.dir, evaluation.cache.lm) == (None, "off"), "fresh answers, in a folder of the run's"
    assert evaluation.cache.tools == "run", "nothing of another run's"
    assert (evaluation.limits.lm_calls, evaluation.tools.max_output_chars) == (3, 9)
    assert evaluation.system is config.base.system and evaluation.model is config.base.model


def test_the_prompts_to_begin_with_are_the_systems_own_or_those_named(tmp_path: Path) -> None:
    assert configured().check().name == "toy_baseline"
    (tmp_path / "set.yaml").write_text("system: toy\ndescription: mine\n")
    for agent in ("plan", "solve", "finalize"):
        (tmp_path / f"{agent}_system_prompt.txt").write_text(f"{agent}!")
    assert configured(f"prompts={tmp_path}").check().texts["plan"] == "plan!"


@pytest.mark.parametrize(
    ("mine", "published", "refused"),
    [(True, "run: {run}\ngated: true", False), (True, "run: other\ngated: true", True),
     (True, "run: {run}\ngated: false", True), (True, None, True), (False, "run: {run}\ngated: true", True)],
    ids=["its own", "another run's", "by hand", "of nobody", "a new run"],
)  # fmt: skip
def test_only_a_run_that_goes_on_may_find_its_own_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mine: bool, published: str | None, refused: bool
) -> None:
    run, there = tmp_path / "run", tmp_path / "prompts" / "tuned"
    run.mkdir()
    (run / "tuning.json").write_text("{}")
    config = configured("name=tuned", *([f"resume={run}", f"run.dir={run}"] if mine else []))
    there.mkdir(parents=True)
    if published:
        (there / "provenance.yaml").write_text(published.format(run="run"))
    monkeypatch.setattr("optimize.session.config.PROJECT_ROOT", tmp_path)
    if refused:
        with pytest.raises(UserError, match="prompts/tuned is there already"):
            config.check()
    else:
        assert config.check().name == "toy_baseline"


def test_the_splits_have_a_seed_of_their_own() -> None:
    config = configured("seed=7")
    assert (config.seed, config.splits.seed) == (7, 0)
    assert configured("splits.seed=7").splits.seed == 7


def test_a_name_is_checked_when_going_on_as_well() -> None:
    with pytest.raises(UserError, match="name=a/b is no plain name"):
        configured("name=a/b", "resume=latest").check()


PRICE = "++model.prices={m: {input_usd_per_million: 1, output_usd_per_million: 1}}"


def test_costs_are_no_aim_where_there_are_none(llm_server: RunningServer) -> None:
    with pytest.raises(UserError, match=r"gate\.objective=cost means nothing with model=offline, which is simulated"):
        configured("gate.objective=cost").check()
    model = ("model=openai_compatible", f"model.base_url={llm_server.base_url}", "model.name=m", "name=in_a_test")
    configured(*model, "gate.objective=cost", PRICE, "reflection_model=another").check()
    configured(*model).check()
    with pytest.raises(UserError, match=r"gate\.objective=cost cannot be judged, because no price is known for m; "):
        configured(*model, "gate.objective=cost").check()


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ((), False),
        (("++model.prices={m: {input_usd_per_million: 1, output_usd_per_million: 1}}",), True),
        (
            (
                "++model.prices={m: {input_usd_per_million: 1, output_usd_per_million: 1}}",
                "reflection_model=another",
            ),
            False,
        ),
    ],
    ids=["none", "the model's", "not the reflection's"],
)
def test_a_budget_of_money_needs_the_price_of_every_model(
    llm_server: RunningServer, given: tuple[str, ...], known: bool
) -> None:
    model = ("model=openai_compatible", f"model.base_url={llm_server.base_url}", "model.name=m", "budget.usd=1")
    config = configured(*model, *given, "name=priced_in_a_test")
    if known:
        config.check()
    else:
        with pytest.raises(UserError, match=r"budget\.usd=1 cannot be kept, because no price is known for (m|another)"):
            config.check()


RANGES: list[tuple[str, list[Any], list[Any]]] = [
    ("shortlist.size", [1, 9], [0]),
    ("shortlist.epochs", [1, 9], [0]),
    ("shortlist.min_gain", [0.0, 0.999], [-0.001, 1.0]),
    ("run.concurrency", [1, 99], [0]),
    ("run.deadline_seconds", [0.001], [0.0]),
    ("run.drain_seconds", [0.0], [-0.001]),
    ("seed", [0], [-1]),
    ("reflection_max_tokens", [None, 1], [0]),
    ("run.failed_answers", ["halt", "against"], ["for"]),
]


@pytest.mark.parametrize(("key", "right", "wrong"), RANGES, ids=[key for key, _, _ in RANGES])
def test_numbers_out_of_range_are_refused_by_name(key: str, right: list[Any], wrong: list[Any]) -> None:
    def check(value: Any) -> None:
        options = _Options()
        branch, _, name = key.rpartition(".")
        setattr(getattr(options, branch) if branch else options, name, value)
        _check_ranges(options)

    for value in right:
        check(value)
    for value in wrong:
        with pytest.raises(UserError, match=rf"^{re.escape(key)}={value}"):
            check(value)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.001])
def test_a_share_for_the_headroom_is_above_0_and_at_most_1(share: float) -> None:
    HeadroomSettings("report", 0.001).check()
    HeadroomSettings("only", 1.0).check()
    with pytest.raises(UserError, match=r"^headroom\.max_share=.* is out of range; expected a share above 0, such as"):
        HeadroomSettings("report", share).check()


def test_the_arms_of_the_sealed_test_share_the_requests_in_flight(tmp_path: Path) -> None:
    config = configured("run.concurrency=5", "gate.epochs=3", "run.drain_seconds=7")
    run = config.build_test_evaluation(2).run
    assert (run.concurrency, run.epochs, run.drain_seconds) == (2, 3, 7)
    assert config.build_test_evaluation(6).run.concurrency == 1

    folder = tmp_path / "run"
    config.run.dir = str(folder)
    config.name = "free_in_a_test"
    config.check()
    folder.mkdir()
    another = "already holds another run; name a new folder"
    same = f"already holds a tuning run; resume it with resume={folder}, or name"
    for file, words in (("run.db", another), ("tuning.json", same)):
        (folder / file).write_text("{}")
        with pytest.raises(UserError, match=f"^run.dir={re.escape(str(folder))} {re.escape(words)}"):
            config.check()


def test_other_processes_build_the_program_from_the_parts_of_an_evaluation() -> None:
    config = configured("run.deadline_seconds=7")
    names = ("system", "model", "scorer", "data", "tracking", "executor", "tools", "limits", "log")
    resolved: dict[str, Any] = {name: {"of": name} for name in (*names, "optimizer", "gate")}
    request = TuningRequest(config, resolved, config.check(), [])
    expected = {**{name: {"of": name} for name in names}, "run": {"deadline_seconds": 7.0}, "prompts": None}
    assert request.worker_config == expected
    assert request.stored_config == resolved and request.shelf == PROJECT_ROOT / "prompts"
    override = AgentOverride(name="strong", api_key_env="THEIR_KEY")
    config.base.model.agents = {"reflection": override, "plan": AgentOverride()}  # type: ignore[attr-defined]
    request.resolved["model"]["agents"] = {"plan": {}}
    model = request.worker_config["model"]
    assert model == {"of": "model", "agents": {"plan": {}, "reflection": asdict(override)}}


def test_what_makes_no_sense_together_is_refused() -> None:
    config = configured("run.trust=true")
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "run.trust=true is for a run that goes on; name it with resume=…, or leave"),
        ({"resume": " "}, "resume is empty; name the run to resume"),
    ]
    for changes, words in cases:
        with pytest.raises(UserError, match=f"^{re.escape(words)}"):
            replace(config, **changes).check()
    config.run.trust = False
    cases = [
        ({"agents": ["finalize", "nobody"]}, "agents: nobody is no agent of this system; choose from plan, solve, "),
        ({"reflection_model": " "}, "reflection_model is empty; name a model"),
        ({"reflection_model": "other"}, "reflection_model=other would not be used, since model=offline simulates"),
    ]
    for changes, words in cases:
        with pytest.raises(UserError, match=f"^{re.escape(words)}"):
            replace(config, **changes).check()
