"""A user's DSPy program through the whole command: records of its predictors, resuming, and mistakes."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.eval.command_line import EvalCommand, Finished
from tests.sampling import mostly_slow
from tests.servers.running import RunningServer

PROGRAM = """
import dspy

class Program(dspy.Module):
    def __init__(self, size=1):
        super().__init__()
        self.summarise = dspy.Predict("title, body -> summary")
        self.classify = [dspy.ChainOfThought("summary -> label")]

    def forward(self, title, body):
        summary = self.summarise(title=title, body=body).summary
        return self.classify[0](summary=summary)

single = dspy.Predict("title, body -> label, urgency")
"""
ROWS = "id,title,body,label\nt1,Refund,I want my money back,billing\nt2,Crash,It stops at once,bug\n"
INPUTS = "data.inputs=[title,body]"
TARGET = "system.target=triage:Program"


@pytest.fixture(autouse=True)
def own_modules() -> Iterator[None]:
    """Forget the user's modules after each test: all tests have one of the same name."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("triage", "helpers"):
            del sys.modules[name]


def write_files(files: Mapping[str, str]) -> None:
    for name, text in {"triage.py": PROGRAM, "rows.csv": ROWS, **files}.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def run(command: EvalCommand, *options: str) -> Finished:
    data = ["data=csv", "data.path=rows.csv", "data.target_column=label", "scorer=exact"]
    return command("system=dspy", TARGET, INPUTS, "model=offline", *data, *options)


def test_every_predictor_is_in_the_records_and_the_summary(eval_command: EvalCommand) -> None:
    write_files({})
    finished = run(eval_command)
    assert (finished.code, finished.summary["n"], finished.summary["usage"]["lm_calls"]) == (0, 2, 4), finished.err
    for record in finished.records.values():
        agents = [each for each in record["trajectory"] if each["kind"] == "agent"]
        assert [each["name"] for each in agents] == ["summarise", "classify[0].predict"]
        calls = [each for each in record["trajectory"] if each["kind"] == "lm"]
        assert [each["parent"] for each in calls] == [each["id"] for each in agents]
        assert agents[0]["inputs"].keys() == {"title", "body"} and agents[1]["outputs"].keys() == {"reasoning", "label"}
        assert record["seconds_by_agent"].keys() == {"summarise", "classify[0].predict"}
        assert record["state"]["inputs"].keys() == {"title", "body"}
        assert record["state"]["outputs"]["label"] == record["answer"]
    assert finished.records["t1"]["question"] == "title: Refund\nbody: I want my money back"


@pytest.mark.slow
def test_a_changed_program_is_not_resumed(eval_command: EvalCommand) -> None:
    """Nor is one whose helper module was changed, which its own module imports."""
    files = {"triage.py": f"from triage_helper import TEXT\n{PROGRAM}", "triage_helper.py": "TEXT = 'one'"}
    write_files(files)
    first = run(eval_command, "limit=1")
    resume = (f"run.resume={first.folder}", f"run.dir={first.folder}")
    (first.folder / "summary.json").unlink()  # as after an interruption
    for changed, old, new in (("triage.py", "size=1", "size=2"), ("triage_helper.py", "one", "two")):
        sys.modules.pop("triage")
        sys.modules.pop("triage_helper", None)
        write_files({**files, changed: files[changed].replace(old, new)})
        refused = run(eval_command, "limit=1", *resume)
        assert (refused.code, refused.out) == (1, ""), changed
        assert "source of system.target: " in refused.err and len(refused.err.splitlines()) == 1
    write_files(files)
    sys.modules.pop("triage")
    sys.modules.pop("triage_helper")
    assert run(eval_command, "limit=1", *resume).code == 0


def saved(*predictors: tuple[str, Sequence[str]]) -> str:
    """Return a saved state of predictors with fields of these prefixes."""
    state: dict[str, Any] = {"metadata": {"dependency_versions": {}}}
    for name, prefixes in predictors:
        fields = [{"prefix": prefix, "description": "d"} for prefix in prefixes]
        signature = {"instructions": "Do it.", "fields": fields}
        state[name] = {"traces": [], "train": [], "demos": [], "signature": signature, "lm": None}
    return json.dumps(state)


Mistake = tuple[dict[str, str], list[str], list[str]]  # files, options, words of the sentence
MISTAKES: dict[str, Mistake] = {
    "a constructor with arguments": (
        {"triage.py": PROGRAM.replace("size=1", "size")},
        [],
        ["cannot be called without arguments", "'size'"],
    ),
    "a function that answers": (
        {"triage.py": "import dspy\ndef Program(title, body): ..."},
        [],
        ["cannot be called without arguments", "'title' and 'body'", "system=callable"],
    ),
    "another class": ({"triage.py": "class Program: ..."}, [], ["is a Program", "expected a dspy.Module"]),
    "no predictors": (
        {"triage.py": "import dspy\nclass Program(dspy.Module):\n def forward(self, title, body): ..."},
        [],
        ["without predictors", "__init__", "system=callable"],
    ),
    "no forward": (
        {"triage.py": "import dspy\nclass Program(dspy.Module): ..."},
        [],
        ["without a forward method"],
    ),
    "an input field without a column": (
        {},
        ["data.inputs=[title]"],
        ["triage:Program takes title, body", "the data give title", "data.inputs={field: column}"],
    ),
    "a column without an input field": (
        {},
        ["data.inputs=[title,body,id]"],
        ["triage:Program takes title, body", "give title, body, id"],
    ),
    "no such output": (
        {},
        ["system.target=triage:single", "system.answer_field=lable"],
        ["system.answer_field=lable is no output", "label, urgency"],
    ),
    "several outputs": (
        {},
        ["system.target=triage:single", "data.target_column=id"],
        ["several fields", "system.answer_field=NAME", "label, urgency"],
    ),
    "no such state": ({}, ["system.state=compiled.json"], ["FileNotFoundError", "program.save"]),
    "a pickled state": ({"p.pkl": "x"}, ["system.state=p.pkl"], ["system.state=p.pkl cannot be loaded", "JSON"]),
    "the state of another program": (
        {"p.json": saved(("answer", ["Question:"]))},
        ["system.state=p.json"],
        ["it has answer, not classify[0].predict, summarise", "of this program"],
    ),
    "the state of another version": (
        {"p.json": saved(("summarise", ["Text:", "Summary:"]), ("classify[0].predict", ["Summary:", "Label:"]))},
        ["system.state=p.json"],
        ["summarise has the fields Text: Summary: there, not Title: Body: Summary:"],
    ),
    "a module as a callable": ({}, ["system=callable"], ["is a dspy.Module", f"system=dspy {TARGET}"]),
    "a package named eval": (
        {"eval/__init__.py": "", "eval/triage.py": PROGRAM},
        ["system.target=eval.triage:Program"],
        ["eval.triage cannot be imported (ModuleNotFoundError"],
    ),
    "no model at all": (
        {},
        ["system.needs_model=false"],
        ["has no language model (summarise, classify[0].predict)", "system.needs_model=false"],
    ),
}


@pytest.mark.parametrize("mistake", mostly_slow(MISTAKES))
def test_a_mistake_is_one_sentence_and_nothing_is_spent(
    sure_command: EvalCommand, llm_server: RunningServer, mistake: str
) -> None:
    files, options, words = MISTAKES[mistake]
    write_files(files)
    llm_server.reset()
    data = ["data=csv", "data.path=rows.csv", "data.target_column=label", "scorer=exact"]
    inputs = [] if any(each.startswith("data.inputs") for each in options) else [INPUTS]
    finished = sure_command("system=dspy", TARGET, *inputs, *data, *options)
    assert (finished.code, finished.out) == (1, ""), finished.err
    assert finished.err.startswith("error: ") and len(finished.err.splitlines()) == 1, finished.err
    assert [word for word in words if word not in finished.err] == [], finished.err
    assert llm_server.stats()["requests"] == 0 and not finished.folder.exists()
