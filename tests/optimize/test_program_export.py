"""Prompts between a user's program and the harness: derived as a set, and back into plain DSPy with the same bytes."""

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

from eval.cli.command import FINISHED, USER_ERROR, run_cli
from eval.runs.own_runs import note_run
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.prompt_sets.prompt_set import digest, write_prompt_set
from mas.system import Resources
from mas.systems.external.system import DspySystem
from optimize.export import task
from optimize.session.tuning_store import read_tuning
from tests.command import forget_results, keep_result
from tests.eval.foreign_folder import forget_run
from tests.eval.stored_tuning import TASK, store_tuning
from tests.mas.systems.external.user_code import module
from tests.optimize.mlflow_export.tuning_folder import keep_candidate
from tests.servers.function_llm import function_llm

SOURCE = '''
from typing import Literal
import dspy
import pydantic

class Item(pydantic.BaseModel):
    name: str
    prices: list[float]

class Sort(dspy.Signature):
    """Sort the ticket."""
    title: str = dspy.InputField(desc="as the customer wrote it")
    body: str = dspy.InputField(prefix="The text:")
    items: list[Item] = dspy.OutputField()
    label: Literal["billing", "shipping"] = dspy.OutputField(desc="one of the two")

class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.sort = dspy.ChainOfThought(Sort)
        reply = "label, items: list[Item], tone: str | None -> reply"
        self.steps = [dspy.Predict(dspy.Signature(reply, custom_types={"Item": Item}))]
    def forward(self, title, body):
        found = self.sort(title=title, body=body)
        replied = self.steps[0](label=found.label, items=found.items, tone=None)
        return dspy.Prediction(label=found.label, reply=replied.reply)
'''
INPUTS = {"title": "Two “crates”", "body": "They cost 3.5.\\n\\n  Late."}
ITEMS = [{"name": "crate", "prices": [3.5, 4]}]
DEMOS = {
    "sort.predict": [
        {"title": "A", "body": "naïve", "reasoning": "Because.", "items": ITEMS, "label": "billing"},
        {"title": "B", "body": "x", "label": "shipping"},
    ],
    "steps[0]": [{"label": "billing", "items": ITEMS, "tone": None, "reply": "Dear\\nyou"}],
}
TUNED = "Sort it.\n\n  - By the title,\n\tand naïvely.\n"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return f"{module(tmp_path, SOURCE)}:Program"


def published(folder: Path, target: str, **changes: object) -> Path:
    """A tuning run of this program that has published c001."""
    prompts = DspySystem(target).derive_prompts()
    write_prompt_set(folder / "prompts", prompts)
    tuned = replace(prompts, texts={**prompts.texts, "sort.predict": TUNED}, demos=DEMOS)
    system = {"_target_": "mas.systems.external.system.DspySystem", "target": target}
    info = RunInfo(
        run_id="r1", started_at="2026-11-21T10:00:00+00:00", config={"system": system, **changes},
        prompts_name="own", prompts_sha256=digest(prompts), tuning=TASK,
    )  # fmt: skip
    found = {"published": True, "winner": {"candidate_id": "c001"}}
    kept = keep_candidate({"candidate_id": "c001", "decision": "accepted"}, tuned)
    store_tuning(folder, info, {**kept, "verdict": found})
    note_run(info.run_id, folder)
    return folder


def change_info(folder: Path, **changes: Any) -> None:
    with RunStore(folder / "run.db") as store:
        store.write_info(replace(store.read_info(), **changes))


def test_plain_dspy_sends_the_same_bytes_as_the_run_that_published(tmp_path: Path, target: str) -> None:
    run = published(tmp_path / "run", target)
    assert task([str(run), "--dspy", "exported/out.json"]) == FINISHED
    prompts = read_tuning(run).get_prompts("c001")
    with function_llm(lambda asked: {"reasoning": "r", "items": ITEMS, "label": "billing", "reply": "y"}) as server:
        model = OpenAIChatModel("m", base_url=server.base_url, temperature=0.25)
        ours = DspySystem(target, answer_field="reply").build(model, prompts, Resources())
        assert ours(question="…", file=None, inputs=INPUTS).final_answer == "y"
        sent = list(server.bodies)
        server.bodies.clear()
        plain = importlib.import_module(target.partition(":")[0]).Program()
        plain.load("exported/out.json")
        lm = dspy.LM("openai/m", api_base=server.base_url, api_key="none", temperature=0.25, cache=False)
        with dspy.context(lm=lm):
            assert plain(**INPUTS).reply == "y"
    assert len(sent) == 2 and server.bodies == sent
    assert b"naively" not in sent[0] and "naïvely" in json.loads(sent[0])["messages"][0]["content"]
    assert [len(json.loads(each)["messages"]) for each in sent] == [6, 4]


def test_a_candidate_is_exported_past_the_gate(tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = published(tmp_path / "run", target)
    forget_results(run, "verdict")
    assert task([str(run), "--dspy", "out.json", "--candidate", "c001"]) == FINISHED
    assert "warning: c001 is exported past the gate" in capsys.readouterr().out
    written = json.loads(Path("out.json").read_text())["sort.predict"]["signature"]["instructions"]
    assert written.split() == TUNED.split()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["RUN", "--dspy", "out.txt"], "out.txt does not end with .json"),
        (["RUN", "--dspy", "there.json"], "there.json is there already, and no file is overwritten"),
        (["RUN", "--dspy", "out.json", "--candidate", "c009"], "has no candidate c009; choose one of: c001, parent"),
        (["UNPUBLISHED", "--dspy", "out.json"], "has published nothing; choose a candidate with --candidate ID"),
        (
            ["ELSEWHERE", "--dspy", "out.json"],
            "was made elsewhere, or moved since, so the program that it names is not",
        ),
        (["TOY", "--dspy", "out.json"], "system=toy is no DSPy program of yours"),
        (["--dspy", "out.json"], "RUN"),
        (["RUN", "--dspy", "out.json", "--name", "mine"], "with RUN give either --list"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    arguments: list[str], sentence: str, tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = published(tmp_path / "run", target)
    unpublished, elsewhere, toy = (published(tmp_path / name, target) for name in ("unpublished", "elsewhere", "toy"))
    keep_result(unpublished, "verdict", {"published": False, "winner": {"candidate_id": "c001"}})
    forget_run(elsewhere)
    change_info(toy, config={"system": {"_target_": "mas.systems.toy.system.ToySystem"}})
    Path("there.json").write_text("{}")
    places = {"RUN": run, "UNPUBLISHED": unpublished, "ELSEWHERE": elsewhere, "TOY": toy}
    given = [str(places.get(each, each)) for each in arguments]
    before = sorted(tmp_path.rglob("*"))
    assert run_cli(lambda: task(given, tmp_path / "prompts")) == USER_ERROR
    told = capsys.readouterr().err
    assert sentence in told and len(told.strip().splitlines()) <= 2, told
    assert [each for each in sorted(tmp_path.rglob("*")) if each not in before and "__pycache__" not in str(each)] == []
