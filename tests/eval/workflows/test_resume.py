"""Whether a run is still the one that is resumed, and with which command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.runs.run_info import RunInfo, TaskInfo
from eval.runs.store import RunStore
from eval.workflows import resume
from eval.workflows.resume import check_unchanged, find_run_to_resume, read_original_arguments
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered, stored_run

BEFORE = RunInfo(
    config={"system": {"name": "toy"}, "model": {"name": "a"}},
    system="toy",
    prompts_sha256="1" * 64,
    program_sha256="2" * 64,
    task=TaskInfo(dataset_sha256="3" * 64),
)


def changes(allow: bool = True, **facts: Any) -> dict[str, str]:
    now = replace(BEFORE, **facts)
    return check_unchanged(BEFORE, now.config, now, allow)


def test_the_same_run_has_no_differences() -> None:
    assert changes(allow=False) == {}


def test_a_difference_is_told_and_refused_unless_it_is_allowed() -> None:
    other = {"system": {"name": "toy"}, "model": {"name": "b"}}
    found = changes(config=other)
    assert list(found) == ["model.name"] and "a" in found["model.name"] and "b" in found["model.name"]
    with pytest.raises(UserError, match=r"^the run was started otherwise \(model\.name: .*\); start a new run, or mix"):
        changes(allow=False, config=other)


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"prompts_sha256": "4" * 64}, "prompts_sha256"),
        ({"program_sha256": "4" * 64}, "source of system=toy"),
        ({"task": TaskInfo(dataset_sha256="4" * 64)}, "dataset_sha256"),
    ],
)
def test_other_prompts_code_or_questions_are_a_difference(facts: dict[str, Any], name: str) -> None:
    found = changes(**facts)
    assert list(found) == [name] and found[name].endswith(f" → {'4' * 12}") and len(found[name]) == 27


def test_a_digest_that_is_not_known_is_not_compared_but_prompts_that_are_gone_are() -> None:
    assert changes(allow=False, program_sha256="", task=TaskInfo()) == {}
    assert list(changes(prompts_sha256="")) == ["prompts_sha256"]
    without = replace(BEFORE, program_sha256="")
    assert check_unchanged(without, BEFORE.config, replace(BEFORE, program_sha256="4" * 64), allow=False) == {}


def test_a_target_of_the_user_is_named_as_the_source() -> None:
    mine = replace(BEFORE, config={"system": {"target": "mine:answer"}})
    assert list(check_unchanged(mine, mine.config, replace(mine, program_sha256="4" * 64), allow=True)) == [
        "source of system.target"
    ]


def test_many_differences_are_counted() -> None:
    many = {"model": {f"option_{n:02}": n for n in range(12)}}
    before = replace(BEFORE, config={"model": {f"option_{n:02}": n + 1 for n in range(12)}})
    with pytest.raises(UserError, match=r"option_09: [^;]*; and 2 more\)"):
        check_unchanged(before, many, before, allow=False)
    ten = {"model": dict(list(many["model"].items())[:10])}
    with pytest.raises(UserError) as caught:
        check_unchanged(replace(before, config={"model": dict.fromkeys(ten["model"], -1)}), ten, before, allow=False)
    assert "more" not in str(caught.value).partition(";")[2].rpartition("start a new run")[0]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"rescored_from": "first"}, "holds the answers of first, scored again, and has run nothing itself; continue"),
        ({"command": None}, "that run ended before it began; start a new one."),
        ({"config": {"system": {"target": "in-memory:solve-1"}, "data": {"target": "in-memory:samples"}},
          "command": []}, "only its memory held its system and data; start it again there"),
    ],
)  # fmt: skip
def test_a_run_that_cannot_go_on_says_why(tmp_path: Path, facts: dict[str, Any], words: str) -> None:
    folder = stored_run(tmp_path / "run", [answered("q1", "17")], **facts)
    with pytest.raises(UserError) as caught:
        read_original_arguments(str(folder), [])
    assert str(caught.value).startswith(f"run.resume={folder}: ") and words in str(caught.value)


def test_a_run_of_ours_goes_on_with_its_own_command_line(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "run", [answered("q1", "17")], command=["model=offline", "data=sample"])
    assert read_original_arguments(str(folder), []) == ["model=offline", "data=sample"]


def test_the_latest_run_is_the_latest_that_has_run_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (stored_run(tmp_path / name, [answered("q1", "17")]) for name in ("1", "2"))
    again = stored_run(tmp_path / "3", [answered("q1", "17")], rescored_from="2")
    monkeypatch.setattr(resume, "list_runs", lambda: [again, second, first])
    assert find_run_to_resume("latest") == second
    assert find_run_to_resume(str(again)) == again


def test_the_command_line_of_a_run_from_elsewhere_is_shown_before_it_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path / "run", [answered("q1", "17")], command=["model=offline", "limit=3"])
    with RunStore(folder / "run.db") as store:
        store.write_info(store.read_info(), signed=False)
    before = (folder / "run.db").read_bytes()
    with pytest.raises(UserError, match=r"^nothing was run; if you mean this command, add run\.trust=true"):
        read_original_arguments(str(folder), ["limit=3"])
    assert "python eval/run.py model=offline limit=3" in capsys.readouterr().err
    given = ["run.trust=true", "model=offline", "limit=3"]
    assert read_original_arguments(str(folder), given) == ["model=offline", "limit=3"]
    assert (folder / "run.db").read_bytes() == before, "it is only read"


def test_a_run_without_a_readable_store_is_named_with_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored_run(tmp_path / "run", [answered("q1", "17")], command=[])
    for each in folder.iterdir():
        each.unlink()
    (folder / "run.db").write_text("this is no database")
    with pytest.raises(UserError) as caught:
        read_original_arguments(str(folder), [])
    assert str(caught.value).startswith(f"run.resume={folder}: ") and str(caught.value).endswith(".")
    monkeypatch.setattr(resume, "list_runs", lambda: [folder])
    assert find_run_to_resume("latest") == folder, "it is reported when it is opened"


def test_a_run_that_was_given_the_right_answers_is_not_gone_on_with(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "run", [answered("q1", "17")], command=[], gold_informed="expert")
    with pytest.raises(UserError, match=rf"^run\.resume={folder}: .*; start the proof again\.$"):
        read_original_arguments(str(folder), [])
