"""Hydra's command line as this tool takes it: flags, overrides, choices, help, and its errors in one sentence."""

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from eval.cli.hydra_compat import MISTAKES, compose_config, prepare_arguments
from eval.cli.mistakes import describe_mistake, is_mistake
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
    "a question without quotes": (["How many?"], "'How many?' cannot be read; options are given as name=value"),
    "a wrong name": (["modle=offline"], "modle is not an option; did you mean model? Otherwise choose one of: "),
    "a name like no other": (["qqqq=1"], "qqqq is not an option; choose one of: "),
    "a wrong choice": (["model=ofline"], "model=ofline is not known; did you mean offline? Otherwise choose one of: "),
    "a group set to a number": (["model=1"], "a config group was given null, a number, true or false; name a choice"),
    "an unknown option of a group": (["run.epoch=3"], "run.epoch is not an option; did you mean epochs? Otherwise "),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_is_one_sentence_that_says_what_to_do(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides, expected = REFUSED[mistake]
    for cause in ("0", "1"):  # 1, as under a debugger: errors name causes
        monkeypatch.setenv("OC_CAUSE", cause)
        told = message(overrides)
        assert told.startswith(expected), told


@pytest.mark.parametrize("cause", ["0", "1"], ids=["", "under a debugger"])  # there such an error causes itself
def test_a_number_is_asked_for_in_words(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OC_CAUSE", cause)
    for value, key, expected in (
        ("many", "run.epochs", "a whole number"),
        ("maybe", "run.retry_errors", "true or false"),
    ):
        with pytest.raises(MISTAKES) as caught:
            read_config(compose_config([f"{key}={value}"]))
        assert (
            describe_mistake(caught.value)
            == f"{key} has the wrong kind of value: {value!r} was given, and {expected} is expected."
        )


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("extra_scorers=[contains,numeric]", [f"{SCORER}contains=contains", f"{SCORER}numeric=numeric"]),
        ("extra_scorers=[ 'contains' , \"numeric\" ]", [f"{SCORER}contains=contains", f"{SCORER}numeric=numeric"]),
        ("extra_scorers=[]", []),
        ("extra_scorers=contains", "is not a list of scorers"),
        ("extra_scorers=", "is not a list of scorers"),
        ("extra_scorers=[a,b,a]", "for a second one of a kind +scorer@extra_scorers.NAME="),
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


@pytest.mark.parametrize("text", ["2024_01", "4_1", "12e45678", "007", "1.10", "3.0", "ünï cödé"])
def test_a_name_that_looks_like_a_number_stays_a_text(text: str) -> None:
    assert compose_config([f"run.name={text}"]).run.name == text
    assert compose_config([f"split={text}"]).split == text
    assert compose_config([f"ids={text}"]).ids == [text]
    assert compose_config([f"ids=[q1,{text}]"]).ids == ["q1", text]


def test_a_number_stays_a_number_but_in_ids() -> None:
    assert compose_config(["ids=[1.10,5]"]).ids == ["1.10", "5"]
    assert compose_config(["run.max_cost_usd=1.50"]).run.max_cost_usd == 1.5


def test_an_application_that_uses_hydra_goes_on_with_its_own_configuration(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("a: 1\n", "utf-8")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        compose_config(["model=offline"])
        assert compose("own", ["a=2"]).a == 2
