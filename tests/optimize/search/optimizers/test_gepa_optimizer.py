"""DSPy's GEPA over the toy system and the simulated model."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import BillingError, Message, Response, TextPart, Usage
from hydra.utils import instantiate
from omegaconf import OmegaConf

from eval.cli.paths import PROJECT_ROOT
from mas.runtime.errors import UserError
from optimize.search.budget import BudgetSettings
from optimize.search.optimizer import SearchCost
from optimize.search.optimizers.gepa_optimizer import GepaOptimizer
from tests.eval.command_line import without_pauses
from tests.optimize.toy_search import CountedModel, toy, toy_search

DEMO = {"problem": "A rope costs 3 crowns. What do 2 ropes cost?", "steps": ["Multiply."]}
SEVERAL = {"component_selector": "all", "parents": 2, "proposals": 2, "max_kept": 1, "parent_selector": "current_best"}
MERGE = """
import gepa.proposer.merge as merge, random
from optimize.search.dspy_compat import _patched
agents = [f"agent{number}" for number in range(12)]
programs = [dict.fromkeys(agents, text) for text in ("old", "one", "two")]
for each, text in zip(programs, ("kept", "kept", "changed")): each["agent0"] = text
with _patched():
    found = merge.sample_and_attempt_merge_programs_by_common_predictors(
        [0.1, 0.5, 0.5], random.Random(0), [1, 2], ([], []), programs, [[None], [0], [0]])
print(found)
"""


def replying(text: str) -> Any:
    def reply(request: Any) -> Response:
        usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        message = Message.assistant([TextPart(text)])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    return reply


def gepa(**settings: Any) -> GepaOptimizer:
    """Small minibatches: many proposals for a small budget."""
    return GepaOptimizer(**{"minibatch_size": 3, "component_selector": "round_robin", **settings})


def test_the_configuration_makes_it() -> None:
    optimizer = instantiate(OmegaConf.load(PROJECT_ROOT / "conf" / "optimizer" / "gepa.yaml"))
    assert optimizer == GepaOptimizer()
    optimizer.check()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("minibatch_size", 0), ("component_selector", "some"), ("max_instruction_chars", 0), ("parents", 0)),
        *(("proposals", 0), ("max_kept", 0), ("parent_selector", "best"), ("acceptance", "equal")),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_its_name(option: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"optimizer.{option}"):
        GepaOptimizer(**{option: value}).check()


def test_each_proposal_is_told_once_with_its_fate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with toy_search(tmp_path, seed=1, max_metric_calls=150) as search:
        outcome = search.run(gepa(component_selector="all"))
        proposals, ledger = search.proposals, search.ledger.spend()
    assert [each.candidate.id for each in proposals] == [f"c{number:03}" for number in range(1, len(proposals) + 1)]
    accepted = {each.candidate.id for each in proposals if each.decision == "accepted"}
    assert accepted and len(accepted) < len(proposals)
    for each in proposals:
        assert set(each.candidate.parent_ids) <= {"parent", *accepted}
        assert (each.val_score is not None) == (each.decision == "accepted")
        if each.decision != "cut_off":
            assert each.minibatch_before is not None and each.minibatch_after is not None
        if each.decision == "accepted" and each.candidate.origin == "reflection":
            assert each.minibatch_after > each.minibatch_before
        assert each.candidate.agents, "of every one, some text is new"
    assert outcome.reflections >= len([each for each in proposals if each.candidate.origin == "reflection"])
    assert sum(each.spend.lm_calls for each in proposals) <= ledger.lm_calls
    assert sum(each.spend.reflection_calls for each in proposals) == ledger.reflection_calls > 0
    assert ledger.metric_calls <= 150
    out, err = capfd.readouterr()
    assert (out, without_pauses(err)) == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"component_selector": "round_robin"}, SEVERAL], ids=["one", "several"])
def test_equal_seeds_propose_the_same_and_a_second_session_asks_nothing(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    told = []
    for folder, threads in (("one", 1), ("eight", 8), ("eight", 3)):
        with toy_search(tmp_path / folder, threads=threads, seed=1, max_metric_calls=120) as search:
            search.run(gepa(**settings))
            told.append(search.told)
            sent = search.model.sent
    assert told[0] == told[1] == told[2] != []
    assert sent == 0, "all of it was paid for in the session before"


def test_another_seed_proposes_something_else(tmp_path: Path) -> None:
    told = []
    for seed in (0, 1):
        with toy_search(tmp_path, seed=seed) as search:
            search.run(gepa())
            told.append(search.told)
    assert told[0] != told[1]


def test_agents_that_are_not_tuned_keep_their_prompts_and_all_keep_their_examples(tmp_path: Path) -> None:
    prompts = replace(toy()[2], demos={"plan": [DEMO]})
    with toy_search(tmp_path, prompts=prompts, agents=("plan", "solve")) as search:
        search.run(gepa(component_selector="all"))
        found = [each.candidate for each in search.proposals]
    assert found and all(set(each.agents) <= {"plan", "solve"} for each in found)
    assert {each.prompts.texts["finalize"] for each in found} == {prompts.texts["finalize"]}
    assert all(each.prompts.demos == {"plan": [DEMO]} for each in found)


@pytest.mark.slow
def test_what_the_budget_cuts_off_is_neither_accepted_nor_rejected(tmp_path: Path) -> None:
    """Whatever the budget: a decision stands only on answers that were all reached."""
    decisions = set()
    for answers in range(14, 90, 9):
        with toy_search(tmp_path, seed=1, budget=BudgetSettings(metric_calls=answers)) as search:
            search.run(gepa(component_selector="all"))
            assert search.ledger.spend().metric_calls <= answers
            assert all(each.decision != "cut_off" for each in search.proposals[:-1]), "nothing comes after it"
            last = [each for each in search.proposals[-1:] if each.decision == "cut_off"]
            assert all("budget.metric_calls" in each.reason for each in last)
            decisions |= {each.decision for each in search.proposals}
    assert decisions == {"accepted", "rejected", "cut_off"}


@pytest.mark.slow
def test_a_budget_of_requests_that_ends_in_a_reflection_is_not_its_fault(tmp_path: Path) -> None:
    for requests in range(40, 60):
        budget = BudgetSettings(lm_calls=requests)
        with toy_search(tmp_path / str(requests), budget=budget, threads=1) as search:
            outcome = search.run(gepa())
            assert search.model.sent == requests
            assert outcome.unparsable == 0


def test_replies_that_hold_no_prompt_are_counted_and_end_the_search(tmp_path: Path) -> None:
    with toy_search(tmp_path, model=CountedModel(reflection=replying("I would rather not."))) as search:
        outcome = search.run(gepa())
        assert search.proposals == []
        assert outcome.unparsable == outcome.reflections == 10
        assert search.ledger.spend().metric_calls < 80


@pytest.mark.parametrize("reply", ['{"new_instruction": "Work it out."}', "[[ ## new_instruction ## ]]\nWork it out."])
def test_either_form_of_reply_is_read(tmp_path: Path, reply: str) -> None:
    with toy_search(tmp_path, model=CountedModel(reflection=replying(reply))) as search:
        outcome = search.run(gepa())
        assert outcome.unparsable == 0
        changed = {text for each in search.proposals for text in each.candidate.prompts.texts.values()}
        assert "Work it out." in changed


def test_the_reflection_is_told_to_keep_facts_out_of_prompts_and_sees_the_feedback(tmp_path: Path) -> None:
    told: list[str] = []

    def listen(request: Any) -> Response:
        told.append(str(request))
        response: Response = replying("[[ ## new_instruction ## ]]\nWork it out.")(request)
        return response

    with toy_search(tmp_path, model=CountedModel(reflection=listen)) as search:
        search.run(gepa())
        parent = search.student.prompts.texts["plan"].splitlines()[0]
    assert all("general rules only" in each and "niche" not in each for each in told)
    assert "Check the calculation and the form of the answer." in told[0] and parent in told[0]


def test_a_reflection_model_that_takes_no_more_calls_ends_the_search(tmp_path: Path) -> None:
    def refuse(request: Any) -> Response:
        raise BillingError("no credit left")

    with toy_search(tmp_path, model=CountedModel(reflection=refuse)) as search:
        outcome = search.run(gepa())
        assert (outcome.reflections, outcome.unparsable, search.proposals) == (1, 0, [])
        assert "no credit left" in str(search.trials.own_stop_reason)


def test_ctrl_c_ends_it_and_nothing_more_is_asked(tmp_path: Path) -> None:
    stop: list[str] = []
    sent_at_stop: list[int] = []

    async def interrupt(request: Any) -> None:
        await asyncio.sleep(0)
        if search.model.sent == 60:
            stop.append("interrupted by Ctrl-C")
            sent_at_stop.append(search.model.sent)

    def halted() -> str | None:
        return stop[0] if stop else None

    with toy_search(tmp_path, model=CountedModel(interrupt), threads=1, halted=halted) as search:
        search.run(gepa())
        assert search.model.sent <= 60 + 2, "the answer in flight came to its end"
        assert search.stopped() == "interrupted by Ctrl-C"


def test_what_the_telling_of_a_proposal_raises_is_raised(tmp_path: Path) -> None:
    def full(proposal: Any) -> None:
        raise OSError("no room on the disk")

    with toy_search(tmp_path) as search:
        search.proposed = full
        with pytest.raises(OSError, match="no room"):
            search.run(gepa())
        assert search.ledger.spend().metric_calls < 40


def test_a_merge_does_not_depend_on_the_hash_seed_of_the_process() -> None:
    def merged(hash_seed: int) -> str:
        environment = {"PYTHONHASHSEED": str(hash_seed), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        done = subprocess.run(
            [sys.executable, "-c", MERGE], cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert merged(1) == merged(2) != "None\n"


def test_the_estimate_is_not_exceeded(tmp_path: Path) -> None:
    for selector, agents in (("round_robin", 3), ("all", 3)):
        optimizer = gepa(component_selector=selector)
        expected = optimizer.estimate_cost(12, 12, agents, 80)
        with toy_search(tmp_path / selector) as search:
            outcome = search.run(optimizer)
            assert search.ledger.spend().metric_calls <= expected.metric_calls
            assert outcome.reflections <= expected.reflection_calls
    assert gepa().estimate_cost(30, 30, 7, 600) == SearchCost(600, 95)
    assert gepa(minibatch_size=6, component_selector="all").estimate_cost(30, 30, 7, 600) == SearchCost(600, 7 * 48)


def test_several_proposals_of_a_round_are_told_one_by_one(tmp_path: Path) -> None:
    with toy_search(tmp_path, seed=1, max_metric_calls=150) as search:
        search.run(gepa(**SEVERAL, acceptance="improvement_or_equal", skip_perfect_score=False))
        proposals, spend = search.proposals, search.ledger.spend()
    numbers = sorted(int(each.candidate.id[1:]) for each in proposals)
    assert numbers == list(range(1, len(proposals) + 1))
    rounds = [
        [each for each in proposals if each.iteration == number and each.candidate.origin == "reflection"]
        for number in {each.iteration for each in proposals}
    ]
    assert max(map(len, rounds)) == 4
    assert all(sum(each.decision == "accepted" for each in found) <= 1 for found in rounds)
    accepted = [each for each in proposals if each.decision == "accepted"]
    assert accepted and all((each.minibatch_after or 0) >= (each.minibatch_before or 0) for each in accepted)
    assert sum(each.spend.reflection_calls for each in proposals) == spend.reflection_calls > 0
    assert spend.metric_calls <= 150


@pytest.mark.parametrize(
    ("settings", "n_train", "n_agents", "metric_calls", "reflections"),
    [
        ({"component_selector": "round_robin"}, 40, 5, 100, 14),  # 80 answers after validation, 6 a proposal
        ({"component_selector": "all"}, 40, 5, 100, 70),
        ({"component_selector": "all", "parents": 2}, 40, 5, 100, 135),  # the parents' answers are known
        ({"component_selector": "all", "proposals": 2}, 40, 5, 100, 135),
        ({"component_selector": "round_robin"}, 2, 5, 100, 20),  # fewer questions than a minibatch
        ({"component_selector": "all"}, 40, 5, 20, 0),
        ({"component_selector": "all"}, 40, 5, 19, 0),
        ({"component_selector": "round_robin"}, 40, 5, 21, 1),
    ],
)
def test_the_estimate_takes_every_proposal_for_a_failure(
    settings: dict[str, Any], n_train: int, n_agents: int, metric_calls: int, reflections: int
) -> None:
    assert gepa(**settings).estimate_cost(n_train, 20, n_agents, metric_calls) == SearchCost(metric_calls, reflections)


def test_settings_at_their_bounds_are_taken_and_a_refusal_names_them() -> None:
    gepa(minibatch_size=1, parents=1, proposals=1, max_kept=1, max_instruction_chars=1).check()
    gepa(max_kept=None, max_instruction_chars=None).check()
    with pytest.raises(UserError, match=r"^optimizer\.proposals is 0; expected a whole number from 1 on\.$"):
        gepa(proposals=0).check()
    with pytest.raises(
        UserError, match=r"^optimizer\.max_kept is 0; expected a whole number from 1 on, or null for no"
    ):
        gepa(max_kept=0).check()
    with pytest.raises(UserError, match=r"acceptance 'best'; choose strict_improvement or improvement_or_equal\.$"):
        gepa(acceptance="best").check()
