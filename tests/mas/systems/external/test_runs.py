"""The three systems beside gaia through the whole command: one table, one store, one answers file for all of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.eval.command_line import TABLE, EvalCommand, Finished, question, write_questions
from tests.mas.systems.external.user_code import module
from tests.servers.answering_agent import Raw, answering_agent

SECRET = "Bearer token-12345678"
SOURCE = """
def answer(question, file):
    if "fail" in question:
        raise ValueError("the city is not known")
    text = file.read_text() if file else question
    return {"answer": "7" if "apple" in text else "5", "reasoning_trace": "looked it up"}
"""


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    folder = write_questions(
        tmp_path / "data",
        question("sum", "What is 2 + 3?", "5"),
        question("price", "What is the price of apple in the attached file?", "7", file_name="prices.csv"),
        question("broken", "Please fail.", "1"),
        question("open", "Which fruit is cheapest?"),
    )
    (folder / "prices.csv").write_text(TABLE)
    return ["data=jsonl", f"data.path={folder}"]


def over_http(body: dict[str, Any]) -> dict[str, Any] | Raw:
    if "fail" in body["question"]:
        return Raw(f"you said {SECRET}", 500)
    return {"answer": "7" if body["file"] else "5", "reasoning_trace": f"looked it up with {SECRET}"}


def check(finished: Finished, component: str, error: str, kind: str) -> None:
    """What holds for each of them."""
    assert finished.code == 2, finished.err
    summary = finished.summary
    assert (summary["n"], summary["n_correct"], summary["n_error"], summary["n_unscored"]) == (4, 2, 1, 1)
    assert (summary["simulated"], summary["errors_by_class"]) == (False, {kind: 1})
    answers = {each["task_id"]: each for each in finished.answers}
    assert [each["task_id"] for each in finished.answers] == ["sum", "price", "broken", "open"]
    assert {key: each["model_answer"] for key, each in answers.items() if key != "open"} == {
        "sum": "5",
        "price": "7",
        "broken": "",
    }
    assert answers["sum"]["reasoning_trace"].startswith("looked it up")
    records = finished.records
    assert records["price"]["state"]["file"] == records["price"]["file"] == "prices.csv"
    assert records["price"]["state"]["final_answer"] == "7"
    broken = records["broken"]
    assert (broken["error_component"], broken["error_class"]) == (component, kind)
    assert error in broken["error"]
    assert broken["state"]["question"] == "Please fail."
    for record in records.values():
        assert [each["kind"] for each in record["trajectory"]][:2] == ["question", "agent"]
        assert component in record["seconds_by_agent"]
    assert {line["correlation_id"] for line in finished.system_log} == {each["thread_id"] for each in finished.answers}
    assert "66.7%" in finished.out and "Simulated" not in finished.out


def test_a_callable(eval_command: EvalCommand, data: list[str]) -> None:
    name = module(Path.cwd(), SOURCE)
    finished = eval_command("system=callable", f"system.target={name}:answer", *data)
    check(finished, f"{name}:answer", "ValueError: the city is not known", "internal")
    assert finished.summary["usage"]["lm_calls"] == 0


def test_an_agent_behind_http(eval_command: EvalCommand, data: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_AGENT", SECRET)
    with answering_agent(over_http) as agent:
        finished = eval_command("system=http", f"system.url={agent.url}", "system.headers_env=MY_AGENT", *data)
        assert {headers["authorization"] for headers in agent.headers} == {SECRET}
        assert {body["thread_id"] for body in agent.bodies} == {each["thread_id"] for each in finished.answers}
    check(finished, "http", "HTTP 500, expected 200: you said ***", "infrastructure")
    assert finished.records["sum"]["reasoning_trace"] == "looked it up with ***"
    left = [file.read_bytes() for file in finished.folder.rglob("*") if file.is_file()]
    assert len(left) >= 6
    assert [content for content in left if b"12345678" in content] == []
    assert "12345678" not in finished.out + finished.err


def test_a_single_agent(eval_command: EvalCommand, data: list[str]) -> None:
    profile = ["model=offline", "model._target_=tests.mas.systems.single_agent.profile.ReadingModel"]
    finished = eval_command("system=single_agent", *profile, *data)
    check(finished, "agent", "LMServerError", "infrastructure")
    usage = finished.summary["usage"]
    assert (usage["lm_calls"], usage["tool_calls"]) == (5, 1)
    tools = [each["name"] for each in finished.records["price"]["trajectory"] if each["kind"] == "tool"]
    assert tools == ["read_file"]


MODULE = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.solve = dspy.ChainOfThought("question -> answer")
    def forward(self, question, file=None):
        return self.solve(question=question)
"""


def test_a_dspy_module_with_the_runs_model_and_ones_own_prompt(eval_command: EvalCommand, tmp_path: Path) -> None:
    name = module(Path.cwd(), MODULE)
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (prompts / "set.yaml").write_text("system: dspy\n")
    (prompts / "solve.predict_system_prompt.txt").write_text("Count the lighthouses.\n")
    target = ["system=dspy", f"system.target={name}:Program", f"prompts={prompts}"]
    finished = eval_command(*target, "experiment=offline", "limit=2")
    assert (finished.code, finished.err) == (0, "")
    assert (finished.summary["simulated"], finished.summary["usage"]["lm_calls"]) == (True, 2)
    for record in finished.records.values():
        calls = [each for each in record["trajectory"] if each["kind"] == "lm"]
        assert "Count the lighthouses." in json.dumps([each["inputs"] for each in calls])


def test_a_question_that_takes_too_long_ends_by_its_deadline(eval_command: EvalCommand, data: list[str]) -> None:
    name = module(Path.cwd(), "import time\ndef answer(question):\n    time.sleep(1)\n    return '5'")
    finished = eval_command("system=callable", f"system.target={name}:answer", *data, "run.deadline_seconds=0.1")
    assert finished.code == 2
    assert finished.summary["limits"] == {"deadline_seconds": 4}


MISTAKES: dict[str, tuple[Callable[[], list[str]], list[str]]] = {
    "no target": (lambda: ["system=callable"], ["system.target=…"]),
    "prompts": (
        lambda: ["system=callable", f"system.target={module(Path.cwd(), SOURCE)}:answer", "prompts=baseline"],
        ["made for the system 'gaia', not for 'callable'"],
    ),
    "no url": (lambda: ["system=http"], ["system.url=…"]),
    "an agent of gaia": (lambda: ["system=single_agent", "+system.agents.expert.retry_limit=2"], ["expert", "agent"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_nothing_is_left(
    eval_command: EvalCommand, data: list[str], mistake: str
) -> None:
    given, words = MISTAKES[mistake]
    finished = eval_command(*given(), *data)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err.startswith("error: ") and len(finished.err.splitlines()) == 1
    assert [word for word in words if word not in finished.err] == [], finished.err
    assert not finished.folder.exists()
