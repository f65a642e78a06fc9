"""The programs that an optimizer scores, each of which is reported once."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mas.prompt_sets.prompt_set import PromptSet
from optimize.search.budget import Spend
from optimize.search.candidate import Candidate, Proposal
from optimize.search.optimizers.scored_programs import ScoredPrograms, SearchOverError

PARENT = PromptSet("p", "toy", {"plan": "Plan.", "solve": "Solve."}, Path("p"))
DEMOS = {"plan": [{"task": "1 + 1", "steps": "add"}]}


class Search:
    """Reported proposals; each look at the ledger finds one more request."""

    def __init__(self) -> None:
        self.stop: str | None = None
        self.reported: list[Proposal] = []
        self.n_looks = 0
        student: Any = SimpleNamespace(
            initial_prompts=PARENT, prompts=PARENT, trials=SimpleNamespace(ledger=SimpleNamespace(spend=self.spend))
        )
        context: Any = SimpleNamespace(get_stop_reason=lambda: self.stop)
        self.programs = ScoredPrograms(student, None, context, self.reported.append, "planted")  # type: ignore[arg-type]

    def spend(self) -> Spend:
        self.n_looks += 1
        return Spend(lm_calls=self.n_looks)

    def report(self, prompts: PromptSet, *scores: float, completed: tuple[bool, ...] = (True, True)) -> None:
        results = [
            (None, SimpleNamespace(trial=SimpleNamespace(completed=each)), score)
            for each, score in zip(completed, scores, strict=True)
        ]
        self.programs.report_program(SimpleNamespace(prompts=prompts), results)  # type: ignore[arg-type]


def changed(text: str, **parts: Any) -> PromptSet:
    return replace(PARENT, texts={**PARENT.texts, "solve": text}, **parts)


def test_each_set_of_prompts_is_reported_once_with_what_it_took() -> None:
    search = Search()
    first, second, third = changed("One."), changed("Two."), replace(PARENT, demos=DEMOS)
    for prompts, score in ((PARENT, 1.0), (first, 0.5), (first, 0.9), (second, 0.5), (third, 1.0)):
        search.report(prompts, 0.0, 2 * score)
    assert search.reported == [
        Proposal(
            Candidate("c001", first, ("parent",), ("solve",), "planted"),
            "accepted",
            "the best so far (before: 0.0%)",
            iteration=1,
            val_score=0.5,
            spend=Spend(lm_calls=1),
        ),
        Proposal(
            Candidate("c002", second, ("parent",), ("solve",), "planted"),
            "rejected",
            "no better than the best so far (50.0%)",
            iteration=2,
            val_score=0.5,
            spend=Spend(lm_calls=1),
        ),
        Proposal(
            Candidate("c003", third, ("parent",), ("plan",), "planted"),
            "accepted",
            "the best so far (before: 50.0%)",
            iteration=3,
            val_score=1.0,
            spend=Spend(lm_calls=1),
        ),
    ]


def test_what_was_broken_off_is_cut_off_and_sets_no_mark() -> None:
    search = Search()
    search.report(changed("One."), 1.0, 0.0, completed=(True, False))
    search.report(changed("Two."), 0.0, 0.0, completed=(False, False))
    search.report(changed("Three."), 0.25, 0.25)
    first, second = search.reported
    assert (first.decision, first.reason, first.val_score) == ("cut_off", "its scoring was broken off", None)
    assert (second.candidate.id, second.decision) == ("c003", "accepted"), "nothing was answered of the second"


def test_a_stop_ends_the_search_after_the_report() -> None:
    search = Search()
    search.stop = "the budget is used up"
    with pytest.raises(SearchOverError):
        search.report(changed("One."), 1.0, 0.0, completed=(True, False))
    [proposal] = search.reported
    assert (proposal.decision, proposal.reason) == ("cut_off", "the budget is used up")
    with pytest.raises(SearchOverError):
        search.report(PARENT, 1.0, 1.0)
    assert len(search.reported) == 1 and not issubclass(SearchOverError, Exception)
