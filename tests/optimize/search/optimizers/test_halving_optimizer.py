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
        texts = {"parent": search.student.prompts.texts}
    best_score = sum(trial.record.value for trial in first) / len(first)
    assert [each.candidate_id for each in proposals] == [f"c{n:03}" for n in range(1, len(proposals) + 1)]
    assert {each.decision for each in proposals} == {"accepted", "rejected"}
    for each in proposals:
        assert each.val_score is not None and (each.decision == "accepted") == (each.val_score > best_score)
        best_score = max(best_score, each.val_score)
        before, texts[each.candidate_id] = texts[each.parent_ids[0]], each.prompts.texts
        changed = {agent for agent, text in each.prompts.texts.items() if text != before[agent]}
        assert set(each.agents) == changed
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


def _added(search: Any, proposal: Any) -> set[str]:
    before = search.student.prompts.texts
    return {
        f"{agent}: {line}"
        for agent, text in proposal.prompts.texts.items()
        for line in set(text.splitlines()) - set(before[agent].splitlines())
        if line.strip()
    }


@pytest.mark.slow
def test_a_proposal_has_all_changes_of_the_one_that_it_names_as_its_parent(tmp_path: Path) -> None:
    """The best so far is not the parent of a version without its changes."""
    others = 0
    for seed in range(3):
        with toy_search(tmp_path / str(seed), seed=seed, max_metric_calls=200) as search:
            search.run(halving())
            lines = {"parent": set[str](), **{p.candidate_id: _added(search, p) for p in search.proposals}}
            best = "parent"
            for each in search.proposals:
                [parent] = each.parent_ids
                assert lines[parent] <= lines[each.candidate_id]
                others += parent != best
                best = each.candidate_id if each.decision == "accepted" else best
    assert others, "or the test shows nothing"
