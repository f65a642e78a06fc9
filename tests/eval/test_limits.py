"""Limits of questions and budgets of runs, through the whole command."""

import json
from pathlib import Path

import pytest

from eval.spending import Budget
from eval.store import RunStore
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


def test_a_question_works_no_longer_than_it_may(eval_command: EvalCommand, tmp_path: Path) -> None:
    data = dataset(tmp_path / "data", told("a", "sleep 30 say 7"), told("b", "sleep 0 say 7"))
    finished = eval_command(*AGENT, *data, "limits.working_seconds=0.3")
    assert (finished.records["a"]["limit"], finished.records["a"]["error_class"]) == ("working_seconds", "limit")
    assert finished.records["b"]["score"] == 1.0
    assert finished.records["a"]["wall_seconds"] < 10


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


def test_a_quota_stops_the_run_and_its_questions_are_run_again(eval_command: EvalCommand, tmp_path: Path) -> None:
    with fault_server(["ok", "ok", "ok", "quota"]) as server:
        finished = eval_command(*model(server), *questions(tmp_path, 5), "run.concurrency=1")
        assert len(server.requests()) == 4
        assert finished.code == 3
        assert "want of quota" in finished.summary["stopped"]
        assert list(finished.records) == ["q0", "q1"]
        assert finished.records["q1"]["error_class"] == "quota_or_key"
        server.start_over([])
        again = eval_command(f"run.resume={finished.folder}")
    assert again.code == 0
    summary = json.loads((finished.folder / "summary.json").read_text())
    assert (summary["n"], summary["accuracy"], summary["n_error"]) == (5, 1.0, 0)


@pytest.mark.parametrize("budget", ["run.max_cost_usd=1", "limits.cost_usd=0.5"])
def test_a_budget_with_an_unknown_price_is_refused(eval_command: EvalCommand, tmp_path: Path, budget: str) -> None:
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


def test_a_budget_is_reached_once() -> None:
    said: list[str] = []
    budget = Budget(1.0, said.append, spent_usd=0.5)
    for _ in range(4):
        budget.spend(0.25)
    assert said == ["the run has spent $1.0000 (run.max_cost_usd=1)"]
    Budget(None, said.append).spend(1e9)
    assert len(said) == 1


def test_the_shared_cache_is_only_used_when_asked_for(
    eval_command: EvalCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.questions.OUTPUTS", tmp_path / "outputs")
    with fault_server() as server:
        for option, requests, cached in [("off", 3, 0), ("off", 6, 0), ("shared", 9, 0), ("shared", 9, 3)]:
            finished = eval_command(*model(server), *questions(tmp_path, 1), f"cache.lm={option}")
            assert (len(server.requests()), finished.summary["usage"]["cached_calls"]) == (requests, cached)
    assert eval_command(*model(server), *questions(tmp_path, 1), "cache.lm=on").code == 1


def test_every_epoch_asks_anew(eval_command: EvalCommand, tmp_path: Path) -> None:
    with fault_server() as server:
        finished = eval_command(*model(server), *questions(tmp_path, 2), "run.epochs=3")
        assert len(server.requests()) == 3 * 2 * 3
    assert (finished.summary["n"], finished.summary["n_questions"], finished.summary["epochs"]) == (6, 2, 3)
    answers = [answer["task_id"] for answer in finished.answers]
    assert answers == ["q0"] * 3 + ["q1"] * 3
