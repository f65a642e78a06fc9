"""What is refused before Hydra reads it, for either command; the sentences as users see them: `test_mistakes.py`."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from eval.cli.hydra_compat import check_overrides, prepare_arguments, read_flags
from mas.runtime.errors import UserError


@pytest.mark.parametrize(
    ("override", "command"),
    [
        ("optimizer=gepa", "optimize"),
        ("debug=one", "eval"),
        ("~experiment", "eval"),
        ("~run.name", "eval"),
        ("model = offline", "eval"),
        ("model@scorer.judge=offline", "eval"),
        ("+model@scorer.judge=offline", "eval"),
        ("prices@model.prices=openai", "eval"),
        ("+tools.mine=1", "eval"),
        ("run.name=null", "eval"),
        ("'run.name=\"a=b\"'", "eval"),
        ("hydra.job.num=1", "eval"),
    ],
)
def test_what_hydra_can_judge_is_left_to_it(override: str, command: str) -> None:
    check_overrides([override], command)


@pytest.mark.parametrize(
    ("override", "command", "words"),
    [
        ("optimizer=gepa", "eval", "data, debug, executor, experiment, model, scorer, system, tools, tracking."),
        ("modle=gpt-4o", "eval", "modle is not an option; did you mean model? Otherwise choose one of: cache, data, "),
        ("+nope.x=1", "eval", "nope is not an option; choose one of: cache, data, "),
        ("debug=one", "optimize", "data, executor, experiment, model, optimizer, scorer, system, tools, tracking."),
        ("model = null", "eval", "model = null is not possible: model is a config group; choose one of: gpt-4o, "),
        ("model@scorer.judge=null", "eval", "model is a config group; choose one of: gpt-4o, "),
        ("~tracking", "eval", "cannot be taken away; choose one of: local, off, server; or leave it out."),
        (
            "++model=offline",
            "eval",
            "++model=offline is not possible: model has a choice already; write model=offline.",
        ),
        ("model", "eval", "'model' is not an option; options are given as name=value, and texts in quotes."),
        ("", "eval", "'' is not an option"),
        ("=", "eval", "'=' is not an option"),
        ("~", "eval", "'~' is not an option"),
    ],
)
def test_what_hydra_would_not_explain_is_one_sentence(override: str, command: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        check_overrides(["seed=1", override], command)
    assert words in str(refused.value)


def test_options_and_flags_are_told_apart_and_flags_that_show_go_alone() -> None:
    assert read_flags(["limit=1", "seed=2", "--cfg", "job", "--resolve"]).overrides == ["limit=1", "seed=2"]
    with pytest.raises(UserError, match="--run and --multirun and --shell-completion cannot be given together"):
        read_flags(["-m", "-r", "-sc", "limit=1"])


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("run.name=\u00fcn\u00ef c\u00f6d\u00e9", 'run.name="\u00fcn\u00ef c\u00f6d\u00e9"'),
        ("run.dir=/tmp/\u00f6h", 'run.dir="/tmp/\u00f6h"'),
        ("run.name=plain name", "run.name=plain name"),
        ("ids=[\u00e4,b]", "ids=[\u00e4,b]"),
        ("run.name='\u00e4'", "run.name='\u00e4'"),
        ("--multirun", "--multirun"),
    ],
)
def test_values_with_letters_outside_ascii_are_quoted_for_hydra(typed: str, read: str) -> None:
    assert prepare_arguments([typed]) == [read]
    if "[" not in typed and typed[0] != "-":
        value = typed.partition("=")[2]
        (parsed,) = OverridesParser.create().parse_overrides([read])
        assert str(parsed.value()) == value.strip("'")


def test_a_list_of_scorers_is_a_choice_for_each() -> None:
    chosen = ["+scorer@extra_scorers.graded=graded", "+scorer@extra_scorers.contains=contains"]
    assert prepare_arguments(["limit=1", "extra_scorers=[graded, contains]"]) == ["limit=1", *chosen]
    assert prepare_arguments(['extra_scorers=["graded","contains"]']) == chosen, "as Python lists are written"
    assert prepare_arguments(["extra_scorers=[]"]) == []
    again = [*chosen, "run.resume=latest", "extra_scorers=[contains]"]
    assert prepare_arguments(again) == again[:3], "typed again for a run that is resumed"
    for wrong in ("graded", "[graded", "null", "[a,a]", "[{a:1}]"):
        with pytest.raises(UserError, match=r"^extra_scorers=.*; "):
            prepare_arguments([f"extra_scorers={wrong}"])
