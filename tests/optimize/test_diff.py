"""Two prompt sets side by side: what changed is shown, what did not is named, and nothing of it is taken for markup."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from eval.cli.command import USER_ERROR, run_cli
from eval.execution.console import Console
from mas.prompt_sets.prompt_set import PromptSet
from optimize.diff import task
from optimize.publishing.prompt_diff import show_difference
from optimize.session.tuning_store import find_set
from tests.optimize.mlflow_export.tuning_folder import PROPOSALS, a_tuning

A = PromptSet(
    "before",
    "toy",
    {
        "plan": "Plan the work.\nKeep it short.\n\nOne.\nTwo.\nThree.\nFour.\nFive.\nSix.",
        "solve": "Solve.",
        "end": "End.",
    },
    Path("/somewhere/secret/before"),
    demos={"solve": [{"task": "1 + 1", "result": "2"}, {"task": "2 + 2", "result": "4"}]},
)
B = replace(
    A,
    name="after",
    folder=Path("/somewhere/secret/after"),
    texts={**A.texts, "plan": A.texts["plan"].replace("Keep it short.", "Keep it very short & <b>clear</b>.")},
    demos={"solve": [{"task": "2 + 2", "result": "4"}, {"task": "3 + 3", "result": "[red]6[/red]"}]},
    edited=("plan_system_prompt.txt",),
    provenance={
        "parent": {"name": "before"}, "gated": False, "simulated": True, "optimizer": "gepa",
        "scores": {"gain": 0.08, "gain_ci95": [0.02, 0.14], "p": 0.01},
    },
)  # fmt: skip


def shown(a: PromptSet, b: PromptSet) -> str:
    console = Console(file=io.StringIO(), width=400, highlight=False, soft_wrap=True)
    show_difference(a, b, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_names_what_is_unchanged_and_where_the_set_comes_from() -> None:
    said = shown(A, B)
    assert "unchanged: end" in said
    assert "gain +8.0 points on sealed questions (95% interval +2.0 to +14.0), UNGATED, SIMULATED model" in said
    assert "edited after it was published: plan_system_prompt.txt" in said
    assert "- Keep it short.\n+ Keep it very short & <b>clear</b>.\n" in said and "result: [red]6[/red]" in said
    assert "-   task: 1 + 1" in said and "+   task: 3 + 3" in said and "-   task: 2 + 2" not in said
    assert "somewhere" not in said and "End." not in said
    assert "the two sets say the same to every agent" in shown(A, A)


def test_nothing_in_a_prompt_moves_the_cursor_or_turns_the_text() -> None:
    nasty = replace(A, name="x\x1b[2J", texts={**A.texts, "solve": "\x1b]0;own\x07 \u202eabc"})
    assert not re.search("[\x07\x1b\u202e]", shown(A, nasty))


def test_sets_are_found_by_name_path_and_candidate(tmp_path: Path) -> None:
    assert find_set("toy_baseline").system == "toy"
    run = a_tuning(tmp_path / "run", PROPOSALS)
    assert find_set(f"{run}:c002").texts["finalizer"].startswith("You answer, as c002 of ")
    assert find_set(f"{run}:parent").texts["finalizer"] == "You answer."
    assert find_set(str(run / "prompts")).name == "prompts"


def test_a_mistake_is_told_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    wrong = {
        "nope": "There is no prompt set 'nope'",
        str(tmp_path / "empty"): "has no set.yaml",
        "nope:c001": "nope is no run",
    }
    for name, sentence in wrong.items():
        assert run_cli(lambda name=name: task(["toy_baseline", name])) == USER_ERROR  # type: ignore[misc]
        said = capsys.readouterr().err
        assert sentence in said and said.count("\n") == 1
