"""Every sealed test is counted, and alpha is spent: across runs, splits, processes, crashes and second draws."""

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from eval.analysis.statistics.paired_tests import Pair, PairedResult, run_paired_test
from eval.benchmarks.dataset import Sample
from mas.runtime.errors import UserError
from optimize.gate.gate import judge, plan_looks
from optimize.gate.sealed_log import (
    FIRST_LEVEL,
    MIN_LEVEL,
    TOTAL_LEVEL,
    Allowance,
    begin_test,
    compute_level,
    find_allowance,
    list_fingerprints,
    record_judgement,
)


def a_set(*texts: str) -> list[str]:
    return list_fingerprints([Sample(f"q{n}", text, target="1") for n, text in enumerate(texts)])


SET, OTHER = a_set("Who?", "Where?"), a_set("How?")


def begin(run_id: str, questions: list[str], file: Path, winner: str = "aa", simulated: bool = False) -> Allowance:
    return begin_test(run_id, questions, winner, simulated, file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sealed_tests.jsonl"


def test_each_run_spends_its_own_level_and_a_resumed_one_nothing(file: Path) -> None:
    given = [begin(run_id, SET, file) for run_id in ("r1", "r2", "r1")]
    assert [each.level for each in given] == [0.03, 0.0075, 0.03]
    assert [each.n_earlier for each in given] == [0, 1, 0]
    assert [each.left for each in given] == [pytest.approx(0.02), pytest.approx(0.0125), pytest.approx(0.02)]
    assert len(file.read_text().splitlines()) == 2
    assert find_allowance(SET, simulated=False, file=file).level == pytest.approx(0.03 / 9)
    assert len(file.read_text().splitlines()) == 2, "to look is no test"


def test_questions_are_known_again_in_any_split(file: Path) -> None:
    begin("r1", a_set("Who was it?", "Where?"), file)
    begin("r2", a_set("where? ", "When?"), file)
    begin("r3", a_set("Why?"), file)
    found = find_allowance(a_set("  WHO was\nit?", "Where?", "How?", "What?"), simulated=False, file=file)
    assert found.n_earlier == 2
    assert found.describe(1).startswith("2 earlier sealed tests used sealed questions of this run: the gate requires")
    assert find_allowance(OTHER, simulated=False, file=file) == Allowance()


def test_no_question_is_ever_tested_at_more_than_alpha_in_all(file: Path) -> None:
    """Sets drawn at random from 30 questions: over all tests that ever used a question the levels add up to alpha."""
    random, spent, n_refused = Random(0), dict.fromkeys(range(30), 0.0), 0
    for number in range(60):
        drawn = random.sample(range(30), random.choice((1, 2, 5, 20)))
        try:
            level = begin(f"r{number}", a_set(*(f"Question {n}?" for n in drawn)), file).level
        except UserError:
            n_refused += 1
        else:
            assert level >= MIN_LEVEL
            for each in drawn:
                spent[each] += level
    assert 0.04 < max(spent.values()) <= TOTAL_LEVEL + 1e-12
    assert n_refused > 10


def test_two_first_tests_leave_nothing_for_one_with_the_questions_of_both(file: Path) -> None:
    begin("r1", SET, file)
    begin("r2", OTHER, file)
    with pytest.raises(UserError, match=r"2 earlier sealed tests .* used up the 0\.05 .*; seal questions that no"):
        begin("r3", a_set("Who?", "Where?", "How?"), file)
    assert begin("r4", SET, file).level == 0.0075


def test_the_levels_fall_and_their_sum_stays_below_alpha() -> None:
    levels: list[float] = []
    for number in range(2_000):
        levels.append(compute_level(number, sum(levels)))
    assert levels[:3] == [FIRST_LEVEL, 0.0075, pytest.approx(0.00333, rel=0.01)]
    assert all(one > other > 0 for one, other in pairwise(levels))
    assert 0.049 < sum(levels) < TOTAL_LEVEL
    assert compute_level(1, 0.045) == pytest.approx(0.005) and compute_level(2, 0.06) == 0.0


def test_a_simulated_model_spends_nothing_of_a_real_ones_level(file: Path) -> None:
    assert begin("r1", SET, file, simulated=True).level == FIRST_LEVEL
    assert begin("r2", SET, file).level == FIRST_LEVEL
    assert begin("r3", SET, file, simulated=True).level == 0.0075


def test_a_judgement_is_recorded_once(file: Path) -> None:
    begin("r1", SET, file)
    record_judgement("r1", 0.2, 2, file)
    record_judgement("r1", 0.2, 2, file)
    assert [json.loads(line).get("p") for line in file.read_text().splitlines()] == [None, 0.2]


def test_a_test_that_stopped_early_has_opened_the_questions_that_it_asked_and_no_others(file: Path) -> None:
    asked, left = a_set("Who?"), a_set("Where?")
    begin("r1", SET, file)
    assert find_allowance(left, simulated=False, file=file).n_earlier == 1, "it may still open them"
    meanwhile = begin("r2", left, file)
    record_judgement("r1", 0.6, 1, file)
    assert find_allowance(asked, simulated=False, file=file).n_earlier == 1
    assert find_allowance(SET, simulated=False, file=file).n_earlier == 2, "the second one is not judged"
    record_judgement("r2", 0.6, 0, file)
    assert find_allowance(left, simulated=False, file=file) == Allowance(), "as fresh as before"
    assert begin("r2", left, file) == meanwhile, "a test keeps the level that it began with"
    later = begin("r3", SET, file)
    assert (later.n_earlier, later.level) == (1, 0.0075)


@pytest.mark.parametrize(
    "changed", [{"winner": "bb"}, {"simulated": True}, {"questions": OTHER}, {"questions": SET[::-1]}]
)
def test_a_test_belongs_to_one_winner_and_its_questions_in_their_order(file: Path, changed: dict[str, Any]) -> None:
    begin("r1", SET, file)
    with pytest.raises(UserError, match="begun with other prompts or questions, or these in another order: start a"):
        begin("r1", **{"questions": SET, "file": file, **changed})


def three_lines(file: Path) -> list[str]:
    begin("r1", SET, file)
    record_judgement("r1", 0.2, 2, file)
    begin("r2", SET, file)
    return file.read_text().splitlines(keepends=True)


def test_a_line_that_a_crash_cut_off_is_overwritten(file: Path) -> None:
    lines = three_lines(file)
    file.write_text("".join(lines[:2]) + lines[2][:-20])
    assert begin("r3", SET, file).level == 0.0075, "nothing was answered before the line was complete"


def test_no_test_begins_unrecorded(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    for use in (
        lambda: find_allowance(SET, simulated=False, file=tmp_path / "taken" / "sealed_tests.jsonl"),
        lambda: begin("r1", SET, tmp_path / "taken" / "sealed_tests.jsonl"),
    ):
        with pytest.raises(UserError, match="no sealed test runs unrecorded"):
            use()


N_WORLDS, N_ATTEMPTS, N_QUESTIONS, N_ANSWERS = 200, 20, 30, 2


@pytest.mark.slow
def test_20_attempts_on_the_same_questions_rarely_publish_what_is_no_better(tmp_path: Path) -> None:
    published, without_log = simulate_attempts(_levels_of_attempts(tmp_path), N_WORLDS)
    assert published <= 0.05 < 0.2 < without_log


def simulate_attempts(levels: list[float], n_worlds: int, seed: int = 7) -> tuple[float, float]:
    """Return the share of worlds in which the gate publishes any of 20 winners, none of which is better.

    Args:
        levels: of the attempts that the log allows.
        n_worlds: each with questions of its own, which all attempts are tested on.
        seed: of the answers.

    Returns:
        With these levels, and with a level of 0.05 each time.
    """
    random = Random(seed)
    n_published = [0, 0]
    for _ in range(n_worlds):
        hardness = [random.random() for _ in range(N_QUESTIONS)]
        attempts = [run_paired_test([_draw_pair(random, each) for each in hardness]) for _ in range(N_ATTEMPTS)]
        for rule, given in enumerate((levels, [TOTAL_LEVEL] * N_ATTEMPTS)):
            n_published[rule] += any(_passes(*each) for each in zip(attempts, given, strict=False))
    return n_published[0] / n_worlds, n_published[1] / n_worlds


def _passes(result: PairedResult, level: float) -> bool:
    found = SimpleNamespace(score=result, metric="accuracy")
    return judge(found, plan_looks(1, level)[0])["published"]  # type: ignore[arg-type]


def _levels_of_attempts(folder: Path) -> list[float]:
    levels = []
    for number in range(N_ATTEMPTS):
        try:
            levels.append(begin(f"r{number}", SET, folder / "log.jsonl").level)
        except UserError:
            break
    assert len(levels) == 17 and sum(levels) <= TOTAL_LEVEL
    return levels


def _draw_pair(random: Random, hardness: float) -> Pair:
    first, second = ([float(random.random() < hardness) for _ in range(N_ANSWERS)] for _ in range(2))
    return Pair(first, second)
