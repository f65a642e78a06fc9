"""Whether a run is still the one that is resumed, and with which command line."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from eval.cli.command import FAILURES, FINISHED
from eval.config.evaluation import EvalConfig, read_config
from eval.reports.files import write_reports
from eval.runs.record import PlannedQuestion
from eval.runs.run_info import RunInfo, TaskInfo
from eval.runs.store import RunStore
from eval.workflows import resume
from eval.workflows.resume import check_unchanged, find_run_to_resume, read_original_arguments, show_finished_run
from mas.prompt_sets.prompt_set import digest
from mas.runtime.errors import UserError
from tests.eval.config.test_evaluation import composed
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


@pytest.fixture(scope="module")
def toy() -> DictConfig:
    return composed("system=toy", "data=toy")


Show = Callable[..., int | None]


@pytest.fixture
def show(toy: DictConfig, tmp_path: Path) -> Show:
    """Shows a run of two questions that was made with this configuration, with options of the session and facts."""

    def show_run(options: dict[str, Any] | None = None, right: bool = True, **facts: Any) -> int | None:
        folder = tmp_path / "run"
        chosen = toy.copy()
        prompts = read_config(chosen).read_prompts()
        assert prompts is not None
        known: dict[str, Any] = {
            "config": OmegaConf.to_container(chosen, resolve=True), "prompts_sha256": digest(prompts),
            "finished": True, "planned": ["q1", "q2"], **facts,
        }  # fmt: skip
        stored_run(
            folder, known.pop("records", [answered("q1", "17"), answered("q2", "17" if right else "1")]), **known
        )
        with RunStore(folder / "run.db") as store:
            write_reports(folder, store)
        for name, value in {"run.resume": str(folder), **(options or {})}.items():
            OmegaConf.update(chosen, name, value)
        resolved: Any = OmegaConf.to_container(chosen, resolve=True)
        return show_finished_run(read_config(chosen), resolved)

    return show_run


def test_a_finished_run_is_shown_again_with_its_files_and_its_code(
    show: Show, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show() == FINISHED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "run is finished; nothing is left to run."
    assert f"results: {tmp_path / 'run'}" in lines
    assert lines[-1] == f"report: {tmp_path / 'run' / 'report.html'}"


@pytest.mark.parametrize(("floor", "code"), [(0.5, FINISHED), (0.6, FAILURES)])
def test_a_finished_run_below_its_floor_has_failed(
    show: Show, capsys: pytest.CaptureFixture[str], floor: float, code: int
) -> None:
    assert show({"run.fail_under": floor}, right=False) == code
    assert ("accuracy 0.5 is below run.fail_under=0.6" in capsys.readouterr().out) is (code == FAILURES)


DOWN = answered("q2", None, error="down", error_class="infrastructure", score=None)


@pytest.mark.parametrize(
    ("options", "facts", "expected"),
    [
        ({}, {"finished": False}, None),
        ({}, {"finished": None}, None),
        ({}, {"records": [answered("q1", "17")]}, None),
        ({"run.epochs": 2, "run.allow_config_change": True}, {}, None),
        ({}, {"records": [answered("q1", "17"), DOWN]}, FAILURES),
        ({"run.retry_errors": True}, {"records": [answered("q1", "17"), DOWN]}, None),
        ({"limits.lm_calls": 3, "run.allow_config_change": True}, {}, None),
    ],
)
def test_a_run_with_something_left_to_run_is_not_shown(
    show: Show,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, Any],
    facts: dict[str, Any],
    expected: int | None,
) -> None:
    assert show(options, **facts) == expected
    assert ("is finished" in capsys.readouterr().out) is (expected is not None)


@pytest.mark.parametrize(
    ("options", "facts", "name"),
    [
        ({"limits.lm_calls": 3}, {}, "limits.lm_calls"),
        ({}, {"prompts_sha256": "4" * 64}, "prompts_sha256: 444444444444"),
    ],
)
def test_a_finished_run_that_was_started_otherwise_is_not_shown(
    show: Show, options: dict[str, Any], facts: dict[str, Any], name: str
) -> None:
    with pytest.raises(UserError) as refused:
        show(options, **facts)
    assert str(refused.value).startswith(f"the run was started otherwise ({name}")


def test_a_run_whose_summary_or_store_is_not_whole_is_gone_on_with(
    show: Show, toy: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Restored(RunStore):
        """A store that is read from copies of what was damaged."""

        def read_plan(self) -> list[PlannedQuestion]:
            self.is_restored = True
            return super().read_plan()

    with monkeypatch.context() as patch:
        patch.setattr(resume, "RunStore", Restored)
        assert show() is None
    folder = tmp_path / "run"
    chosen = toy.copy()
    OmegaConf.update(chosen, "run.resume", str(folder))
    config: EvalConfig = read_config(chosen)
    resolved: Any = OmegaConf.to_container(chosen, resolve=True)
    assert show_finished_run(config, resolved) == FINISHED
    (folder / "summary.json").write_text("{")
    assert show_finished_run(config, resolved) is None
    (folder / "summary.json").unlink()
    assert show_finished_run(config, resolved) is None
