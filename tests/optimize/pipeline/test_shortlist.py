"""Candidates that are re-evaluated, and the one that is tested."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from eval.analysis.statistics.metric_interval import compute_metric_interval
from eval.runs.record import Usage
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from optimize.gate.gate import GateSettings
from optimize.gate.verdict import EarlyVerdictError
from optimize.pipeline.preflight import Baseline
from optimize.pipeline.shortlist import (
    ApprovedSet,
    ShortlistEntry,
    approve_winner,
    choose_winner,
    compute_min_score,
    count_shortlist_answers,
)
from optimize.publishing.leaks import Hit, LeakReport
from optimize.search.candidate import Candidate, Proposal
from optimize.search.optimizer import ReportProposal, SearchContext, SearchOutcome
from optimize.search.student import Objective, Student
from optimize.session.tuning_run import TuningRun
from tests.optimize.planted_runs import ALWAYS, SLIGHTLY, Obedient, Planted, planted_run


@dataclass
class Scored(Planted):
    """Each candidate with its own score and fate: (text of the finalizer, score on validation, decision)."""

    found: Sequence[tuple[str, float | None, Any]] = ()

    def search(
        self, student: Student, objective: Objective, context: SearchContext, report: ReportProposal
    ) -> SearchOutcome:
        parent = student.initial_prompts
        for number, (text, score, decision) in enumerate(self.found, start=1):
            texts: Mapping[str, str] = {**parent.texts, "finalize": text or parent.texts["finalize"]}
            candidate = Candidate(
                f"c{number:03}", replace(parent, texts=dict(texts)), ("parent",), ("finalize",), "planted"
            )
            report(Proposal(candidate, decision, "planted", val_score=score))
        return SearchOutcome()


def listed(place: Path, *overrides: str, found: Sequence[tuple[str, float | None, Any]]) -> list[str]:
    tuned = planted_run(place, *overrides, optimizer=Scored([], found=found))
    return [each["candidate_id"] for each in tuned.read("shortlist")]


@pytest.mark.slow
def test_the_best_come_first_each_only_once_and_none_that_was_cut_off(tmp_path: Path) -> None:
    found = [
        (SLIGHTLY, 0.3, "accepted"),
        (ALWAYS, 0.9, "accepted"),
        ("Half.", None, "rejected"),  # never scored on validation
        (ALWAYS, 0.9, "accepted"),  # the same as c002
        ("Much.", 1.0, "cut_off"),
        ("", 1.0, "accepted"),  # the parent itself
        ("Some.", 0.5, "accepted"),
        ("Bad.", 0.2, "accepted"),  # as the parent
    ]
    assert listed(tmp_path, found=found) == ["parent", "c002", "c007", "c001"]
    assert listed(tmp_path / "two", "shortlist.size=1", found=found) == ["parent", "c002"]


def test_it_is_the_fresh_answers_that_decide(tmp_path: Path) -> None:
    found = [("Lucky.", 1.0, "accepted"), (ALWAYS, 0.5, "accepted")]
    tuned = planted_run(tmp_path, "shortlist.epochs=2", optimizer=Scored([], found=found))
    first, second, third = tuned.read("shortlist")
    assert [each["fresh_score"] for each in (first, second, third)] == [0.2, 0.2, 1.0]
    assert (second["val_score"], third["val_score"]) == (1.0, 0.5)
    assert all(each["cost_usd"] > 0 for each in (first, second, third))
    assert tuned.verdict["winner"]["candidate_id"] == "c002"
    assert tuned.verdict["best_val"]["candidate_id"] == "c001"
    assert "  c001: accuracy 20.0% re-evaluated (100.0% in the search)" in tuned.out


def test_the_room_for_the_sealed_test_is_that_of_both_sides(tmp_path: Path) -> None:
    """The winner's prompt is several times as long as the parent's, at whose length the test would fit."""
    long = f"{ALWAYS} {'Take care. ' * 900}"
    tuned = planted_run(tmp_path, "budget.tokens=500000", texts={"finalize": long})
    parent, winner = tuned.read("shortlist")
    spent, of_one = tuned.verdict["spend"], winner["input_tokens"] + winner["output_tokens"]
    left = 500_000 - spent["input_tokens"] - spent["output_tokens"]
    assert 2 * 30 * (parent["input_tokens"] + parent["output_tokens"]) < left < 30 * of_one
    assert (tuned.code, tuned.verdict["finish_reason"]) == (3, "budget")
    assert "it was not begun" in tuned.verdict["reasons"][0]
    assert not (tuned.folder / "sealed").exists()


def test_a_single_candidate_is_spoken_of_as_one(tmp_path: Path) -> None:
    tuned = planted_run(tmp_path, texts={"finalize": "Lucky."})
    (reason,) = tuned.verdict["reasons"]
    assert reason.startswith("after re-evaluation the only candidate was not better than the starting prompts")
    several = Scored([], found=[("Lucky.", 1.0, "accepted"), ("Luckier.", 1.0, "accepted")])
    (reason,) = planted_run(tmp_path / "two", optimizer=several).verdict["reasons"]
    assert reason.startswith("after re-evaluation none of the best 2 candidates was better than")


def test_a_shortlist_that_is_there_is_not_asked_again(tmp_path: Path) -> None:
    found = [(ALWAYS, 0.9, "accepted")]
    first = planted_run(tmp_path, "budget.lm_calls=225", optimizer=Scored([], found=found))
    assert first.code == 3 and first.read("shortlist")
    model = Obedient()
    second = planted_run(tmp_path, "budget.lm_calls=999", "resume=run", model=model, optimizer=Scored([], found=found))
    assert second.verdict["published"] is True
    assert len(model.requests) == 2 * 30 * 3, "the sealed test alone"


@pytest.mark.parametrize(("objective", "good"), [("score", "better"), ("cost", "good enough")])
def test_candidates_with_the_parent_s_prompts_alone_are_no_candidates(
    tmp_path: Path, objective: str, good: str
) -> None:
    same = Scored([], found=[("", 1.0, "accepted"), ("", 1.0, "accepted")])
    verdict = planted_run(
        tmp_path, f"gate.objective={objective}", model=Obedient(simulated=False), optimizer=same
    ).verdict
    assert verdict["finish_reason"] == "no_accepted_candidate"
    assert verdict["reasons"] == [f"every candidate that was {good} on validation has the starting prompts"]


def test_what_is_clearly_worse_is_dropped_after_one_pass_and_the_parent_is_a_null_control(tmp_path: Path) -> None:
    found = [("Lucky.", 1.0, "accepted"), (ALWAYS, 0.5, "accepted")]
    tuned = planted_run(tmp_path, "shortlist.epochs=3", optimizer=Scored([], found=found))
    parent, lucky, always = tuned.read("shortlist")
    assert [each["dropped_after"] for each in (parent, lucky, always)] == [None, 10, None]
    assert "  c001: accuracy 20.0% re-evaluated (100.0% in the search); clearly worse after 10 answers" in tuned.out
    with closing(sqlite3.connect(tuned.folder / "trials.db")) as database:
        assert database.execute("SELECT count(*) FROM trials").fetchone() == (10 + (3 + 1 + 3) * 10,)
    assert tuned.verdict["null_gain"] == parent["fresh_score"] - parent["val_score"] == 0.0
    assert "null control: an unchanged copy of the starting prompts gained +0.0 points" in tuned.out


def test_a_small_fresh_gain_does_not_open_the_sealed_set(tmp_path: Path) -> None:
    found = [(SLIGHTLY, 0.9, "accepted")]
    tuned = planted_run(tmp_path, "shortlist.min_gain=0.11", optimizer=Scored([], found=found))
    assert (tuned.code, tuned.verdict["finish_reason"]) == (0, "no_accepted_candidate")
    assert (
        "by 10.0 points only" in tuned.verdict["reasons"][0]
        and "shortlist.min_gain=0.11" in tuned.verdict["reasons"][0]
    )
    assert not (tuned.folder / "sealed").exists() and "sealed" not in tuned.verdict
    assert (
        planted_run(tmp_path / "two", "shortlist.min_gain=0.1", optimizer=Scored([], found=found)).read("flips")
        is not None
    )


def entry(candidate_id: str, score: float, cost: float | None = 1.0, dropped: int | None = None) -> ShortlistEntry:
    return ShortlistEntry(
        lm_calls=1.0,
        input_tokens=1.0,
        output_tokens=1.0,
        cost_usd=cost,
        seconds=1.0,
        candidate_id=candidate_id,
        val_score=score,
        fresh_score=score,
        fresh_ci95=None,
        prompts_sha256="",
        dropped_after=dropped,
    )


def choose(
    *entries: ShortlistEntry, objective: Literal["score", "cost"] = "score", least: float = 0.1, margin: float = 0.1
) -> str:
    """Return who wins the shortlist that is there, the parent first, or why nobody does."""
    config = SimpleNamespace(
        shortlist=SimpleNamespace(min_gain=least), gate=SimpleNamespace(objective=objective, margin=margin)
    )
    lines = [asdict(each) for each in entries]
    run = SimpleNamespace(files=SimpleNamespace(read=lambda name: lines), config=config, metric="accuracy")
    try:
        return choose_winner(cast(TuningRun, run), [], cast(Baseline, None)).candidate_id
    except EarlyVerdictError as error:
        return f"{error.finish_reason}: {error}"


def test_the_best_new_score_wins_if_it_gains_enough() -> None:
    parent = entry("parent", 0.2)
    assert choose(parent, entry("a", 0.3), entry("b", 0.4)) == "b"
    assert choose(parent, entry("a", 0.3), entry("b", 0.4, dropped=5)) == "a"  # 0.3 - 0.2 is 0.1
    nothing = "no_accepted_candidate: after re-evaluation "
    not_run = "was not run"
    assert choose(parent, entry("a", 0.299)) == (
        f"{nothing}a was better than the starting prompts by 9.9 points only (accuracy 29.9% against 20.0% on "
        f"validation); the sealed test, which needs shortlist.min_gain=0.1, {not_run}, and no sealed question was used"
    )
    none_better = "better than the starting prompts (accuracy 20.0% against 20.0% on validation); the sealed test"
    assert choose(parent, entry("a", 0.2)) == f"{nothing}the only candidate was not {none_better} {not_run}"
    assert choose(parent, entry("a", 0.1), entry("b", 0.2), least=0.0) == (
        f"{nothing}none of the best 2 candidates was {none_better} {not_run}"
    )
    assert choose(parent, entry("a", 0.9, dropped=5)).startswith(f"{nothing}the only candidate was not better")


def test_for_less_cost_the_cheapest_within_the_margin_wins() -> None:
    parent = entry("parent", 0.8, 1.0)
    assert choose(parent, entry("a", 0.7, 0.5), entry("b", 0.8, 0.7), objective="cost") == "a"  # 0.8 - 0.7 is 0.1
    assert choose(parent, entry("a", 0.69, 0.5), entry("b", 0.8, 0.7), objective="cost") == "b"
    assert choose(parent, entry("a", 0.8, 0.5, dropped=5), entry("b", 0.8, 0.7), objective="cost") == "b"
    assert choose(parent, entry("a", 0.8, None), entry("b", 0.8, 0.7), objective="cost") == "b"
    none = (
        "no_accepted_candidate: after re-evaluation the only candidate was not as good as the starting prompts and "
        "cheaper as far as is known; the sealed test was not run"
    )
    for other in (entry("a", 0.69, 0.5), entry("a", 0.8, 1.0), entry("a", 0.8, None), entry("a", 0.8, 0.5, dropped=5)):
        assert choose(parent, other, objective="cost") == none
    assert choose(entry("parent", 0.8, None), entry("a", 0.8, 0.5), objective="cost") == none


def test_who_is_re_evaluated_has_more_than_the_parent_or_for_less_cost_at_most_the_margin_less() -> None:
    least = compute_min_score(GateSettings(), 0.5)
    assert 0.5 < least < 0.5 + 1e-12
    least = compute_min_score(GateSettings(objective="cost", margin=0.1), 0.8)
    assert 0.6999 < least <= 0.7


QUESTIONS = [f"q{n}" for n in range(10)]
USAGE = Usage(lm_calls=2, cost_usd=0.5, input_tokens=10, output_tokens=5)
MEASURED = Baseline(
    lm_calls=1.0, input_tokens=1.0, output_tokens=1.0, cost_usd=0.1, seconds=3.0, val_score=0.5, ci95=(0.4, 0.6),
    n_questions=10,
)  # fmt: skip


class Stub:
    """A tuning run whose candidates have given numbers of wrong answers, leaks and lengths."""

    def __init__(
        self,
        wrong: Mapping[str, int],
        leaking: Sequence[str] = (),
        long: Sequence[str] = (),
        size: int = 4,
        epochs: int = 2,
        questions: Sequence[str] = QUESTIONS,
        **gate: Any,
    ) -> None:
        self.wrong, self.leaking, self.metric = wrong, leaking, "accuracy"
        sets = {each: f"You are {each}." + "x" * 100 * (each in long) for each in wrong}
        self.sets = {each: PromptSet(each, "toy", {"plan": text}, Path(each)) for each, text in sets.items()}
        self.parent = SimpleNamespace(prompts=self.sets["parent"])
        shortlist = SimpleNamespace(size=size, epochs=epochs, min_gain=0.0)
        self.config = SimpleNamespace(shortlist=shortlist, gate=GateSettings(max_prompt_chars=50, **gate))
        self.objective, self.splits = SimpleNamespace(val_ids=list(questions)), SimpleNamespace(val=list(questions))
        self.kept: dict[str, Any] = {}
        self.files = SimpleNamespace(read=self.kept.get, write=self.kept.__setitem__)
        self.shown: list[str] = []
        self.show, self.asked = self.shown.append, list[tuple[str, int]]()

    def read_prompts(self, candidate_id: str) -> PromptSet:
        return self.sets[candidate_id]

    def check_leaks(self, prompts: PromptSet) -> LeakReport:
        if prompts.name not in self.leaking:
            return LeakReport([], {"val": 10})
        return LeakReport([Hit("gold", "val", "plan", "text line 1", "q1", "blocking")], {"val": 10})

    def answer_validation(self, prompts: PromptSet, epoch: int) -> list[Any]:
        self.asked.append((prompts.name, epoch))
        return [
            SimpleNamespace(
                record=SimpleNamespace(value=float(at >= self.wrong[prompts.name]), usage=USAGE, wall_seconds=1.0)
            )
            for at, _ in enumerate(self.objective.val_ids)
        ]


def choose_of(stub: Stub, **val_scores: float | None) -> str:
    """Return who wins, or why nobody does."""
    lines = [{"candidate_id": name, "val_score": score, "decision": "accepted"} for name, score in val_scores.items()]
    try:
        return choose_winner(cast(TuningRun, stub), cast(Any, lines), MEASURED).candidate_id
    except EarlyVerdictError as error:
        return f"{error.finish_reason}: {error}"


def test_a_race_asks_again_epoch_by_epoch_without_what_is_clearly_worse() -> None:
    stub = Stub({"parent": 5, "c001": 0, "c002": 2, "c003": 3})
    assert choose_of(stub, c001=0.9, c002=0.8, c003=0.7) == "c001"
    first = [(name, 2) for name in ("parent", "c001", "c002", "c003")]
    assert stub.asked == [*first, ("parent", 3), ("c001", 3), ("c002", 3)]
    assert stub.shown == [
        "  parent: accuracy 50.0% re-evaluated (50.0% in the search)",
        "  c001: accuracy 100.0% re-evaluated (90.0% in the search)",
        "  c002: accuracy 80.0% re-evaluated (80.0% in the search)",
        "  c003: accuracy 70.0% re-evaluated (70.0% in the search); clearly worse after 10 answers, dropped",
    ]
    assert stub.kept["shortlist"][3] == {
        "candidate_id": "c003",
        "val_score": 0.7,
        "fresh_score": 0.7,
        "fresh_ci95": compute_metric_interval([[0.0]] * 3 + [[1.0]] * 7),
        "prompts_sha256": digest(stub.sets["c003"]),
        "dropped_after": 10,
        "lm_calls": 2.0,
        "input_tokens": 10.0,
        "output_tokens": 5.0,
        "cost_usd": 0.5,
        "seconds": 3.0,
    }
    assert stub.kept["shortlist"][1]["fresh_ci95"] == compute_metric_interval([[1.0, 1.0]] * 10)
    assert stub.kept["leaks"] == {f"c00{n}": {"blocked": False, "checked": {"val": 10}, "hits": []} for n in (1, 2, 3)}
    assert count_shortlist_answers(cast(TuningRun, stub)) == 5 * 2 * 10


def test_a_race_ends_when_all_candidates_are_dropped_and_in_the_last_epoch_none_is() -> None:
    stub = Stub({"parent": 0, "c001": 9}, epochs=3)
    assert choose_of(stub, c001=0.9).startswith("no_accepted_candidate: after re-evaluation the only candidate was not")
    assert stub.asked == [("parent", 2), ("c001", 2)]
    stub = Stub({"parent": 0, "c001": 9}, epochs=1)
    choose_of(stub, c001=0.9)
    assert stub.kept["shortlist"][1]["dropped_after"] is None
    few = Stub({"parent": 0, "c001": 9}, questions=QUESTIONS[:9])
    choose_of(few, c001=0.9)
    assert few.kept["shortlist"][1]["dropped_after"] is None, "with nine questions nothing is clear"


@pytest.mark.parametrize(("margin", "dropped"), [(0.04, 10), (0.05, None)])
def test_for_less_cost_only_what_is_clearly_worse_than_the_parent_by_the_margin_is_dropped(
    margin: float, dropped: int | None
) -> None:
    """Three of ten lost: 0.3 less, of which 1.645 standard errors are 0.251. What is best is no measure here."""
    stub = Stub({"parent": 1, "c001": 0, "c002": 4}, objective="cost", margin=margin)
    choose_of(stub, c001=0.9, c002=0.9)
    assert [each["dropped_after"] for each in stub.kept["shortlist"]] == [None, None, dropped]


def test_what_leaks_or_is_too_long_makes_room_for_the_next_and_is_told() -> None:
    names = ["parent", "c001", "c002", "c003", "c004"]
    stub = Stub(dict.fromkeys(names, 0), leaking=["c001"], long=["c002"], size=1)
    choose_of(stub, c001=0.9, c002=0.8, c003=0.7, c004=0.6)
    assert list(stub.kept["leaks"]) == ["c001", "c002", "c003"], "there is room for one"
    assert [each["candidate_id"] for each in stub.kept["shortlist"]] == ["parent", "c003"]
    assert stub.shown[:2] == [
        "  c001: blocked: val gold (plan, text line 1, q1)",
        "  c002: too long for gate.max_prompt_chars: plan (113 characters)",
    ]


LEAKS = "contains answers, questions or ids of validation or sealed questions (see leaks.json)"


@pytest.mark.parametrize(
    ("leaking", "long", "verdict"),
    [
        (["c001"], [], f"leak_blocked: the only candidate that was better on validation {LEAKS}"),
        ([], ["c001"], "too_long: the only candidate that was better on validation is too long for "
                       "gate.max_prompt_chars"),
        (["c001"], ["c002"], f"leak_blocked: each of the 2 candidates that were better on validation {LEAKS} or is too "
                             "long for gate.max_prompt_chars"),
    ],
)  # fmt: skip
def test_if_none_is_left_the_faults_are_named(leaking: list[str], long: list[str], verdict: str) -> None:
    names = sorted({*leaking, *long})
    stub = Stub(dict.fromkeys(["parent", *names], 0), leaking, long)
    assert choose_of(stub, **dict.fromkeys(names, 0.9)) == verdict
    assert list(stub.kept) == ["leaks"]


@pytest.mark.parametrize(
    ("objective", "scores", "words"),
    [
        ("score", {"c001": 0.5}, "the only proposal (1 scored on validation) was not better than"),
        ("score", {"c001": 0.5, "c002": None}, "none of 2 proposals (1 scored on validation) was better than"),
        ("score", {}, "none of 0 proposals (0 scored on validation) was better than"),
        ("cost", {"c001": 0.4}, "the only proposal (1 scored on validation) was not as good as"),
    ],
)
def test_without_a_promising_proposal_there_is_no_shortlist(objective: str, scores: Any, words: str) -> None:
    stub = Stub({"parent": 0, "c001": 0}, objective=objective, margin=0.05)
    within = " within gate.margin=0.05" if objective == "cost" else ""
    assert choose_of(stub, **scores) == f"no_accepted_candidate: {words} the starting prompts (accuracy 50.0%){within}"
    assert stub.kept == {} and stub.asked == []


def test_the_winner_s_prompts_are_checked_once_more_as_they_are_now() -> None:
    stub = Stub({"parent": 0, "c001": 0, "c002": 0, "c003": 0}, leaking=["c002"], long=["c003"])
    stub.kept["leaks"] = {"c009": {}}

    def approve(name: str, sha256: str | None = None) -> ApprovedSet:
        winner = replace(entry(name, 0.9), prompts_sha256=sha256 or digest(stub.sets[name]))
        return approve_winner(cast(TuningRun, stub), winner)

    approved = approve("c001")
    assert approved == ApprovedSet("c001", stub.sets["c001"], LeakReport([], {"val": 10}))
    assert approved.sha256 == digest(stub.sets["c001"]) and list(stub.kept["leaks"]) == ["c009", "c001"]
    with pytest.raises(EarlyVerdictError, match=r"^c002, the best after re-evaluation, contains answers") as leaked:
        approve("c002")
    with pytest.raises(EarlyVerdictError, match=r"^c003, the best after re-evaluation, is too long for") as too_long:
        approve("c003")
    assert (leaked.value.finish_reason, too_long.value.finish_reason) == ("leak_blocked", "too_long")
    assert stub.kept["leaks"]["c002"]["blocked"] and not stub.kept["leaks"]["c003"]["blocked"]
    with pytest.raises(UserError) as changed:
        approve("c001", "a" * 64)
    assert str(changed.value) == (
        f"the prompts in candidates/c001 ({digest(stub.sets['c001'])[:12]}) are not those that the shortlist evaluated "
        "(aaaaaaaaaaaa): restore them, or start a new tuning run."
    )
