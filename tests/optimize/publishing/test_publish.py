"""A set is published whole, once, with what is known about it, and without anything of the machine."""

import getpass
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.cli.paths import PROJECT_ROOT
from eval.runs.run_info import RunInfo
from mas.prompt_sets.prompt_set import PromptSet, digest, read_prompt_set
from mas.prompt_sets.shelf import check_name_is_free, is_gated
from mas.runtime.errors import UserError
from optimize.publishing import publish as publishing
from optimize.publishing.publish import Provenance, build_headline, build_provenance, publish
from tests.eval.stored_tuning import TASK

AGENTS = ("plan", "solve")
DEMOS: dict[str, list[dict[str, Any]]] = {
    "solve": [{"task": "1 + 1 = ünï", "working": ["a", {"b": 1.5}], "result": "2"}]
}
PARENT = PromptSet("toy_baseline", "toy", {"plan": "Plan.", "solve": "Solve."}, Path("toy_baseline"))
TUNED = PromptSet("c004", "toy", {"plan": "Plan well.\n\n  - so\n", "solve": "Solve «it»."}, Path("c004"), demos=DEMOS)
CONFIG = {"gate": {"epochs": 5}, "system": {"agents": {"plan": {"model": "gpt-y"}, "solve": {"model": None}}}}
INFO = RunInfo(
    simulated=True,
    model="/home/somebody/models/llama-3",
    prompts_name="toy_baseline",
    tuning=replace(TASK, optimizer="gepa", seed=3, reflection_model="gpt-x", split_digest="aa", sealed_digest="bb"),
    origin={"mlflow.user": "somebody", "harness.host": "box", "mlflow.source.git.commit": "abc123"},
    config=CONFIG,
)
VERDICT = {
    "published": True,
    "finish_reason": "improved",
    "baseline": {"accuracy": 0.4, "ci95": [0.3, 0.5]},
    "winner": {"candidate_id": "c004", "accuracy": 0.5, "ci95": [0.4, 0.6]},
    "gain": 0.1,
    "gain_ci95": [0.02, 0.18],
    "p": 0.012,
    "spend": {"lm_calls": 12},
    "gate": {"passed": True, "reasons": ["read from http://joe:secret@host/v1 and /home/somebody/x/y.txt"]},
}
LEAKS = {
    "blocked": False,
    "checked": {"train": 1, "val": 1, "test": 1},
    "hits": [{"split": "train", "kind": "gold", "place": "text line 1"}],
}


def told() -> Provenance:
    return build_provenance(INFO, VERDICT, LEAKS, run="run_1", parent=PARENT, candidate_id="c004", gated=True)


def test_a_published_set_is_read_as_it_was_written(tmp_path: Path) -> None:
    returned = publish(TUNED, tmp_path / "prompts" / "tuned", told())
    read = read_prompt_set("tuned", AGENTS, "toy", tmp_path)
    assert digest(read) == digest(TUNED)
    assert (read.texts, read.demos, read.edited) == (TUNED.texts, TUNED.demos, ())
    assert replace(returned, folder=read.folder, provenance={}) == replace(read, provenance={})
    assert dict(returned.provenance) == dict(read.provenance)


def test_a_set_is_gated_if_it_passed_the_gate_without_leaks_and_is_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / "prompts" / "tuned"
    assert is_gated(publish(TUNED, folder, told())) and is_gated(read_prompt_set("tuned", AGENTS, "toy", tmp_path))
    written = yaml.safe_load((folder / "provenance.yaml").read_text("utf-8"))
    blocked = written["leaks"] | {"blocked": True}
    for change in ({"gated": False}, {"gated": "yes"}, {"leaks": None}, {"leaks": blocked}):
        (folder / "provenance.yaml").write_text(yaml.safe_dump(written | change))
        assert not is_gated(read_prompt_set("tuned", AGENTS, "toy", tmp_path)), change
    for no_sums in (None, [], {}):
        (folder / "provenance.yaml").write_text(yaml.safe_dump(written | {"checksums": no_sums}))
        read = read_prompt_set("tuned", AGENTS, "toy", tmp_path)
        assert read.edited and not is_gated(read), no_sums
    without_checksums = {name: value for name, value in written.items() if name != "checksums"}
    (folder / "provenance.yaml").write_text(yaml.safe_dump(without_checksums))
    assert not is_gated(read_prompt_set("tuned", AGENTS, "toy", tmp_path))
    (folder / "provenance.yaml").write_text(yaml.safe_dump(written))
    assert is_gated(read_prompt_set("tuned", AGENTS, "toy", tmp_path))
    (folder / "tuned_on.json").write_text('{"learnt_from": [], "picked_by": []}')
    assert not is_gated(read_prompt_set("tuned", AGENTS, "toy", tmp_path))
    (folder / "tuned_on.json").unlink()
    (folder / "provenance.yaml").unlink()
    assert not is_gated(read_prompt_set("tuned", AGENTS, "toy", tmp_path))


def test_provenance_says_where_a_set_comes_from(tmp_path: Path) -> None:
    publish(TUNED, tmp_path / "tuned", told())
    provenance = yaml.safe_load((tmp_path / "tuned" / "provenance.yaml").read_text("utf-8"))
    assert provenance["set"] == "tuned" and provenance["digest"] == digest(TUNED)
    assert provenance["parent"] == {"name": "toy_baseline", "digest": digest(PARENT)}
    assert provenance["models"] == {"task": "llama-3", "agents": {"plan": "gpt-y"}, "reflection": "gpt-x"}
    assert provenance["scores"]["gain_ci95"] == [0.02, 0.18] and provenance["scores"]["winner"]["accuracy"] == 0.5
    assert provenance["leaks"]["hits"] == {"train gold": 1}
    assert provenance["gate"]["settings"] == {"epochs": 5} and provenance["gate"]["verdict"]["passed"] is True
    assert (provenance["gated"], provenance["simulated"], provenance["seed"], provenance["run"]) == (
        True,
        True,
        3,
        "run_1",
    )
    assert provenance["versions"]["commit"] == "abc123" and provenance["versions"]["dspy"]
    assert provenance["date"].endswith("+00:00")
    names = {path.name for path in (tmp_path / "tuned").iterdir()} - {"provenance.yaml"}
    assert provenance["checksums"].keys() == names and "demos.json" in names
    assert build_headline(provenance).startswith(
        "tuned from toy_baseline by gepa, gain +10.0 points on sealed questions (95% "
    )


def test_nothing_of_the_machine_or_a_secret_is_in_it(tmp_path: Path) -> None:
    publish(TUNED, tmp_path / "tuned", told())
    text = (tmp_path / "tuned" / "provenance.yaml").read_text("utf-8")
    for private in ("somebody", "box", "secret", str(tmp_path), str(PROJECT_ROOT), "/home"):
        assert private not in text
    assert f"/{getpass.getuser()}/" not in text
    secret = build_provenance(
        replace(INFO, config={"gate": {"k": "sk-1"}}), {}, None, run="r", parent=PARENT, candidate_id="c", gated=False,
        redact=lambda text: text.replace("sk-1", "[redacted]"),
    )  # fmt: skip
    assert secret["gate"]["settings"] == {"k": "[redacted]"} and secret["leaks"] is None and secret["scores"] == {}


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", ".hidden", "a b", "-x", "x.", "ä", "x" * 101, "a\n", "~"]
)
def test_a_name_that_is_no_plain_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="plain name"):
        check_name_is_free(name, tmp_path)


def test_a_taken_name_is_refused_and_nothing_is_overwritten(tmp_path: Path) -> None:
    publish(TUNED, tmp_path / "tuned", told())
    before = {path: path.read_bytes() for path in (tmp_path / "tuned").iterdir()}
    for name in ("tuned", "Tuned"):
        with pytest.raises(UserError, match="ever overwritten"):
            check_name_is_free(name, tmp_path)
    for name in ("tuned", "Tuned"):
        with pytest.raises(UserError, match="ever overwritten"):
            publish(PARENT, tmp_path / name, told())
    with pytest.raises(UserError, match="plain name"):
        publish(PARENT, tmp_path / ".hidden", told())
    assert [path.name for path in tmp_path.iterdir()] == ["tuned"]
    assert before == {path: path.read_bytes() for path in (tmp_path / "tuned").iterdir()}
    (tmp_path / "empty").mkdir()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for name in ("empty", "gone"):
        with pytest.raises(UserError, match="ever overwritten"):
            check_name_is_free(name, tmp_path)
    assert check_name_is_free("other", tmp_path / "no_shelf_yet") == tmp_path / "no_shelf_yet" / "other"


@pytest.fixture
def failing_move(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def move(made: Path, folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publishing, "_move", move)
    return iter(())


def test_what_fails_half_way_leaves_nothing(tmp_path: Path, failing_move: None) -> None:
    with pytest.raises(UserError, match="no space left"):
        publish(TUNED, tmp_path / "tuned", told())
    assert list(tmp_path.iterdir()) == []


def test_a_kill_before_the_move_leaves_no_set(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from mas.prompt_sets.prompt_set import PromptSet\n"
        "from optimize.publishing import publish\n"
        "publish._move = lambda made, folder: os._exit(9)\n"
        "from eval.runs.run_info import RunInfo\n"
        "from tests.eval.stored_tuning import TASK\n"
        "prompts = PromptSet('c', 'toy', {'plan': 'Plan.', 'solve': 'Solve.'}, pathlib.Path('c'))\n"
        "facts = {'run': 'run', 'parent': prompts, 'candidate_id': 'c1', 'gated': True}\n"
        "told = publish.build_provenance(RunInfo(tuning=TASK), {}, None, **facts)\n"
        "publish.publish(prompts, pathlib.Path(sys.argv[1]), told)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, tmp_path / "prompts" / "tuned"], cwd=PROJECT_ROOT)
    assert killed.returncode == 9
    with pytest.raises(UserError, match="available: none"):
        read_prompt_set("tuned", AGENTS, "toy", tmp_path)
    publish(TUNED, tmp_path / "prompts" / "tuned", told())
    assert digest(read_prompt_set("tuned", AGENTS, "toy", tmp_path)) == digest(TUNED)
