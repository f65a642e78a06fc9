"""The search of a resumed run keeps what earlier sessions found, if a budget lets it repeat nothing of that."""

import signal
from pathlib import Path

import pytest

from eval.cli.command import STOPPED
from eval.execution.budget import Spend
from eval.runs.store import RunStore
from optimize.search.optimizer import Proposal
from optimize.session.tuning_store import add_proposal
from tests.command import tuning_command

BETTER = (  # a candidate is better than the starting prompts on validation
    *("system=toy", "data=toy", "model=offline", "optimizer=bootstrap", "optimizer.candidates=3", "seed=5"),
    *("data.n_train=8", "data.n_val=8", "data.n_test=16", "gate.looks=1", "gate.epochs=1", "shortlist.epochs=1"),
    *("budget.metric_calls=60", "shortlist.size=1", "shortlist.min_gain=0"),
)


@pytest.mark.slow
def test_a_resumed_search_without_any_budget_left_keeps_the_candidates_of_the_first_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(store: RunStore, proposal: Proposal) -> None:
        add_proposal(store, proposal)
        if proposal.decision == "accepted":
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr("optimize.pipeline.tuning.add_proposal", add)
        first = tuning_command(tmp_path, *BETTER)
    assert first.code == STOPPED, first.err
    accepted = [each["candidate_id"] for each in first.proposals if each["decision"] == "accepted"]
    assert accepted and first.read("search") is None

    reserved = Spend(seconds=1e6)  # all of the budget: the search has no second for itself
    monkeypatch.setattr("optimize.pipeline.tuning.reserve_test_budget", lambda run, _: run.budget.hold_back(reserved))
    resumed = tuning_command(tmp_path, f"resume={first.folder}", f"budget.seconds={reserved.seconds}")
    assert resumed.code == 0, resumed.out + resumed.err
    assert [each["candidate_id"] for each in resumed.read("shortlist")] == ["parent", accepted[-1]]
    assert {each["candidate_id"]: each["decision"] for each in resumed.proposals}[accepted[-1]] == "accepted"
