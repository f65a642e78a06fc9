"""Faults planted in one agent or tool of a system over the simulated model, and the link that is named for each.

    for fault in Bench("gaia", "sample", "val").plant_in_agents():
        print(fault)                   # a line of the table in docs/how-to/attribution.md

Only questions that are answered right without the fault are used, and of these the ones that are wrong with it: what is
wrong then has one cause, which is known.
"""

import json
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from dspy.lm15 import Request, Response, TextPart, ToolCallPart
from hydra import compose, initialize_config_dir

from eval.analysis.attribution.broken_link import PAIR, find_broken_link
from eval.analysis.statistics.intervals import compute_share_interval
from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import EvalConfig, read_config
from eval.execution.runner import SampleRunner
from eval.runs.record import Record
from eval.workflows.replayed_proof import Correction
from mas.llm.profiles.model import AgentModel
from mas.prompt_sets.prompt_set import read_prompt_set
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleKey
from mas.simulation import SimulatedModel
from mas.simulation.task_model import answer_request
from mas.system import agent_names
from mas.systems.bos.contracts import AgentFailureError
from mas.tools.catalogue import TOOLS
from mas.tools.results import ToolError
from tests.eval.execution.sample_run import SampleRun

_SECTION = re.compile(r"(\[\[ ## (\w+) ## \]\]\n)(.*?)(?=\n\n\[\[ ## |\Z)", re.DOTALL)
_KEPT = {"reasoning", "reasoning_trace", "final_reasoning_trace", "feedback", "rationale", "confidence", "needs"}
_KEPT |= {"working", "completed", "remark", "tool_calls"}
SPANS = {  # agents made of several LLM steps: the record has the agent's step alone
    **dict.fromkeys(("sql_schema", "sql_generate", "sql_check", "sql_answer"), "sql"),
    **dict.fromkeys(("api_plan", "api_adjust", "api_summarize"), "api_docs"),
    **dict.fromkeys(("compute_code", "compute_summarize"), "computation"),
}
SERVICES = {  # tools that are no settings: name → function behind it
    "bos": {
        "mcp_db_query": "mas.systems.bos.sql.session.SqlSession.query",
        "python_repl_tool": "mas.systems.bos.computation.agent.execute",
        "http_request": "mas.systems.bos.api.agent.send",
    }
}
BROKEN = "ToolError: the service is down"
Change = Callable[[str], Callable[..., object]]  # path of a function → what is called in its place


@dataclass
class Fault:
    """Faults of one place: how often which link was named."""

    system: str
    place: str  # agent or tool
    n: int  # wrong answers
    named: Counter[str] = field(default_factory=Counter)
    planted: str = ""  # the step of the agent that was faulty

    @property
    def n_found(self) -> int:
        """Return how often the place was named, alone or as one of a pair."""
        return sum(n for name, n in self.named.items() if self.place in name.split(PAIR))

    def __str__(self) -> str:
        low, high = compute_share_interval(self.n_found / self.n, self.n, self.n) if self.n else (0.0, 1.0)
        others = ", ".join(f"{name} {n}" for name, n in self.named.most_common() if self.place not in name.split(PAIR))
        share = f"{self.n_found / self.n:.0%} ({low:.0%} to {high:.0%})" if self.n else "n/a"
        return f"| {self.system} | {self.planted} | {self.n} | {share} | {others or 'none'} |"


class FaultyModel(SimulatedModel):
    """The simulated model; replies of one agent say something else."""

    faulty: str | None = None

    def create_lm(self, agent: AgentModel) -> Any:
        if agent.agent != self.faulty:
            return super().create_lm(agent)
        return self._create_lm(lambda request: _corrupt(request, answer_request(request)), agent.temperature)


def _corrupt(request: Request, response: Response) -> Response:
    parts = [_corrupt_part(part) for part in response.message.parts]
    return replace(response, message=replace(response.message, parts=tuple(parts)))


def _corrupt_part(part: Any) -> Any:
    if isinstance(part, TextPart):
        return TextPart(_SECTION.sub(lambda found: found[1] + _corrupt_field(found[2], found[3]), part.text))
    if isinstance(part, ToolCallPart) and "query" in part.input and part.name == "mcp_db_query":
        return replace(part, input={**part.input, "query": "SELECT 424242"})
    return part


def _corrupt_field(name: str, text: str) -> str:
    if name in _KEPT:
        return text
    if name == "decision":
        return "reject"
    if name == "reviewed_query":
        return "SELECT 424242"
    if name == "code":
        return "424242"
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, list):
        return json.dumps([])
    if re.search(r"\d", text):
        return re.sub(r"\d+", lambda found: str(int(found[0]) + 717), text)
    return re.sub(r"\b[A-Za-z]\w{2,}", "Zorbat", text) if name != "plan" else text


class Bench:
    """A system over the simulated model, its questions, and the ids of those that it answers right."""

    def __init__(self, system: str, data: str, *splits: str, limit: int | None = None) -> None:
        """`limit`: of the questions that are asked first."""
        self.name = system
        with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
            overrides = [f"system={system}", f"data={data}", "model=offline", "tracking=off"]
            self.config: EvalConfig = read_config(compose("eval", overrides))
        self.samples = [each for split in splits for each in self.config.data.load(split).samples][:limit]
        self.agents = agent_names(self.config.system)
        right = {each.sample_id for each in self.run() if each.correct}
        self.samples = [each for each in self.samples if each.id in right]

    def run(
        self, faulty: str | None = None, correction: Correction | None = None, only: Collection[str] | None = None
    ) -> list[Record]:
        """Answer all questions, or those with some ids; an agent may be faulty, and the outputs of one corrected."""
        model = FaultyModel()
        model.faulty = faulty
        system = self.config.system
        prompts = read_prompt_set(system.default_prompts, agent_names(system), system.name, PROJECT_ROOT)
        found: list[Record] = []
        with ExitStack() as stack:
            resources = stack.enter_context(system.open_resources(self.config.tools, lambda text: None))
            program = system.build(model, prompts, resources)  # type: ignore[arg-type]
            if correction is not None:
                correction.change_program(program)
            runner = SampleRunner("r", program, self.config.scorer, deadline_seconds=120, redact=str)
            asked = [each for each in self.samples if only is None or each.id in only]
            pending: list[tuple[Sample, SampleKey]] = [(each, SampleKey(each.id)) for each in asked]
            run_blocking(SampleRun(runner, found.append, concurrency=8).run(pending))
        return found

    def measure(self, place: str, planted: str, faulty: str | None = None) -> Fault:
        """Count the links that are named for a fault: of an agent, or of what is patched while this is called."""
        links = [link for each in self.run(faulty) if (link := find_broken_link(each))]
        return Fault(self.name, place, len(links), Counter(link.name for link in links), planted)

    def plant_in_agents(self) -> Iterator[Fault]:
        for agent in self.agents:
            yield self.measure(SPANS.get(agent, agent), agent, faulty=agent)

    def plant_wrong_values(self) -> Iterator[Fault]:
        """Let each tool of the system's agents return other numbers and names, without an error."""
        return self._plant_in_tools(falsify_tool, _falsify, ", wrong values")

    def plant_in_tools(self) -> Iterator[Fault]:
        """Let each tool of the system's agents fail."""
        return self._plant_in_tools(break_tool, lambda path: _fail, "")

    def _plant_in_tools(self, change: Change, replace_service: Change, remark: str) -> Iterator[Fault]:
        tools = {**TOOLS, **getattr(self.config.system, "tools", {})}
        used = {name for agent in self.config.system.agents.values() for name in getattr(agent, "tools", ())}
        for name in sorted(used & tools.keys()):
            globals()[f"changed_{name}"] = change(tools[name])
            with patch.object(self.config.system, "tools", {**tools, name: f"{__name__}.changed_{name}"}):
                yield self.measure(name, f"{name}{remark}")
        for name, path in SERVICES.get(self.name, {}).items():
            with patch(path, replace_service(path)):
                yield self.measure(name, f"{name}{remark}")


async def _fail(*args: object, **kwargs: object) -> object:
    raise AgentFailureError("ServiceUnavailable", BROKEN)


def _falsify(path: str) -> Callable[..., object]:
    """Return a service like another, whose results hold other numbers and names."""
    original: Any = pkgutil.resolve_name(path)

    async def false(*args: object, **kwargs: object) -> object:
        found = await original(*args, **kwargs)
        if isinstance(found, dict):  # rows of a query
            return {**found, "data": [[_corrupt_value(cell) for cell in row] for row in found["data"]]}
        table = getattr(found, "table", None)
        if table is not None:
            rows = [{name: _corrupt_value(cell) for name, cell in row.items()} for row in table.rows]
            found = replace(found, table=table.model_copy(update={"rows": rows}))
        value = {"value": _corrupt_value(found.value)} if hasattr(found, "value") else {}
        return replace(found, text=_corrupt_field("", found.text), **value)

    return false


def _corrupt_value(value: object) -> object:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return value + 717
    return _corrupt_field("", value) if isinstance(value, str) else value


def break_tool(path: str) -> Callable[..., object]:
    """Return a tool with the signature of another, which always fails."""
    import functools
    import inspect

    from mas.tools.catalogue import load_function

    original = load_function(path)

    @functools.wraps(original)
    async def broken(*args: object, **kwargs: object) -> object:
        raise ToolError(BROKEN)

    broken.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    return broken


def falsify_tool(path: str) -> Callable[..., object]:
    """Return a tool with the signature of another, whose results say something else."""
    import functools
    import inspect

    from mas.tools.catalogue import load_function

    original: Any = load_function(path)

    @functools.wraps(original)
    async def false(*args: object, **kwargs: object) -> object:
        found = original(*args, **kwargs)
        if inspect.isawaitable(found):
            found = await found
        return _corrupt_field("", found) if isinstance(found, str) else found

    false.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    return false


BENCHES = {
    "toy": ("toy", "val"),
    "single_agent": ("sample", "val"),
    "gaia": ("sample", "val"),
    "bos": ("bos_sample", "train", "val", "test"),
}

if __name__ == "__main__":
    import sys

    for name in sys.argv[1:] or BENCHES:
        bench = Bench(name, *BENCHES[name])
        for fault in (*bench.plant_in_agents(), *bench.plant_in_tools(), *bench.plant_wrong_values()):
            print(fault, flush=True)
