"""What a run is expected to cost."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from eval.analysis.summary.summarise import RunDetails, summarise
from eval.config.evaluation import EvalConfig, read_config
from eval.runs.folder import DATABASE
from eval.runs.record import Usage
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from eval.workflows import estimate
from eval.workflows.estimate import (
    GUESSES,
    Typical,
    compute_highest_cost,
    find_typical_answer,
    format_estimate,
    format_measured,
    is_measured,
    list_prices,
)
from mas.llm.prices import Price
from mas.system import read_program_digest
from tests.eval.config.test_evaluation import composed

LOCAL = ("model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1", "model.name=mine")

compose_once = cache(composed)  # Hydra takes a third of a second


def config(*overrides: str) -> EvalConfig:
    return read_config(compose_once(*LOCAL, *overrides).copy())


def run(parent: Path, name: str, lm_calls: int, **changes: Any) -> None:
    usage = Usage(lm_calls=lm_calls, input_tokens=1000 * lm_calls, output_tokens=10 * lm_calls)
    target = changes.pop("target", None)
    summary = replace(summarise([], RunDetails(run_id=name)), **{"n": 10, "usage": usage, "model": "mine", **changes})
    (parent / name).mkdir(parents=True)
    (parent / name / "summary.json").write_text(json.dumps(summary.to_dict()))
    (parent / name / "config.yaml").write_text(
        yaml.safe_dump({"system": {"name": changes.get("system", "gaia"), "target": target}})
    )


def test_without_an_earlier_run_it_is_a_guess_and_says_so(tmp_path: Path) -> None:
    line = format_estimate(config(), 53, tmp_path)
    assert line.startswith("estimate: 53 answers ≈ 498 LM calls, 477,000 tokens in, 23,850 out, ")
    assert line.endswith("cost n/a: no price is known (a guess: measured offline on the sample questions)")
    assert all(guess.input_tokens > 0 for guess in GUESSES.values())


def test_it_follows_the_newest_complete_run_of_the_program_with_this_model(tmp_path: Path) -> None:
    run(tmp_path, "2026-01-01_00-00-00_a", 20)
    run(tmp_path, "2026-01-02_00-00-00_b", 30)
    run(tmp_path, "2026-01-03_00-00-00_stopped", 40, stopped="interrupted")
    run(tmp_path, "2026-01-04_00-00-00_simulated", 50, simulated=True)
    run(tmp_path, "2026-01-05_00-00-00_other", 60, system="toy")
    run(tmp_path, "2026-01-06_00-00-00_empty", 70, n=0)
    run(tmp_path, "2026-01-06_00-00-01_model", 80, model="another")
    run(tmp_path, "2026-01-06_00-00-02_program", 90, target="other:program")
    (tmp_path / "2026-01-07_00-00-00_cut").mkdir()
    (tmp_path / "2026-01-07_00-00-00_cut" / "summary.json").write_text("{")
    line = format_estimate(config(), 100, tmp_path)
    assert line == (
        "estimate: 100 answers ≈ 300 LM calls, 300,000 tokens in, 3,000 out, cost n/a: no price is known "
        "(from 2026-01-02_00-00-00_b)"
    )


def test_money_is_at_the_price_of_the_dearest_model(tmp_path: Path) -> None:
    run(tmp_path, "2026-01-01_00-00-00_a", 20)
    found = config()
    found.model.prices = {"mine": Price(1.0, 10.0), "dear": Price(2.0, 10.0)}
    assert "≈ $0.22 (" in format_estimate(found, 100, tmp_path)
    found.system.agents["planner"].model = "dear"
    assert "at most $0.42 (" in format_estimate(found, 100, tmp_path)
    found.system.agents["planner"].model = "unknown"
    assert "cost n/a" in format_estimate(found, 100, tmp_path)


def test_a_program_whose_source_has_changed_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one of the same name in another folder, and one that only memory held."""
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "estimated_agent.py"
    source.write_text("def answer(question): return '1'\n")
    found = config("system=callable", "system.target=estimated_agent:answer", "system.needs_model=true")
    found.system.check()
    runs = tmp_path / "runs"
    run(runs, "2026-01-01_00-00-00_a", 20, system="callable", target="estimated_agent:answer")
    with RunStore(runs / "2026-01-01_00-00-00_a" / DATABASE) as store:
        store.write_info(RunInfo(program_sha256=read_program_digest(found.system)))
    assert is_measured(found, runs)
    source.write_text("def answer(question): return '2'\n")
    assert not is_measured(found, runs)
    run(runs, "2026-01-02_00-00-00_b", 20, system="callable", target="in-memory:answer")
    found.system.target = "in-memory:answer"
    assert not is_measured(found, runs)


@pytest.mark.parametrize("system", ["callable", "http"])
def test_of_an_agent_that_is_not_ours_nothing_is_known(tmp_path: Path, system: str) -> None:
    found = config()
    found.system.name = system
    assert format_estimate(found, 3, tmp_path).endswith(f"what each takes is not known of system={system} yet")


def test_one_answer_is_one_and_the_first_sample_is_the_measure_of_the_others(tmp_path: Path) -> None:
    found = config()
    tail = "cost n/a: no price is known"
    guess = "(a guess: measured offline on the sample questions)"
    assert format_estimate(found, 1, tmp_path) == (
        f"estimate: 1 answer ≈ 9 LM calls, 9,000 tokens in, 450 out, {tail} {guess}"
    )
    assert format_estimate(found, 2, tmp_path).startswith(
        "estimate: 2 answers ≈ 19 LM calls, 18,000 tokens in, 900 out"
    )
    usage = Usage(lm_calls=3, input_tokens=1500, output_tokens=7)
    assert format_measured(found, usage, 1000) == (
        f"estimate: 1000 more answers ≈ 3,000 LM calls, 1,500,000 tokens in, 7,000 out, {tail} "
        "(measured: the first question alone)"
    )


def test_an_average_answer_is_the_usage_by_the_number_of_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "OUTPUTS", tmp_path)
    found = config()
    assert not is_measured(found)
    assert find_typical_answer(found) == GUESSES["gaia"]
    run(tmp_path / "eval", "2026-01-01_00-00-00_a", 25)
    assert is_measured(found)
    typical = Typical(2.5, 2500.0, 25.0, "from 2026-01-01_00-00-00_a")
    assert find_typical_answer(found) == find_typical_answer(found, tmp_path / "eval") == typical
    assert find_typical_answer(found, tmp_path / "none") == GUESSES["gaia"]
    assert format_estimate(found, 4).startswith("estimate: 4 answers ≈ 10 LM calls, 10,000 tokens in, 100 out")


def test_only_the_twenty_newest_runs_are_looked_at(tmp_path: Path) -> None:
    run(tmp_path, "2026-01-01_00-00-00_mine", 20)
    for number in range(19):
        run(tmp_path, f"2026-02-{number + 1:02}_00-00-00_other", 20, model="another")
    assert is_measured(config(), tmp_path)
    run(tmp_path, "2026-03-01_00-00-00_other", 20, model="another")
    assert not is_measured(config(), tmp_path)


@pytest.mark.parametrize("key", ["state", "url"])
def test_another_place_or_state_of_a_program_is_another_program(tmp_path: Path, key: str) -> None:
    found: Any = config()
    run(tmp_path, "2026-01-01_00-00-00_a", 20)
    kept = tmp_path / "2026-01-01_00-00-00_a" / "config.yaml"
    kept.write_text(yaml.safe_dump({"system": {"name": "gaia", key: "other"}}))
    assert not is_measured(found, tmp_path)
    setattr(found.system, key, "other")
    assert is_measured(found, tmp_path)


def test_a_simulated_model_is_measured_by_no_run_and_a_folder_without_a_configuration_is_none(tmp_path: Path) -> None:
    run(tmp_path, "2026-01-01_00-00-00_a", 20)
    offline = read_config(composed("experiment=offline", "system=gaia"))
    run(tmp_path, "2026-01-01_00-00-00_b", 20, model=offline.model_name)
    assert not is_measured(offline, tmp_path)
    (tmp_path / "2026-01-01_00-00-00_a" / "config.yaml").unlink()
    assert not is_measured(config(), tmp_path)


def test_the_models_of_a_system_have_their_prices_by_name() -> None:
    found = config()
    cheap, dear = Price(1.0, 10.0), Price(2.0, 10.0)
    found.model.prices = {"mine": cheap, "dear": dear}
    assert list_prices(found) == [cheap]
    found.system.agents["planner"].model = "dear"
    assert list_prices(found) == [dear, cheap]
    found.system.agents["planner"].model = "unheard-of"
    assert list_prices(found) == [cheap, None]
    several: Any = SimpleNamespace(
        system=SimpleNamespace(agents={"a": SimpleNamespace()}),
        model=SimpleNamespace(name="both", names=["mine", "dear"], prices=found.model.prices),
    )
    assert list_prices(several) == [dear, cheap]
    assert compute_highest_cost([cheap, dear], 1e6, 1e5) == pytest.approx(3.0)
    assert compute_highest_cost([dear, cheap], 1e6 + 0.4, 1e5 - 0.4) == compute_highest_cost([dear], 1e6, 1e5)
    assert compute_highest_cost([cheap, None], 1, 1) is None
    assert compute_highest_cost([], 1, 1) is None


def test_a_judge_is_said_not_to_be_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = config()
    found.model.prices = {"mine": Price(1.0, 10.0)}
    usage = Usage(lm_calls=1, input_tokens=1_000_000_000, output_tokens=0)
    assert format_measured(found, usage, 2).endswith(", ≈ $2,000.00 (measured: the first question alone)")
    monkeypatch.setattr(EvalConfig, "judges", ["a judge"])
    assert ", ≈ $2,000.00 and the judge's calls (measured" in format_measured(found, usage, 2)
