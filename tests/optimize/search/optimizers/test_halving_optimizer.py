"""Halving over the toy system and the simulated model."""

from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Response

from eval.execution.budget import BudgetSettings
from mas.simulation.reflection import propose_prompt
from optimize.search.optimizers.halving_optimizer import HalvingOptimizer
from tests.optimize.search.optimizers.test_gepa_optimizer import replying
from tests.optimize.toy_search import CountedModel, toy_search


def halving(**settings: Any) -> HalvingOptimizer:
    return HalvingOptimizer(**{"batch": 6, "proposals": 1, "mixtures": 4, "questions": 3, **settings})


@pytest.mark.slow
def test_each_round_is_a_proposal_and_what_is_accepted_was_better_on_validation(tmp_path: Path) -> None:
    with toy_search(tmp_path, seed=0, max_metric_calls=150) as search:
        outcome = search.run(halving())
        proposals, spent = search.proposals, search.budget.spend()
        first = search.student.answer_all(search.val_ids)  # from memory
        before = search.student.prompts.texts
    best_score = sum(trial.record.value for trial in first) / len(first)
    assert [each.candidate_id for each in proposals] == [f"c{n:03}" for n in range(1, len(proposals) + 1)]
    assert {each.decision for each in proposals} == {"accepted", "rejected"}
    for each in proposals:
        assert each.val_score is not None and (each.decision == "accepted") == (each.val_score > best_score)
        best_score = max(best_score, each.val_score)
        assert set(each.agents) == {agent for agent, text in each.prompts.texts.items() if text != before[agent]}
    assert outcome.reflections == spent.reflection_calls > 0
    assert spent.metric_calls <= 150


def test_the_last_version_is_scored_although_the_reflection_model_fails(tmp_path: Path) -> None:
    n_asked = 0

    def fail_later(request: Any) -> Response:
        nonlocal n_asked
        n_asked += 1
        reply: Response = propose_prompt(request) if n_asked <= 3 else replying("I would rather not.")(request)
        return reply

    with toy_search(tmp_path, seed=1, max_metric_calls=150, model=CountedModel(reflection=fail_later)) as search:
        outcome = search.run(halving(proposals=4))
    assert outcome.unparsable == 10, "it gave up"
    [proposal] = search.proposals
    assert proposal.decision != "cut_off" and proposal.val_score is not None


@pytest.mark.slow
def test_a_round_is_as_short_as_the_budget_and_what_is_cut_off_is_neither_accepted_nor_rejected(tmp_path: Path) -> None:
    decisions = set()
    for answers, allowed in ((50, 50), (90, 90), (90, 60)):
        with toy_search(tmp_path, max_metric_calls=answers, budget=BudgetSettings(metric_calls=allowed)) as search:
            search.run(halving())
            assert search.budget.spend().metric_calls <= allowed
            assert (search.budget.refusal is None) == (answers == allowed), "it does not begin what it cannot end"
            decisions |= {each.decision for each in search.proposals[-1:]}
    assert "cut_off" in decisions and len(decisions) > 1
