"""DSPy's GEPA over the toy system and the simulated model."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import BillingError, Message, Response, TextPart, Usage

from eval.execution.termination import StopController
from optimize.search.optimizers.gepa_optimizer import GepaOptimizer
from tests.eval.command_line import without_notes
from tests.optimize.toy_search import CountedModel, toy, toy_search

DEMO = {"problem": "A rope costs 3 crowns. What do 2 ropes cost?", "steps": ["Multiply."]}


def replying(text: str) -> Any:
    def reply(request: Any) -> Response:
        usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        message = Message.assistant([TextPart(text)])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    return reply


def gepa(**settings: Any) -> GepaOptimizer:
    """Small minibatches: many proposals for a small budget."""
    return GepaOptimizer(**{"minibatch_size": 3, "component_selector": "round_robin", **settings})


@pytest.mark.slow
def test_each_proposal_is_told_once_with_its_fate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with toy_search(tmp_path, seed=1, max_metric_calls=150) as search:
        outcome = search.run(gepa(component_selector="all"))
        proposals, ledger = search.proposals, search.budget.spend()
    assert [each.candidate_id for each in proposals] == [f"c{number:03}" for number in range(1, len(proposals) + 1)]
    accepted = {each.candidate_id for each in proposals if each.decision == "accepted"}
    assert accepted and len(accepted) < len(proposals)
    for each in proposals:
        assert set(each.parent_ids) <= {"parent", *accepted}
        assert (each.val_score is not None) == (each.decision == "accepted")
        assert each.agents, "of every one, some text is new"
    assert outcome.reflections >= len([each for each in proposals if each.origin == "reflection"])
    assert ledger.reflection_calls >= outcome.reflections > 0
    assert ledger.metric_calls <= 150
    out, err = capfd.readouterr()
    assert (out, without_notes(err)) == ("", "")


def test_agents_that_are_not_tuned_keep_their_prompts_and_all_keep_their_examples(tmp_path: Path) -> None:
    prompts = replace(toy()[2], demos={"plan": [DEMO]})
    with toy_search(tmp_path, prompts=prompts, agents=("plan", "solve")) as search:
        search.run(gepa(component_selector="all"))
        found = list(search.proposals)
    assert found and all(set(each.agents) <= {"plan", "solve"} for each in found)
    assert {each.prompts.texts["finalize"] for each in found} == {prompts.texts["finalize"]}
    assert all(each.prompts.demos == {"plan": [DEMO]} for each in found)


def test_replies_that_hold_no_prompt_are_counted_and_end_the_search(tmp_path: Path) -> None:
    with toy_search(tmp_path, model=CountedModel(reflection=replying("I would rather not."))) as search:
        outcome = search.run(gepa())
        assert search.proposals == []
        assert outcome.unparsable == outcome.reflections == 10
        assert search.budget.spend().metric_calls < 80


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
        assert "no credit left" in str(search.trials.stop_reason)


def test_ctrl_c_ends_it_and_nothing_more_is_asked(tmp_path: Path) -> None:
    stop = StopController()
    sent_at_stop: list[int] = []

    async def interrupt(request: Any) -> None:
        await asyncio.sleep(0)
        if search.model.sent == 60:
            stop.drain("interrupted by Ctrl-C")
            sent_at_stop.append(search.model.sent)

    with toy_search(tmp_path, model=CountedModel(interrupt), threads=1, stop=stop) as search:
        search.run(gepa())
        assert search.model.sent <= 60 + 2, "the answer in flight came to its end"
        assert search.stopped() == "interrupted by Ctrl-C"
