"""DSPy's random search over worked examples, with the toy system and the simulated model."""

from pathlib import Path
from typing import Any

import pytest

from eval.scorers.score import Score
from mas.prompt_sets.prompt_set import apply_prompt_set, digest
from optimize.search.optimizers.few_shot_optimizers import BootstrapOptimizer
from optimize.search.student import Student
from tests.eval.command_line import without_notes
from tests.mas.systems.gaia.building import build
from tests.optimize.search.test_student import gaia
from tests.optimize.toy_search import toy, toy_search
from tests.scripted_model import Call, ScriptedModel, answering, said


def test_examples_are_the_agents_own_steps_in_right_answers_to_training_questions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with toy_search(tmp_path, max_metric_calls=200) as search:
        search.run(BootstrapOptimizer(candidates=5))
        right = [search.student.trial(each).record for each in search.train_ids]
    right_questions = {record.question for record in right if record.correct}
    assert 3 <= len(search.proposals) <= 5
    for each in search.proposals:
        prompts = each.prompts
        assert prompts.texts == toy()[2].texts
        assert set(prompts.demos) == {"plan", "solve", "finalize"}
        assert all(1 <= len(demos) <= 3 for demos in prompts.demos.values())
        assert {demo["problem"] for demo in prompts.demos["plan"]} <= right_questions
        assert list(prompts.demos["finalize"][0]) == ["result_to_finalize", "final_answer", "final_reasoning_trace"]
    out, err = capfd.readouterr()
    assert (out, without_notes(err)) == ("", "")


@pytest.mark.slow
def test_the_best_so_far_is_accepted_and_the_parent_is_no_proposal(tmp_path: Path) -> None:
    with toy_search(tmp_path, max_metric_calls=200, n_val=20) as search:
        search.run(BootstrapOptimizer())
        trials = [search.student.trial(each) for each in search.val_ids]
        best = sum(trial.record.score or 0.0 for trial in trials) / len(trials)
    assert digest(toy()[2]) not in {digest(each.prompts) for each in search.proposals}
    for each in search.proposals:
        assert each.val_score is not None
        assert each.decision == ("accepted" if each.val_score > best else "rejected")
        best = max(best, each.val_score)


def test_what_a_candidate_would_publish_is_what_was_scored(tmp_path: Path) -> None:
    with toy_search(tmp_path) as search:
        search.run(BootstrapOptimizer(candidates=2))
        sent = search.model.sent
        proposal = search.proposals[0]
        published = Student(search.student.deepcopy().program, toy()[2], search.trials)
        for name, predictor in published.named_predictors():
            predictor.demos = proposal.prompts.demos[name]
        trials = [published.trial(each) for each in search.val_ids]
        assert search.model.sent == sent, "they are known under the same digest"
        assert proposal.val_score == sum(trial.record.score or 0.0 for trial in trials) / len(trials)


def test_an_example_of_an_agent_with_tools_holds_its_calls_and_no_tools(tmp_path: Path) -> None:
    def right(question: str, answer: str | None, target: str) -> Score:
        return Score(1.0, "right")

    def worked_out(request: Any) -> Any:
        if any(role == "tool" for role, _ in said(request)):
            return {"expert_answer": "42", "reasoning_trace": "worked out"}
        return [Call("calculator", {"expression": "6*7"})]

    program, (_, prompts) = build(ScriptedModel(answering(expert=worked_out))), gaia()
    apply_prompt_set(program, prompts)
    with toy_search(tmp_path, program=program, prompts=prompts, scorer=right, n_train=2, n_val=2) as search:
        search.run(BootstrapOptimizer(candidates=1))
        (proposal,) = search.proposals
    (demo, *_) = proposal.prompts.demos["expert"]
    assert "tools" not in demo and demo["expert_answer"] == "42"
    (turn,) = demo["history"]["messages"]
    assert turn["tool_calls"]["tool_calls"][0]["args"] == {"expression": "6*7"}
