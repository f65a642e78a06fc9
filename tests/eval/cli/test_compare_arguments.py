"""Options of a comparison, and those that contradict each other."""

from pathlib import Path

import pytest

from eval.cli.compare_arguments import read_arguments
from mas.runtime.errors import UserError


def test_runs_and_options_may_come_in_any_order() -> None:
    given = read_arguments(["a", "--html", "page.html", "b", "--intersection", "c", "--settings"])
    assert (given.runs, given.html, given.intersection, given.settings) == (
        ["a", "b", "c"],
        Path("page.html"),
        True,
        True,
    )
    assert (given.gate, given.json, given.metrics, given.margin, given.alpha) == (False, None, None, None, None)


def test_a_gate_has_its_options() -> None:
    options = ["--gate", "--metrics", "score,cost", "--margin", "0.02", "--margin", "cost=0.1", "--alpha", "0.01"]
    given = read_arguments(["a", "b", *options, "--json", "a.json", "--markdown", "a.md", "--junit", "a.xml"])
    assert (given.metrics, given.margin, given.alpha) == ("score,cost", ["0.02", "cost=0.1"], 0.01)
    assert (given.json, given.markdown, given.junit) == (Path("a.json"), Path("a.md"), Path("a.xml"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", "b", "--metrics", "score"], "--metrics belongs to --gate; add --gate, or leave --metrics out."),
        (["a", "b", "--margin", "0"], "--margin belongs to --gate"),
        (["a", "b", "--alpha", "0"], "--alpha belongs to --gate"),
        (["a", "b", "--markdown", "x"], "--markdown belongs to --gate"),
        (["a", "b", "--junit", "x"], "--junit belongs to --gate"),
        (["a", "b", "--gate", "--intersection"], "--gate decides on all questions; leave --intersection out"),
        (["a", "b", "c", "--gate"], "--gate compares a new run with its baseline, and 3 are named; name two runs."),
        (["a", "--gate"], "--gate compares a new run with its baseline, and 1 are named"),
        (["a", "b", "--html", "x", "--json", "./x"], "x is to hold two outputs; give each a file of its own."),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        read_arguments(arguments)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("arguments", [[], ["a", "--gat"], ["a", "--alpha", "much"], ["a", "--nothing"]])
def test_what_cannot_be_read_is_the_user_s_mistake(arguments: list[str]) -> None:
    with pytest.raises(UserError):
        read_arguments(arguments)


def test_an_option_is_written_in_full() -> None:
    for shortened in ("--inter", "--set", "--g"):
        with pytest.raises(UserError, match=shortened):
            read_arguments(["a", "b", shortened])


def refusal_of(*arguments: str) -> str:
    with pytest.raises(UserError) as refused:
        read_arguments(list(arguments))
    return str(refused.value)


OUTPUTS = ("html", "json", "markdown", "junit")


@pytest.mark.parametrize("one", OUTPUTS)
@pytest.mark.parametrize("other", OUTPUTS)
def test_no_two_outputs_have_one_file(one: str, other: str) -> None:
    first = ["a", "b", "--gate", f"--{one}", "x/one"]
    if one == other:
        assert getattr(read_arguments(first), one) == Path("x/one")
        return
    assert refusal_of(*first, f"--{other}", str(Path("x/one").absolute())) == (
        "one is to hold two outputs; give each a file of its own."
    )
    given = read_arguments([*first, f"--{other}", "one"])
    assert (getattr(given, one), getattr(given, other)) == (Path("x/one"), Path("one"))


def test_the_first_contradiction_is_told_whole() -> None:
    assert refusal_of("a", "--junit", "x", "--margin", "0", "--html", "x") == (
        "--margin belongs to --gate; add --gate, or leave --margin out."
    )
    assert refusal_of("a", "--gate", "--intersection", "--html", "x", "--json", "x") == (
        "--gate decides on all questions; leave --intersection out, and compare runs of the same ones."
    )
    assert refusal_of("a", "b", "c", "d", "--gate", "--html", "x", "--json", "x") == (
        "--gate compares a new run with its baseline, and 4 are named; name two runs."
    )
    assert refusal_of("a", "--alpha", "0") == "--alpha belongs to --gate; add --gate, or leave --alpha out."
    assert read_arguments(["a", "b", "--gate", "--alpha", "0"]).alpha == 0.0
    assert refusal_of() == (
        "the following arguments are required: RUN; usage: python eval/compare.py RUN_A RUN_B [RUN_C ...] "
        "[--intersection] [--settings] [--html FILE] [--json FILE] [--gate [--metrics NAMES] [--margin SHARE] [--alpha "
        "SHARE] [--markdown FILE] [--junit FILE]]"
    )
