"""What a question that a limit ends has to show: the expert's answer, once there is one."""

import pytest

from mas.runtime.sample_context import LimitReachedError, SampleContext, SampleKey, SampleLimits, use_context
from mas.runtime.trace import Trace, record_trace
from tests.mas.systems.gaia.building import build
from tests.scripted_model import ScriptedModel, answering, plan


@pytest.mark.parametrize(("lm_calls", "kept"), [(2, None), (3, "41"), (4, "41"), (5, "42")])
def test_a_limit_leaves_the_newest_answer(lm_calls: int, kept: str | None) -> None:
    expert = {"expert_answer": "41", "reasoning_trace": "forty and one"}
    model = ScriptedModel(answering(planner=plan(), expert=expert))
    trace = Trace("thread")
    with record_trace(trace), use_context(SampleContext(SampleKey("q"), SampleLimits(lm_calls=lm_calls))):
        if lm_calls < 5:
            with pytest.raises(LimitReachedError):
                build(model)(question="How many?")
        else:
            assert build(model)(question="How many?").final_answer == "42"
    assert trace.answer == kept
    assert len(model.requests) == lm_calls
