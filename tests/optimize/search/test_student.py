"""The system as DSPy's optimizers see it."""

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import dspy
import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.execution.budget import BudgetSettings
from mas.prompt_sets.prompt_set import PromptSet, read_prompt_set
from mas.runtime.sample_context import LimitReachedError, SampleLimits, current_context
from mas.system import agent_names
from mas.systems.gaia.system import GaiaSystem
from mas.tools.settings import Resources
from tests.mas.systems.gaia.building import build
from tests.optimize.toy_search import toy, toy_search
from tests.scripted_model import UNREADABLE, Call, ScriptedModel, answering, in_turn, reject


def gaia() -> tuple[GaiaSystem, PromptSet]:
    system = GaiaSystem()
    return system, read_prompt_set("baseline", agent_names(system), "gaia", PROJECT_ROOT)


def test_only_the_agents_that_are_tuned_are_its_predictors_under_their_own_names(tmp_path: Path) -> None:
    with toy_search(tmp_path, agents=("solve", "plan")) as search:
        assert [name for name, _ in search.student.named_predictors()] == ["plan", "solve"]
        assert list(search.student.prompts.texts) == ["plan", "solve", "finalize"]


def test_copies_have_prompts_of_their_own_and_share_models_and_trials(tmp_path: Path) -> None:
    with toy_search(tmp_path) as search:
        copied = search.student.deepcopy()
        for one, other in zip(search.student.predictors(), copied.predictors(), strict=True):
            assert one is not other and one.lm is other.lm
        assert copied.trials is search.student.trials
        plan = copied.predictors()[0]
        plan.signature = plan.signature.with_instructions("Plan it.")
        assert copied.prompts.texts["plan"] == "Plan it."
        assert search.student.prompts.texts["plan"] == toy()[2].texts["plan"]


def test_the_callers_trace_gets_the_steps_of_this_copy_also_from_memory(tmp_path: Path) -> None:
    with toy_search(tmp_path) as search:
        for student in (search.student.deepcopy(), search.student.deepcopy()):
            with dspy.context(trace=[]):
                prediction = student(sample_id=search.val_ids[0])
                trace = dspy.settings.trace
            assert [id(step[0]) for step in trace] == [id(each) for each in student.predictors()]
            assert [next(iter(step[2].keys())) for step in trace] == ["steps", "working", "final_answer"]
            assert prediction.final_answer == prediction.trial.record.answer
        assert search.trials.n_completed == 1


def test_an_answer_that_is_no_longer_in_memory_is_replayed_and_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimize.search.trials.MAX_KEPT_ANSWERS", 2)
    with toy_search(tmp_path) as search:
        first, *others = search.val_ids[:4]
        answered = search.student.trial(first)
        assert search.student.trial(first) is answered
        for each in others:
            search.student.trial(each)
        sent, again = search.model.sent, search.student.trial(first)
        assert again is not answered and again.record.answer == answered.record.answer
        assert search.model.sent == sent and search.trials.n_completed == search.budget.spend().metric_calls == 4


def test_of_an_agent_with_tools_only_the_call_that_ends_its_request_is_a_step(tmp_path: Path) -> None:
    _, prompts = gaia()
    answer = {"expert_answer": "42", "reasoning_trace": "worked out"}
    program = build(ScriptedModel(answering(expert=in_turn([Call("calculator", {"expression": "6*7"})], answer))))
    with toy_search(tmp_path, program=program, prompts=prompts) as search:
        steps = search.student.trial(search.val_ids[0]).steps
        (expert,) = [step for step in steps if step[0] == "expert"]
        assert expert[2].expert_answer == "42"
        assert "tools" not in expert[1]
        (turn,) = expert[1]["history"].messages
        assert turn["tool_calls"].tool_calls[0].name == "calculator"


def test_a_reply_that_nobody_could_read_is_a_step_of_its_agent(tmp_path: Path) -> None:
    system, prompts = gaia()
    program = system.build(ScriptedModel(answering(finalizer=UNREADABLE)), prompts, Resources())
    with toy_search(tmp_path, program=program, prompts=prompts) as search:
        *_, (agent, inputs, outputs) = search.student.trial(search.val_ids[0]).steps
        assert (agent, outputs.unreadable_reply) == ("finalizer", UNREADABLE)
        assert list(inputs) == ["answer_request"] and inputs["answer_request"]


def test_for_demos_an_agent_shows_its_last_readable_step_alone(tmp_path: Path) -> None:
    system, prompts = gaia()
    script = answering(critic_expert=in_turn(reject("units?"), {"decision": "approve", "feedback": "good"}))
    program = system.build(ScriptedModel(script), prompts, Resources())

    def decisions(student: Any) -> list[str]:
        with dspy.context(trace=[]):
            student(sample_id=search.val_ids[0])
            return [step[2].decision for step in dspy.settings.trace if step[0] is student.program.critic_expert]

    with toy_search(tmp_path, program=program, prompts=prompts) as search:
        assert decisions(search.student) == ["reject", "approve"]
        assert decisions(search.student.copy_for_demos()) == ["approve"]
        assert decisions(search.student.copy_for_demos().deepcopy()) == ["approve"]


class Swallowing(dspy.Module):
    """Takes no notice of its limit of tools, nor of the run's budget after one request."""

    async def acall(self, **given: object) -> dspy.Prediction:
        context = current_context()
        assert context is not None
        context.limits = SampleLimits(tool_calls=0)
        with suppress(LimitReachedError):
            context.count_tool_call()
        for _ in range(2):
            with suppress(LimitReachedError):
                await context.reserve_lm_call()
        return dspy.Prediction(final_answer="42", final_reasoning_trace="")


@pytest.mark.parametrize(("lm_calls", "completed"), [(1, False), (9, True)])
def test_an_answer_that_the_budget_refused_is_none_whichever_limit_came_first(
    tmp_path: Path, lm_calls: int, completed: bool
) -> None:
    with toy_search(tmp_path, budget=BudgetSettings(lm_calls=lm_calls)) as search:
        trial = search.trials.run(cast(Any, Swallowing()), "candidate", search.val_ids[0])
    assert (trial.completed, trial.record.limit) == (completed, "tool_calls" if completed else None)
