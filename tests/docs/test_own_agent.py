"""The page `docs/how-to/own-agent.md`, followed as a user does: its files written, its commands run."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.eval.command_line import EvalCommand, Finished
from tests.servers.answering_agent import answering_agent

PAGE = (PROJECT_ROOT / "docs" / "how-to" / "own-agent.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {text.split("\n", 1)[0].removeprefix("# "): text for language, text in BLOCKS if language == "python"}
SHELL = [text for language, text in BLOCKS if language == "sh"]
COMMANDS = [line for text in SHELL for line in text.splitlines() if line.startswith("python eval/run.py ")]
RUN = "python eval/run.py "


@pytest.fixture
def user(eval_command: EvalCommand, monkeypatch: pytest.MonkeyPatch) -> EvalCommand:
    """The command in a folder that holds the page's files, which no earlier test has imported."""
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
        monkeypatch.delitem(sys.modules, Path(name).stem, raising=False)
    return eval_command


def run(user: EvalCommand, command: str) -> Finished:
    finished = user(*shlex.split(command.removeprefix(RUN)))
    assert (finished.code, finished.err) == (0, ""), f"{command}\n{finished.err}"
    assert finished.summary["n"] == 5
    assert all(answer["model_answer"] for answer in finished.answers)
    return finished


def command(words: str) -> str:
    [found] = [each for each in COMMANDS if words in each]
    return found


def test_the_page_has_the_four_agents_and_a_command_for_each() -> None:
    assert list(FILES) == ["my_agent.py", "my_async_agent.py", "my_program.py", "my_server.py"]
    targets = re.findall(r"system\.(?:target|url)=(\S+)", "\n".join(COMMANDS))
    assert targets == [
        "my_agent:answer",
        "my_async_agent:answer",
        "my_program:Reader",
        "my_program:Reader",
        "http://127.0.0.1:8080/answer",
    ]
    assert {language for language, _ in BLOCKS} == {"python", "sh", "json"}


def test_the_function(user: EvalCommand) -> None:
    finished = run(user, command("my_agent:answer"))
    assert (finished.summary["simulated"], finished.summary["usage"]["lm_calls"]) == (False, 0)
    with_file = [record for record in finished.records.values() if record["file"]]
    assert with_file, "the sample's first questions have files"
    assert all(int(record["answer"]) > 0 for record in with_file)


def test_the_coroutine(user: EvalCommand) -> None:
    for record in run(user, command("my_async_agent:answer")).records.values():
        assert record["answer"] == str(len(record["question"]))
        assert record["reasoning_trace"] == "counted the characters"
        assert record["state"]["reply"] == {"pages_read": 0}


def test_the_module_and_its_prompt_set(user: EvalCommand) -> None:
    first, second = (each for each in COMMANDS if "my_program:Reader" in each)
    finished = run(user, first)
    assert (finished.summary["simulated"], finished.summary["usage"]["lm_calls"]) == (True, 5)
    assert "Answer with a single word" not in (finished.folder / "records.jsonl").read_text("utf-8")
    [block] = [text for text in SHELL if "my_prompts" in text]
    subprocess.run(["sh", "-ec", block.replace(second, "")], check=True)
    finished = run(user, second)
    assert (finished.folder / "records.jsonl").read_text("utf-8").count("Answer with a single word") >= 5


@contextmanager
def server() -> Iterator[str]:
    """`my_server.py` on a free port; its address."""
    started = [sys.executable, "my_server.py", "0"]
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_server(user: EvalCommand) -> None:
    with server() as url:
        finished = run(user, command("system=http").replace("http://127.0.0.1:8080/answer", url))
    for record in finished.records.values():
        assert record["reasoning_trace"] == "counted the lines of the file"
        assert (record["answer"] != "0") == bool(record["file"])


def test_the_request_is_the_one_that_is_shown(user: EvalCommand) -> None:
    [shown] = [json.loads(text) for language, text in BLOCKS if language == "json"]
    with answering_agent(lambda body: {"answer": "5"}) as agent:
        run(user, command("system=http").replace("http://127.0.0.1:8080/answer", agent.url))
    for body in agent.bodies:
        assert body.keys() == shown.keys()
        assert body["file"] is None or body["file"].keys() == shown["file"].keys()


def test_the_failures_named_on_the_page_count_as_it_says(user: EvalCommand) -> None:
    Path("my_agent.py").write_text("import sys\ndef answer(question): sys.exit(1)\n")
    finished = user(*shlex.split(command("my_agent:answer").removeprefix(RUN)))
    assert (finished.code, finished.summary["errors_by_class"]) == (2, {"internal": 5})
    assert finished.summary["accuracy"] == 0
