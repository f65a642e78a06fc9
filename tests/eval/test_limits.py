"""Limits of questions and budgets of runs, through the whole command."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval.runs.store import RunStore
from tests.eval.command_line import EvalCommand, dataset, question
from tests.eval.obedient_agent import AGENT, told
from tests.servers.faults import FaultServer, fault_server

PRICE = "+model.prices.faults={input_usd_per_million: 1000, output_usd_per_million: 1000}"  # dollars, not cents, a run


def model(server: FaultServer) -> list[str]:
    return ["system=toy", "model=openai_compatible", "model.name=faults", f"model.base_url={server.base_url}"]


def questions(tmp_path: Path, number: int) -> list[str]:
    return dataset(tmp_path / "data", *(question(f"q{n}", f"What is 6 * 7 + {n} - {n}?", "42") for n in range(number)))


@pytest.mark.parametrize(
    ("limit", "calls"), [("limits.lm_calls=2", 2), ("limits.tokens=1", 1), ("limits.cost_usd=0.000001", 1)]
)
def test_a_question_spends_no_more_than_it_may(
    eval_command: EvalCommand, tmp_path: Path, limit: str, calls: int
) -> None:
    with fault_server() as server:
        finished = eval_command(*model(server), PRICE, *questions(tmp_path, 1), limit)
        assert len(server.requests()) == calls
    assert finished.code == 2
    record = finished.records["q0"]
    assert (record["error_class"], record["limit"]) == ("limit", limit.partition("=")[0].removeprefix("limits."))
    assert finished.summary["limits"] == {record["limit"]: 1}


@pytest.mark.slow
def test_a_run_stops_at_its_budget_and_goes_on_with_a_larger_one(eval_command: EvalCommand, tmp_path: Path) -> None:
    with fault_server() as server:
        data = questions(tmp_path, 12)
        finished = eval_command(*model(server), PRICE, *data, "run.concurrency=1", "run.max_cost_usd=0.5")
        spent = len(server.requests())
        assert finished.code == 3
        assert finished.summary["stopped"].startswith("the run has spent $0.")
        assert 0 < spent < 36
        refused = eval_command(f"run.resume={finished.folder}", "run.max_cost_usd=0.000001")
        assert refused.code == 1 and "has already spent $" in refused.err
        assert len(server.requests()) == spent
        eval_command(f"run.resume={finished.folder}", "run.max_cost_usd=1000")
        assert len(server.requests()) == 36, "no call is paid for twice"
    summary = json.loads((finished.folder / "summary.json").read_text())
    assert (summary["n"], summary["accuracy"], summary["stopped"]) == (12, 1.0, None)
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        assert store.cost_usd() == pytest.approx(summary["usage"]["cost_usd"])


COST_USD = 0.12  # of one call at that price


def paid(summary: dict[str, Any]) -> float:
    """What the summary says that the run has cost, as far as it is known."""
    unfinished = summary["unfinished"] or {"known_cost_usd": 0.0}
    return float(summary["usage"]["known_cost_usd"] + unfinished["known_cost_usd"])


def test_what_interrupted_questions_were_charged_is_told_and_counts_in_the_budget(
    eval_command: EvalCommand, tmp_path: Path
) -> None:
    def summary() -> dict[str, Any]:
        read: dict[str, Any] = json.loads((finished.folder / "summary.json").read_text())
        return read

    # Only six replies: on a busy machine, first ones that come one by one let second ones come before the run stops.
    with fault_server(["ok"] * 6 + ["hang"] * 100) as server:
        data = questions(tmp_path, 12)
        at_once = ("run.concurrency=12", "run.max_same_errors=null")  # the first question, too
        finished = eval_command(*model(server), PRICE, *data, *at_once, "run.max_cost_usd=0.6")
        assert (finished.code, finished.records) == (3, {})
        first = summary()
        assert paid(first) == pytest.approx(5 * COST_USD, abs=COST_USD + 1e-9), "five calls, and one that just came"
        assert first["unfinished"]["unknown_cost_calls"] >= 6
        assert f"unfinished questions: {first['unfinished']['lm_calls']} calls, at least $0." in finished.out
        answered = round(paid(first) / COST_USD)
        refused = eval_command(f"run.resume={finished.folder}", "run.max_cost_usd=0.6", "run.concurrency=1")
        assert refused.code == 1 and f"has already spent ${paid(first):.4f} of" in refused.err
        server.start_over([])
        more = f"run.max_cost_usd={answered * COST_USD + 0.3}"
        eval_command(f"run.resume={finished.folder}", more, "run.concurrency=1")
        assert len(server.requests()) == 3, "the first session's calls are in the budget, and replays are not"
        assert paid(summary()) == pytest.approx((answered + 3) * COST_USD)
        last = eval_command(f"run.resume={finished.folder}", "run.max_cost_usd=1000")
        assert len(server.requests()) == 36 - answered
    assert (last.code, summary()["unfinished"]) == (0, None)
    assert paid(summary()) == pytest.approx(36 * COST_USD)
    assert summary()["usage"]["unknown_cost_calls"] == first["unfinished"]["unknown_cost_calls"]
    assert "cost: at least $4.3200 (" in last.out


@pytest.mark.slow
def test_a_call_that_is_cut_off_may_have_cost_something(eval_command: EvalCommand, tmp_path: Path) -> None:
    with fault_server(["ok", "503", "reset", "hang"]) as server:
        retries = ["model.num_retries=2", "model.retry_base_seconds=0.01"]
        finished = eval_command(*model(server), PRICE, *questions(tmp_path, 1), *retries, "run.deadline_seconds=8")
    usage = finished.records["q0"]["usage"]
    assert (usage["lm_calls"], usage["cost_usd"], usage["unknown_cost_calls"]) == (4, None, 2)
    assert usage["known_cost_usd"] == pytest.approx(COST_USD)
    assert "cost: at least $0.1200 (2 calls of unknown cost)" in finished.out


def test_a_quota_stops_the_run_and_its_questions_are_run_again(eval_command: EvalCommand, tmp_path: Path) -> None:
    with fault_server(["ok", "ok", "ok", "quota"]) as server:
        finished = eval_command(*model(server), *questions(tmp_path, 5), "run.concurrency=1")
        assert len(server.requests()) == 4
        assert finished.code == 3
        assert "quota exhausted" in finished.summary["stopped"]
        assert list(finished.records) == ["q0"], "it says nothing about q1"
        server.start_over(["ok", "quota"])
        assert eval_command(f"run.resume={finished.folder}").code == 3
        server.start_over([])
        again = eval_command(f"run.resume={finished.folder}")
        assert len(server.requests()) == 3 * 4 - 1, "q1 has its first reply already"
    assert again.code == 0
    summary = json.loads((finished.folder / "summary.json").read_text())
    assert (summary["n"], summary["accuracy"], summary["n_error"], summary["n_retried"]) == (5, 1.0, 0, 0)


def test_a_budget_with_an_unknown_price_is_refused(eval_command: EvalCommand, tmp_path: Path) -> None:
    budget = "run.max_cost_usd=1"
    with fault_server() as server:
        refused = eval_command(*model(server), *questions(tmp_path, 1), budget)
        assert (refused.code, server.requests()) == (1, [])
        assert refused.err.startswith(f"error: {budget} cannot be kept, because no price is known for faults; give it")
        price = refused.err.partition("give it as '")[2].partition("'")[0]
        assert eval_command(*model(server), *questions(tmp_path, 1), budget, price).code == 0, "as the sentence says"
        own = eval_command(*model(server), PRICE, *questions(tmp_path, 1), budget, "system.agents.plan.model=other")
    assert own.code == 1 and "no price is known for other" in own.err
    foreign = eval_command(*AGENT, *dataset(tmp_path / "data", told("a", "sleep 0 say 7")), budget)
    assert foreign.code == 1 and "not seen here" in foreign.err
