"""A fact in every kind of attachment, drawn as the test runs, found by a model that can only repeat what tools return.

`python scripts/sample_data/make_every_kind.py FOLDER --seed N`, then `python eval/run.py model=openai_compatible
model.base_url=… data=jsonl data.path=FOLDER` with the server in a process of its own.
"""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from mas.tools.files import ocr
from scripts.sample_data.make_every_kind import FAMILIES, write_every_kind
from tests.eval.command_line import EvalCommand, Finished
from tests.servers.running import RunningServer

KINDS = {
    *("txt", "md", "csv", "tsv", "json", "jsonl", "jsonld", "xml", "html", "py", "js", "pdb"),
    *("xlsx", "xls", "docx", "pptx", "pdf", "epub", "zip", "png", "jpg", "gif", "webp", "mp3", "wav", "m4a"),
}
WITHOUT_OCR = "no tesseract: the questions on pictures are left out of the run"
NEED_OCR = {"png_sign", "jpeg_sign", "gif_sign", "webp_sign", "archived_picture"}
NO_TOOLS = ("system.agents.researcher.tools=[]", "system.agents.expert.tools=[]")


@pytest.fixture
def seed() -> int:
    """Another one each time; pytest shows it when a test fails."""
    return random.randrange(2**32)


@pytest.fixture
def questions(seed: int, tmp_path: Path) -> Path:
    write_every_kind(tmp_path / "questions", seed)
    return tmp_path / "questions"


def run(command: EvalCommand, server: RunningServer, folder: Path, *more: str) -> Finished:
    model = ("model=openai_compatible", f"model.base_url={server.base_url}")
    asked = [family for family in FAMILIES if family not in NEED_OCR or ocr.is_installed()]
    return command(*model, "data=jsonl", f"data.path={folder}", f"ids=[{','.join(asked)}]", *more)


@pytest.mark.slow
@pytest.mark.parametrize("native", [pytest.param(True, id="native tool calls"), pytest.param(False, id="text tools")])
def test_the_fact_in_every_kind_of_file_is_found_through_the_tools(
    native: bool, seed: int, questions: Path, eval_command: EvalCommand, llm_server: RunningServer
) -> None:
    llm_server.reset()
    finished = run(eval_command, llm_server, questions, f"model.native_tools={str(native).lower()}")
    wrong = [(r["question"], r["target"], r["answer"]) for r in finished.records.values() if r["score"] != 1.0]
    assert (finished.code, finished.summary["accuracy"]) == (0, 1.0), (seed, wrong)
    assert all(record["calls_by_tool"].get("read_file") for record in finished.records.values())
    assert any("tools" in body for body in llm_server.requests()) is native


@pytest.mark.skipif(not ocr.is_installed(), reason=WITHOUT_OCR)
def test_pictures_are_among_them() -> None:
    assert set(FAMILIES) >= NEED_OCR


@pytest.mark.slow
def test_without_the_tools_none_is_found(questions: Path, eval_command: EvalCommand, llm_server: RunningServer) -> None:
    finished = run(eval_command, llm_server, questions, *NO_TOOLS)
    assert (finished.code, finished.summary["accuracy"]) == (0, 0.0)


def test_there_is_a_question_on_every_kind_and_another_seed_has_other_answers(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_every_kind(tmp_path / str(seed), seed)
    lines = [(tmp_path / name / "metadata.jsonl").read_text("utf-8").splitlines() for name in ("1", "2")]
    first, second = ([json.loads(line) for line in each] for each in lines)
    assert {row["file_name"].rpartition(".")[2] for row in first} == KINDS
    same = Counter(a["Final answer"] == b["Final answer"] for a, b in zip(first, second, strict=True))
    assert same[True] <= 1
