"""DSPy's MIPROv2 over the toy system and the simulated model."""

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.lm15 import Response
from hydra.utils import instantiate
from omegaconf import OmegaConf

from eval.benchmarks.dataset import Sample
from eval.cli.paths import PROJECT_ROOT
from eval.scorers.labels import LabelSet
from mas.runtime.errors import UserError
from optimize.search import dspy_compat
from optimize.search.budget import BudgetSettings
from optimize.search.optimizer import SearchCost, SearchOutcome
from optimize.search.optimizers import prompt_rewriter, scored_programs
from optimize.search.optimizers.mipro_optimizer import MiproOptimizer
from optimize.search.optimizers.scored_programs import SearchOverError
from optimize.search.student import Objective
from tests.eval.command_line import without_pauses
from tests.optimize import toy_search as search_of_tests
from tests.optimize.planted_runs import Obedient
from tests.optimize.search.optimizers.test_gepa_optimizer import replying
from tests.optimize.toy_search import CountedModel, ToySearch, toy, toy_search
from tests.scripted_model import _response, all_text, system_text

OF_THE_PROPOSER = ("observations", "summary", "proposed_instruction")  # output fields of DSPy's signatures
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


def test_the_configuration_makes_it() -> None:
    optimizer = instantiate(OmegaConf.load(PROJECT_ROOT / "conf" / "optimizer" / "mipro.yaml"))
    assert optimizer == MiproOptimizer()
    optimizer.check()


@pytest.mark.parametrize(
    ("option", "value"), [("candidates", 1), ("trials", 0), ("max_demos", -1), ("max_instruction_chars", 0)]
)
def test_a_setting_that_makes_no_sense_is_refused_by_its_name(option: str, value: int) -> None:
    with pytest.raises(UserError, match=f"optimizer.{option} is {value}"):
        MiproOptimizer(**{option: value}).check()


def test_texts_and_examples_are_combined_and_scored_on_all_validation_questions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with toy_search(tmp_path, max_metric_calls=150) as search:
        outcome = search.run(MiproOptimizer(candidates=4, trials=6))
        right = [search.student.trial(each).record for each in search.train_ids]
        spend = search.ledger.spend()
        proposals = search.proposals
    assert [each.candidate.id for each in proposals] == [f"c{number:03}" for number in range(1, len(proposals) + 1)]
    assert 3 <= len(proposals) <= 6
    best = None
    for each in proposals:
        assert each.val_score is not None and each.candidate.origin == "mipro"
        assert each.decision == "rejected" or best is None or each.val_score > best
        best = max(best or 0.0, each.val_score)
    texts = {each.candidate.prompts.texts["solve"] for each in proposals}
    demos = [each.candidate.prompts.demos for each in proposals]
    assert len(texts) > 1 and any(demos)
    right_questions = {record.question for record in right if record.correct}
    assert {demo["problem"] for each in demos for demo in each.get("plan", ())} <= right_questions
    assert outcome.unparsable == 0
    assert outcome.reflections == 3 + 3 * 3 <= spend.reflection_calls, "three of them for the summary"
    assert spend.metric_calls <= 150
    out, err = capfd.readouterr()
    assert (out, without_pauses(err)) == ("", ""), "neither DSPy nor optuna prints"


def test_equal_seeds_search_the_same_and_a_second_session_asks_nothing(tmp_path: Path) -> None:
    told = []
    for folder, threads in (("one", 1), ("eight", 8), ("eight", 3)):
        with toy_search(tmp_path / folder, threads=threads) as search:
            search.run(MiproOptimizer(candidates=3, trials=5))
            told.append(search.told)
            sent = search.model.sent
    assert told[0][:-1] == told[1][:-1] == told[2][:-1] != []
    assert sent == 0, "all of it was paid for in the session before"


def test_another_seed_searches_something_else(tmp_path: Path) -> None:
    told = []
    for seed in (0, 1):
        with toy_search(tmp_path, seed=seed) as search:
            search.run(FEW)
            told.append(search.told)
    assert told[0] != told[1]


def test_what_the_budget_cuts_off_is_told_as_that_and_is_the_last(tmp_path: Path) -> None:
    with toy_search(tmp_path, budget=BudgetSettings(metric_calls=40)) as search:
        search.run(MiproOptimizer(candidates=3))
    assert [each.decision == "cut_off" for each in search.proposals] == [False, True]
    assert search.ledger.spend().metric_calls == 40


def test_a_budget_of_requests_ends_it_wherever_that_is(tmp_path: Path) -> None:
    for requests in (20, 62, 66, 70, 90):
        with toy_search(tmp_path / str(requests), budget=BudgetSettings(lm_calls=requests), threads=1) as search:
            outcome = search.run(FEW)
            assert search.model.sent == requests
            assert outcome.unparsable == 0


def test_replies_that_hold_no_prompt_are_counted_and_end_the_search(tmp_path: Path) -> None:
    with toy_search(tmp_path, model=CountedModel(reflection=replying("I would rather not."))) as search:
        outcome = search.run(FEW)
        assert search.proposals == []
        assert outcome.unparsable == outcome.reflections == 10


def test_a_text_that_is_too_long_is_not_used(tmp_path: Path) -> None:
    with toy_search(tmp_path) as search:
        search.run(replace(FEW, max_instruction_chars=10))
    assert all(each.candidate.prompts.texts == toy()[2].texts for each in search.proposals)


def test_without_examples_no_training_question_is_answered(tmp_path: Path) -> None:
    with toy_search(tmp_path) as search:
        search.run(replace(FEW, max_demos=0))
        assert search.proposals and not any(each.candidate.prompts.demos for each in search.proposals)
        n_proposals = len(search.proposals)
        assert search.ledger.spend().metric_calls == 12 * (n_proposals + 1)
        assert len({each.candidate.prompts.texts["solve"] for each in search.proposals}) > 1


def test_agents_that_are_not_tuned_keep_their_prompts(tmp_path: Path) -> None:
    with toy_search(tmp_path, agents=("solve",)) as search:
        search.run(FEW)
    found = [each.candidate for each in search.proposals]
    assert found and all(each.agents == ("solve",) and set(each.prompts.demos) <= {"solve"} for each in found)
    assert {each.prompts.texts["plan"] for each in found} == {toy()[2].texts["plan"]}


def test_the_agents_keep_the_models_they_have(tmp_path: Path) -> None:
    """A user's own program may answer with DSPy's default model, which MIPROv2 would replace."""
    seen: set[Any] = set()

    async def look(request: Any) -> None:
        if not set(outputs(request)) & set(OF_THE_PROPOSER):
            seen.add(dspy.settings.lm)

    default = CountedModel().create_reflection_lm()
    with toy_search(tmp_path, model=CountedModel(before=look)) as search, dspy.context(lm=default):
        search.run(FEW)
    assert seen == {default}


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
        demos = json.dumps([each.candidate.prompts.demos for each in search.proposals])
    texts = "\n".join(asked)
    assert "planted train" in demos, "agents gave it"
    assert all(json.dumps(each.question)[1:40] in texts for each in planted["train"])
    assert "planted" not in texts and "planted val" not in demos
    assert not any(each.question[:40] in texts for each in planted["val"])


def test_in_the_leaky_world_only_training_questions_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant_golds(monkeypatch)
    with toy_search(tmp_path, model=CountedModel(world="leaky")) as search:
        search.run(replace(FEW, max_demos=0))
    texts = "\n".join(text for each in search.proposals for text in each.candidate.prompts.texts.values())
    assert "Remember this from earlier cases: " in texts
    assert "planted" not in texts
    assert not any(each.question[:30] in texts for each in planted["val"])


def test_labels_are_named_to_the_proposer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def listen(request: Any) -> Response:
        asked.append(all_text(request))
        response: Response = replying("[[ ## proposed_instruction ## ]]\nWork it out.")(request)
        return response

    labels = LabelSet(("billing", "refund"))
    made = property(lambda self: Objective(toy()[1]["train"][:12], toy()[1]["val"][:12], labels=labels))
    monkeypatch.setattr(ToySearch, "objective", made)
    with toy_search(tmp_path, model=CountedModel(reflection=listen)) as search:
        search.run(FEW)
    proposing = [each for each in asked if "basic_instruction" in each]
    assert proposing and all('one of these labels: "billing", "refund".' in each for each in proposing)
    assert all("general rules only" in each for each in proposing)


def test_the_estimate_is_not_exceeded(tmp_path: Path) -> None:
    expected = FEW.estimate_cost(12, 12, 3, 500)
    assert (expected.metric_calls, expected.reflection_calls) == (12 + 12 + 4 * 12, 2 + 1 + 3 * 2)
    with toy_search(tmp_path, max_metric_calls=500) as search:
        outcome = search.run(FEW)
        assert search.ledger.spend().metric_calls <= expected.metric_calls
        assert outcome.reflections <= search.ledger.spend().reflection_calls <= expected.reflection_calls
    assert MiproOptimizer().estimate_cost(30, 30, 3, 100).metric_calls == 100
    assert replace(FEW, max_demos=0).estimate_cost(12, 12, 3, 500).metric_calls == 60


@pytest.mark.parametrize(("option", "least"), [("candidates", 2), ("trials", 1), ("max_demos", 0)])
def test_a_setting_may_be_as_small_as_its_least_value(option: str, least: int) -> None:
    MiproOptimizer(**{option: least}).check()
    with pytest.raises(UserError) as refused:
        MiproOptimizer(**{option: least - 1}).check()
    assert str(refused.value) == f"optimizer.{option} is {least - 1}; expected a whole number from {least} on."


def test_a_text_has_a_limit_of_at_least_a_character_or_none() -> None:
    for allowed in (None, 1):
        MiproOptimizer(max_instruction_chars=allowed).check()
    with pytest.raises(UserError) as refused:
        MiproOptimizer(max_instruction_chars=0).check()
    assert str(refused.value) == (
        "optimizer.max_instruction_chars is 0; expected a whole number from 1 on, or null for no limit."
    )


@pytest.mark.parametrize(
    ("n_train", "summaries"), [(1, 2), (10, 2), (11, 3), (100, 11), (101, 11), (1000, 11)]
)  # ten questions a request, ten requests at most, and one that sums them up
def test_the_estimate_counts_summaries_and_texts(n_train: int, summaries: int) -> None:
    optimizer = MiproOptimizer(candidates=6, trials=30)
    cost = optimizer.estimate_cost(n_train, n_val=20, n_agents=3, max_metric_calls=5_000)
    assert cost == SearchCost(20 + n_train + 30 * 20, summaries + 3 * 5)
    assert optimizer.estimate_cost(n_train, 20, 3, 600) == SearchCost(600, summaries + 3 * 5)


@pytest.mark.parametrize(
    ("max_demos", "failure", "over"), [(3, None, False), (0, None, False), (1, "no quota", False), (2, None, True)]
)
def test_dspy_is_told_to_search_without_answers_and_failures_stop_the_trials(
    monkeypatch: pytest.MonkeyPatch, max_demos: int, failure: str | None, over: bool
) -> None:
    """Everything around DSPy is noted instead of used."""
    told: dict[str, Any] = {"trials": []}

    class Compiler:
        task_model: Any = None

        def __init__(self, **settings: Any) -> None:
            told["settings"] = settings

        def compile(self, student: Any, **settings: Any) -> None:
            told["compile"] = (student, self.task_model, settings)

    class Programs:
        def __init__(self, *given: Any) -> None:
            told["programs"] = given

        def score_parent(self) -> None:
            if over:
                raise SearchOverError

        def report_program(self) -> None: ...

    @contextmanager
    def adapt(create: Any, report: Any, has_demos: bool) -> Iterator[None]:
        told["drafts"], told["has_demos"] = create.args, has_demos
        yield

    requests = SimpleNamespace(service_failure=failure, requests=17, unparsable=2)
    monkeypatch.setattr(dspy, "MIPROv2", Compiler)
    monkeypatch.setattr(scored_programs, "ScoredPrograms", Programs)
    monkeypatch.setattr(prompt_rewriter, "ReflectionRequests", lambda reason: requests)
    monkeypatch.setattr(dspy_compat, "adapt_mipro", adapt)
    trials = SimpleNamespace(check=lambda: told["trials"].append("checked"), stop=told["trials"].append)
    student: Any = SimpleNamespace(trials=trials, copy_for_demos=lambda: "a copy")
    objective: Any = SimpleNamespace(
        train_ids=("t1", "t2", "t3"),
        val_ids=("v1", "v2"),
        samples={"t1": "one", "t2": "two", "t3": "three"},
        labels=LabelSet(("yes",)),
    )
    context: Any = SimpleNamespace(seed=5, get_stop_reason=None, reflection_lm="writer", concurrency=4)
    optimizer = MiproOptimizer(candidates=4, trials=7, max_demos=max_demos, max_instruction_chars=99)
    report: Any = "report"
    with dspy.context(lm="agents'"):
        assert optimizer.search(student, objective, context, report) == SearchOutcome(17, 2)
    shuffled = ["t1", "t2", "t3"]
    random.Random(5).shuffle(shuffled)
    assert told["settings"] == {
        "metric": objective,
        "prompt_model": "writer",
        "task_model": "writer",
        "auto": None,
        "num_candidates": 4,
        "max_bootstrapped_demos": max_demos,
        "max_labeled_demos": 0,
        "metric_threshold": 1.0,
        "num_threads": 4,
        "max_errors": 10**9,
        "track_stats": False,
        "seed": 5,
    }
    assert told["programs"] == (student, objective, context, "report", "mipro")
    assert told["trials"] == ["checked", *([failure] if failure else [])]
    assert ("compile" in told) == (not over)
    if not over:
        settings = told["compile"][2]
        assert told["compile"][:2] == ("a copy", "agents'")
        assert [each.sample_id for each in settings.pop("trainset")] == shuffled
        assert [each.sample_id for each in settings.pop("valset")] == ["v1", "v2"]
        assert settings == {
            "num_trials": 7,
            "minibatch": False,
            "view_data_batch_size": 10,
            "data_aware_proposer": False,
            "program_aware_proposer": False,
            "fewshot_aware_proposer": False,
        }
        assert told["has_demos"] == (max_demos > 0)
        assert told["drafts"] == (requests, [objective.samples[each] for each in shuffled], ("yes",), 99)
