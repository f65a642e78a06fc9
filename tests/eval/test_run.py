"""`eval/run.py` from the command line to what a run leaves behind, with the simulated model or one over loopback."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from eval.cli.paths import PROJECT_ROOT
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import read_prompt_set
from mas.simulation import SIMULATED_NOTICE
from mas.systems.gaia.agents import AGENTS
from tests.eval.command_line import SUM, EvalCommand, Finished, dataset, question, write_questions
from tests.process import finish
from tests.servers.one_answer import refusal, server_that_answers
from tests.servers.running import RunningServer

QUESTION_COUNTS = {"n", "n_correct", "accuracy", "accuracy_ci95", "n_error"}


def test_a_run_leaves_its_files_and_says_what_came_out(finished_run: Finished) -> None:
    finished = finished_run
    assert (finished.code, finished.err) == (2 if finished.summary["n_error"] else 0, "")
    names = {path.relative_to(finished.folder).as_posix() for path in finished.folder.rglob("*") if path.is_file()}
    assert read_prompt_set(str(finished.folder / "prompts"), AGENTS, "gaia", PROJECT_ROOT).texts.keys() == set(AGENTS)
    assert {name for name in names if not name.startswith("prompts/")} == {
        "config.yaml", "run.db", "run.lock", "answers.jsonl", "records.jsonl", "summary.json",
        "correlation_ids.jsonl", "run.jsonl",
        "logs/entry_point.log", "logs/multi_agent_system.log",
    }  # fmt: skip
    for text in ("5/5 done", "accuracy", "95% interval", "level 1", "tokens", "cost: $0.0000", str(finished.folder)):
        assert text in finished.out
    assert {"run_id", *QUESTION_COUNTS, "simulated", "usage", "wall_seconds", "by_level"} <= set(finished.summary)
    assert finished.summary["n"] == 5
    assert finished.summary["usage"]["lm_calls"] >= 25
    assert all(set(level) >= QUESTION_COUNTS for level in finished.summary["by_level"].values())
    assert [answer.keys() for answer in finished.answers] == [
        {"task_id", "model_answer", "reasoning_trace", "thread_id"}
    ] * 5


def test_all_files_tell_the_same_and_come_from_the_store(finished_run: Finished) -> None:
    finished = finished_run
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        stored = {record.sample_id: record for record in store.records()}
    assert len(stored) == 5
    assert finished.records.keys() == stored.keys()
    assert finished.summary["n_correct"] == sum(record.correct for record in stored.values())
    assert finished.summary["accuracy"] == finished.summary["n_correct"] / 5
    low, high = finished.summary["accuracy_ci95"]
    assert 0 <= low <= finished.summary["accuracy"] <= high <= 1
    assert {record.run_id for record in stored.values()} == {finished.summary["run_id"]}
    for answer in finished.answers:
        record = stored[answer["task_id"]]
        assert (answer["model_answer"], answer["thread_id"]) == (record.answer, record.thread_id)
        assert record.state["final_answer"] == record.answer
    listed = {(line["task_id"], line["thread_id"]) for line in finished.lines("correlation_ids.jsonl")}
    assert listed == {(answer["task_id"], answer["thread_id"]) for answer in finished.answers}


def test_the_resolved_configuration_is_saved(finished_run: Finished) -> None:
    text = (finished_run.folder / "config.yaml").read_text("utf-8")
    saved = yaml.safe_load(text)
    assert "${" not in text
    assert (saved["limit"], saved["shuffle"], saved["prompts"]) == (5, True, "baseline")
    assert saved["system"]["agents"]["expert"]["retry_limit"] == 4


def test_a_simulated_score_says_so_wherever_it_is_shown(finished_run: Finished) -> None:
    finished = finished_run
    assert "Simulated model" in SIMULATED_NOTICE and "LLM" in SIMULATED_NOTICE
    first, *rest = finished.out.splitlines()
    assert first == SIMULATED_NOTICE, "before anything else"
    assert SIMULATED_NOTICE in rest, "beside the score"
    assert (finished.summary["simulated"], finished.summary["notice"]) == (True, SIMULATED_NOTICE)


def test_a_score_of_a_real_model_has_no_such_notice(
    sure_command: EvalCommand, llm_server: RunningServer, tmp_path: Path
) -> None:
    data = dataset(tmp_path / "data", question("a", SUM, "5"))
    finished = sure_command(*data, "model=openai_compatible", f"model.base_url={llm_server.base_url}")
    assert finished.code == 0
    assert "imulated" not in finished.out
    assert (finished.summary["simulated"], finished.summary["notice"]) == (False, None)
    assert finished.summary["accuracy"] == 1.0


@pytest.mark.parametrize(("floor", "code"), [("0.5", 0), ("0.51", 2)])
def test_an_accuracy_below_the_floor_is_exit_code_2(
    sure_command: EvalCommand, tmp_path: Path, floor: str, code: int
) -> None:
    data = dataset(tmp_path / "data", question("right", SUM, "5"), question("wrong", SUM, "6"))
    finished = sure_command(*data, f"run.fail_under={floor}")
    assert finished.summary["accuracy"] == 0.5
    assert finished.code == code
    assert ("is below run.fail_under" in finished.out) == (code == 2)


@pytest.mark.slow
def test_ids_are_text_however_much_they_look_like_numbers(sure_command: EvalCommand, tmp_path: Path) -> None:
    ids = ["1e10", "007", "1.0", "null", "q 1", "9"]
    data = dataset(tmp_path / "data", *(question(id, SUM, "5") for id in ids))
    assert [answer["task_id"] for answer in sure_command(*data).answers] == ids
    chosen = sure_command(*data, "ids=[007,1e10,'q 1',null]")
    assert (chosen.code, [answer["task_id"] for answer in chosen.answers]) == (0, ["007", "1e10", "q 1", "null"])
    assert set(chosen.records) == {"007", "1e10", "q 1", "null"}
    assert [answer["task_id"] for answer in sure_command(*data, "ids=007").answers] == ["007"]
    saved = yaml.safe_load((chosen.folder / "config.yaml").read_text("utf-8"))
    assert saved["ids"] == ["007", "1e10", "q 1", "null"], "the saved configuration gives the same run again"


def test_bad_rows_may_be_skipped_and_are_then_shown(eval_command: EvalCommand, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data", question("a", SUM, "5"), "{broken")
    finished = eval_command("model=offline", "data=jsonl", f"data.path={data}", "data.on_bad_row=skip")
    assert finished.code == 0
    assert (finished.summary["n"], len(finished.summary["bad_rows"])) == (1, 1)
    assert "line 2" in finished.summary["bad_rows"][0]
    assert "1 unreadable row" in finished.out


def test_a_key_is_nowhere_in_the_runs_folder(
    sure_command: EvalCommand, llm_server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    monkeypatch.setenv("OPENAI_BASE_URL", llm_server.base_url)
    finished = sure_command(*dataset(tmp_path / "data", question("a", SUM, "5")), "model=gpt-4o-mini")
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0)
    check_absent("very-secret", finished)


def test_a_key_that_the_server_repeats_is_taken_out(
    sure_command: EvalCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    data = dataset(tmp_path / "data", question("a", SUM, "5"))
    with server_that_answers(401, refusal("Incorrect API key provided: sk-very-secret-key.")) as base_url:
        finished = sure_command(*data, "model=gpt-4o-mini", f"model.base_url={base_url}")
    assert finished.code == 3, "without a key no question would fare better"
    assert finished.records == {}, "the question has no row, so that it goes on where it was"
    assert "Incorrect API key provided: ***" in finished.summary["stopped"]
    check_absent("very-secret", finished)


def test_a_value_that_is_a_secret_is_stored_redacted_and_the_run_can_be_resumed(
    sure_command: EvalCommand, llm_server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """YAML reads `***` as an alias without a name."""
    data = dataset(tmp_path / "very-secret", question("a", SUM, "5"))
    [path] = [each.removeprefix("data.path=") for each in data if each.startswith("data.path=")]
    monkeypatch.setenv("OPENAI_API_KEY", path)
    monkeypatch.setenv("OPENAI_BASE_URL", llm_server.base_url)
    finished = sure_command(*data, "model=gpt-4o-mini")
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0)
    check_absent("very-secret", finished)
    again = sure_command(f"run.resume={finished.folder}", f"data.path={path}", "model=gpt-4o-mini")
    assert again.code == 0, again.err


def check_absent(text: str, finished: Finished) -> None:
    files = [path for path in finished.folder.rglob("*") if path.is_file()]
    assert len(files) >= 8
    assert [path.name for path in files if text.encode() in path.read_bytes()] == []
    assert text not in finished.out + finished.err


def test_relative_paths_hang_from_the_current_folder(eval_command: EvalCommand) -> None:
    dataset(Path("mine"), question("a", SUM, "5"))
    finished = eval_command("model=offline", "data=jsonl", "data.path=mine", "run.dir=results/first")
    assert finished.code == 0
    assert Path("results/first/answers.jsonl").is_file()
    assert "results: results/first" in finished.out
    report = finished.out.splitlines()[-1].partition(": ")[2]
    assert report == "python eval/report.py results/first"
    assert not Path("results/first/report.html").exists()
    _, script, run = report.split()
    subprocess.run([sys.executable, PROJECT_ROOT / script, run], check=True, capture_output=True)
    assert Path("results/first/report.html").is_file()


@pytest.mark.slow
def test_a_tool_that_hangs_does_not_keep_the_command_from_ending(tmp_path: Path, llm_server: RunningServer) -> None:
    folder = write_questions(tmp_path / "questions", question("q1", "What does the note say?", file_name="note.txt"))
    (folder / "note.txt").write_text("The code is 7.\n")
    tool = "system.tools.read_file=tests.eval.failing_tools.never_returns"
    model = ["model=openai_compatible", f"model.base_url={llm_server.base_url}", "tracking=off"]
    data = ["data=jsonl", f"data.path={folder}"]
    ended = finish(
        tmp_path / "run", *model, *data, tool, "run.deadline_seconds=2"
    )  # the tool would keep it for an hour
    assert (ended.code, ended.records["q1"]["limit"]) == (2, "deadline_seconds")
