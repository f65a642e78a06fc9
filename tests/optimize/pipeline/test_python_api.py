"""Tuning from Python: what the command is told, and what comes back of the run."""

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from eval.cli.command import InterruptedRunError
from eval.execution.console import KeptOutput
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from optimize.pipeline import python_api, terminal, tuning
from optimize.pipeline.python_api import Tuned, tune
from optimize.session.config import TuningRequest
from optimize.session.run_files import RunFiles
from tests.optimize.mlflow_export.tuning_folder import a_tuning, verdict

ROWS = [{"question": f"{n} + 1?", "target": str(n + 1)} for n in range(30)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[TuningRequest]:
    """The requests that the command was given; it does nothing but say so and write a verdict."""
    seen = list[TuningRequest]()

    def run(request: TuningRequest, output: KeptOutput) -> tuple[Path, int]:
        seen.append(request)
        output.lines.append("told")
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "verdict.json").write_text('{"published": true, "gain": 0.25}')
        return tmp_path / "run", 0

    monkeypatch.setattr(tuning, "run_tuning", run)
    return seen


def test_the_command_is_told_what_was_given_and_its_verdict_comes_back(
    asked: list[TuningRequest], tmp_path: Path
) -> None:
    tuned = tune("toy", ROWS, model="offline", options=["seed=9"], progress=False)
    assert tuned == Tuned(tmp_path / "run", "tuned", {"published": True, "gain": 0.25}, ("told",))
    [request] = asked
    config = request.config
    assert (config.name, config.seed, config.resume, config.base.simulated) == ("tuned", 9, None, True)
    assert (config.base.system.name, request.resolved["seed"], request.prompts.system) == ("toy", 9, "toy")
    assert {"system=toy", "model=offline", "tracking=off", "seed=9", 'name="tuned"'} <= set(request.command)
    assert not any(each.startswith("run.name=") for each in request.command)


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """In place of the files under conf/, which take long to be read: a configuration of a few options alone."""
    seen = list[Any]()

    def compose(command: list[str], name: str) -> Any:
        seen.append((command, name))
        given = dict(each.split("=", 1) for each in command if "." not in each)
        return OmegaConf.create({"name": given["name"].strip('"'), "resume": given.get("resume")})

    def read(config: Any) -> Any:
        return SimpleNamespace(**config, check=lambda: PromptSet("first", "toy", {"plan": "You plan."}, Path("first")))

    def describe(stack: ExitStack, *given: Any) -> list[str]:
        assert given[:4] == ("toy", ROWS, "exact", "offline")
        return ["system=toy", "run.name=of_an_evaluation", "tracking=off", *given[4]]

    monkeypatch.setattr(python_api, "list_overrides", describe)
    monkeypatch.setattr(python_api, "compose_config", compose)
    monkeypatch.setattr(python_api, "read_config", read)
    return seen


@pytest.mark.parametrize(
    ("options", "last", "expected"),
    [
        ([], ['name="mine"'], "mine"),
        (["name=theirs"], ["name=theirs"], "theirs"),
        (["run.name=x", "other.name=y"], ["other.name=y", 'name="mine"'], "mine"),
    ],
)
def test_the_name_is_that_of_the_options_or_else_the_given_one(
    asked: list[TuningRequest], composed: list[Any], options: list[str], last: list[str], expected: str
) -> None:
    assert tune("toy", ROWS, model="offline", name="mine", options=options, progress=False).name == expected
    [request], [(command, entry)] = asked, composed
    assert request.command == command and entry == "optimize"
    assert command[command.index("tracking=off") + 1 :] == last
    assert request.resolved == {"name": expected, "resume": None}


@pytest.mark.parametrize("progress", [True, False])
def test_progress_is_shown_or_only_kept(
    composed: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, progress: bool
) -> None:
    seen = list[bool]()
    (tmp_path / "verdict.json").write_text('{"published": false}')
    monkeypatch.setattr(python_api, "KeptOutput", lambda shown: seen.append(shown) or SimpleNamespace(lines=["a"]))
    monkeypatch.setattr(tuning, "run_tuning", lambda request, output: (tmp_path, 0))
    assert tune("toy", ROWS, model="offline", progress=progress).notes == ("a",)
    tune("toy", ROWS, model="offline")
    assert seen == [progress, True]


def test_a_run_is_not_resumed_from_python(asked: list[TuningRequest], composed: list[Any]) -> None:
    with pytest.raises(UserError) as refused:
        tune("toy", ROWS, model="offline", options=["resume=latest"], progress=False)
    assert str(refused.value) == "resume is not for Python: give it to optimize/run.py on the command line."
    assert asked == []


def test_an_interrupted_run_says_what_was_said(composed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(request: TuningRequest, output: KeptOutput) -> tuple[Path, int]:
        output.lines += ["stopped by Ctrl-C;", "resume it"]
        raise InterruptedRunError

    monkeypatch.setattr(tuning, "run_tuning", run)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        tune("toy", ROWS, model="offline", progress=False)
    assert str(interrupted.value) == "stopped by Ctrl-C; resume it"


@pytest.mark.parametrize(
    ("found", "published", "gain"),
    [
        (None, False, None),
        ({"published": True, "gain": 0.125}, True, 0.125),
        ({"published": False, "gain": None}, False, None),
    ],
)
def test_without_a_verdict_nothing_is_published_and_no_gain_is_known(
    found: dict[str, Any] | None, published: bool, gain: float | None
) -> None:
    tuned = Tuned(Path("run"), "mine", found)
    assert (tuned.is_published, tuned.gain, tuned.notes) == (published, gain, ())
    assert repr(tuned) == f"Tuned(folder={Path('run')!r}, name='mine')"


def test_a_notebook_shows_the_verdict_if_there_is_one_and_the_notes_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []

    def show(files: RunFiles, console: Any) -> None:
        shown.append(files.folder)
        console.print("the verdict")

    monkeypatch.setattr(terminal, "show_verdict", show)
    folder = a_tuning(tmp_path / "run", verdict=verdict())
    notes = ("[bold]not markup", "x" * 300)
    page = Tuned(folder, "mine", verdict(), notes)._repr_html_()
    assert page.index("the verdict") < page.index("[bold]not markup") < page.index("x" * 300)
    assert shown == [folder]
    page = Tuned(folder, "mine", None, notes)._repr_html_()
    assert "the verdict" not in page and "[bold]not markup" in page and shown == [folder]
