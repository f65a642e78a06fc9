"""DSPy's random search over worked examples, with the toy system and the simulated model."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dspy
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from eval.cli.paths import PROJECT_ROOT
from eval.scorers.score import Score
from mas.prompt_sets.prompt_set import apply_prompt_set, digest
from mas.runtime.errors import UserError
from optimize.search.budget import BudgetSettings
from optimize.search.optimizer import SearchCost, SearchOutcome
from optimize.search.optimizers import scored_programs
from optimize.search.optimizers.bootstrap_optimizer import BootstrapOptimizer
from optimize.search.optimizers.scored_programs import SearchOverError
from optimize.search.student import Student
from tests.eval.command_line import without_pauses
from tests.mas.systems.gaia.building import build
from tests.optimize.search.test_student import gaia
from tests.optimize.toy_search import toy, toy_search
from tests.scripted_model import Call, ScriptedModel, answering, said


def test_the_configuration_makes_it() -> None:
    optimizer = instantiate(OmegaConf.load(PROJECT_ROOT / "conf" / "optimizer" / "bootstrap.yaml"))
    assert optimizer == BootstrapOptimizer()
    optimizer.check()


@pytest.mark.parametrize("option", ["max_demos", "candidates"])
def test_a_setting_that_makes_no_sense_is_refused_by_its_name(option: str) -> None:
    with pytest.raises(UserError, match=f"optimizer.{option}"):
        BootstrapOptimizer(**{option: 0}).check()


def test_examples_are_the_agents_own_steps_in_right_answers_to_training_questions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with toy_search(tmp_path, max_metric_calls=200) as search:
        search.run(BootstrapOptimizer(candidates=5))
        right = [search.student.trial(each).record for each in search.train_ids]
    right_questions = {record.question for record in right if record.correct}
    assert 3 <= len(search.proposals) <= 5
    for each in search.proposals:
        prompts = each.candidate.prompts
        assert prompts.texts == toy()[2].texts
        assert set(prompts.demos) == {"plan", "solve", "finalize"}
        assert all(1 <= len(demos) <= 3 for demos in prompts.demos.values())
        assert {demo["problem"] for demo in prompts.demos["plan"]} <= right_questions
        assert list(prompts.demos["finalize"][0]) == ["result_to_finalize", "final_answer", "final_reasoning_trace"]
    out, err = capfd.readouterr()
    assert (out, without_pauses(err)) == ("", "")


def test_the_best_so_far_is_accepted_and_the_parent_is_no_proposal(tmp_path: Path) -> None:
    with toy_search(tmp_path, max_metric_calls=200, n_val=20) as search:
        search.run(BootstrapOptimizer())
        trials = [search.student.trial(each) for each in search.val_ids]
        best = sum(trial.record.score or 0.0 for trial in trials) / len(trials)
    assert digest(toy()[2]) not in {digest(each.candidate.prompts) for each in search.proposals}
    for each in search.proposals:
        assert each.val_score is not None
        assert each.decision == ("accepted" if each.val_score > best else "rejected")
        best = max(best, each.val_score)


def test_equal_seeds_draw_the_same_and_a_second_session_asks_nothing(tmp_path: Path) -> None:
    told = []
    for folder, threads in (("one", 1), ("eight", 8), ("eight", 3)):
        with toy_search(tmp_path / folder, threads=threads) as search:
            search.run(BootstrapOptimizer())
            told.append(search.told)
            sent = search.model.sent
    assert told[0][:-1] == told[1][:-1] == told[2][:-1] != []
    assert sent == 0


def test_another_seed_draws_something_else(tmp_path: Path) -> None:
    told = []
    for seed in (0, 1):
        with toy_search(tmp_path, seed=seed) as search:
            search.run(BootstrapOptimizer(candidates=2))
            told.append(search.told)
    assert told[0] != told[1]


def test_what_the_budget_cuts_off_is_told_as_that_and_is_the_last(tmp_path: Path) -> None:
    with toy_search(tmp_path, budget=BudgetSettings(metric_calls=40)) as search:
        search.run(BootstrapOptimizer())
    assert [each.decision == "cut_off" for each in search.proposals] == [False, True]
    assert search.ledger.spend().metric_calls == 40


def test_what_a_candidate_would_publish_is_what_was_scored(tmp_path: Path) -> None:
    with toy_search(tmp_path) as search:
        search.run(BootstrapOptimizer(candidates=2))
        sent = search.model.sent
        proposal = search.proposals[0]
        published = Student(search.student.deepcopy().program, toy()[2], search.trials)
        for name, predictor in published.named_predictors():
            predictor.demos = proposal.candidate.prompts.demos[name]
        trials = [published.trial(each) for each in search.val_ids]
        assert search.model.sent == sent, "they are known under the same digest"
        assert proposal.val_score == sum(trial.record.score or 0.0 for trial in trials) / len(trials)


def test_agents_that_are_not_tuned_get_no_examples(tmp_path: Path) -> None:
    with toy_search(tmp_path, agents=("solve",)) as search:
        search.run(BootstrapOptimizer(candidates=3))
    assert search.proposals and all(list(each.candidate.prompts.demos) == ["solve"] for each in search.proposals)
    assert all(each.candidate.agents == ("solve",) for each in search.proposals)


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
    (demo, *_) = proposal.candidate.prompts.demos["expert"]
    assert "tools" not in demo and demo["expert_answer"] == "42"
    (turn,) = demo["history"]["messages"]
    assert turn["tool_calls"]["tool_calls"][0]["args"] == {"expression": "6*7"}


def test_the_estimate_is_not_exceeded(tmp_path: Path) -> None:
    expected = BootstrapOptimizer(candidates=3).estimate_cost(12, 12, 3, 500)
    assert (expected.metric_calls, expected.reflection_calls) == (60, 0)
    with toy_search(tmp_path, max_metric_calls=500) as search:
        search.run(BootstrapOptimizer(candidates=3))
        assert search.ledger.spend().metric_calls <= 60
    assert BootstrapOptimizer().estimate_cost(30, 30, 3, 100).metric_calls == 100


def test_settings_of_one_are_the_least_and_the_estimate_counts_each_scoring() -> None:
    BootstrapOptimizer(max_demos=1, candidates=1).check()
    for option in ("max_demos", "candidates"):
        with pytest.raises(UserError) as refused:
            BootstrapOptimizer(**{option: 0}).check()
        assert str(refused.value) == f"optimizer.{option} is 0; expected a whole number from 1 on."
    optimizer = BootstrapOptimizer(candidates=4)
    assert optimizer.estimate_cost(30, n_val=20, n_agents=3, max_metric_calls=500) == SearchCost(20 + 30 + 80, 0)
    assert optimizer.estimate_cost(30, n_val=20, n_agents=3, max_metric_calls=129) == SearchCost(129, 0)


@pytest.mark.parametrize("over", [False, True])
def test_dspy_is_told_to_draw_examples_without_labels(monkeypatch: pytest.MonkeyPatch, over: bool) -> None:
    """Everything around DSPy is noted instead of used."""
    told: dict[str, Any] = {}

    class Compiler:
        def __init__(self, **settings: Any) -> None:
            told["settings"] = settings

        def compile(self, student: Any, **settings: Any) -> None:
            told["compile"] = (student, settings)

    class Programs:
        def __init__(self, *given: Any) -> None:
            told["programs"] = given

        def score_parent(self) -> None:
            if over:
                raise SearchOverError

        def report_program(self) -> None: ...

    monkeypatch.setattr(dspy, "BootstrapFewShotWithRandomSearch", Compiler)
    monkeypatch.setattr(scored_programs, "ScoredPrograms", Programs)
    trials = SimpleNamespace(check=lambda: told.update(checked=True))
    student: Any = SimpleNamespace(trials=trials, copy_for_demos=lambda: "a copy")
    objective: Any = SimpleNamespace(train_ids=["t1", "t2", "t3"], val_ids=["v1", "v2"])
    context, report = cast(Any, SimpleNamespace(seed=5, concurrency=4)), cast(Any, "report")
    optimizer = BootstrapOptimizer(max_demos=2, candidates=6)
    assert optimizer.search(student, objective, context, report) == SearchOutcome()
    assert told["settings"] == {
        "metric": objective,
        "metric_threshold": 1.0,
        "max_bootstrapped_demos": 2,
        "max_labeled_demos": 0,
        "num_candidate_programs": 5,
        "num_threads": 4,
        "max_errors": 10**9,
    }
    assert told["programs"] == (student, objective, context, "report", "bootstrap") and told["checked"]
    assert ("compile" in told) == (not over)
    if not over:
        copied, settings = told["compile"]
        shuffled = ["t1", "t2", "t3"]
        random.Random(5).shuffle(shuffled)
        assert copied == "a copy" and [each.sample_id for each in settings["trainset"]] == shuffled
        assert [each.sample_id for each in settings["valset"]] == ["v1", "v2"]
        assert list(settings["restrict"]) == [-1, 0, 1, 2, 3, 4], "six: the agents' own order, and five others"
