"""Users' mistakes: one clear sentence, exit code 1, no request sent, and nothing left behind.

All of them run against a loopback model that counts its requests, on questions that could be tuned on.
"""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from tests.command import TUNED_SET, Finished, check_mistake, tuning_command
from tests.eval.command_line import question, write_questions
from tests.patience import PATIENCE_SECONDS
from tests.sampling import mostly_slow
from tests.servers.running import RunningServer

SCRIPT = PROJECT_ROOT / "optimize" / "run.py"
ROWS = [question(f"q{n}", f"What is {n} + 3? Give only the number.", str(n + 3), Level=1 + n % 2) for n in range(24)]
TOY = ("system=toy", "data=toy", "model=offline")


def folders() -> set[Path]:
    """Of all runs, and of all prompt sets but those that tests in other processes publish or write (`.NAME-…`)."""
    parents = (OUTPUTS / "optimize", PROJECT_ROOT / "prompts")
    found = {each for parent in parents if parent.exists() for each in parent.iterdir() if each.is_dir()}
    return {each for each in found if each.name == TUNED_SET or not each.name.startswith("tuned_in_a_test_")}


class Refused:
    """Runs the command with a mistake in it, and checks all that holds for every mistake."""

    def __init__(self, server: RunningServer, place: Path) -> None:
        self.server, self.place = server, place
        self.data = write_questions(place / "data", *ROWS)
        self.base = ["system=gaia", "model=openai_compatible", f"model.base_url={server.base_url}", "data=jsonl"]

    def __call__(self, *mistake: str, words: Sequence[str], path: Path | None = None, said: bool = False) -> Finished:
        """`said`: something may stand on stdout, such as how the questions were shared out."""
        self.server.reset()
        before = folders()
        flags = [each for each in mistake if each.startswith("-")]
        others = [each for each in mistake if each not in flags]
        data = [f"data.path={path or self.data}"]
        tuned = tuning_command(self.place, *self.base, *data, *others, *flags)
        check_mistake(tuned, words, said)
        assert self.server.stats()["requests"] == 0
        assert folders() == before
        assert not tuned.shelf.exists()
        return tuned


@pytest.fixture
def refused(llm_server: RunningServer, tmp_path: Path) -> Refused:
    return Refused(llm_server, tmp_path)


CHOICES = [
    (["nope=1"], ["nope is not an option", "optimizer", "budget"]),
    (["gate.nope=1"], ["gate.nope is not an option", "epochs"]),
    (["optimizer=nothing"], ["optimizer=nothing", "choose one of: bootstrap, gepa, halving, mipro"]),
    (["optimizer.nope=1"], ["optimizer.nope is not an option", "minibatch_size"]),
    (["optimizer=null"], ["given null", "name a choice"]),
    (["system=nope"], ["system=nope", "gaia"]),
    (["run.epochs=3"], ["run.epochs is not an option"]),
    (["cache.tools=off"], ["cache is not an option"]),
    (["debug=few"], ["debug"]),
    (["~optimizer"], ["optimizer is not an option", "choose one of"]),
    (["--multirun", "--cfg=job"], ["Only one of", "--multirun", "--cfg"]),
]
AGENTS = [
    (["agents=[nobody]"], ["agents: nobody is no agent", "planner", "finalizer"]),
    (["agents=planner"], ["agents", "[a,b]"]),
    (["system=http", "system.url=http://127.0.0.1:9/answer"], ["system=http has no prompts of ours", "system=gaia"]),
    (["system=callable", "system.target=json:dumps"], ["system=callable has no prompts of ours", "system=gaia"]),
    (["prompts=toy_baseline"], ["toy_baseline", "'gaia'"]),
    (["prompts=no_such_set"], ["no_such_set"]),
]
NAMES = [
    (["name=a/b"], ["name=a/b", "letters, digits"]),
]
BUDGETS = [
    (["budget.usd=1"], ["budget.usd=1 cannot be kept", "no price is known", "model.prices"]),
    (["limits.cost_usd=1"], ["limits.cost_usd=1 cannot be kept", "no price is known"]),
    (["budget.usd=-1"], ["budget.usd=-1", "out of range", "more than 0"]),
    (["budget.lm_calls=many"], ["budget.lm_calls", "'many'"]),
    (["budget=5"], ["budget=5", "budget.usd"]),
]
RANGES = [
    (["gate.looks=0"], ["gate.looks=0", "expected 1 to 10"]),
    (["shortlist.min_gain=1"], ["shortlist.min_gain=1", "0 to less than 1"]),
    (["splits.train=0.7", "splits.val=0.7"], ["splits.train=0.7", "more than all"]),
    (["optimizer.component_selector=some"], ["optimizer.component_selector", "round_robin"]),
]
MODELS = [
    (["model=gpt-4o-mini", "~model.base_url"], ["gpt-4o-mini", "OPENAI_API_KEY"]),
    (["scorer=function", "scorer.target=no_such:rule"], ["scorer.target", "the module no_such cannot be imported"]),
]
RESUMING = [
    (["resume="], ["resume is empty", "latest"]),
    (["resume=nope"], ["nope is no run", "outputs/optimize"]),
    (["resume=latest", "--multirun"], ["resume goes on with one run", "--multirun"]),
]
CHEAP = [*CHOICES, *AGENTS, *NAMES, *BUDGETS, *RANGES, *MODELS, *RESUMING]


def ids(mistakes: Sequence[tuple[list[str], list[str]]]) -> list[str]:
    return [" ".join(mistake) for mistake, _ in mistakes]


@pytest.mark.slow
def test_the_same_command_without_a_mistake_does_ask_the_model(refused: Refused, tmp_path: Path) -> None:
    """Else the counts of 0 below would say nothing."""
    refused.server.reset()
    few = ["budget.lm_calls=1000", "gate.epochs=1", "optimizer=bootstrap", "optimizer.candidates=1"]
    tuned = tuning_command(tmp_path, *refused.base, f"data.path={refused.data}", *few)
    assert tuned.code == 0, tuned.err
    assert refused.server.stats()["requests"] >= 5


@pytest.mark.parametrize(("mistake", "words"), mostly_slow(CHEAP, ids(CHEAP)))
def test_a_mistake_on_the_command_line_is_one_sentence(refused: Refused, mistake: list[str], words: list[str]) -> None:
    tuned = refused(*mistake, words=words)
    assert not tuned.folder.exists(), "a run folder was made"


def test_a_simulated_reflection_is_not_passed_off_as_anothers(tmp_path: Path) -> None:
    tuned = tuning_command(tmp_path, *TOY, "reflection_model=gpt-4o")
    check_mistake(tuned, ["reflection_model=gpt-4o would not be used", "model=offline", "leave it out"])
    assert not tuned.folder.exists()


def test_questions_that_cannot_be_tuned_on_are_refused(refused: Refused, tmp_path: Path) -> None:
    few = write_questions(tmp_path / "few", *ROWS[:4])
    unanswered = write_questions(tmp_path / "open", *(question(f"q{n}", f"What is {n}?") for n in range(24)))
    refused(path=few, words=["the questions with gold answers make 1 train", "add questions"], said=True)
    refused(path=unanswered, words=["0 train, 0 val, 0 sealed", "gold answers"], said=True)
    refused("splits.sealed_level=9", words=["splits.sealed_level=9 seals no question"], said=True)


def test_a_folder_that_holds_a_run_is_refused_and_left_as_it_is(refused: Refused, tmp_path: Path) -> None:
    for name, words in (
        ("splits.json", ["already holds a tuning run", "resume="]),
        ("run.db", ["already holds a run"]),
        ("config.yaml", ["files that are no run"]),
    ):
        used = tmp_path / f"used-{name}"
        used.mkdir()
        (used / name).write_text("{}")
        refused(f"run.dir={used}", words=[*words, "name a new"])
        assert [path.name for path in used.iterdir()] == [name]
        assert (used / name).read_text() == "{}"
    (tmp_path / "file").write_text("precious")
    refused(f"run.dir={tmp_path / 'file'}", words=["cannot be written", "run.dir=…"], said=True)


FEW = (*TOY, "data.n_train=6", "data.n_val=6", "data.n_test=6", "gate.epochs=1", "budget.metric_calls=13")


@pytest.mark.parametrize("name", ["mine", "Mine"])
def test_the_name_of_another_set_is_refused_in_any_letter_case(name: str, tmp_path: Path) -> None:
    (tmp_path / "prompts" / "mine").mkdir(parents=True)
    check_mistake(tuning_command(tmp_path, *TOY, f"name={name}"), ["prompts/mine is there already", "choose another"])


@pytest.mark.slow
def test_a_run_goes_on_only_as_it_was_started(tmp_path: Path) -> None:
    first = tuning_command(tmp_path, *FEW, "budget.lm_calls=50")
    assert first.code == 3, first.err
    before = {path: path.stat().st_mtime_ns for path in sorted(first.folder.rglob("*")) if path.name != "run.lock"}
    for change in ("seed=1", "gate.looks=1", "agents=[plan]", "optimizer.minibatch_size=2"):
        again = tuning_command(tmp_path, "resume=run", change)
        assert again.code == 1
        (line,) = again.err.splitlines()
        assert line.startswith("error: the tuning run has other options (") and change.partition("=")[0] in line
    assert {path: path.stat().st_mtime_ns for path in before} == before


def at_a_terminal(command: Sequence[str], env: dict[str, str], cwd: Path, answer: str) -> tuple[int, str]:
    """The exit code and everything on the screen; `answer` is typed when it is asked whether to begin."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, close_fds=True)
    os.close(slave)
    seen, typed, until = b"", False, time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if not select.select([master], [], [], 1.0)[0]:
            continue
        try:
            read = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        seen += read
        if not typed and b"Begin? [y/N]" in seen:
            os.write(master, answer.encode() + b"\n")
            typed = True
    os.close(master)
    return process.wait(PATIENCE_SECONDS), seen.decode("utf-8", "replace")


@pytest.fixture
def terminal(
    llm_server: RunningServer, tmp_path: Path, clean_environment: dict[str, str]
) -> Callable[[str], tuple[int, str]]:
    data = write_questions(tmp_path / "data", *ROWS)

    def run(answer: str) -> tuple[int, str]:
        llm_server.reset()
        model = ["model=openai_compatible", f"model.base_url={llm_server.base_url}", "tracking=off"]
        run = [f"run.dir={tmp_path / 'run'}", f"name={TUNED_SET}", "gate.epochs=1", "optimizer=bootstrap"]
        few = ["optimizer.candidates=1", "data=jsonl", f"data.path={data}"]
        environment = {**clean_environment, "TERM": "xterm", "COLUMNS": "80"}
        return at_a_terminal([sys.executable, str(SCRIPT), *model, *run, *few], environment, tmp_path, answer)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["n", ""])
def test_at_a_terminal_the_estimate_is_shown_and_no_means_no(
    terminal: Callable[[str], tuple[int, str]], llm_server: RunningServer, tmp_path: Path, answer: str
) -> None:
    code, screen = terminal(answer)
    assert code == 1 and "error: not begun; nothing was spent." in screen
    assert re.search(r"estimate: at most [\d,]+ answers", screen) and "power: " in screen
    assert screen.index("estimate: ") < screen.index("Begin? [y/N]")
    assert llm_server.stats()["requests"] == 0
    assert not (tmp_path / "run").exists()
