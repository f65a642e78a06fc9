"""The level of the sealed test holds through the code of the tuning command: whole tests, with drawn scores.

SIMULATED_GATES=1000 pytest -m slow tests/optimize/pipeline/test_simulated_gates.py     # two minutes of CPU time
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.runs.record import Record
from mas.prompt_sets.prompt_set import PromptSet
from optimize.gate.gate import (
    ASSUMED_ACCURACY,
    CONTINUE,
    SUCCESS,
    EarlyVerdictError,
    compute_smallest_gain,
    decide_look,
    plan_looks,
)
from optimize.gate.sealed_log import FIRST_LEVEL, Allowance
from optimize.pipeline import sealed_test
from optimize.pipeline.sealed_test import SealedTest, order_questions
from optimize.session.tuning_run import TuningRun
from scripts.interval_coverage import Cell, draw_right
from scripts.sequential_gate import CORRELATION, build_comparison
from tests.optimize.planted_runs import ALWAYS, planted_run

pytestmark = pytest.mark.slow  # a hundred verdicts

N_QUESTIONS, GATES = 30, int(os.environ.get("SIMULATED_GATES", "60"))
PLANNED_GATES = GATES // 3


class DrawnScores:
    """In place of both sides' answers: drawn scores, of the questions that the test asks."""

    def __init__(self, scores: dict[str, dict[str, float]]) -> None:
        self.scores = scores  # side → question → score
        self.records: dict[str, list[Record]] = {side: [] for side in scores}

    def answer_missing(self, asked: Any) -> None:
        for name, records in self.records.items():
            there = {record.sample_id for record in records}
            self.records[name] += [
                Record("r", each.id, 1, 1, "t", "?", None, None, "1", answer="1", score=self.scores[name][each.id])
                for each in asked
                if each.id not in there
            ]

    def read_answers(self, asked: Any) -> list[list[Record]]:
        return [self.records["parent"], self.records["winner"]]


def judge_drawn(run: TuningRun, approved: PromptSet, scores: dict[str, dict[str, float]], looks: int) -> dict[str, Any]:
    drawn = DrawnScores(scores)
    run.config.gate.looks = looks
    run.store.write_results({"looks": None})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SealedTest, "answer_missing", lambda test, asked: drawn.answer_missing(asked))
        patch.setattr(SealedTest, "read_answers", lambda test, asked: drawn.read_answers(asked))
        patch.setattr(SealedTest, "_begin", lambda test: Allowance())
        patch.setattr(sealed_test, "record_judgement", lambda *given: None)
        patch.setattr(run, "show", lambda line: None)
        test = SealedTest(run, approved)
        test.take_looks()
        verdict = test.judge()
    assert verdict["sealed"]["n_answers"] == sum(map(len, drawn.records.values()))
    return dict(verdict)


def draw_gates(run: TuningRun, gain: float, gates: int, seed: int) -> Iterator[dict[str, dict[str, float]]]:
    random, ids = np.random.default_rng(seed), [each.id for each in run.splits.sealed]
    for _ in range(gates):
        sides = draw_right(random, Cell(len(ids), 1, CORRELATION, gain, ASSUMED_ACCURACY))
        yield {
            name: {each: float(row[0]) for each, row in zip(ids, side.tolist(), strict=True)}
            for name, side in zip(("parent", "winner"), sides, strict=True)
        }


def decide_again(run: TuningRun, scores: dict[str, dict[str, float]]) -> tuple[int, bool]:
    """Return the look at which the test stops, and whether it is a success, as the script of the table has it."""
    plan = plan_looks(4, FIRST_LEVEL)
    ids = [each.id for each in order_questions(run.splits, run.config.seed)]
    pairs = [Pair((scores["parent"][each],), (scores["winner"][each],)) for each in ids]
    for look in plan:
        found = build_comparison(run_paired_test(pairs[: look.count_questions(len(ids))]))
        if (decision := decide_look(found, look)) != CONTINUE:
            return look.number, decision == SUCCESS
    raise AssertionError


def test_gates_without_a_gain_keep_the_level_and_save_half_of_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run inside of a tuning run, in place of its sealed test."""
    counts: dict[str, float] = {}

    def simulate(run: TuningRun, approved: PromptSet) -> None:
        null = [judge_drawn(run, approved, scores, 4) for scores in draw_gates(run, 0.0, GATES, 1)]
        for scores, verdict in zip(draw_gates(run, 0.0, GATES, 1), null, strict=True):
            assert (verdict["sealed"]["look"], verdict["published"]) == decide_again(run, scores)
        counts["published"] = sum(each["published"] for each in null)
        counts["saved"] = sum(each["sealed"]["n_answers_saved"] for each in null) / (2 * N_QUESTIONS * GATES)
        gain = compute_smallest_gain(N_QUESTIONS, 1) or 0.0
        planned = list(draw_gates(run, gain, PLANNED_GATES, 2))
        at_end, with_looks = ([judge_drawn(run, approved, each, looks) for each in planned] for looks in (1, 4))
        counts["lost"] = sum(a["published"] - b["published"] for a, b in zip(at_end, with_looks, strict=True))
        for scores, verdict in zip(planned, at_end, strict=True):
            pairs = [Pair((scores["parent"][each],), (scores["winner"][each],)) for each in scores["parent"]]
            result = run_paired_test(pairs)
            assert verdict["published"] == (result.p <= FIRST_LEVEL and result.difference > 0), "the test without looks"
        raise EarlyVerdictError("no_accepted_candidate", "simulated")

    monkeypatch.setattr("optimize.pipeline.tuning.SealedTest", simulate)
    tuned = planted_run(tmp_path, texts={"finalize": ALWAYS})
    assert "simulated" in tuned.out, tuned.err
    assert counts["published"] <= binom.ppf(0.999, GATES, FIRST_LEVEL / 2)
    assert counts["saved"] >= 0.35, "0.46 with 1,000 gates"
    assert counts["lost"] <= 0.03 * PLANNED_GATES + 1
    print(f"{GATES} gates without a gain: {counts}")
