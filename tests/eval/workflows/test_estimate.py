"""What a run is expected to cost."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from eval.cli.paths import PROJECT_ROOT
from eval.config.evaluation import EvalConfig, read_config
from eval.runs.folder import DATABASE
from eval.runs.record import Usage
from eval.runs.run_info import RunInfo
from eval.runs.store import RunStore
from eval.workflows.estimate import (
    GUESSES,
    format_estimate,
    is_measured,
)
from mas.system import read_program_digest
from tests.eval.stored_run import summarise_records

LOCAL = ("model=openai_compatible", "model.base_url=http://127.0.0.1:9/v1", "model.name=mine")


@cache  # Hydra takes a third of a second
def compose_once(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(PROJECT_ROOT / "conf"), version_base="1.3"):
        return compose("eval", ["experiment=offline", *overrides])


def config(*overrides: str) -> EvalConfig:
    return read_config(compose_once(*LOCAL, *overrides).copy())


def run(parent: Path, name: str, lm_calls: int, **changes: Any) -> None:
    usage = Usage(lm_calls=lm_calls, input_tokens=1000 * lm_calls, output_tokens=10 * lm_calls)
    target, digest = changes.pop("target", None), changes.pop("digest", "")
    summary = replace(summarise_records([], run_id=name), **{"n": 10, "usage": usage, "model": "mine", **changes})
    (parent / name).mkdir(parents=True)
    (parent / name / "summary.json").write_text(json.dumps(summary.to_dict()))
    system = {"name": changes.get("system", "gaia"), "target": target}
    with RunStore(parent / name / DATABASE) as store:
        store.write_info(RunInfo(config={"system": system}, program_sha256=digest))


def test_without_an_earlier_run_it_is_a_guess_and_says_so(tmp_path: Path) -> None:
    line = format_estimate(config(), 53, tmp_path)
    assert line.startswith("estimate: 53 answers ≈ 498 LM calls, 477,000 tokens in, 23,850 out, ")
    assert line.endswith("cost n/a: no price is known (a guess: measured offline on the sample questions)")
    assert all(tokens_in > 0 for _, tokens_in, _ in GUESSES.values())


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


def test_a_program_whose_source_has_changed_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one of the same name in another folder, and one that only memory held."""
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / "estimated_agent.py"
    source.write_text("def answer(question): return '1'\n")
    found = config("system=callable", "system.target=estimated_agent:answer", "system.needs_model=true")
    found.system.check()
    runs = tmp_path / "runs"
    digest = read_program_digest(found.system)
    run(runs, "2026-01-01_00-00-00_a", 20, system="callable", target="estimated_agent:answer", digest=digest)
    assert is_measured(found, runs)
    source.write_text("def answer(question): return '2'\n")
    assert not is_measured(found, runs)
    run(runs, "2026-01-02_00-00-00_b", 20, system="callable", target="in-memory:answer")
    found.system.target = "in-memory:answer"
    assert not is_measured(found, runs)
