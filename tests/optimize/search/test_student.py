"""The system as DSPy's optimizers see it."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.execution.scoring import SCORER
from eval.scorers.score import Score
from mas.prompt_sets.prompt_set import PromptSet, digest, read_prompt_set
from mas.system import agent_names
from mas.systems.gaia.system import GaiaSystem
from mas.tools.tool_context import Resources
from optimize.feedback.feedback import NOT_ASKED
from optimize.search.student import NONSENSE, Objective, check_scorer
from optimize.search.trials import Trial
from tests.mas.systems.gaia.building import build
from tests.optimize.simulated_runs import record, step
from tests.optimize.toy_search import toy, toy_search
from tests.scripted_model import UNREADABLE, Call, ScriptedModel, answering, in_turn, reject

DEMO = {"problem": "A rope costs 3 crowns. What do 2 ropes cost?", "steps": ["Multiply."]}


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


def test_a_copy_shares_tools_that_could_not_be_copied(tmp_path: Path) -> None:
    system, prompts = gaia()
    program = system.build(ScriptedModel(answering()), prompts, Resources())
    program.toolboxes["uncopyable"] = (each for each in ())
    with toy_search(tmp_path, program=program, prompts=prompts) as search:
        copied = search.student.deepcopy()
        assert copied.program.toolboxes is program.toolboxes
        assert copied.trial(search.val_ids[0]).record.answer == "42"


def test_a_reset_copy_loses_the_examples_of_tuned_agents_and_nothing_else(tmp_path: Path) -> None:
    finalized = {"result_to_finalize": "6", "final_answer": "6", "final_reasoning_trace": "Added up."}
    prompts = replace(toy()[2], demos={"plan": [DEMO], "finalize": [finalized]})
    with toy_search(tmp_path, prompts=prompts, agents=("plan", "solve")) as search:
        reset = search.student.reset_copy()
        assert search.student.prompts.demos == prompts.demos
        assert reset.prompts.demos == {"finalize": [finalized]}
        assert all(predictor.lm is not None for predictor in reset.predictors())


def test_its_prompts_are_what_it_would_publish(tmp_path: Path) -> None:
    with toy_search(tmp_path) as search:
        search.student.predictors()[0].demos = [dspy.Example(augmented=True, **DEMO)]
        search.student.trial(search.val_ids[0])
        found = search.student.prompts
        assert found.demos == {"plan": [DEMO]}
        assert digest(found) == digest(replace(toy()[2], demos={"plan": [DEMO]}))


def test_changed_prompts_are_asked_anew(tmp_path: Path) -> None:
    with toy_search(tmp_path) as search:
        search.student.trial(search.val_ids[0])
        sent = search.model.sent
        plan = search.student.predictors()[0]
        plan.signature = plan.signature.with_instructions("Plan it.")
        search.student.trial(search.val_ids[0])
        assert search.model.sent > sent
        assert search.trials.n_completed == 2


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
    plan = {"research_steps": [], "expert_steps": ["work it out"]}
    script = answering(planner=in_turn(UNREADABLE, UNREADABLE, plan))
    program = system.build(ScriptedModel(script), prompts, Resources())
    with toy_search(tmp_path, program=program, prompts=prompts) as search:
        steps = search.student.trial(search.val_ids[0]).steps
        planned = [step for step in steps if step[0] == "planner"]
        assert [list(step[2].keys()) for step in planned] == [["research_steps", "expert_steps"], ["unreadable_reply"]]
        _, inputs, outputs = planned[1]
        assert outputs.unreadable_reply == UNREADABLE
        assert list(inputs) == ["request"] and inputs["request"]


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


class Grader:
    """Gives the target and everything else the values of a test, and notes what it was asked."""

    def __init__(self, right: float | Exception, wrong: float | Exception) -> None:
        self.right, self.wrong = right, wrong
        self.asked: list[tuple[str, str | None, str]] = []

    def __call__(self, question: str, answer: str | None, target: str) -> Score:
        self.asked.append((question, answer, target))
        value = self.right if answer == target else self.wrong
        if isinstance(value, Exception):
            raise value
        return Score(value, "")


class AsyncGrader(Grader):
    async def __call__(self, question: str, answer: str | None, target: str) -> Score:  # type: ignore[override]
        return super().__call__(question, answer, target)


ASKED = [Sample("none", "No target."), *(Sample(f"q{n}", f"Question {n}.", target=f"Figolth {n}") for n in range(7))]
FIX = "Fix the scorer or the question's target."


@pytest.mark.parametrize(("grader", "n_tried"), [(Grader(1.0, 0.99), 5), (AsyncGrader(1.0, 0.99), 2)])
def test_a_scorer_is_tried_on_the_targets_of_a_few_questions_and_on_nonsense(grader: Grader, n_tried: int) -> None:
    assert check_scorer(grader, ASKED) is None
    tried = [(sample.question, answer, sample.target) for sample in ASKED[1 : n_tried + 1]
             for answer in (sample.target, NONSENSE)]  # fmt: skip
    assert grader.asked == tried


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        (0.99, 0.0, f"The scorer gives 0.99 on question q0 with the target itself as the answer; expected 1. {FIX}"),
        (1.0, 1.0, f"The scorer gives 1 on question q0 with nonsense as the answer; expected less than 1. {FIX}"),
        (
            ValueError("no\n number"),
            0.0,
            "The scorer failed on question q0 with the target itself as the answer (ValueError: no number); fix it or "
            "choose another.",
        ),
        (
            1.0,
            ValueError("not figolth 0"),
            "The scorer failed on question q0 with nonsense as the answer; fix it or choose another.",
        ),
    ],
)
def test_what_is_wrong_with_a_scorer_is_told_with_the_question(
    right: float | Exception, wrong: float | Exception, problem: str
) -> None:
    assert check_scorer(Grader(right, wrong), ASKED) == problem


def test_without_a_target_no_scorer_can_be_tried() -> None:
    assert check_scorer(Grader(1.0, 0.0), ASKED[:1]) == (
        "No question has a target, so no answer can be scored; add targets to the data."
    )


@pytest.mark.parametrize(
    ("changes", "completed", "score", "error"),
    [
        ({}, True, 1.0, None),
        ({"score": 0.25}, True, 0.25, None),
        ({"score": 0.0}, True, 0.0, None),
        ({}, False, 0.0, None),
        ({"error": "late", "error_class": "timeout"}, True, 0.0, None),
        ({"error": "no number", "error_class": SCORER}, True, 0.0, "no number"),
        ({"score": None}, True, 0.0, "question q1 has no score"),
        ({"score": math.nan}, True, 0.0, "question q1 has no score"),
        ({"score": math.inf}, True, 0.0, "question q1 has no score"),
    ],
)
def test_the_objective_is_the_score_and_what_could_not_be_scored_is_counted(
    changes: dict[str, Any], completed: bool, score: float, error: str | None
) -> None:
    train, val = Sample("q1", "What is it?", target="17"), Sample("q2", "And that?", target="18")
    objective = Objective([train], [val])
    assert (objective.train_ids, objective.val_ids) == (["q1"], ["q2"])
    assert objective.samples == {"q1": train, "q2": val}
    trial = Trial(replace(record("17", "17"), **changes), completed=completed)
    example, prediction = dspy.Example(sample_id="q1"), dspy.Prediction(trial=trial)
    assert objective(example, prediction) == score
    assert (objective.calls, objective.errors, objective.first_error) == (1, int(error is not None), error)
    told = objective(example, prediction, pred_name="expert")
    assert isinstance(told, dspy.Prediction) and told.score == score
    assert (told.feedback == NOT_ASKED) is not completed
    objective(example, dspy.Prediction())
    assert (objective.calls, objective.errors) == (3, 2 * (error is not None) + 1)
    assert objective.first_error == error if error else str(objective.first_error).startswith("AttributeError: ")


def test_the_agent_at_fault_is_found_in_wrong_answers_that_were_completed_and_have_a_target() -> None:
    wrong = [step("expert", expert_answer="Bovelck"), step("finalizer", final_answer="Bovelck")]
    sample, made = Sample("q1", "What is it?", target="Figolth"), record("Figolth", "Bovelck", wrong)
    assert Objective([sample]).find_agent_at_fault(Trial(made)) == "expert"
    assert Objective([sample]).find_agent_at_fault(Trial(made, completed=False)) is None
    assert Objective([replace(sample, target=None)]).find_agent_at_fault(Trial(made)) is None
    right = record("Figolth", "Figolth", wrong)
    assert Objective([sample]).find_agent_at_fault(Trial(right)) is None
