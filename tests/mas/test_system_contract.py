"""One test of the contracts in `mas/system.py` over every system, and over the program that each of them builds."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.agents.spec import AgentSettings, ModelSettings
from mas.prompt_sets.prompt_set import PromptSet, digest, read_prompt_set
from mas.runtime.errors import UserError
from mas.runtime.event_loop import run_blocking
from mas.system import Program, Resources, System, agent_names
from mas.systems.bos.agents import API
from mas.systems.bos.settings import ApiSettings
from mas.systems.bos.system import BosSystem
from mas.systems.external.system import CallableSystem, DspySystem, HttpSystem
from mas.systems.gaia.system import GaiaSystem
from mas.systems.single_agent.system import SingleAgentSystem
from mas.systems.toy.system import ToySystem
from mas.tools.settings import ToolSettings
from tests.mas.systems.external.user_code import module
from tests.mas.systems.toy.toy_model import ToyModel
from tests.needs import skip_without
from tests.scripted_model import ScriptedModel, answering
from tests.servers.answering_agent import answering_agent

TOOLS = {"calculator": "mas.tools.calculator.calculator"}
WITH_TOOLS = AgentSettings(model="strong", tools=["calculator"])
CODE = """
import dspy

class Agent(dspy.Module):
    def __init__(self):
        super().__init__()
        self.solve = dspy.Predict("question -> final_answer, final_reasoning_trace")

    async def aforward(self, question):
        return await self.solve.acall(question=question)

def answer(question, file):
    return {"answer": "42", "reasoning": "six times seven"}
"""


@dataclass
class Case:
    """A system with valid settings, settings that its `check` refuses, and a model that answers 42."""

    make: Callable[..., System]
    wrong: dict[str, Any]
    model: Any = field(default_factory=lambda: ScriptedModel(answering()))
    settings: dict[str, Any] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)  # that are open during a run
    secrets: dict[str, str] = field(default_factory=dict)  # variables of the environment, which the settings name


CASES = {
    "gaia": lambda: Case(
        GaiaSystem,
        {"max_research_steps": -1},
        settings={"tools": TOOLS, "agents": {"expert": WITH_TOOLS}},
        models={"strong"},
    ),
    "single_agent": lambda: Case(
        SingleAgentSystem,
        {"agents": {"nobody": AgentSettings()}},
        settings={"tools": TOOLS, "agents": {"agent": WITH_TOOLS}},
        models={"strong"},
    ),
    "toy": lambda: Case(
        ToySystem,
        {"agents": {"nobody": ModelSettings()}},
        ToyModel(finalize={"final_answer": "42", "final_reasoning_trace": "because"}),
        settings={"agents": {"plan": ModelSettings("strong")}},
        models={"strong"},
    ),
    "bos": lambda: Case(
        BosSystem,
        {"current_time": "noon"},
        settings={
            "agents": {"composer": ModelSettings("strong")},
            "api": ApiSettings(str(PROJECT_ROOT / "eval/benchmarks/databases/shop/api_docs_context.yaml")),
        },
        models={"strong"},
        services={API},
        secrets={"BOS_API_TOKEN": "canary-token-0123"},
    ),
    "callable": lambda: Case(CallableSystem, {"target": "nowhere:answer"}, settings={"target": ":answer"}),
    "dspy": lambda: Case(DspySystem, {"target": "nowhere:Agent"}, settings={"target": ":Agent"}),
    "http": lambda: Case(HttpSystem, {"timeout_seconds": 0.0}),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    made = CASES[request.param]()
    monkeypatch.chdir(tmp_path)
    for name, value in made.secrets.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:
        if made.make in (CallableSystem, DspySystem):
            made.settings["target"] = module(tmp_path, CODE) + made.settings["target"]
        if made.make is HttpSystem:
            reply = {"answer": "42", "reasoning_trace": "six times seven"}
            made.settings["url"] = stack.enter_context(answering_agent(lambda body: reply)).url
        yield made


@contextmanager
def built(case: Case, prompts: PromptSet | None = None) -> Iterator[Program]:
    system, missing = case.make(**case.settings), list[str]()
    with system.open_resources(ToolSettings(), missing.append) as resources:
        assert isinstance(resources, Resources) and resources.settings == ToolSettings()
        assert case.services <= set(resources.services)
        yield system.build(case.model, prompts, resources)
    assert missing == []


def test_check_takes_valid_settings_and_refuses_wrong_ones_in_one_sentence(case: Case) -> None:
    system = case.make(**case.settings)
    system.check()
    assert set(system.model_names()) == case.models and set(case.secrets.values()) <= set(system.secrets())
    with pytest.raises(UserError) as raised:
        case.make(**{**case.settings, **case.wrong}).check()
    assert str(raised.value).endswith(".") and "\n" not in str(raised.value)


def test_a_program_answers_a_sample_on_the_event_loop_and_for_synchronous_callers(case: Case) -> None:
    if case.make is BosSystem:  # its straightforward plan is a computation
        skip_without("bubblewrap")
    with built(case) as program:
        for prediction in (
            run_blocking(program.acall(question="How many?", file=None)),  # type: ignore[arg-type]
            program(question="How many?", file=None),
        ):
            assert (prediction.final_answer, bool(prediction.final_reasoning_trace)) == ("42", True)
            assert prediction.state["question"] == "How many?"
            assert prediction.state["final_answer"] == "42"


def test_a_copy_has_predictors_of_its_own(case: Case) -> None:
    with built(case) as program:
        predictors = dict(program.named_predictors())
        copied = dict(program.deepcopy().named_predictors())
        assert list(copied) == list(predictors) == agent_names(case.make(**case.settings))
        for name, predictor in copied.items():
            assert predictor is not predictors[name]
            predictor.signature = predictor.signature.with_instructions("changed")
        assert all(each.signature.instructions != "changed" for each in predictors.values())


def test_a_program_is_built_with_the_prompts(case: Case, tmp_path: Path) -> None:
    system = case.make(**case.settings)
    texts = {name: f"You are {name}." for name in agent_names(system)}
    with built(case, PromptSet("mine", system.name, texts, tmp_path)) as program:
        assert {name: each.signature.instructions for name, each in program.named_predictors()} == texts
    if system.default_prompts is not None:
        default = read_prompt_set(system.default_prompts, agent_names(system), system.name, PROJECT_ROOT)
        assert len(digest(default)) == 64


def test_every_system_of_the_configuration_is_tested() -> None:
    targets = {
        line.rpartition(".")[2]
        for path in (PROJECT_ROOT / "conf/system").glob("*.yaml")
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("_target_:")
    }
    assert targets == {cast(type, make().make).__name__ for make in CASES.values()}
