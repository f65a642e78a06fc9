"""Of a command line from elsewhere only choices and plain values are ever used."""

from pathlib import Path

import pytest

from eval.runs.foreign_run import check_command, is_harmless, is_trusted
from mas.runtime.errors import UserError

HARMLESS = (
    *("run.epochs=3", "model=offline", "+experiment=offline", "limit=3", "ids=[a,b]", "~model.prices", "tracking=off"),
    *("system.agents.planner.model=gpt-4o", "system.agents.expert.tools=[calculator]", "system.max_research_steps=2"),
    *("data.path=/data", "prompts=/tmp/x", "scorer.tolerance=0.5", "limits.tokens=5", "splits.seed=1", "seed=3"),
)
NEVER = (
    *("system.target=os:system", "scorer.target=os.system", "system.tools.calculator=os.system", "system._target_=x"),
    *("model.base_url=x", "scorer.judge.base_url=x", "model.api_key_env=HF_TOKEN", "system.headers_env=HF_TOKEN"),
    *("tracking.uri=x", "tracking.folder=/x", "tracking.password_env=HF_TOKEN", "system.url=x", "_target_=os.system"),
    *("hydra.searchpath=[/x]", "hydra/launcher=x", "+hydra=x", "model@hydra.x=y", "--config-dir=/x", "-cd=/x", "-m"),
    *(
        "model=../../x",
        "model=/x",
        "system={_target_: os.system}",
        "data.path=${oc.env:HF_TOKEN}",
        "data.repo=http://x",
    ),
    *("tools.sandbox.kind=unsafe_local", "tools.web.allow_private_hosts=[x]", "limit", "", "++model.prices={a: 1}"),
    *("data.path=a\nb", "system.agents.planner.base_url=x", "model.agents.planner._target_=x"),
)


@pytest.mark.parametrize("override", HARMLESS)
def test_choices_and_plain_values_may_be_taken_over(override: str) -> None:
    assert is_harmless(override)


@pytest.mark.parametrize("override", NEVER)
def test_what_imports_connects_or_resolves_is_never_taken_over(override: str) -> None:
    assert not is_harmless(override)


@pytest.mark.parametrize(
    ("given", "trusted"),
    [
        ([], False),
        (["run.trust=true"], True),
        (["+run.trust=True"], True),
        (["run.trust=false"], False),
        (["run.trust=true", "run.trust=false"], False),
        (["run.trust=false", "run.trust=true"], True),
        (["run.trust="], False),
        (["run.trust"], False),
    ],
)
def test_trust_is_what_the_user_types_now(given: list[str], trusted: bool) -> None:
    assert is_trusted(given) is trusted


def test_what_is_typed_now_takes_the_place_of_what_is_never_taken_over(capsys: pytest.CaptureFixture[str]) -> None:
    stored = ["limit=3", "system.target=evil:f", "run.trust=true"]
    for given in ([], ["system.target=mine:f"]):
        with pytest.raises(UserError, match=r"nothing was run; .*add run\.trust=true"):
            check_command(stored, given, "python eval/run.py", Path("theirs"))
        assert "python eval/run.py limit=3 system.target=evil:f" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"never taken over: system\.target=evil:f"):
        check_command(stored, ["run.trust=true"], "python eval/run.py", Path("theirs"))
    check_command(stored, ["run.trust=true", "system.target=mine:f"], "python eval/run.py", Path("theirs"))
    check_command(["limit=3"], ["run.trust=true"], "python eval/run.py", Path("theirs"))
    assert capsys.readouterr().err == ""


def test_a_long_command_line_is_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    stored = [f"data.x{number}={'y' * 1_000_000 if number == 1 else 'z'}" for number in range(150)]
    with pytest.raises(UserError):
        check_command(stored, [], "python eval/run.py", Path("theirs"))
    shown = capsys.readouterr().err
    assert len(shown) < 5_000
    assert shown.endswith("data.x99=z … and 50 more\n")


def test_a_command_line_of_a_hundred_options_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError):
        check_command([f"data.x{number}=z" for number in range(100)], [], "python eval/run.py", Path("theirs"))
    assert capsys.readouterr().err.endswith("data.x99=z\n")
