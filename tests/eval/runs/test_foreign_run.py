"""Of a command line from elsewhere only choices and plain values are ever used."""

from pathlib import Path

import pytest

from eval.runs.foreign_run import check_command, is_harmless, is_run_signed, is_trusted, refuse_unreadable
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
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


def test_what_would_be_run_is_shown_before_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = ["limit=3", "system.target=evil:f x", "scorer.target=evil:g"]
    again = "type these again if you mean them, for they are never taken over: "
    with pytest.raises(UserError) as refused:
        check_command(stored, ["scorer.target=mine:g"], "python eval/run.py", tmp_path / "theirs")
    assert str(refused.value) == (
        f"nothing was run; if you mean this command, add run.trust=true, and {again}'system.target=evil:f x'. To look "
        "at the run, no trust is needed."
    )
    assert capsys.readouterr().err == (
        "theirs was made elsewhere, or changed since. Resuming it would run:\n"
        "    python eval/run.py limit=3 'system.target=evil:f x' scorer.target=evil:g\n"
    )
    with pytest.raises(UserError) as refused:
        check_command(stored, ["run.trust=true"], "python eval/run.py", tmp_path / "theirs")
    assert str(refused.value) == (
        f"theirs was made elsewhere, or changed since; {again}'system.target=evil:f x' scorer.target=evil:g."
    )
    assert capsys.readouterr().err == ""
    with pytest.raises(UserError) as refused:
        check_command(stored[:1], [], "python eval/run.py", tmp_path / "theirs")
    assert str(refused.value) == (
        "nothing was run; if you mean this command, add run.trust=true. To look at the run, no trust is needed."
    )


@pytest.mark.parametrize(
    ("override", "harmless"),
    [
        *(("data=toy-2", True), ("data= toy ", True), ("data=a/b", False), ("data=", False), ("limit=", True)),
        *(
            ("~model", False),
            ("~limit", True),
            ("~", False),
            ("=3", False),
            (" limit =3", True),
            ("limit=a\x7f", False),
        ),
        *(("run.epochs=a\x00", False), ("run.epochs", False), ("Run.epochs=3", False), ("run..x=3", False)),
    ],
)
def test_an_option_is_a_name_and_a_plain_value(override: str, harmless: bool) -> None:
    assert is_harmless(override) is harmless


def test_only_a_run_of_this_installation_is_signed(tmp_path: Path) -> None:
    assert not is_run_signed(tmp_path)
    with RunStore(tmp_path / "run.db") as store:
        store.write_info(RunInfo(run_id="r"), signed=False)
    assert not is_run_signed(tmp_path)
    with RunStore(tmp_path / "run.db") as store:
        store.write_info(RunInfo(run_id="r"))
    assert is_run_signed(tmp_path)


@pytest.mark.parametrize(
    "error", [ValueError("x" * 300), TypeError("no"), KeyError("k"), AttributeError(), ZeroDivisionError("0")]
)
def test_what_cannot_be_read_of_a_run_from_elsewhere_is_one_sentence(error: Exception, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with pytest.raises(UserError) as refused, refuse_unreadable(ours, theirs, is_signed=lambda folder: folder == ours):
        raise error
    reason = f"{type(error).__name__}: {error}"[:200]
    assert str(refused.value) == f"{theirs} was made elsewhere, or changed since, and cannot be read ({reason})."
    assert refused.value.__cause__ is error


def test_in_a_run_of_ours_an_error_is_a_defect_and_a_mistake_of_the_user_stays_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a defect"), refuse_unreadable(tmp_path, is_signed=lambda folder: True):
        raise ValueError("a defect")
    with pytest.raises(ValueError, match="a defect"), refuse_unreadable():
        raise ValueError("a defect")
    with pytest.raises(UserError, match=f"^{tmp_path} was made elsewhere"), refuse_unreadable(tmp_path):
        raise ValueError("x")
    for error in (UserError("mine"), OSError("disk")):
        with pytest.raises(type(error), match=r"mine|disk"), refuse_unreadable(tmp_path):
            raise error
    with refuse_unreadable(tmp_path):
        pass
