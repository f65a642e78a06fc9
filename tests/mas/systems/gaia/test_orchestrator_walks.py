"""Whatever the agents do, the orchestrator ends a question at the finalizer within `recursion_limit` supersteps."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from mas.systems.gaia.agents import WORKERS, GraphState, Worker, initial_state
from mas.systems.gaia.graph import recursion_limit
from mas.systems.gaia.orchestrator import orchestrate

MOST_RESEARCH_STEPS = 4
LIMITS = st.fixed_dictionaries({worker: st.integers(1, 4) for worker in WORKERS})


class Walk:
    """One question's way through the graph, with decisions drawn instead of made."""

    def __init__(self, limits: dict[Worker, int], draw: Any) -> None:
        self.state = initial_state("Q", None, "id", limits)
        self.draw = draw
        self.supersteps = 1  # the input interface
        self.rejections_in_a_row = dict.fromkeys(WORKERS, 0)
        self.attempts: list[tuple[str, int]] = []

    def run(self) -> GraphState:
        while self.state["current_step"] != "finalizer":
            self.state = orchestrate(self.state)
            self._agent(self.state["current_step"])
            self.supersteps += 2
            assert self.supersteps < 1000, "no end in sight"
        return self.state

    def _agent(self, step: str) -> None:
        if step.startswith("critic_"):
            rejected = self.draw(st.booleans())
            worker = cast(Worker, step.removeprefix("critic_"))
            self.rejections_in_a_row[worker] = self.rejections_in_a_row[worker] + 1 if rejected else 0
            self._set(**{f"{step}_decision": "reject" if rejected else "approve", f"{step}_feedback": "why"})
        elif step == "planner":
            count = self.draw(st.integers(0, MOST_RESEARCH_STEPS))
            self._set(research_steps=[f"step {index}" for index in range(count)], expert_steps=["do it"])
        elif step == "researcher":
            index = self.state["current_research_index"]
            self._set(research_results=[*self.state["research_results"][:index], f"result {index}"])
        self.attempts.append((step, self.state["current_research_index"]))

    def _set(self, **fields: Any) -> None:
        self.state = cast(GraphState, {**self.state, **fields})


@given(limits=LIMITS, data=st.data())
def test_every_sequence_of_decisions_ends_at_the_finalizer(limits: dict[Worker, int], data: st.DataObject) -> None:
    walk = Walk(limits, data.draw)
    state = walk.run()
    assert walk.supersteps <= recursion_limit(limits, MOST_RESEARCH_STEPS)
    at_limit = [worker for worker in WORKERS if walk.rejections_in_a_row[worker] >= limits[worker]]
    assert state["retry_failed"] == bool(at_limit)
    assert state["failing_agent"] == (at_limit[0] if at_limit else "")
    if not at_limit:
        assert len(state["research_results"]) == len(state["research_steps"])
        assert state["critic_expert_decision"] == "approve"


@given(limits=LIMITS, data=st.data())
def test_research_steps_come_in_order_and_none_is_left_out(limits: dict[Worker, int], data: st.DataObject) -> None:
    walk = Walk(limits, data.draw)
    walk.run()
    researched = [index for step, index in walk.attempts if step == "researcher"]
    assert researched == sorted(researched)
    assert sorted(set(researched)) == list(range(len(set(researched))))
    for index in set(researched):
        assert researched.count(index) <= limits["researcher"]
