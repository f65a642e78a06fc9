"""DSPy's MIPROv2 over the toy system and the simulated model."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Response

from eval.benchmarks.dataset import Sample
from optimize.search.optimizers.few_shot_optimizers import MiproOptimizer
from tests.eval.command_line import without_notes
from tests.optimize import toy_search as search_of_tests
from tests.optimize.planted_runs import Obedient
from tests.optimize.toy_search import toy, toy_search
from tests.scripted_model import _response, all_text, system_text

OF_THE_PROPOSER = ("proposed_instruction",)  # output fields of DSPy's signatures
FEW = MiproOptimizer(candidates=3, trials=4)


def outputs(request: Any) -> list[str]:
    """Output fields that a request asks for."""
    listed = system_text(request).partition("Your output fields are:")[2].partition("All interactions")[0]
    return re.findall(r"^\d+\. `(\w+)`", listed, re.MULTILINE)


def plant_golds(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Sample]]:
    """Questions with targets that occur nowhere else."""
    system, samples, prompts = toy()
    planted = {
        split: [replace(each, target=f"planted {split} {place}") for place, each in enumerate(found[:12])]
        for split, found in samples.items()
    }
    monkeypatch.setattr(search_of_tests, "toy", lambda: (system, planted, prompts))
    return planted


def test_texts_and_examples_are_combined_and_scored_on_all_validation_questions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with toy_search(tmp_path, max_metric_calls=150) as search:
        outcome = search.run(MiproOptimizer(candidates=4, trials=6))
        right = [search.student.trial(each).record for each in search.train_ids]
        spend = search.budget.spend()
        proposals = search.proposals
    assert [each.candidate_id for each in proposals] == [f"c{number:03}" for number in range(1, len(proposals) + 1)]
    assert 3 <= len(proposals) <= 6
    best = None
    for each in proposals:
        assert each.val_score is not None and each.origin == "mipro"
        assert each.decision == "rejected" or best is None or each.val_score > best
        best = max(best or 0.0, each.val_score)
    texts = {each.prompts.texts["solve"] for each in proposals}
    demos = [each.prompts.demos for each in proposals]
    assert len(texts) > 1 and any(demos)
    right_questions = {record.question for record in right if record.correct}
    assert {demo["problem"] for each in demos for demo in each.get("plan", ())} <= right_questions
    assert outcome.unparsable == 0
    assert outcome.reflections == 3 * 3 <= spend.reflection_calls
    assert spend.metric_calls <= 150
    out, err = capfd.readouterr()
    assert (out, without_notes(err)) == ("", ""), "neither DSPy nor optuna prints"


@pytest.mark.slow
def test_no_gold_reaches_the_proposer_though_agents_answer_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every question has a target of its own, which the model gives to some of them."""
    planted = plant_golds(monkeypatch)
    asked: list[str] = []

    class Proposing(Obedient):
        def respond(self, request: Any) -> Response:
            if not (fields := [name for name in outputs(request) if name in OF_THE_PROPOSER]):
                return super().respond(request)
            asked.append(all_text(request))
            return _response(request, {fields[0]: f"Count it {len(asked)} times."})

    model = Proposing()
    model.golds = {
        each.question: (place, each.target or "", False)
        for found in planted.values()
        for place, each in enumerate(found)
    }
    with toy_search(tmp_path, model=model) as search:
        search.run(FEW)
        demos = json.dumps([each.prompts.demos for each in search.proposals])
    texts = "\n".join(asked)
    assert "planted train" in demos, "agents gave it"
    assert all(json.dumps(each.question)[1:40] in texts for each in planted["train"])
    assert "planted" not in texts and "planted val" not in demos
    assert not any(each.question[:40] in texts for each in planted["val"])
