"""What is refused before anything of a replayed proof is spent."""

from pathlib import Path

import pytest

from eval.analysis.attribution.broken_link import BrokenLink
from eval.workflows.replayed_proof.plan import _check_place, _list_blamed, read_request
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered, stored_run


def refusal(original: Path, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        read_request(original, [], 3, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    "override",
    [
        "model.name=x",
        "system=toy",
        "run.resume=x",
        "run.retry_errors=true",
        "run.allow_config_change=true",
        "run.deadline_seconds=9",
        "run.epochs_of=2",
        "logs.terminal=true",
    ],
)
def test_an_option_that_would_make_another_program_of_it_is_refused(override: str, tmp_path: Path) -> None:
    name = override.partition("=")[0]
    assert refusal(tmp_path, "run.epochs=2", override) == (
        f"{name} cannot be changed here: the same program is asked again; give run.epochs=…, "
        "run.max_cost_usd=…, run.concurrency=… or run.name=…."
    )


@pytest.mark.parametrize("name", ["executor", "executor.workers"])
def test_an_agent_is_corrected_in_this_process_alone(name: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, f"{name}=workers") == (
        f"{name} is not supported here: an agent is corrected in this process alone; leave it out."
    )


@pytest.mark.parametrize(
    "override",
    ["run.epochs=2", "run.dir=x", "run.name=x", "run.trust=true", "run.concurrency=2", "run.max_cost_usd=1",
     "log.terminal=true", "tracking=none", "model.rate.requests_per_minute=5"],
)  # fmt: skip
def test_an_option_that_leaves_the_program_as_it_is_may_be_given(override: str, tmp_path: Path) -> None:
    assert "cannot be changed here" not in refusal(tmp_path / "none", override)


def test_the_arms_lie_in_an_empty_folder_outside_of_runs(tmp_path: Path) -> None:
    run = stored_run(tmp_path / "run", [answered("q1", "1")])
    with pytest.raises(UserError) as caught:
        _check_place(run / "within" / "it")
    assert str(caught.value) == (
        f"run.dir={run / 'within' / 'it'} is within the run {run}; name a folder outside of runs."
    )
    _check_place(tmp_path / "new" / "folder")
    (tmp_path / "used").mkdir()
    _check_place(tmp_path / "used")
    (tmp_path / "used" / "file").touch()
    with pytest.raises(UserError):
        _check_place(tmp_path / "used")


def test_agents_are_tested_from_the_one_that_most_wrong_answers_are_blamed_on() -> None:
    def link(kind: str, name: str) -> BrokenLink:
        return BrokenLink(kind, name, "because")  # type: ignore[arg-type]

    links = [
        link("agent", "planner"),
        *[link("format", "finalizer")] * 2,
        *[link("tool", "calculator")] * 4,
        *[link("agent", "expert")] * 3,
    ]
    assert _list_blamed({f"q{number}": each for number, each in enumerate(links)}) == ["expert", "finalizer", "planner"]
    assert _list_blamed({}) == []
