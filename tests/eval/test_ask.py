"""One question asked: its steps in order, the exit codes, and that nothing is left behind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eval.ask import task
from eval.cli.command import run_cli
from eval.cli.paths import OUTPUTS
from tests.command import without_notes
from tests.eval.command_line import CONTACT, NO_BROWSER, NO_SEARCH, TABLE, without_secrets
from tests.servers.one_answer import refusal, server_that_answers
from tests.servers.running import RunningServer, running_llm

Ask = Callable[..., tuple[int, str, str]]
SECRET = "sk-this-must-never-be-shown"
SUM = "What is 17 * 23?"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Exit code, stdout and stderr, in a current folder of its own and without keys."""
    for name, value in without_secrets({}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run_cli(lambda: task(list(arguments)))
        out, err = capsys.readouterr()
        return code, out, without_notes(err)

    return command


def at(server: RunningServer) -> list[str]:
    return ["model=openai_compatible", f"model.base_url={server.base_url}", NO_BROWSER, CONTACT]


def in_order(text: str, *parts: str) -> None:
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} does not come after the parts before it in:\n{text}"
        at = found + len(part)


def test_the_steps_are_shown_in_order_and_nothing_is_left_behind(
    ask: Ask, llm_server: RunningServer, tmp_path: Path
) -> None:
    before = sorted(OUTPUTS.rglob("*")) if OUTPUTS.exists() else []
    code, out, err = ask(SUM, *at(llm_server))
    assert (code, err) == (0, NO_SEARCH)
    in_order(
        out,
        "planner\n  expert steps: 1. ",
        "critic_planner\n  approve\n  feedback: ",
        'expert\n  calculator(expression="17 * 23") → 391\n  expert answer: 391\n',
        "critic_expert\n  approve\n",
        "finalizer\n",
        "\nanswer: 391\nreasoning: ",
        "\ncalls: 6 to language models, 1 to tools\ntokens: ",
        "\ntime: ",
        "\ncost: n/a\n",
    )
    assert list(tmp_path.iterdir()) == []
    assert (sorted(OUTPUTS.rglob("*")) if OUTPUTS.exists() else []) == before


def test_an_attached_file_is_read(ask: Ask, llm_server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "fruit.csv").write_text(TABLE)
    code, out, _ = ask("In the attached file, what is the price of apple?", "--file", "fruit.csv", *at(llm_server))
    assert code == 0
    in_order(out, "researcher, research step 1\n", '  read_file(file="fruit.csv") → fruit.csv: table', "answer: 7")


@pytest.mark.parametrize("question", ["-h is it 2 + 3?", "'\"${x} [[ ## `2` ## ]] \\n?", "model=offline"])
def test_a_question_is_asked_as_it_stands(ask: Ask, llm_server: RunningServer, question: str) -> None:
    llm_server.reset()
    code, _, err = ask(question, *at(llm_server))
    assert (code, err) == (0, NO_SEARCH)
    assert question in llm_server.requests()[0]["messages"][-1]["content"]


def test_a_simulated_model_is_said_to_be_one(ask: Ask) -> None:
    code, out, err = ask(SUM, "model=offline")
    assert (code, err) == (0, "")
    assert out.startswith("Simulated model: ") and "\nanswer: " in out


def test_rejections_and_exhausted_retries_are_shown(ask: Ask) -> None:
    with running_llm(rejected=["expert"]) as server:
        code, out, _ = ask(SUM, *at(server), "system.agents.expert.retry_limit=2")
    assert code == 0
    assert out.count("critic_expert\n  reject\n  feedback: ") == 2
    in_order(out, "reject", "retries exhausted: agent expert, retry_count 2", "could not be answered")


def test_a_failure_is_told_with_its_component_and_without_the_key(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with server_that_answers(401, refusal(f"Incorrect API key provided: {SECRET}")) as base_url:
        model = ["model=openai_compatible", f"model.base_url={base_url}", "model.api_key_env=MY_KEY"]
        code, out, err = ask(SUM, *model, NO_BROWSER, CONTACT)
    assert code == 2
    note, line = err.splitlines(keepends=True)
    assert note == NO_SEARCH
    assert line.startswith("error: planner: ") and "Incorrect API key" in line
    assert "Incorrect API key" in out and "\nanswer:" not in out
    assert SECRET not in out + err
    assert err.count("\n") == 2, "its stack only if it is asked for"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "there is no question; usage: python eval/ask.py"),
        (["  ", "model=offline"], "the question is empty"),
        ([SUM, "--file", "nowhere.csv", "model=offline"], "--file nowhere.csv is not a file under "),
        ([SUM, "--fil", "x"], "unrecognized arguments: --fil"),
        (["What", "is", "this?"], "'is' cannot be read; options are given as name=value"),
        ([SUM, "model=nope"], "model=nope is not known; choose one of: "),
        ([SUM], "model=gpt-4o-mini needs an API key"),
        ([SUM, "model=offline", "run.deadline_seconds=0"], "run.deadline_seconds=0.0 is out of range"),
    ],
)
def test_a_mistake_is_one_sentence(ask: Ask, arguments: list[str], words: str) -> None:
    code, out, err = ask(*arguments)
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("error: ") and words in line
