"""Halving over the toy system and the simulated model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dspy.lm15 import Response
from hydra.utils import instantiate
from omegaconf import OmegaConf

from eval.cli.paths import PROJECT_ROOT
from mas.runtime.errors import UserError
from mas.simulation import propose_prompt
from optimize.search.budget import BudgetSettings
from optimize.search.optimizer import SearchCost, SearchOutcome
from optimize.search.optimizers import halving_rounds, prompt_rewriter
from optimize.search.optimizers.halving_optimizer import HalvingOptimizer
from tests.optimize.search.optimizers.test_gepa_optimizer import replying
from tests.optimize.toy_search import CountedModel, toy_search


def halving(**settings: Any) -> HalvingOptimizer:
    return HalvingOptimizer(**{"batch": 6, "proposals": 1, "mixtures": 4, "questions": 3, **settings})


def test_the_configuration_makes_it() -> None:
    optimizer = instantiate(OmegaConf.load(PROJECT_ROOT / "conf" / "optimizer" / "halving.yaml"))
    assert optimizer == HalvingOptimizer()
    optimizer.check()


@pytest.mark.parametrize("option", ["stages", "batch", "proposals", "mixtures", "patience", "max_instruction_chars"])
def test_a_setting_that_makes_no_sense_is_refused_by_its_name(option: str) -> None:
    with pytest.raises(UserError, match=f"optimizer.{option}"):
        HalvingOptimizer(**{option: 0}).check()


@pytest.mark.parametrize(
    ("option", "least"),
    [
        ("stages", 1),
        ("batch", 1),
        ("proposals", 1),
        ("examples", 1),
        ("mixtures", 2),
        ("questions", 1),
        ("patience", 1),
    ],
)
def test_a_setting_may_be_as_small_as_its_least_value_and_not_smaller(option: str, least: int) -> None:
    HalvingOptimizer(**{option: least}).check()
    with pytest.raises(UserError) as refused:
        HalvingOptimizer(**{option: least - 1}).check()
    assert str(refused.value) == f"optimizer.{option} is {least - 1}; expected a whole number from {least} on."


def test_a_prompt_has_a_limit_of_at_least_a_character_or_none() -> None:
    for allowed in (None, 1):
        HalvingOptimizer(max_instruction_chars=allowed).check()
    with pytest.raises(UserError) as refused:
        HalvingOptimizer(max_instruction_chars=0).check()
    assert str(refused.value) == (
        "optimizer.max_instruction_chars is 0; expected a whole number from 1 on, or null for no limit."
    )


@pytest.mark.parametrize(
    ("n_train", "allowed", "rounds"),
    [
        (100, 360, 3),  # 320 answers are two whole rounds of 2 * (12 + 16 * 3) + 40 = 160, and a short one
        (100, 361, 4),
        (100, 40, 2),  # nothing is left after the baseline
        (100, 42, 2),
        (12, 360, 3),  # just enough questions for a batch
        (2, 148, 2),  # 108 answers are one whole round of 2 * (2 + 16 * 2) + 40
        (2, 149, 3),
    ],
)
def test_it_may_reflect_on_each_agent_for_each_proposal_of_each_stage(n_train: int, allowed: int, rounds: int) -> None:
    optimizer = HalvingOptimizer(stages=2, batch=12, proposals=3, mixtures=16, questions=3)
    cost = optimizer.estimate_cost(n_train, n_val=40, n_agents=5, max_metric_calls=allowed)
    assert cost == SearchCost(allowed, rounds * 2 * 3 * 5)


def test_each_round_is_a_proposal_and_what_is_accepted_was_better_on_validation(tmp_path: Path) -> None:
    with toy_search(tmp_path, seed=1, max_metric_calls=150) as search:
        outcome = search.run(halving())
        proposals, spent = search.proposals, search.ledger.spend()
        first = search.student.answer_all(search.val_ids)  # from memory
        texts = {"parent": search.student.prompts.texts}
    best_score = sum(trial.record.value for trial in first) / len(first)
    assert [each.candidate.id for each in proposals] == [f"c{n:03}" for n in range(1, len(proposals) + 1)]
    assert {each.decision for each in proposals} == {"accepted", "rejected"}
    for each in proposals:
        assert each.val_score is not None and (each.decision == "accepted") == (each.val_score > best_score)
        best_score = max(best_score, each.val_score)
        before, texts[each.candidate.id] = texts[each.candidate.parent_ids[0]], each.candidate.prompts.texts
        changed = {agent for agent, text in each.candidate.prompts.texts.items() if text != before[agent]}
        assert set(each.candidate.agents) == changed
    assert outcome.reflections == spent.reflection_calls > 0
    assert spent.metric_calls <= 150


@pytest.mark.slow
def test_a_proposal_has_all_changes_of_the_one_that_it_names_as_its_parent(tmp_path: Path) -> None:
    """The best so far is not the parent of a version without its changes."""
    others = 0
    for seed in range(3):
        with toy_search(tmp_path / str(seed), seed=seed, max_metric_calls=200) as search:
            search.run(halving())
            lines = {"parent": set[str](), **{p.candidate.id: _added(search, p) for p in search.proposals}}
            best = "parent"
            for each in search.proposals:
                [parent] = each.candidate.parent_ids
                assert lines[parent] <= lines[each.candidate.id]
                others += parent != best
                best = each.candidate.id if each.decision == "accepted" else best
    assert others, "or the test shows nothing"


def _added(search: Any, proposal: Any) -> set[str]:
    before = search.student.prompts.texts
    return {
        f"{agent}: {line}"
        for agent, text in proposal.candidate.prompts.texts.items()
        for line in set(text.splitlines()) - set(before[agent].splitlines())
        if line.strip()
    }


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


def test_equal_seeds_propose_the_same_and_a_second_session_asks_nothing(tmp_path: Path) -> None:
    seen = []
    for folder, threads in (("one", 1), ("eight", 8), ("eight", 3)):
        with toy_search(tmp_path / folder, threads=threads, seed=1, max_metric_calls=70) as search:
            search.run(halving())
            seen.append(search.told)
            sent = search.model.sent
    assert seen[0] == seen[1] == seen[2] != []
    assert sent == 0, "all of it was paid for in the session before"


def test_only_tuned_agents_are_rewritten(tmp_path: Path) -> None:
    with toy_search(tmp_path, agents=("plan", "solve")) as search:
        search.run(halving())
        changed = {agent for each in search.proposals for agent in each.candidate.agents}
    assert changed and changed <= {"plan", "solve"}


def test_a_round_is_as_short_as_the_budget_and_what_is_cut_off_is_neither_accepted_nor_rejected(tmp_path: Path) -> None:
    decisions = set()
    for answers, allowed in ((50, 50), (90, 90), (90, 60)):
        with toy_search(tmp_path, max_metric_calls=answers, budget=BudgetSettings(metric_calls=allowed)) as search:
            search.run(halving())
            assert search.ledger.spend().metric_calls <= allowed
            assert (search.ledger.refusal is None) == (answers == allowed), "it does not begin what it cannot end"
            decisions |= {each.decision for each in search.proposals[-1:]}
    assert "cut_off" in decisions and len(decisions) > 1


def test_it_gives_up_after_rounds_without_a_better_version(tmp_path: Path) -> None:
    with toy_search(tmp_path, max_metric_calls=10_000, n_train=4, n_val=1) as search:
        search.run(halving(patience=2))
        assert search.ledger.spend().metric_calls < 2_000
        assert [each.decision for each in search.proposals[-2:]] == ["rejected", "rejected"]


@pytest.mark.parametrize("failure", [None, "no quota"])
def test_a_failure_of_the_reflections_server_stops_the_trials(
    monkeypatch: pytest.MonkeyPatch, failure: str | None
) -> None:
    """The rounds and the rewriter are noted instead of used."""
    told: dict[str, Any] = {"trials": []}
    rewriter = SimpleNamespace(service_failure=failure, requests=32, unparsable=3)

    def rewrite(*given: Any) -> Any:
        told["rewriter"] = given
        return rewriter

    def rounds(*given: Any) -> Any:
        told["rounds"] = given
        return SimpleNamespace(run=lambda: told["trials"].append("searched"))

    monkeypatch.setattr(prompt_rewriter, "PromptRewriter", rewrite)
    monkeypatch.setattr(halving_rounds, "HalvingRounds", rounds)
    trials = SimpleNamespace(check=lambda: told["trials"].append("checked"), stop=told["trials"].append)
    student: Any = SimpleNamespace(trials=trials, initial_prompts="prompts")
    objective: Any = SimpleNamespace(labels=SimpleNamespace(names=("yes", "no")))
    context: Any = SimpleNamespace(get_stop_reason="why")
    report: Any = "report"
    optimizer = halving(max_instruction_chars=99)
    assert optimizer.search(student, objective, context, report) == SearchOutcome(32, 3)
    assert told["rewriter"] == ("prompts", "why", 99, ("yes", "no"))
    assert told["rounds"] == (optimizer, student, objective, context, "report", rewriter)
    assert told["trials"] == ["searched", "checked", *([failure] if failure else [])]
