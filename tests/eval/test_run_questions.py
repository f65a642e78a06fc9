"""What becomes of single questions in a run: failures, missing gold answers, logs, and what a prompt may hold."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.prompt_set import SUFFIX
from tests.eval.command_line import NO_SEARCH, SUM, EvalCommand, Finished, attached, dataset, question
from tests.optimize.sent import agents_requests
from tests.servers.running import RunningServer

FAILING = ("system.tools.read_file=tests.eval.failing_tools.read_file", "tools.fail_fast=true")
CANARIES = "canary-7f3a", "1e77", "zebra;lion"


@pytest.fixture
def mixed(tmp_path: Path) -> list[str]:
    """One question that never ends, one whose tool fails, two that work; golds that no answer at all would match."""
    return dataset(
        tmp_path / "mixed",
        attached("slow", "inf", "slow.csv"),
        attached("bad", "None", "bad.csv", Level=2),
        attached("works", "7", "works.csv"),
        question("sum", SUM, "5", Level=2),
    )


def test_a_failing_question_is_a_wrong_row_and_the_others_go_on(sure_command: EvalCommand, mixed: list[str]) -> None:
    finished = sure_command(*mixed, *FAILING, "run.deadline_seconds=2")
    assert (finished.code, finished.err) == (2, NO_SEARCH)
    records, summary = finished.records, finished.summary
    assert {id: record["score"] for id, record in records.items()} == {
        "slow": None, "bad": None, "works": 1.0, "sum": 1.0,
    }  # fmt: skip
    bad, slow = records["bad"], records["slow"]
    assert "the disk is on fire" in bad["error"]
    assert (bad["error_class"], bad["error_component"], bad["limit"]) == ("tool", "read_file", None)
    assert "run.deadline_seconds" in slow["error"]
    assert (slow["error_class"], slow["error_component"], slow["limit"]) == ("limit", "read_file", "deadline_seconds")
    assert 2 <= slow["wall_seconds"] < 10
    assert slow["state"]["research_steps"], "how far it got is kept"
    assert (summary["n"], summary["n_correct"], summary["accuracy"], summary["n_error"]) == (4, 2, 0.5, 2)
    assert summary["errors_by_class"] == {"tool": 1, "limit": 1}
    assert summary["by_level"]["2"]["accuracy"] == 0.5
    assert [(answer["task_id"], answer["model_answer"]) for answer in finished.answers] == [
        ("slow", ""), ("bad", ""), ("works", "7"), ("sum", "5"),
    ]  # fmt: skip


def test_the_first_error_may_stop_the_run_which_keeps_what_is_done(sure_command: EvalCommand, mixed: list[str]) -> None:
    finished = sure_command(*mixed, *FAILING, "run.max_errors=1", "run.concurrency=1", "ids=[works,bad,sum]")
    assert finished.code == 3
    out = " ".join(finished.out.split())
    assert "stopped: 1 of 2 questions failed (run.max_errors=1)" in out
    assert "incomplete: 1 right of 1 answered, 1 of 3 not run" in out
    summary = finished.summary
    assert (summary["n"], summary["n_correct"], summary["accuracy"]) == (3, 1, pytest.approx(1 / 3))
    assert list(finished.records) == ["works", "bad"]
    assert [answer["task_id"] for answer in finished.answers] == ["works", "bad"]


def test_tool_failures_end_no_question_unless_asked(sure_command: EvalCommand, mixed: list[str]) -> None:
    finished = sure_command(*mixed, FAILING[0], "ids=[bad]")
    assert finished.code == 0
    record = finished.records["bad"]
    failed = [step for step in record["trajectory"] if step["kind"] == "tool" and step["error"]]
    assert failed and "the disk is on fire" in failed[0]["error"]
    assert record["answer"] and record["error"] is None
    assert record["tool_errors"] == finished.summary["tool_errors"] == {"read_file": len(failed)}
    assert (
        f"failed tool calls: read_file {len(failed)} of {finished.summary['calls_by_tool']['read_file']}"
        in finished.out
    )


@pytest.mark.parametrize("gold", [None, "?"])
def test_questions_without_gold_are_answered_and_unscored(
    sure_command: EvalCommand, tmp_path: Path, gold: str | None
) -> None:
    finished = sure_command(*dataset(tmp_path / "data", question("a", SUM, gold), attached("b", gold, "t.csv")))
    assert finished.code == 0
    assert [answer["model_answer"] for answer in finished.answers] == ["5", "7"]
    summary = finished.summary
    assert (summary["n"], summary["n_unscored"], summary["accuracy"], summary["accuracy_ci95"]) == (2, 2, None, None)
    assert "n/a" in finished.out and "unscored" in finished.out


def test_only_scored_questions_count_in_the_accuracy(sure_command: EvalCommand, tmp_path: Path) -> None:
    rows = question("a", SUM, "5"), question("b", SUM, "6"), question("c", SUM)
    summary = sure_command(*dataset(tmp_path / "data", *rows)).summary
    assert (summary["n"], summary["n_unscored"], summary["accuracy"]) == (3, 1, 0.5)


def lines_of(finished: Finished, task_id: str) -> list[dict[str, Any]]:
    """The log lines that the answer's thread id retrieves."""
    (thread_id,) = [answer["thread_id"] for answer in finished.answers if answer["task_id"] == task_id]
    lines = [line for line in finished.system_log if line["correlation_id"] == thread_id]
    assert {tuple(line[key] for key in ("task_id", "epoch", "attempt", "run_id")) for line in lines} == {
        (task_id, 1, 1, finished.folder.name)
    }
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", line["timestamp"]) for line in lines)
    return lines


def test_a_thread_id_retrieves_all_that_happened_in_its_question(sure_command: EvalCommand, tmp_path: Path) -> None:
    rows = attached("a", "7", "a.csv"), question("b", SUM, "5")
    finished = sure_command(*dataset(tmp_path / "data", *rows))
    lines = lines_of(finished, "a")
    assert [line["step"] for line in lines if line["event"] == "step"] == [
        "planner", "critic_planner", "researcher", "critic_researcher", "expert", "critic_expert", "finalizer",
    ]  # fmt: skip
    begun = [line.get("step") for line in lines if line["event"] == "orchestrator started"]
    assert begun[:2] == [None, "planner"]
    assert [line["component"] for line in lines if "input interface" in line["event"]] == ["input_interface"] * 2
    (called,) = [line for line in lines if line["event"] == "tool started"]
    assert (called["arguments"]["file"], called["message"]) == ("a.csv", "read_file: tool started")
    assert (called["component"], called["agent"], called["step"]) == ("read_file", "researcher", "researcher")
    assert ["read_file"] in [line["calls"] for line in lines if line["event"] == "tool calls"]
    messages = [line for line in lines if line["event"] == "message"]
    assert {("orchestrator", "planner", "instruction"), ("planner", "orchestrator", "response")} <= {
        (line["sender"], line["receiver"], line["type"]) for line in messages
    }
    assert "price of apple" in messages[0]["content"]
    decisions = [line["decision"] for line in lines if line["event"] == "decision"]
    assert decisions == ["approve"] * 3
    assert [line["component"] for line in lines if line["event"] == "tool finished"] == ["read_file"]
    timed = [line for line in lines if line["event"].endswith(" finished")]
    assert {"lm finished", "agent finished", "question finished"} <= {line["event"] for line in timed}
    assert all(line["seconds"] >= 0 for line in timed)
    assert len(lines) + len(lines_of(finished, "b")) == len(finished.system_log)
    ended = [line for line in finished.lines("logs/entry_point.log") if line["event"] == "question finished"]
    assert {line["correlation_id"] for line in ended} == {answer["thread_id"] for answer in finished.answers}


def test_the_text_of_a_prompt_set_reaches_the_wire(
    sure_command: EvalCommand, llm_server: RunningServer, tmp_path: Path
) -> None:
    prompts = tmp_path / "mine"
    shutil.copytree(PROJECT_ROOT / "prompts" / "baseline", prompts)
    for file in prompts.glob(f"*{SUFFIX}"):
        file.write_text(f"{file.read_text('utf-8')}\n  - “{file.name}”, naïve: 値だけ.", "utf-8")
    llm_server.reset()
    assert sure_command(*dataset(tmp_path / "data", attached("a", "7", "a.csv")), f"prompts={prompts}").code == 0
    sent = agents_requests(llm_server.requests())
    texts = {file.name.removesuffix(SUFFIX): file.read_text("utf-8").strip() for file in prompts.glob(f"*{SUFFIX}")}
    assert {each.agent: each.instructions for each in sent} == texts


def test_the_gold_answer_is_in_no_prompt(sure_command: EvalCommand, llm_server: RunningServer, tmp_path: Path) -> None:
    files = "a.csv", "b.csv", "c.csv"
    rows = [attached(f"q{n}", gold, file) for n, (gold, file) in enumerate(zip(CANARIES, files, strict=True))]
    llm_server.reset()
    finished = sure_command(*dataset(tmp_path / "data", *rows))
    assert finished.code == 0
    records = list(finished.records.values())
    assert {record["target"] for record in records} == set(CANARIES), "else the search below would find nothing"
    calls = [step for record in records for step in record["trajectory"] if step["kind"] == "lm"]
    prompts = json.dumps([step["inputs"] for step in calls])
    assert len(calls) >= 15 and prompts.count("price of apple") >= 15
    texts = [prompts, (finished.folder / "logs" / "multi_agent_system.log").read_text(), json.dumps(finished.answers)]
    wire = llm_server.requests()
    assert len(wire) == len(calls)
    texts.append(json.dumps(wire))
    for text in texts:
        assert not [canary for canary in CANARIES if canary in text]
