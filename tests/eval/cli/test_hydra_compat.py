"""Hydra's command line as this tool takes it: flags, overrides, choices, help, and its errors in one sentence."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError

from eval.cli import hydra_compat
from eval.cli.hydra_compat import (
    MISTAKES,
    MultirunJob,
    check_overrides,
    compose_config,
    describe_choices,
    describe_mistake,
    describe_options,
    format_override,
    get_multirun_job,
    get_task_overrides,
    get_typed_list,
    is_mistake,
    list_sweep_jobs,
    prepare_arguments,
    read_flags,
    register_help,
    run_jobs,
    suggest,
)
from eval.cli.paths import PROJECT_ROOT
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


def refusal_of(ask: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        ask()
    return str(refused.value)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("what is it", "'what is it' is not an option; options are given as name=value, and texts in quotes."),
        ("~", "'~' is not an option; options are given as name=value, and texts in quotes."),
        ("+n", "'+n' is not an option; options are given as name=value, and texts in quotes."),
        ("modl=small", "modl is not an option; did you mean model? Otherwise choose one of: model, n."),
        ("~zzz", "zzz is not an option; choose one of: model, n."),
        ("zzz.a=1", "zzz is not an option; choose one of: model, n."),
        ("zzz/a=1", "zzz is not an option; choose one of: model, n."),
        ("data=toy", "data is not a config group of this command; choose one of: model."),
        ("~data", "data is not a config group of this command; choose one of: model."),
        ("~model", "~model is not possible: model cannot be taken away; choose one of: large, small; or leave it out."),
        ("~model=x", "~model=x is not possible: model cannot be taken away; choose one of: large, small; or leave it "
         "out."),
        ("+model=x", "+model=x is not possible: model has a choice already; write model=x."),
        ("model = null", "model = null is not possible: model is a config group; choose one of: large, small; or leave "
         "it out."),
        ("data@x=null", "data@x=null is not possible: data is a config group; choose one of: toy; or leave it out."),
    ],
)  # fmt: skip
def test_an_override_that_cannot_be_is_told_with_what_can(conf: Path, override: str, said: str) -> None:
    (conf / "data").mkdir()
    (conf / "data" / "toy.yaml").write_text("name: x\n")
    assert refusal_of(lambda: check_overrides(["n=1", override], "eval")) == said


@pytest.mark.parametrize(
    "override",
    ["model=small", "model=", "model.name=null", "n=null", "~n", "+n=1", "++model.x=1", "hydra.verbose=true",
     "data.x=1", "+data@model.more=toy", "data/x=1", "a-b=1"],
)  # fmt: skip
def test_overrides_that_hydra_understands_are_left_to_it(conf: Path, override: str) -> None:
    (conf / "data").mkdir()
    check_overrides([override], "eval")


def test_groups_that_a_command_only_overrides_are_not_its_own(conf: Path) -> None:
    (conf / "eval.yaml").write_text("defaults:\n  - model: null\n  - override hydra/sweeper: basic\n  - _self_\nn: 1\n")
    assert refusal_of(lambda: check_overrides(["defaults=1"], "eval")) == (
        "defaults is not an option; choose one of: model, n."
    )
    assert refusal_of(lambda: check_overrides(["+model=small"], "eval")) == (
        "+model=small is not possible: model has a choice already; write model=small."
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-x"], "-x is not a flag; options are given as name=value, and --help lists them."),
        (["a=1", "--multirun", "b=2", "c=3"],
         "b=2 comes after a flag; give all options name=value first, then the flags."),
        (["--run", "--info", "all", "--shell-completion"],
         "--run and --info and --shell-completion cannot be given together; leave out all but one."),
        (["--multirun", "--cfg", "job"], "--multirun and --cfg cannot be given together; leave out all but one."),
        (["--experimental-rerun", "x"],
         "--experimental-rerun is not for this command; to resume a run see --help: resume."),
        (["--cfg"], "the flags cannot be read: argument --cfg/-c: expected one argument; options are given as "
         "name=value, and --help lists them."),
    ],
)  # fmt: skip
def test_flags_that_cannot_be_are_told_with_what_can(arguments: list[str], said: str) -> None:
    assert refusal_of(lambda: read_flags(arguments)) == said


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (False, "false"), (3, "3"), (1.5, "1.5"), (float("inf"), "inf"), ("", '""'),
        ("a b", '"a b"'), ('a"b', '"a\\"b"'), ('a\\"b', '"a\\\\\\"b"'), ("a\\b", '"a\\b"'), ("a\\", '"a\\\\"'),
        ("${x}", '"\\${x}"'), ("$x", '"$x"'), (["a", 1, None, (True,)], '["a",1,null,[true]]'), ([], "[]"),
    ],
)  # fmt: skip
def test_a_value_is_written_as_hydra_reads_it(value: object, text: str) -> None:
    assert format_override("+a.b", value) == f"+a.b={text}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Could not find 'model/smal'\n\nAvailable options in 'model':\n\tlarge\n\tsmall\nConfig search path:\n\tx",
         "model=smal is not known; did you mean small? Otherwise choose one of: large, small."),
        ("Could not find 'hydra/launcher/zzz'\n\nAvailable options in 'hydra/launcher':\n\tbasic\nSee https://hydra.cc",
         "hydra/launcher=zzz is not known; choose one of: basic."),
        ("Could not override 'optimizer'. No match in the defaults list.",
         "optimizer is not a config group of this command; --help lists them."),
        ("Config group override must be a string or a list. Got int",
         "a config group was given null, a number, true or false; name a choice, such as model=offline."),
        ("Ambiguous value for argument 'n=1,2'\n1. To use it as a list, use n=[1,2]\n2. …",
         "n=1,2 gives several values; add --multirun for one run after the other, or write 'n=[a,b]' for a list and "
         "'n=\"a,b\"' for a text."),
        ("Could not delete from config. 'run.x' does not exist.",
         "run.x cannot be taken away: it does not exist; --help lists the options."),
        ("Cannot find primary config 'zzz'. Check that it's in your config search path.",
         "--config-name zzz: there is no zzz.yaml in conf/; leave --config-name out."),
        ("Key 'x' is not in struct\n    full_key: run.x\n    object_type=dict",
         "run.x is not an option; see --help, or the files in conf/, for those there are."),
        ("Key 'x' not in 'RunSettings'\n    full_key: run.x\n    object_type=RunSettings",
         "run.x is not an option; see --help, or the files in conf/, for those there are."),
        ("Missing mandatory value: data.path\n    full_key: data.path",
         "data.path has no value; give it on the command line: data.path=…"),
        ("'str' is not a ListConfig\n    full_key: ids\n    object_type=x", "ids needs a list; give it as ids=[a,b]."),
        ("Value 'x' of type 'str' could not be converted to Integer\n    full_key: limit\n    object_type=_Plain",
         "limit has the wrong kind of value: 'x' was given, and a whole number is expected."),
        ("Value 'x\ny' of type 'str' could not be converted to Float\n    full_key: run.max_seconds\n",
         "run.max_seconds has the wrong kind of value: 'x\\ny' was given, and a number is expected."),
        ("Value 'maybe' is not a valid bool (type str)\n    full_key: shuffle\n",
         "shuffle has the wrong kind of value: 'maybe' was given, and true or false is expected."),
        ("Value 'x' is not a valid Path\n  of yours\n    full_key: a.b\n",
         "a.b has the wrong kind of value: Value 'x' is not a valid Path of yours; correct it."),
        ("Something\n  else\nConfig search path:\n  a", "Something else"),
    ],
)  # fmt: skip
def test_errors_of_hydra_are_told_in_one_sentence(text: str, told: str) -> None:
    assert describe_mistake(HydraException(text)) == told


def test_what_hydra_cannot_read_is_told_with_how_to_quote_it() -> None:
    assert describe_mistake(OverrideParseException("n=[", "no viable\n  alternative")) == (
        "the command line cannot be read: no viable alternative; quote values with special characters: 'key=\"a=b\"'."
    )


def unknown_key(node: object, key: str) -> ConfigKeyError:
    error = ConfigKeyError(f"Key 'x' is not in struct\n    full_key: {key}\n    object_type=dict")
    error.parent_node = node  # type: ignore[assignment]
    return error


def test_an_unknown_key_is_told_with_those_of_its_node() -> None:
    node = OmegaConf.create({"_target_": "a.B", "hydra": {}, "epochs": 1, "dir": None})
    assert describe_mistake(unknown_key(node, "run.epoch")) == (
        "run.epoch is not an option; did you mean epochs? Otherwise choose one of: dir, epochs."
    )
    assert describe_mistake(unknown_key(OmegaConf.create({"_target_": "a.B"}), "run.epoch")) == (
        "run.epoch is not an option; run as it is chosen now has none; leave it out, or choose another."
    )
    for nothing in (OmegaConf.create({}), OmegaConf.create([1]), None):
        assert describe_mistake(unknown_key(nothing, "run.epoch")) == (
            "run.epoch is not an option; see --help, or the files in conf/, for those there are."
        )


class PlayedHydra:
    """The configuration that Hydra has of the job that is running."""

    mode: Any = RunMode.RUN

    def __init__(self, monkeypatch: pytest.MonkeyPatch, task: Sequence[str] = ()) -> None:
        self.overrides = SimpleNamespace(task=list(task))
        self.sweep, self.job = SimpleNamespace(dir="sweeps/one"), SimpleNamespace(num="3")
        self.runtime = SimpleNamespace(choices={"model": "small", "hydra/launcher": "basic"})
        played = SimpleNamespace(initialized=lambda: True, get=lambda: self)
        monkeypatch.setattr(hydra_compat, "HydraConfig", played)


def test_a_job_of_a_multirun_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    played = PlayedHydra(monkeypatch)
    assert get_multirun_job() is None
    played.mode = RunMode.MULTIRUN
    assert get_multirun_job() == MultirunJob(tmp_path / "sweeps" / "one", 3)


@pytest.mark.parametrize(
    ("task", "found"),
    [
        (["a=1", "ids=[1e10, '007',,\"x\"]"], ["1e10", "007", "x"]),
        (["ids = [a]", "ids=[b]"], ["b"]),
        (["+ids=[a]", "n=[c]"], ["a"]),
        (["ids=[a]", "ids=[b]"], ["b"]),
        (["ids= a "], ["a"]),
        (["ids=[]"], []),
        (["~ids"], None),
        ([], None),
    ],
)
def test_a_typed_list_is_the_last_one_of_its_name(
    task: list[str], found: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    PlayedHydra(monkeypatch, task)
    assert get_typed_list("ids") == found
    assert get_task_overrides() == task


def test_at_the_top_the_groups_are_options_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    PlayedHydra(monkeypatch)
    node = OmegaConf.create({"limit": 1})
    assert describe_mistake(unknown_key(node, "zzz")) == "zzz is not an option; choose one of: limit, model."
    assert describe_mistake(unknown_key(node, "run.zzz")) == "run.zzz is not an option; choose one of: limit."


@pytest.fixture
def commands(conf: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Hydra is asked for, with the command line at that time; it runs the job once."""
    asked: list[dict[str, Any]] = []

    def main(**options: Any) -> Callable[[Callable[[DictConfig], None]], Callable[[], None]]:
        def decorate(job: Callable[[DictConfig], None]) -> Callable[[], None]:
            asked.append({**options, "argv": sys.argv[1:], "full": os.environ["HYDRA_FULL_ERROR"]})
            return lambda: job(OmegaConf.create({"log": {"terminal": False}}))

        return decorate

    monkeypatch.setattr(hydra_compat.hydra, "main", main)
    monkeypatch.setattr(hydra_compat, "load_dotenv", lambda path: asked.append({"dotenv": path}))
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    return asked


def test_jobs_get_the_edited_and_quoted_command_line(
    conf: Path, commands: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["eval/run.py", "n=ü", "--multirun"])
    shown: list[bool] = []
    run_jobs(lambda composed: shown.append(composed.log.terminal), "eval", lambda given: [*given, "model=small"])
    assert commands == [
        {"dotenv": PROJECT_ROOT / ".env"},
        {
            "config_path": str(conf), "config_name": "eval", "version_base": "1.3", "full": "1",
            "argv": ['n="ü"', "--multirun", "model=small"],
        },
    ]  # fmt: skip
    assert shown == [False] and sys.argv[0] == "eval/run.py"


def test_verbose_shows_the_log_and_is_no_flag_of_hydra(
    commands: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["eval/run.py", "--verbose", "n=1", "--verbose"])
    shown: list[bool] = []
    run_jobs(lambda composed: shown.append(composed.log.terminal), "eval")
    assert (commands[-1]["argv"], shown) == (["n=1"], [True])


@pytest.mark.parametrize(
    ("flags", "is_checked"),
    [([], True), (["--config-name", "other"], False), (["--config-path", "x"], False), (["-sc"], False)],
)
def test_options_are_checked_where_the_files_are_those_of_the_command(
    flags: list[str], is_checked: bool, commands: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["eval/run.py", "zzz=1", *flags])
    if is_checked:
        told = refusal_of(lambda: run_jobs(lambda composed: None, "eval"))
        assert told == "zzz is not an option; choose one of: model, n."
        return
    run_jobs(lambda composed: None, "eval")
    assert len(commands) == 2


def test_help_has_texts_of_the_files_with_dollars_that_stay(conf: Path) -> None:
    text = (conf / "eval.yaml").read_text().replace("how many", "$5 or ${x}").replace("the language model", "$ or €")
    (conf / "eval.yaml").write_text(text)
    register_help()
    made = OmegaConf.create({"choices": "${help_choices:eval}", "options": "${help_options:eval}"})
    assert (made.choices, made.options) == ("model  $$ or €\n       large, small*", "n: 1  # $$5 or $${x}")


@pytest.mark.parametrize(("name", "is_similar"), [("mode", True), ("modxx", False), ("models", True)])
def test_only_a_similar_name_is_suggested(name: str, is_similar: bool) -> None:
    listed = "choose one of: data, model"
    assert suggest(name, ["model", "data", "data"]) == (
        f"did you mean model? Otherwise {listed}" if is_similar else listed
    )


def raise_in(modules: Sequence[str], error: Exception) -> Exception:
    """The error as a function of the last module has raised it, called by those of the modules before."""

    def fail() -> None:
        raise error

    call: Callable[[], None] = fail
    for name in reversed(modules):
        module: dict[str, Any] = {"__name__": name, "call": call, "error": error}
        body = "raise error" if call is fail else "call()"
        exec(f"def run():\n    {body}", module)
        call = module["run"]
    with pytest.raises(type(error)) as raised:
        call()
    return raised.value


@pytest.mark.parametrize(
    ("modules", "error", "expected"),
    [
        (["mine", "hydra.core.parser"], ValueError("x"), True),
        (["hydra.core.parser"], TypeError("x"), False),
        (["hydra.core.parser", "mine"], ValueError("x"), False),
        (["hydraulic.parser"], ValueError("x"), False),
        (["mine"], HydraException("x"), True),
        (["mine"], ConfigKeyError("x"), True),
    ],
)
def test_a_value_error_is_a_mistake_of_the_user_where_hydra_itself_raised_it(
    modules: list[str], error: Exception, expected: bool
) -> None:
    assert is_mistake(raise_in(modules, error)) is expected
