"""The rounds of a search by halving: how long they are, which questions are drawn, and what is done with answers."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest

from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.optimizers.halving_rounds import HalvingRounds
from optimize.search.optimizers.prompt_changes import divide

TEXTS = {"plan": "Make a plan.\n\nBe brief.", "solve": "Solve it."}


@dataclass
class Program:
    """A student whose answers are given: right where `right` says so."""

    right: set[str]
    prompts: PromptSet = field(default_factory=lambda: PromptSet("p", "toy", dict(TEXTS), Path("p")))
    broken_off: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    agents: tuple[str, ...] = ("plan", "solve")
    trials: Any = field(default_factory=lambda: SimpleNamespace(ledger=SimpleNamespace(spend=lambda: 0)))

    def __post_init__(self) -> None:
        self.signatures = {name: dspy.Signature("question -> answer", text) for name, text in TEXTS.items()}
        self.predictors = {name: SimpleNamespace(signature=each) for name, each in self.signatures.items()}

    def named_parameters(self) -> list[tuple[str, Any]]:
        return list(self.predictors.items())

    def trial(self, sample_id: str) -> Any:
        self.asked.append(sample_id)
        record = SimpleNamespace(sample_id=sample_id, answer="right" if sample_id in self.right else "wrong")
        steps = [
            ("plan", {"question": sample_id}, {"plan": "first"}),
            ("solve", {"question": sample_id}, {"answer": record.answer}),
            ("plan", {"question": sample_id}, {"plan": 2}),
        ]
        return SimpleNamespace(record=record, completed=sample_id not in self.broken_off, steps=steps)


class Judge:
    """An objective with six training and three validation questions."""

    train_ids, val_ids = tuple(f"t{n}" for n in range(6)), ("v0", "v1", "v2")
    at_fault: str | None = "solve"

    def find_agent_at_fault(self, trial: Any) -> str | None:
        return self.at_fault

    def __call__(self, example: Any, prediction: Any, trace: Any = None, name: Any = None, _: Any = None) -> Any:
        score = float(prediction.final_answer == "right")
        return score if name is None else dspy.Prediction(score=score, feedback=f"{name}: wrong")


def rounds(program: Program, budget: int = 100, rewriter: Any = None, **settings: int) -> HalvingRounds:
    given = {"stages": 3, "batch": 2, "proposals": 1, "examples": 2, "mixtures": 2, "questions": 3, "patience": 2}
    context = SimpleNamespace(
        seed=0, metric_calls=budget, concurrency=4, get_stop_reason=lambda: None, reflection_lm=None
    )
    report: list[Any] = []
    made = HalvingRounds(
        SimpleNamespace(**{**given, **settings}),
        program,  # type: ignore[arg-type]
        Judge(),  # type: ignore[arg-type]
        context,  # type: ignore[arg-type]
        report.append,
        rewriter or SimpleNamespace(failure=None),
    )
    made.reported = report  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    ("budget", "settings", "expected"),
    [
        (100, {}, (3, 3)),  # 3 stages of 2 + 2 × 3 answers, and 3 of validation
        (27, {}, (3, 3)),
        (26, {}, (3, 2)),  # (23 // 3 - 2) // 2
        (21, {}, (3, 2)),
        (20, {}, (2, 3)),
        (15, {}, (2, 2)),
        (14, {}, (1, 3)),
        (9, {}, (1, 2)),
        (8, {}, (0, 0)),
        (0, {}, (0, 0)),
        (8, {"questions": 1}, (1, 1)),
        (7, {"questions": 1}, (1, 1)),
        (6, {"questions": 1}, (0, 0)),
    ],
)
def test_a_round_is_as_long_as_the_budget_allows(budget: int, settings: dict[str, int], expected: Any) -> None:
    assert rounds(Program(set()), budget, **settings)._plan_round() == expected


def test_all_training_questions_have_their_turn_before_one_comes_again() -> None:
    made = rounds(Program(set()))
    drawn = [made._draw_questions(4) for _ in range(3)]
    assert all(len(set(each)) == 4 for each in drawn), "no question twice in a stage"
    assert Counter(each for stage in drawn for each in stage) == dict.fromkeys(Judge.train_ids, 2)
    assert rounds(Program(set()))._draw_questions(4) == drawn[0] != sorted(drawn[0])


def test_no_question_is_answered_twice_and_wrong_training_answers_are_kept() -> None:
    program = Program({"t0", "v0"})
    made = rounds(program)
    version = made._parent
    made._answer([version], ["t0", "t1", "v0", "v1"])
    made._answer([version], ["t1", "t2"])
    assert sorted(program.asked) == ["t0", "t1", "t2", "v0", "v1"] and made._n_answers == 5
    assert version.scores == {"t0": 1.0, "t1": 0.0, "t2": 0.0, "v0": 1.0, "v1": 0.0}
    assert sorted(version.wrong) == ["t1", "t2"] and not version.is_cut_off
    assert version.mean(["t0", "v0", "v1"]) == pytest.approx(2 / 3)
    made._answer([version], [])


def test_an_answer_that_was_broken_off_has_no_score() -> None:
    made = rounds(Program({"t0"}, broken_off={"t1"}))
    made._answer([made._parent], ["t0", "t1"])
    made._answer([made._parent], ["t2"])
    assert made._parent.is_cut_off and list(made._parent.scores) == ["t0", "t2"] and "t1" not in made._parent.wrong


def test_a_version_is_made_once_with_the_texts_of_its_changes() -> None:
    program = Program(set())
    made = rounds(program)
    first, second = divide("plan", TEXTS["plan"], "Make a plan.\n\nBe brief.\n\nName units.\n\nCheck them.")
    version = made._get_version({first})
    assert made._get_version([first]) is version and made._get_version(set()) is made._parent
    assert "Name units." in version.prompts.texts["plan"] and "Check them." not in version.prompts.texts["plan"]
    assert version.prompts.texts["solve"] == TEXTS["solve"]
    told = {name: each.signature.instructions for name, each in version.student.named_parameters()}
    assert told == version.prompts.texts
    assert program.predictors["plan"].signature.instructions == TEXTS["plan"], "the parent stays as it is"
    both = made._get_version({first, second})
    assert "Check them." in both.prompts.texts["plan"] and both is not version


def test_the_parent_of_a_version_is_what_most_of_its_changes_come_from() -> None:
    made = rounds(Program(set()))
    first, second = divide("plan", TEXTS["plan"], "Make a plan.\n\nBe brief.\n\nName units.\n\nCheck them.")
    [third] = divide("solve", TEXTS["solve"], "Solve it.\n\nShow how.")
    made._n_rounds, made._proposed["c001"] = 2, made._get_version({first})
    candidate = made._describe(made._get_version({first, second}))
    assert (candidate.id, candidate.parent_ids, candidate.agents) == ("c002", ("c001",), ("plan",))
    other = made._describe(made._get_version({second, third}))
    assert (other.parent_ids, other.agents) == (("parent",), ("plan", "solve"))


def decide(right: set[str], best: set[str], **parts: Any) -> Any:
    made = rounds(Program(best))
    made._answer([made._parent], Judge.val_ids)
    [change] = divide("solve", TEXTS["solve"], "Solve it.\n\nShow how.")
    guess = made._get_version({change})
    guess.student.right = right  # type: ignore[attr-defined]
    guess.student.broken_off = parts.get("broken_off", set())  # type: ignore[attr-defined]
    if parts.get("scored", True):
        made._answer([guess], Judge.val_ids)
    if "stop" in parts:
        made._context.get_stop_reason = lambda: parts["stop"]  # type: ignore[attr-defined]
    is_better = made._decide(guess, 0)  # type: ignore[arg-type]
    [proposal] = made.reported  # type: ignore[attr-defined]
    assert is_better == (proposal.decision == "accepted") == (made._best is guess)
    return proposal


def test_only_a_version_that_is_better_on_validation_is_accepted() -> None:
    better, same = decide({"v0", "v1"}, {"v0"}), decide({"v1"}, {"v0"})
    assert (better.decision, better.val_score) == ("accepted", pytest.approx(2 / 3))
    assert (same.decision, same.val_score) == ("rejected", pytest.approx(1 / 3))
    assert better.reason.startswith("1 of ") and better.reason.endswith(" changes look helpful after 6 answers")


def test_what_was_broken_off_is_neither() -> None:
    stopped = decide({"v0", "v1"}, {"v0"}, stop="the budget is used up")
    assert (stopped.decision, stopped.reason) == ("cut_off", "the budget is used up")
    for broken in ({"broken_off": {"v2"}}, {"scored": False}):
        proposal = decide({"v0", "v1"}, {"v0"}, **broken)
        assert (proposal.decision, proposal.val_score) == ("cut_off", None)
        assert proposal.reason == "its scoring was broken off"


class Rewriter:
    """Adds a line to the prompt of one agent, and keeps what it was given."""

    failure = None

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], dict[str, list[Any]], list[str]]] = []

    def __call__(self, texts: dict[str, str], examples: Any, agents: list[str]) -> dict[str, str]:
        self.calls.append((texts, examples, agents))
        return {agents[0]: f"{texts[agents[0]]}\n\nLine {len(self.calls)}."}


def test_agents_are_rewritten_as_often_as_they_are_blamed() -> None:
    rewriter = Rewriter()
    made = rounds(Program(set()), rewriter=rewriter, proposals=6)
    made._answer([made._parent], ["t0", "t1", "t2"])
    changes = made._find_changes(made._parent)
    named = Counter(agent for _, _, [agent] in rewriter.calls)
    assert named == {"solve": 10, "plan": 2}, "3.75 to 0.75: of 3 wrong answers, half of them shared"
    assert {each.agent for each in changes} == {"plan", "solve"} and len(changes) == len(set(changes))


def test_nothing_is_rewritten_without_a_wrong_answer() -> None:
    rewriter = Rewriter()
    made = rounds(Program(set(Judge.train_ids)), rewriter=rewriter)
    made._answer([made._parent], Judge.train_ids)
    assert made._find_changes(made._parent) == [] and not rewriter.calls


def test_an_example_is_the_agent_s_last_call_with_its_feedback_and_those_that_it_is_to_blame_for_come_first() -> None:
    rewriter = Rewriter()
    made = rounds(Program(set()), rewriter=rewriter)
    made._answer([made._parent], ["t0", "t1", "t2"])
    made._rewrite(made._parent, "plan", {"t0": "solve", "t1": "plan", "t2": None})
    [(texts, examples, agents)] = rewriter.calls
    assert (texts, agents) == (TEXTS, ["plan"]) and len(examples["plan"]) == 2
    assert examples["plan"][0] == {
        "Inputs": {"question": "t1"},
        "Generated Outputs": {"plan": "2"},
        "Feedback": "plan: wrong",
    }
    assert made._build_examples("nobody", made._parent.wrong["t0"]) == []


def test_a_text_that_comes_back_as_it_was_is_no_proposal() -> None:
    same: Any = lambda texts, examples, agents: dict(texts)  # noqa: E731
    same_texts = SimpleNamespace(failure=None)
    made = rounds(Program(set()), rewriter=same_texts)
    made._answer([made._parent], ["t0"])
    made._rewriter = same
    made._is_over = lambda: False  # type: ignore[method-assign]
    assert made._rewrite(made._parent, "solve", {"t0": "solve"}) is None
    made._rewriter = lambda texts, examples, agents: {}  # type: ignore[assignment]
    assert made._rewrite(made._parent, "solve", {"t0": "solve"}) is None


def test_it_is_over_when_a_stop_is_requested_or_the_reflection_model_fails() -> None:
    made = rounds(Program(set()))
    assert not made._is_over()
    made._rewriter.failure = "it fails"
    assert made._is_over()
    made._rewriter.failure = None
    made._context.get_stop_reason = lambda: "stop"  # type: ignore[attr-defined]
    assert made._is_over()


class Learner(Program):
    """Answers are right once the solver's prompt has the first line that the rewriter adds."""

    def trial(self, sample_id: str) -> Any:
        self.right = {sample_id} if "Line 1." in self.predictors["solve"].signature.instructions else set()
        return super().trial(sample_id)


def reported(made: HalvingRounds) -> list[tuple[str, str, int, float | None, tuple[str, ...]]]:
    return [
        (each.candidate.id, each.decision, each.iteration, each.val_score, each.candidate.parent_ids)
        for each in made.reported  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_a_search_ends_after_as_many_rounds_in_vain_as_it_has_patience_for(patience: int) -> None:
    program, rewriter = Program(set()), Rewriter()
    made = rounds(program, budget=200, rewriter=rewriter, stages=1, patience=patience)
    made.run()
    parents = ["parent", "c001", "c002"]
    assert reported(made) == [(f"c{n:03}", "rejected", n, 0.0, (parents[n - 1],)) for n in range(1, patience + 1)], (
        "a version has most of its changes from the one before"
    )
    assert program.asked[:3] == ["v0", "v1", "v2"] and len(rewriter.calls) == 2 * patience


@pytest.mark.parametrize(("budget", "n_rounds"), [(11, 0), (12, 1), (19, 1), (20, 2)])
def test_a_search_ends_before_a_round_that_the_budget_does_not_allow(budget: int, n_rounds: int) -> None:
    """3 answers of the parent; of a round 3 of validation and at most 2 + 2 × 3, at least 2 + 2 × 2."""
    made = rounds(Program(set()), budget=budget, rewriter=Rewriter(), stages=1, patience=9)
    made.run()
    assert [each[0] for each in reported(made)] == [f"c{n:03}" for n in range(1, n_rounds + 1)]
    assert made._n_answers <= budget


def test_what_helps_on_training_questions_is_accepted_and_found_no_second_time() -> None:
    rewriter = Rewriter()
    made = rounds(Learner(set()), rewriter=rewriter, stages=2, patience=2)
    made.run()
    assert reported(made) == [("c001", "accepted", 1, 1.0, ("parent",))]
    assert made._best.prompts.texts["solve"].startswith("Solve it.\nLine 1.") and made._best.student is not None
    assert made._best.mean(Judge.val_ids) == 1.0


def test_a_reflection_model_that_fails_ends_the_search_after_its_last_proposal_was_scored() -> None:
    class Failing(Rewriter):
        def __call__(self, texts: dict[str, str], examples: Any, agents: list[str]) -> dict[str, str]:
            self.failure = "it fails"  # type: ignore[assignment]
            return super().__call__(texts, examples, agents)

    rewriter = Failing()
    made = rounds(Learner(set()), rewriter=rewriter, stages=3, patience=5)
    made.run()
    assert reported(made) == [("c001", "accepted", 1, 1.0, ("parent",))] and len(rewriter.calls) == 1


def test_a_stop_ends_the_search_and_what_was_not_scored_by_then_is_cut_off() -> None:
    stops: list[str] = []

    class Stopping(Rewriter):
        def __call__(self, texts: dict[str, str], examples: Any, agents: list[str]) -> dict[str, str]:
            stops.append("stopped by Ctrl-C")
            return super().__call__(texts, examples, agents)

    program, rewriter = Learner(set()), Stopping()
    made = rounds(program, rewriter=rewriter, stages=3, patience=5)
    made._context.get_stop_reason = lambda: stops[0] if stops else None  # type: ignore[attr-defined]
    made.run()
    assert reported(made) == [("c001", "cut_off", 1, None, ("parent",))] and len(rewriter.calls) == 1
    assert made.reported[0].reason == "stopped by Ctrl-C"  # type: ignore[attr-defined]
