"""Faults planted in each agent and each tool of the systems are named: the figures of docs/how-to/attribution.md."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.attribution.broken_link import find_broken_link
from eval.benchmarks.dataset import Sample
from eval.execution.runner import SampleRunner
from eval.scorers.gaia import GaiaScorer
from eval.scorers.labels import LabelSet
from eval.workflows.replayed_proof import find_suspects, judge_corrections
from mas.agents.spec import AgentSettings
from mas.runtime.event_loop import run_blocking
from mas.runtime.sample_context import SampleKey
from mas.systems.gaia.system import GaiaSystem
from mas.tools.catalogue import TOOLS, load_function
from mas.tools.settings import Resources, ToolSettings
from tests.eval.analysis.attribution import planted_faults
from tests.eval.analysis.attribution.planted_faults import BENCHES, Bench, Fault, break_tool
from tests.scripted_model import Call, ScriptedModel, answering, in_turn, plan

NOT_TOLD_APART = {
    ("bos", "planner"),  # it sends the question to the wrong agent, which answers as best it can
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_that_is_down_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted_faults, "broken_tool", break_tool(TOOLS[name]), raising=False)
    needed = inspect.signature(load_function(TOOLS[name])).parameters.values()
    call = Call(name, {each.name: "x" for each in needed if each.default is inspect.Parameter.empty})
    system = GaiaSystem(
        tools={name: f"{planted_faults.__name__}.broken_tool"}, agents={"researcher": AgentSettings(tools=[name])}
    )
    script = answering(planner=plan("look it up"), researcher=in_turn([call], {"result": "I found nothing."}))
    program: Any = system.build(ScriptedModel(script), None, Resources(ToolSettings()))  # type: ignore[arg-type]
    runner = SampleRunner("r", program, GaiaScorer(), deadline_seconds=60, redact=str)
    file = tmp_path / "x"
    file.write_text("42")
    sample = Sample("q1", "How many?", target="43", file=file)
    record = run_blocking(runner.run_sample(sample, SampleKey("q1")))

    link = find_broken_link(record)

    assert link is not None and (link.kind, link.name) == ("tool", name)
    assert "the service is down" in link.evidence


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHES)
def test_the_right_agent_or_tool_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    large = name in ("gaia", "bos")  # the figures of the docs are from all of their questions
    bench = Bench(name, *BENCHES[name], limit=50 if large else None)
    bench.samples = bench.samples[: 20 if large else 40]
    faults: list[Fault] = [*bench.plant_in_agents(), *bench.plant_in_tools()]
    print("\n".join(map(str, faults)))
    told = [each for each in faults if (name, each.planted) not in NOT_TOLD_APART and each.n]

    assert len(told) >= 3
    assert sum(each.n_found for each in told) >= 0.8 * sum(each.n for each in told)


@pytest.mark.slow
def test_a_proof_shows_that_a_critic_which_rejects_everything_costs_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench("gaia", *BENCHES["gaia"])
    for critic in ("critic_planner", "critic_researcher"):
        wrong = [each for each in bench.run(critic) if not each.correct]
        corrections, _ = find_suspects(bench.config, wrong, LabelSet(()), [critic])
        ids = {each.sample_id for each in wrong}
        arms = [bench.run(critic, correction, ids) for correction in (None, *corrections)]
        control, corrected = ({each.sample_id: [float(each.correct)] for each in arm} for arm in arms)
        (found,) = judge_corrections(corrections, control, [corrected])
        assert len(wrong) >= 10 and found.is_proven
