"""Hydra's command line as this tool takes it: flags, overrides, choices, help, and its errors in one sentence."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from eval.cli import hydra_compat
from eval.cli.hydra_compat import (
    MISTAKES,
    check_overrides,
    compose_config,
    describe_choices,
    describe_mistake,
    describe_options,
    format_override,
    get_multirun_job,
    is_mistake,
    list_sweep_jobs,
    prepare_arguments,
    read_flags,
    suggest,
)
from eval.config.evaluation import read_config
from mas.runtime.errors import UserError

SCORER = "+scorer@extra_scorers."


def message(overrides: list[str], config_name: str = "eval") -> str:
    """Return what a user is told; the test fails if nothing is wrong."""
    with pytest.raises(Exception) as caught:
        compose_config(overrides, config_name)
    assert is_mistake(caught.value), repr(caught.value)
    told = describe_mistake(caught.value)
    assert "\n" not in told and "hydra.cc" not in told
    return told


REFUSED: dict[str, tuple[list[str], str]] = {
    "a question without quotes": (["How many?"], "'How many?' is not an option; options are given as name=value"),
    "no name": (["=5"], "'=5' is not an option"),
    "nothing": ([""], "'' is not an option"),
    "a name alone": (["model"], "'model' is not an option"),
    "a wrong name": (["modle=offline"], "modle is not an option; did you mean model? Otherwise choose one of: "),
    "a name like no other": (["qqqq=1"], "qqqq is not an option; choose one of: "),
    "added, a wrong name": (["+modle=offline"], "modle is not an option; did you mean model?"),
    "a wrong choice": (["model=ofline"], "model=ofline is not known; did you mean offline? Otherwise choose one of: "),
    "a choice of another command": (["optimizer=gepa"], "optimizer is not "),
    "a group twice": (["+model=offline"], "+model=offline is not possible: model has a choice already; write model=o"),
    "a group taken away": (["~model"], "~model is not possible: model cannot be taken away; choose one of: "),
    "a group set to null": (["model=null"], "model=null is not possible: model is a config group; choose one of: "),
    "a group set to a number": (["model=1"], "a config group was given null, a number, true or false; name a choice"),
    "an unknown option of a group": (["run.epoch=3"], "run.epoch is not an option; did you mean epochs? Otherwise "),
    "an option that is not there": (["~run.nope"], "run.nope cannot be taken away: it does not exist; --help lists"),
    "several values": (["model.name=a,b"], "model.name=a,b gives several values; add --multirun for one run after"),
    "not to be read": (["model.name=[a"], "the command line cannot be read: "),
}


@pytest.mark.parametrize("mistake", REFUSED)
@pytest.mark.parametrize("cause", ["0", "1"], ids=["", "under a debugger"])  # there errors name causes
def test_a_mistake_is_one_sentence_that_says_what_to_do(
    mistake: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OC_CAUSE", cause)
    overrides, expected = REFUSED[mistake]
    assert message(overrides).startswith(expected), message(overrides)


def test_several_values_can_be_a_list_a_text_or_several_runs() -> None:
    told = message(["model.name=a,b"])
    assert "write 'model.name=[a,b]' for a list and 'model.name=\"a,b\"' for a text" in told


@pytest.mark.parametrize("cause", ["0", "1"], ids=["", "under a debugger"])  # there such an error causes itself
def test_a_number_is_asked_for_in_words(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OC_CAUSE", cause)
    for value, key, expected in (("many", "run.epochs", "a whole number"), ("maybe", "run.trust", "true or false")):
        with pytest.raises(MISTAKES) as caught:
            read_config(compose_config([f"{key}={value}"]))
        assert (
            describe_mistake(caught.value)
            == f"{key} has the wrong kind of value: {value!r} was given, and {expected} is expected."
        )


def test_each_command_has_groups_of_its_own() -> None:
    assert compose_config(["optimizer=gepa"], "optimize").optimizer
    check_overrides(["~extra_scorers", "hydra.verbose=true", "+scorer@extra_scorers.a=contains"], "eval")
    with pytest.raises(UserError, match=r"is not possible: scorer is a config group"):
        check_overrides(["scorer@extra_scorers.a=null"], "eval")


def test_the_user_s_own_hydra_is_given_back() -> None:
    mine = GlobalHydra.instance().hydra
    marker: Any = object()
    GlobalHydra.instance().hydra = marker
    try:
        compose_config(["model=offline"])
        assert GlobalHydra.instance().hydra is marker
        message(["model=ofline"])
        assert GlobalHydra.instance().hydra is marker
    finally:
        GlobalHydra.instance().hydra = mine


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--nope"], "--nope is not a flag; options are given as name=value, and --help lists them."),
        (["--run", "--multirun"], "--run and --multirun cannot be given together; leave out all but one."),
        (["--multirun", "--cfg", "job"], "--multirun and --cfg cannot be given together; leave out all but one."),
        (["--resolve"], "--resolve is for what --cfg shows; give --cfg job with it, or leave it out."),
        (["--package", "model"], "--package is for what --cfg shows; give --cfg job with it, or leave it out."),
        (["--experimental-rerun", "x"], "--experimental-rerun is not for this command; to resume a run see --help:"),
        (["--cfg", "nothing"], "the flags cannot be read: "),
    ],
)
def test_a_flag_that_makes_no_sense_is_named(arguments: list[str], told: str) -> None:
    with pytest.raises(UserError) as caught:
        read_flags(arguments)
    assert str(caught.value).startswith(told), str(caught.value)


def test_flags_that_go_together_are_taken() -> None:
    flags = read_flags(["model=offline", "--cfg", "job", "--resolve", "--package", "model"])
    assert (flags.overrides, flags.cfg, flags.resolve, flags.package) == (["model=offline"], "job", True, "model")
    assert read_flags(["--help", "--resolve"]).resolve and read_flags(["--multirun", "a=1,2"]).multirun


def test_an_option_after_a_flag_is_named() -> None:
    with pytest.raises(UserError, match=r"^b=2 comes after a flag; give all options name=value first"):
        read_flags(["a=1", "--multirun", "b=2"])


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("extra_scorers=[contains,numeric]", [f"{SCORER}contains=contains", f"{SCORER}numeric=numeric"]),
        ("extra_scorers=[ 'contains' , \"numeric\" ]", [f"{SCORER}contains=contains", f"{SCORER}numeric=numeric"]),
        ("extra_scorers=[]", []),
        ("extra_scorers=contains", "is not a list of scorers; write extra_scorers=[contains,numeric]."),
        ("extra_scorers=[contains,]", "is not a list of scorers"),
        ("extra_scorers=", "is not a list of scorers"),
        ("extra_scorers=[a,b,a]", "has a twice; the second one needs a name of its own: +scorer@extra_scorers.NAME=a."),
        ("extra_scorers", ["extra_scorers"]),
        ("extra_scorers.x=1", ["extra_scorers.x=1"]),
    ],
)
def test_a_list_of_scorers_is_a_choice_for_each(argument: str, expected: Any) -> None:
    if isinstance(expected, list):
        assert prepare_arguments([argument]) == expected
        return
    with pytest.raises(UserError) as caught:
        prepare_arguments([argument])
    assert expected in str(caught.value)


def test_a_scorer_that_is_typed_again_is_there_once_and_other_options_stay() -> None:
    again = ["extra_scorers=[contains]", f"{SCORER}contains=contains", "a=1", "a=1"]
    assert prepare_arguments(again) == [f"{SCORER}contains=contains", "a=1", "a=1"]


@pytest.mark.parametrize(
    ("argument", "quoted"),
    [
        ("run.name=ünï cödé", 'run.name="ünï cödé"'),
        ("run.name=plain", "run.name=plain"),
        ("run.name=[ü]", "run.name=[ü]"),
        ("run.name='ü'", "run.name='ü'"),
        ("run.name=${ü}", "run.name=${ü}"),
        ("run.name=ü,ö", "run.name=ü,ö"),
    ],
)
def test_a_text_with_other_letters_is_quoted_unless_it_means_something_to_hydra(argument: str, quoted: str) -> None:
    assert prepare_arguments([argument]) == [quoted]


VALUES: list[Any] = [
    None, True, False, 3, -2, 1.5, "", "plain", "a=b", "a,b", "[x]", "{y}", 'say "hi"', "back\\slash", "end\\",
    '\\"', "${not.resolved}", "ünï", "null", "true", "1e10", " led and trailed ", "it's", [1, "a,b", None, ["x"]],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    config = compose_config([format_override("+run.given", value)])
    read = config.run.given
    assert (OmegaConf.to_container(read) if OmegaConf.is_config(read) else read) == value
    assert type(read) is type(value) or isinstance(value, list)


def test_the_most_similar_name_comes_first_and_hydra_s_own_is_not_offered() -> None:
    assert suggest("modle", ["model", "data", "hydra"]) == "did you mean model? Otherwise choose one of: data, model"
    assert suggest("xyz", ["model", "data", "hydra"]) == "choose one of: data, model"


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model").mkdir()
    for name in ("small", "large"):
        (tmp_path / "model" / f"{name}.yaml").write_text("name: x\n")
    groups = "defaults:\n  - _self_\n  - model: small  # the language model\n"
    text = f"{groups}\nn: 1  # how many\n\nhydra:\n  verbose: false\n"
    (tmp_path / "eval.yaml").write_text(text)
    monkeypatch.setattr(hydra_compat, "CONF", tmp_path)
    return tmp_path


def test_help_shows_the_groups_with_their_meaning_and_the_options_as_they_are_written(conf: Path) -> None:
    assert describe_choices("eval") == "model  the language model\n       large, small*"
    assert describe_options("eval") == "n: 1  # how many"


def test_a_group_without_a_default_may_be_taken_away(conf: Path) -> None:
    with pytest.raises(UserError, match=r"choose one of: large, small; or leave it out\.$"):
        check_overrides(["~model"], "eval")
    (conf / "eval.yaml").write_text("defaults:\n  - model: null\n")
    check_overrides(["~model"], "eval")
    with pytest.raises(UserError, match="n is not an option; choose one of: model"):
        check_overrides(["n=1"], "eval")


def test_outside_of_a_multirun_there_is_no_job() -> None:
    assert get_multirun_job() is None


def test_errors_of_other_code_are_no_mistakes() -> None:
    assert not is_mistake(ValueError("of somebody's own"))
    assert not is_mistake(RuntimeError("of somebody's own"))
    assert is_mistake(UserError("a sentence.")) and describe_mistake(UserError("a sentence.")) == "a sentence."


@pytest.mark.parametrize(
    ("sweeper", "params", "task", "jobs"),
    [
        ("hydra._internal.core_plugins.basic_sweeper.BasicSweeper", None, ["a=1,2", "b=3", "c=x,y"],
         [["a=1", "c=x"], ["a=1", "c=y"], ["a=2", "c=x"], ["a=2", "c=y"]]),
        ("hydra._internal.core_plugins.basic_sweeper.BasicSweeper", {"a": "1,2"}, ["b=3"], [["a=1"], ["a=2"]]),
        ("hydra_plugins.optuna.Sweeper", None, ["a=1,2"], []),
    ],
)  # fmt: skip
def test_the_jobs_of_a_multirun_are_known_before_it_begins(
    tmp_path: Path, sweeper: str, params: Any, task: list[str], jobs: list[list[str]]
) -> None:
    node = {"hydra": {"sweeper": {"_target_": sweeper, "params": params}, "overrides": {"task": task}}}
    (tmp_path / "multirun.yaml").write_text(yaml.safe_dump(node))
    assert list_sweep_jobs(tmp_path / "multirun.yaml") == jobs


def test_the_columns_of_choices_are_as_wide_as_the_longest_group(conf: Path) -> None:
    (conf / "data").mkdir()
    (conf / "data" / "toy.yaml").write_text("name: x\n")
    groups = "  - data: toy  # the questions\n  - model: large  # the language model\n"
    (conf / "eval.yaml").write_text(f"defaults:\n  - _self_\n{groups}\nn: 1\nm: 2\n\nhydra:\n")
    expected = ["data   the questions", "       toy*", "model  the language model", "       large*, small"]
    assert describe_choices("eval").splitlines() == expected
    assert describe_options("eval") == "n: 1\nm: 2"
