"""The whole system over HTTP, against a model in another process that can only repeat what a tool returned.

`python eval/run.py model=openai_compatible model.base_url=… data=jsonl data.path=…`, in process.
"""

import json
from pathlib import Path

import pytest

from tests.eval.command_line import EvalCommand, Finished
from tests.over_http import set_workbook_cell, write_questions
from tests.servers.running import RunningServer

NO_TOOLS = ("system.agents.researcher.tools=[]", "system.agents.expert.tools=[]")


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    folder = tmp_path / "questions"
    write_questions(folder)
    return folder


def run(command: EvalCommand, server: RunningServer, folder: Path, *more: str) -> Finished:
    url = f"model.base_url={server.base_url}"
    return command("model=openai_compatible", url, "data=jsonl", f"data.path={folder}", *more)


@pytest.mark.parametrize("native", [True, False], ids=["native tool calls", "text tools"])
def test_the_pipeline_itself_loses_nothing(
    native: bool, questions: Path, eval_command: EvalCommand, llm_server: RunningServer
) -> None:
    llm_server.reset()
    finished = run(eval_command, llm_server, questions, f"model.native_tools={str(native).lower()}")
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0), _wrong(finished)
    sent = [body for body in llm_server.requests() if "tools" in body]
    assert bool(sent) is native


def test_an_answer_follows_a_workbook_changed_after_the_server_started(
    questions: Path, eval_command: EvalCommand, llm_server: RunningServer
) -> None:
    set_workbook_cell(questions, "Piran", "sold", 31337)
    finished = run(eval_command, llm_server, questions, "ids=[xlsx-1]")
    assert [(row["task_id"], row["model_answer"]) for row in finished.answers] == [("xlsx-1", "31337")]


def test_without_tools_nothing_is_known(questions: Path, eval_command: EvalCommand, llm_server: RunningServer) -> None:
    finished = run(eval_command, llm_server, questions, *NO_TOOLS)
    assert (finished.code, finished.summary["accuracy"]) == (0, 0.0)


def test_two_copies_with_different_instructions_in_sixteen_threads_each_send_their_own(
    llm_server: RunningServer, questions: Path
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from mas.llm.profiles.openai_chat import OpenAIChatModel
    from mas.systems.gaia.system import GaiaSystem
    from mas.tools.tool_context import Resources

    system = GaiaSystem()
    model = OpenAIChatModel("perfect", llm_server.base_url)
    program = system.build(model, None, Resources())
    copies = {mark: program.deepcopy() for mark in ("COPY-A", "COPY-B")}
    for mark, copy in copies.items():
        for _, predictor in copy.named_predictors():
            predictor.signature = predictor.signature.with_instructions(f"{mark}: do your part.")
    llm_server.reset()
    with ThreadPoolExecutor(32) as pool:
        jobs = [
            pool.submit(copy, question=f"What is {number} * 3? [{mark}]")
            for number in range(100, 116)
            for mark, copy in copies.items()
        ]
        assert all(job.result().final_answer for job in jobs)
    bodies = [json.dumps(body) for body in llm_server.requests()]
    asked = {mark: [body for body in bodies if f"[{mark}]" in body] for mark in copies}
    for mark, other in (("COPY-A", "COPY-B"), ("COPY-B", "COPY-A")):
        assert len(asked[mark]) >= 16 * 5
        assert all(f"{mark}: do your part." in body and f"{other}:" not in body for body in asked[mark])


def _wrong(finished: Finished) -> list[tuple[str, str, str]]:
    return [(r["question"], r["answer"], r["target"]) for r in finished.records.values() if r["score"] != 1.0]
