"""A user's DSPy program as a system: named inputs, outputs, models, prompts, and a span for each predictor and tool."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dspy
import pytest

from eval.execution.runner import sum_usage
from mas.runtime.errors import AgentReplyError
from mas.runtime.sample_context import SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from mas.system import Resources
from mas.systems.external.system import DspySystem
from tests.mas.systems.external.user_code import AnyonesModel, module
from tests.scripted_model import system_text


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def system(folder: Path, source: str, name: str = "Program", **settings: Any) -> DspySystem:
    made = DspySystem(f"{module(folder, source)}:{name}", **settings)
    made.check()
    return made


def program(folder: Path, source: str, name: str = "Program", model: Any = None, **settings: Any) -> Any:
    return system(folder, source, name, **settings).build(model, None, Resources())


TWO_STEPS = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.draft = dspy.Predict("question -> notes")
        self.solve = dspy.ChainOfThought("question, notes -> answer")
    {0}def {1}(self, question, file=None):
        notes = ({2}self.draft{3}(question=question)).notes
        return {2}self.solve{3}(question=question, notes=notes)
program = Program()
def make(): return Program()
"""
FORWARD = TWO_STEPS.format("", "forward", "", "")
AFORWARD = TWO_STEPS.format("async ", "aforward", "await ", ".acall")


def solving() -> AnyonesModel:
    return AnyonesModel(notes="six", reasoning="six times seven", answer="42")


@pytest.mark.parametrize("source", [FORWARD, AFORWARD], ids=["forward", "aforward"])
@pytest.mark.parametrize("name", ["Program", "program", "make"])
def test_every_predictor_is_an_agent_of_the_run(tmp_path: Path, source: str, name: str) -> None:
    agent = program(tmp_path, source, name, solving())
    with record_trace(Trace("t")) as trace:
        prediction = agent(question="How many?")
    assert (prediction.final_answer, prediction.final_reasoning_trace) == ("42", "six times seven")
    assert prediction.state["outputs"] == {"reasoning": "six times seven", "answer": "42"}
    assert [(each.kind, each.parent) for each in trace.spans] == [
        *(("agent", None), ("lm", 0)),
        *(("agent", None), ("lm", 2)),
    ]
    draft, solve = (each for each in trace.spans if each.kind == "agent")
    assert (draft.name, draft.inputs, draft.outputs) == ("draft", {"question": "How many?"}, {"notes": "six"})
    assert (solve.name, solve.inputs) == ("solve.predict", {"question": "How many?", "notes": "six"})
    assert solve.outputs == {"reasoning": "six times seven", "answer": "42"}


def test_a_program_of_compiled_parts_alone_is_evaluated_as_it_is(tmp_path: Path) -> None:
    source = FORWARD.replace("Program()", "Program()\nprogram.draft._compiled = program.solve._compiled = True", 1)
    agent = program(tmp_path, source, "program", solving())
    assert agent(question="How many?").final_answer == "42"


FIELDS = """
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.classify = dspy.Predict("title, body -> label, urgency: int")
    def forward(self, title, body, n: int = 1, file=None):
        assert n == 1 or n == 3
        found = self.classify(title=title, body=body)
        return dspy.Prediction(label=found.label, urgency=found.urgency, tags=["a", 1])
"""


def test_inputs_arrive_by_name_and_all_outputs_are_kept(tmp_path: Path) -> None:
    agent = program(
        tmp_path, FIELDS, "Program", AnyonesModel(label="bug", urgency="2"), data_inputs=["title", "body", "n"],
        target_column="label",
    )  # fmt: skip
    with record_trace(Trace("t")) as trace:
        prediction = agent(question="…", inputs={"body": "it stops", "title": "Crash", "n": "3"})
    assert prediction.final_answer == "bug"
    assert prediction.state["outputs"] == {"label": "bug", "urgency": 2, "tags": ["a", 1]}
    assert prediction.state["inputs"] == {"body": "it stops", "title": "Crash", "n": "3"}
    assert trace.spans[0].inputs == {"title": "Crash", "body": "it stops"}
    with pytest.raises(AgentReplyError, match=r"the input n of agent_\d+:Program is no int: 'three'"):
        agent(question="…", inputs={"body": "it stops", "title": "Crash", "n": "three"})


@pytest.mark.parametrize(
    ("answer_field", "target_column", "answer"),
    [("urgency", "label", "2"), ("tags", None, '["a", 1]'), (None, "label", "bug"), (None, None, None)],
)
def test_the_answer_is_one_of_the_outputs(
    tmp_path: Path, answer_field: str | None, target_column: str | None, answer: str | None
) -> None:
    settings = {"answer_field": answer_field, "target_column": target_column, "data_inputs": ["title", "body"]}
    agent = program(tmp_path, FIELDS, "Program", AnyonesModel(label="bug", urgency="2"), **settings)
    inputs = {"title": "Crash", "body": "it stops"}
    if answer is None:
        with pytest.raises(AgentReplyError, match=r"system\.answer_field=NAME: label, urgency, tags"):
            agent(question="…", inputs=inputs)
    else:
        assert agent(question="…", inputs=inputs).final_answer == answer


TYPED = """
from __future__ import annotations
from typing import Any, Optional
import dspy
class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.unused = dspy.Predict("a -> b")
    def forward(self, tags: list[str], n: int, note: str, size: Optional[int], extra: Any, times: int = 7):
        return repr((tags, n, note, size, extra, times))
"""


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        (('["a"]', "3", "5", "4", "6", "8"), (["a"], 3, "5", 4, "6", 8)),
        (("[]", "-1", "", "", "", ""), ([], -1, "", None, "", 7)),
    ],
)
def test_an_input_has_the_type_that_the_program_says(
    tmp_path: Path, values: tuple[str, ...], arguments: tuple[object, ...]
) -> None:
    names = ["tags", "n", "note", "size", "extra", "times"]
    agent = program(tmp_path, TYPED, "Program", AnyonesModel(), data_inputs=names)
    assert agent(question="…", inputs=dict(zip(names, values, strict=True))).final_answer == repr(arguments)


REACT = """
import dspy
def search(city: str) -> str:
    "Look a city up."
    if city == "Rome": return "two million"
    raise LookupError("no such city")
{0}
program = dspy.ReAct("question -> answer", tools=[search])
"""


class ReactModel(AnyonesModel):
    """Asks for a city, for one that does not exist, and then ends."""

    def __init__(self) -> None:
        super().__init__()
        cities = iter(["Rome", "Atlantis"])

        def script(agent: str, request: Any) -> dict[str, str]:
            city = next(cities, None)
            name, arguments = ("search", json.dumps({"city": city})) if city else ("finish", "{}")
            return {
                "next_thought": "look", "next_tool_name": name, "next_tool_args": arguments,
                "reasoning": "so", "answer": "2",
            }  # fmt: skip

        self.script = script


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_the_tools_of_react_are_calls_of_the_predictor_that_chose_them(tmp_path: Path, kind: str) -> None:
    wrapped = (
        "class Program(dspy.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.react = dspy.ReAct('question -> answer', tools=[search])\n"
        "    def forward(self, question): return self.react(question=question)\n"
    )
    name, prefix = ("program", "") if kind == "async" else ("Program", "react.")
    agent = program(tmp_path, REACT.format(wrapped), name, ReactModel())
    with record_trace(Trace("t")) as trace:
        prediction = agent(question="How many live in Rome?")
    assert (prediction.final_answer, prediction.state["outputs"]["trajectory"]["observation_0"]) == ("2", "two million")
    agents = [each for each in trace.spans if each.kind == "agent"]
    assert [each.name for each in agents] == [*[f"{prefix}react"] * 3, f"{prefix}extract.predict"]
    first, second = (each for each in trace.spans if each.kind == "tool")
    assert (first.name, first.inputs, first.outputs) == ("search", {"city": "Rome"}, {"observation": "two million"})
    assert second.error == "LookupError: no such city"
    assert [each.parent for each in (first, second)] == [agents[0].id, agents[1].id]
    assert [trace.find_span(each, "agent") for each in (first, second)] == agents[:2]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_tools_are_limited_and_one_that_blocks_has_a_thread(tmp_path: Path, kind: str) -> None:
    source = REACT.format("import threading").replace("def search", f"{kind} search")
    source = source.replace('return "two million"', "return threading.current_thread().name")
    agent = program(tmp_path, source, "program", ReactModel())
    context = SampleContext(SampleKey("q"), SampleLimits(tool_calls=1))
    with use_context(context):
        prediction = agent(question="How many live in Rome?")
    trajectory = prediction.state["outputs"]["trajectory"]
    assert trajectory["observation_0"].startswith("mas-blocking" if kind == "def" else "mas-loop")
    assert "used its 1 tool calls (limits.tool_calls)" in trajectory["observation_1"]
    assert (context.usage.tool_calls, context.limit_reached, prediction.final_answer) == (1, "tool_calls", "2")


RLM = """
import dspy
from dspy.primitives.code_interpreter import FinalOutput
class Interpreter:
    tools, output_fields = {}, None
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def start(self): pass
    def shutdown(self): pass
    def execute(self, code, variables=None):
        if code == "ask": return FinalOutput({"answer": self.tools["llm_query"](prompt="?")})
program = dspy.RLM("question -> answer", interpreter_factory=Interpreter)
"""


def test_code_of_an_rlm_may_ask_a_model(tmp_path: Path) -> None:
    model = AnyonesModel(reasoning="ask", code="ask")
    program(tmp_path, RLM, "program", model)(question="?")
    assert len(model.requests) == 2


def test_a_predictor_with_a_model_of_its_own_keeps_it(tmp_path: Path) -> None:
    source = f"{FORWARD}\nfrom dspy import LM\nprogram.draft.lm = LM('openai/mine', api_key='none')\n"
    agent = program(tmp_path, source, "program", solving())
    assert {name: predictor.lm.model for name, predictor in agent.named_predictors()} == {
        "draft": "openai/mine",
        "solve.predict": "scripted/scripted",
    }


def test_calls_of_a_model_of_its_own_are_recorded_at_an_unknown_cost(tmp_path: Path) -> None:
    own = "from dspy.utils.dummies import DummyLM\nprogram.draft.lm = DummyLM([{'notes': 'six'}])\n"
    agent = program(tmp_path, f"{FORWARD}\n{own}", "program", solving())
    with record_trace(Trace("t")) as trace:
        assert agent(question="How many?").final_answer == "42"
    assert [(each.kind, each.name) for each in trace.spans] == [
        *(("agent", "draft"), ("lm", "dummy")),
        *(("agent", "solve.predict"), ("lm", "scripted/scripted")),
    ]
    call = trace.spans[1]
    assert "How many?" in str(call.inputs) and "six" in str(call.outputs)
    usage = sum_usage(trace.spans)
    assert (usage.lm_calls, usage.unknown_cost_calls, usage.cost_usd) == (2, 2, None)


def save_state(folder: Path, source: str, change: Mapping[str, str]) -> Path:
    """Return the state of a program with other instructions, as its owner saves it."""
    owned: Any = system(folder, source).loaded.module.deepcopy()
    for name, predictor in owned.named_predictors():
        predictor.signature = predictor.signature.with_instructions(change[name])
        predictor.lm = dspy.LM("openai/theirs", api_base="http://127.0.0.1:9/", api_key="none")
    owned.save(folder / "program.json")
    return folder / "program.json"


def test_a_saved_state_is_loaded_and_its_model_is_not(tmp_path: Path) -> None:
    state = save_state(tmp_path, FORWARD, {"draft": "Note it down.", "solve.predict": "Solve it."})
    model = solving()
    agent = program(tmp_path, FORWARD, "Program", model, state=str(state))
    assert agent(question="?").final_answer == "42"
    first, second = (system_text(request) for _, request in model.requests)
    assert "Note it down." in first and "Solve it." in second
