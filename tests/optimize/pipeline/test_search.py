"""The search of a resumed run keeps what earlier sessions found, if a budget lets it repeat nothing of that."""

import signal
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from eval.cli.command import STOPPED
from mas.prompt_sets.prompt_set import PromptSet
from optimize.gate.verdict import EarlyVerdictError
from optimize.pipeline.cost_estimate import UNLIMITED
from optimize.pipeline.search import run_search
from optimize.search.budget import Spend
from optimize.search.candidate import Candidate, Proposal
from optimize.search.optimizer import SearchContext, SearchOutcome
from optimize.session.run_files import RunFiles
from optimize.session.tuning_run import TuningRun
from tests.optimize.tuning_command import tuning_command

BETTER = (  # a candidate is better than the starting prompts on validation
    *("system=toy", "data=toy", "model=offline", "optimizer=bootstrap", "optimizer.candidates=3", "seed=5"),
    *("data.n_train=8", "data.n_val=8", "data.n_test=16", "gate.looks=1", "gate.epochs=1", "shortlist.epochs=1"),
    *("budget.metric_calls=60", "shortlist.size=1", "shortlist.min_gain=0"),
)


@pytest.mark.slow
def test_a_resumed_search_without_any_budget_left_keeps_the_candidates_of_the_first_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(files: RunFiles, proposal: Proposal) -> None:
        keep(files, proposal)
        if proposal.decision == "accepted":
            signal.raise_signal(signal.SIGINT)

    keep = RunFiles.add_proposal
    with monkeypatch.context() as patched:
        patched.setattr(RunFiles, "add_proposal", add)
        first = tuning_command(tmp_path, *BETTER)
    assert first.code == STOPPED, first.err
    accepted = [each["candidate_id"] for each in first.proposals if each["decision"] == "accepted"]
    assert accepted and not (first.folder / "search.json").exists()

    reserved = Spend(seconds=1e6)  # all of the budget: the search has no second for itself
    monkeypatch.setattr("optimize.pipeline.tuning.reserve_test_budget", lambda run, _: run.ledger.hold_back(reserved))
    resumed = tuning_command(tmp_path, f"resume={first.folder}", f"budget.seconds={reserved.seconds}")
    assert resumed.code == 0, resumed.out + resumed.err
    assert [each["candidate_id"] for each in resumed.read("shortlist")] == ["parent", accepted[-1]]
    assert {each["candidate_id"]: each["decision"] for each in resumed.proposals}[accepted[-1]] == "accepted"


PROMPTS = PromptSet("p", "toy", {}, Path("p"))


class PlannedSearch:
    """A run whose search proposes one candidate and ends as it is told; what is called is in `calls`."""

    def __init__(
        self, outcome: SearchOutcome, val_score: float | None = None, refused: str | None = None, done: bool = False
    ) -> None:
        self.outcome, self.val_score, self.done = outcome, val_score, done
        self.calls: list[object] = []
        self.context: SearchContext | None = None
        self.lines = [{"candidate_id": "c1", "val_score": val_score, "decision": "accepted"}]
        self.files = SimpleNamespace(
            read=self._read,
            list_new_proposals=self._list,
            finish_proposals=lambda lines: self.calls.append(("finish", lines)),
            write=lambda name, value: self.calls.append((name, value)),
            read_proposals=lambda: ["as written"],
            clear_proposals=lambda: self.calls.append("clear"),
            add_proposal=lambda proposal: self.calls.append(("add", proposal.candidate.id)),
        )
        ledger = SimpleNamespace(refused_budget=refused, refusal="it is spent", spend=lambda: Spend(metric_calls=7))
        config = SimpleNamespace(
            budget=SimpleNamespace(metric_calls=None),
            run=SimpleNamespace(concurrency=3),
            seed=5,
            gate=SimpleNamespace(objective="score", margin=0.1),
            optimizer=SimpleNamespace(search=self._search),
        )
        self.run = SimpleNamespace(
            files=self.files,
            ledger=ledger,
            config=config,
            metric="accuracy",
            reflection_lm="lm",
            get_stop_reason=lambda: None,
            show=lambda text: self.calls.append(("show", text)),
            use_reflection=nullcontext,
            build_student=lambda prompts: ("student", prompts),
            parent=SimpleNamespace(prompts="p"),
            objective="objective",
            check_stopped=lambda: self.calls.append("stopped?"),
            check_metric=lambda: self.calls.append("metric?"),
        )

    def _list(self, with_earlier: bool) -> object:
        self.calls.append(("list", with_earlier))
        return self.lines

    def _read(self, name: str) -> object:
        return {"search": {"reflections": 1} if self.done else None, "baseline": {"val_score": 0.5}}[name]

    def _search(self, student: object, objective: object, context: SearchContext, report: object) -> SearchOutcome:
        assert (student, objective, callable(report)) == (("student", "p"), "objective", True)
        self.context = context
        candidate = Candidate("c1", PROMPTS, agents=("solver",), parent_ids=("parent",))
        report(Proposal(candidate, "cut_off", "the budget ended", val_score=self.val_score))  # type: ignore[operator]
        return self.outcome

    def search(self) -> object:
        return run_search(cast(TuningRun, self.run))


def test_a_search_keeps_what_it_proposed_and_counts_what_it_took() -> None:
    planned = PlannedSearch(SearchOutcome(3, 2), val_score=0.625)
    assert planned.search() == ["as written"]
    assert planned.calls == [
        "clear",
        ("add", "c1"),
        ("show", "  c1 (solver): cut off, accuracy 62.5% on validation; the budget ended"),
        "stopped?",
        ("list", False),
        "metric?",
        ("finish", planned.lines),
        ("search", {"reflections": 3, "unparsable": 2, "metric_calls": 7}),
    ]
    assert planned.context is not None
    assert (planned.context.metric_calls, planned.context.concurrency, planned.context.seed) == (UNLIMITED, 3, 5)
    planned.run.config.budget.metric_calls = 40
    planned.search()
    assert planned.context.metric_calls == 40


def test_a_search_that_has_ended_is_not_repeated() -> None:
    planned = PlannedSearch(SearchOutcome(), done=True)
    assert (planned.search(), planned.calls) == (["as written"], [])


@pytest.mark.parametrize(
    ("outcome", "val_score", "refused", "reason"),
    [
        (SearchOutcome(2, 2), 0.9, None, "reflection_unparsable"),
        (SearchOutcome(0, 0), 0.5, None, None),
        (SearchOutcome(2, 1), 0.5, "metric_calls", None),
        (SearchOutcome(2, 1), 0.5, "cost_usd", "budget"),
        (SearchOutcome(2, 1), None, "cost_usd", "budget"),
        (SearchOutcome(2, 1), 0.51, "cost_usd", None),
    ],
)
def test_a_search_fails_if_nothing_was_read_or_a_budget_left_nothing_better(
    outcome: SearchOutcome, val_score: float | None, refused: str | None, reason: str | None
) -> None:
    planned = PlannedSearch(outcome, val_score, refused)
    if reason is None:
        planned.search()
    else:
        with pytest.raises(EarlyVerdictError) as caught:
            planned.search()
        assert caught.value.finish_reason == reason
        said = {"budget": "it is spent, and no candidate", "reflection_unparsable": "none of the 2 replies"}
        assert str(caught.value).startswith(said[reason])
    assert ("list", refused == "cost_usd") in planned.calls
    assert any(isinstance(each, tuple) and each[0] == "search" for each in planned.calls) == (reason is None)


@pytest.mark.parametrize(("val_score", "qualifies"), [(0.4, True), (0.39, False)])
def test_cheaper_prompts_may_lose_the_margin(val_score: float, qualifies: bool) -> None:
    planned = PlannedSearch(SearchOutcome(), val_score, "cost_usd")
    planned.run.config.gate = SimpleNamespace(objective="cost", margin=0.1)
    if qualifies:
        planned.search()
    else:
        with pytest.raises(EarlyVerdictError, match="no candidate qualified"):
            planned.search()
