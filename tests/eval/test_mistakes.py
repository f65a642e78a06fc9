"""Users' mistakes: one clear sentence, exit code 1, nothing on stdout, nothing left behind and no call of the model.

All of them run against a loopback model that counts its requests, on questions that it could answer.
"""

import json
import shlex
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.attribute import task as attribute
from eval.cli.paths import OUTPUTS
from eval.sync import sync
from eval.workflows.resume import read_original_arguments
from mas.runtime.errors import UserError
from tests.command import check_mistake
from tests.eval.command_line import NO_SEARCH, SCRIPT, EvalCommand, question, write_questions
from tests.eval.stored_tuning import make_tuning
from tests.process import finish
from tests.sampling import mostly_slow
from tests.servers.running import RunningServer

Q = question("q1", "What is 2 + 3?", "5")
GPT = "model=gpt-4o-mini"


def run_folders() -> set[str]:
    parent = OUTPUTS / "eval"
    return {folder.name for folder in parent.iterdir()} if parent.exists() else set()


class Refused:
    """Runs the command with a mistake in it, and checks all that holds for every mistake."""

    def __init__(self, command: EvalCommand, server: RunningServer, tmp_path: Path) -> None:
        self.command, self.server, self.folder = command, server, tmp_path
        self.data = write_questions(tmp_path / "data", Q)
        self.base = ["model=openai_compatible", f"model.base_url={server.base_url}", "data=jsonl"]

    def __call__(self, *mistake: str, words: Sequence[str], path: Path | None = None, base: bool = True) -> None:
        self.server.reset()
        before = run_folders()
        given = [*self.base, f"data.path={path or self.data}"] if base else []
        finished = self.command(*given, *mistake)
        check_mistake(finished, words)
        assert self.server.stats()["requests"] == 0
        assert not finished.folder.exists(), "a run folder was made"
        assert run_folders() == before
        assert list(Path.cwd().iterdir()) == []


@pytest.fixture
def refused(eval_command: EvalCommand, llm_server: RunningServer, tmp_path: Path) -> Refused:
    return Refused(eval_command, llm_server, tmp_path)


def test_the_same_command_without_a_mistake_does_ask_the_model(refused: Refused) -> None:
    """Else the counts of 0 below would say nothing."""
    refused.server.reset()
    finished = refused.command(*refused.base, f"data.path={refused.data}")
    assert (finished.code, finished.err) == (0, NO_SEARCH)
    assert refused.server.stats()["requests"] >= 5


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([Q, '{"task_id": "q2", '], ["metadata.jsonl, line 2", "not JSON", "data.on_bad_row=skip"]),
        ([Q, {**Q, "task_id": "q2", "file_name": "gone.csv"}], ["line 2", "gone.csv", "is not in"]),
        ([{**Q, "file_name": "../secret.csv"}], ["line 1", "../secret.csv", "bare name"]),
        ([Q, {**Q, "Question": "Another?"}], ["line 2", "'q1'", "already", "line 1"]),
        ([Q, {"Question": "Who?"}], ["line 2", "'task_id'", "missing"]),
        ([{"task_id": "q1"}], ["metadata.jsonl has no column for the question", "data.columns.question=…"]),
        ([""], ["metadata", "empty"]),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(
    refused: Refused, tmp_path: Path, rows: list[dict[str, Any] | str], words: list[str]
) -> None:
    refused(path=write_questions(tmp_path / "bad", *rows), words=words)


CHOICES = [
    (["model=gpt-5000"], ["model=gpt-5000", "gpt-4o-mini", "offline"]),
    (["system=mars"], ["system=mars", "choose one of", "gaia"]),
    (["experiment=nope"], ["experiment=nope", "offline"]),
    (["model=null"], ["given null", "model=offline"]),
    (["model=null,offline", "-m"], ["null", "model=offline"]),
    (["model=1"], ["a number", "model=offline"]),
    (["~model"], ["model is not an option", "choose one of"]),
    (["+model=offline"], ["model", "more than once"]),
    (["optimizer=gepa"], ["optimizer is not a config group of this command", "--help"]),
    (["hydra=nope"], ["hydra is not a config group", "--help"]),
    (["model=offline,gpt-4o"], ["model=offline,gpt-4o gives several values", "--multirun", "'model=[a,b]'"]),
    (["nope=1"], ["nope is not an option", "model", "system"]),
    (["run.nope=1"], ["run.nope is not an option"]),
    (["+model.nope=1"], ["model.nope is not an option"]),
    (["~run.nope"], ["run.nope", "does not exist"]),
    (["+system.agents.boss.retry_limit=1"], ["system.agents", "boss", "planner"]),
    (["--nope"], ["--nope is not a flag", "name=value"]),
    (["--cfg", "nope"], ["--cfg", "nope", "job"]),
    (["--config-dir=/no/such/folder"], ["'/no/such/folder' not found"]),
    (["-m", "--cfg", "job"], ["Only one of", "--multirun", "--cfg"]),
    (["-sc"], ["install", "query"]),
]
TYPES = [
    (["limit"], ["'limit' cannot be read", "name=value"]),
    (["limit=", "5"], ["'5' cannot be read", "name=value"]),
    (["ids=[a"], ["'ids=[a' cannot be read"]),
    (["limit=many"], ["limit", "'many'", "a whole number is expected"]),
    (["shuffle=maybe"], ["shuffle", "'maybe'", "true or false is expected"]),
    (["system.agents.expert.tools=calculator"], ["system.agents.expert.tools=[a,b]"]),
    (["run.deadline_seconds=soon"], ["run.deadline_seconds", "'soon'", "a number is expected"]),
    (["model.rate=60"], ["model.rate=60", "model.rate.requests_per_minute", "model.rate.tokens_per_minute"]),
    (["scorer.foo=1"], ["scorer.foo", "has none", "choose another"]),
    (["run.resume="], ["run.resume is empty", "latest"]),
    (["run.resume=a", "run.resume=b"], ["run.resume is given 2 times"]),
    (["run.retry_errors=true"], ["run.retry_errors=true", "run.resume=…"]),
    (["tools.web=null"], ["tools.web=null", "tools.web.seconds"]),
    (["limit=${nope}"], ["nope", "not found"]),
]
RANGES = [
    (["limit=0"], ["limit=0", "at least 1", "null"]),
    (["run.epochs=1000000000"], ["run.epochs=1000000000", "1 to 1,000"]),
    (["run.max_cost_usd=1"], ["run.max_cost_usd=1", "no price is known", "++model.prices="]),
    (["system.on_retry_exhausted=cry"], ["cry", "give_up", "best_effort"]),
    (["data.columns.question=null"], ["data.columns.question is empty"]),
    (["+data.columns.nope=x"], ["nope"]),
]
MISSING = [
    (["data.path=???"], ["data.path has no value", "data.path=…"]),
    (["model.base_url=localhost"], ["model.base_url=localhost", "not a URL", "http://"]),
    (["model.base_url=http://127.0.0.1:99999/v1"], ["model.base_url", "99999"]),
    (["data.path=/no/such/folder"], ["/no/such/folder does not exist"]),
    (["model.api_key_env=NO_SUCH_KEY"], ["NO_SUCH_KEY", "environment variable"]),
    ([GPT], ["gpt-4o-mini", "OPENAI_API_KEY", "experiment=offline"]),
    (["data=gaia_level1", "~data.path"], ["HF_TOKEN", "terms", "experiment=offline"]),
    (["~scorer._target_"], ["scorer has no _target_"]),
    (["scorer=numeric", "scorer.tolerance=-1"], ["scorer.tolerance=-1", "0 or more"]),
    (["scorer=function"], ["scorer.target has no value", "scorer.target=…"]),
    (["scorer=function", "scorer.target=no_such:rule"], ["scorer.target", "the module no_such cannot be imported"]),
    (["scorer=graded"], ["the judge", "OPENAI_API_KEY"]),
    (["scorer=graded", "model@scorer.judge=offline"], ["simulated model cannot judge", "model@scorer.judge=…"]),
    (["data.columns.answer=label"], ["no column 'label'", "data.columns.answer", "Question"]),
]
SELECTIONS = [(["ids=[q1,nope]"], ["nope", "q1"]), (["split=nope"], ["'nope'", "split=", "all"])]
TOOLS = [
    (["system.agents.expert.tools=[abacus]"], ["system.agents.expert.tools", "abacus", "calculator", "read_file"]),
    (["+system.agents.planner.tools=[calculator]"], ["system.agents.planner.tools", "researcher and expert"]),
    (["system.tools.calculator=no.such.tool"], ["no.such.tool cannot be loaded", "package.module.function"]),
    (["system.tools.calculator=math.pi"], ["math.pi is a float", "function"]),
    (["system._target_=no.such.System"], ["no.such.System cannot be loaded"]),
]
MISTAKES = [*CHOICES, *TYPES, *RANGES, *MISSING, *SELECTIONS, *TOOLS]


@pytest.mark.parametrize(("mistake", "words"), mostly_slow(MISTAKES, [" ".join(mistake) for mistake, _ in MISTAKES]))
def test_a_mistake_on_the_command_line_is_one_sentence(refused: Refused, mistake: list[str], words: list[str]) -> None:
    refused(*mistake, words=words)


def test_an_endpoint_where_nothing_listens_is_named(refused: Refused) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        refused(f"model.base_url={url}", words=["model.base_url", url.removesuffix("/v1"), "start it"])


@pytest.mark.parametrize("name", ["Qwen/Qwen3:8b", "odd, (name)=[x]"])
def test_the_price_that_is_asked_for_can_be_pasted(refused: Refused, name: str) -> None:
    given = [*refused.base, f"data.path={refused.data}", f"model.name='{name}'", "run.max_cost_usd=1"]
    hint = refused.command(*given).err.partition(" give it as ")[2].partition(" with the prices")[0]
    assert hint.startswith("'++model.prices={"), "quoted for a shell"
    priced = refused.command(*given, *shlex.split(hint))
    assert (priced.code, priced.err) == (0, NO_SEARCH)
    assert priced.summary["usage"]["cost_usd"] > 0


def test_the_price_of_a_judge_is_asked_for_where_it_is_read(refused: Refused) -> None:
    judge = [
        "scorer=graded", "model@scorer.judge=openai_compatible", f"scorer.judge.base_url={refused.server.base_url}",
        "scorer.judge.name=a:b", "model.name=m",
        "++model.prices={m: {input_usd_per_million: 1, output_usd_per_million: 1}}", "run.max_cost_usd=1",
    ]  # fmt: skip
    refused(*judge, words=["no price is known for a:b", r"'++scorer.judge.prices={a\:b: "])


def test_mandatory_values_are_named_when_nothing_gives_them(refused: Refused) -> None:
    refused("model=offline", "data=jsonl", base=False, words=["data.path=…"])
    refused("model=openai_compatible", "data=sample", base=False, words=["model.base_url=…"])


def test_a_run_folder_that_holds_a_run_or_cannot_be_one_is_refused(refused: Refused, tmp_path: Path) -> None:
    used, file = tmp_path / "used", tmp_path / "file"
    used.mkdir()
    (used / "run.db").write_bytes(b"precious")
    file.write_text("precious")
    refused(f"run.dir={used}", words=["already holds a run", "new folder"])
    refused(f"run.dir={file}", words=[str(file), "cannot be written", "run.dir=…"])
    refused(f"run.dir={file}/run", words=["cannot be written"])
    assert [path.name for path in used.iterdir()] == ["run.db"]
    assert (used / "run.db").read_bytes() == b"precious"


HEAVY = ("dspy", "mlflow", "langgraph", "litellm", "datasets", "pandas", "openai", "pydantic", "scipy")
LOADED = f"""
import os, runpy, sys
sys.argv = sys.argv[1:]
os._exit = sys.exit  # the command leaves without the interpreter's clean-up; here the modules are still to be counted
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    print([name for name in {HEAVY!r} if name in sys.modules], end.code)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [([GPT, "data=sample"], 1, "OPENAI_API_KEY"), (["model=offline"], 1, "HF_TOKEN"), (["--help"], 0, "")],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_nothing_heavy_is_loaded_for_a_missing_key_or_help(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    how = {"environment": {"HF_HOME": str(tmp_path)}, "cwd": tmp_path}
    ended = finish(tmp_path, "-c", LOADED, SCRIPT, *arguments, script="", **how)
    *shown, loaded = ended.out.splitlines()
    assert loaded == f"[] {code}"
    assert bool(shown) == (code == 0), "only help is shown"
    assert len(ended.err.splitlines()) == code
    assert words in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_mistake_ends_the_real_command_with_1(tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data", Q, "{")
    ended = finish(tmp_path / "run", "model=offline", "data=jsonl", "data.path=data", cwd=tmp_path)
    check_mistake(ended, ["error: data/metadata.jsonl, line 2: "])
    assert json.loads((data / "metadata.jsonl").read_text().splitlines()[0]) == Q
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (lambda side: read_original_arguments(side, [f"run.resume={side}"]), "python optimize/run.py resume="),
        (lambda side: attribute([side]), "python eval/run.py prompts=NAME"),
        (lambda side: sync([side]), "tracking=local, or tracking=server"),
    ],
    ids=["resume", "attribute", "sync"],
)
def test_what_cannot_be_done_with_a_side_of_a_sealed_test_names_what_can(
    command: Callable[[str], object], instead: str, tmp_path: Path
) -> None:
    folder = make_tuning(tmp_path / "tuning", phase="done")
    for side in (f"{folder}:parent", f"{folder}/parent"):
        with pytest.raises(UserError, match="a side of a tuning run's sealed test") as refused:
            command(side)
        assert instead in str(refused.value)
