"""Answers that the model's server always fails: how they count in the sealed test, and the way to a verdict."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.comparison import Comparison, build_answers, compare_answers
from eval.benchmarks.toy_set import ToyDataset
from eval.runs.record import Record
from optimize.gate.gate import COUNTED_AS_RIGHT, impute_failures
from tests.command import read_side, tuning_command
from tests.optimize.tuned import MINI_BOOTSTRAP, SimulatedServer, over_http, simulated_server

FAILED = None  # in place of whether an answer is right


def side(*rows: Sequence[bool | None]) -> list[Record]:
    """A question a row, an epoch a column."""
    return [
        Record(
            "r", f"q{place}", epoch, 1, "t", "?", None, "1", "17",
            answer=None if right is FAILED else "17", score=None if right is FAILED else float(right),
            error="500" if right is FAILED else None, error_class="infrastructure" if right is FAILED else None,
        )
        for place, row in enumerate(rows)
        for epoch, right in enumerate(row, start=1)
    ]  # fmt: skip


def made(counted: Sequence[Sequence[Record]]) -> Comparison:
    return compare_answers(*map(build_answers, counted))


def gain(parent: Sequence[bool | None], winner: Sequence[bool | None]) -> float:
    """On one question."""
    return made((impute_failures(side(parent)), side(winner))).score.difference


@pytest.mark.parametrize("fails", ["parent", "winner"])
def test_whatever_an_answer_failed_on_one_side_would_have_been_the_gain_is_no_larger(fails: str) -> None:
    pairs = list(itertools.product((False, True), repeat=2))
    for parent, winner, failed in itertools.product(pairs, pairs, [*pairs[1:]]):
        true = sum(winner) / 2 - sum(parent) / 2
        kept = {"parent": parent, "winner": winner}
        kept[fails] = [FAILED if lost else right for lost, right in zip(failed, kept[fails], strict=True)]  # type: ignore[assignment]
        assert gain(**kept) <= true, (parent, winner, failed)


def test_what_the_parent_failed_counts_as_right_and_is_told() -> None:
    parent = impute_failures(side((FAILED, FAILED, False), (False, False, False), (FAILED, False, False)))
    winner = side((True, FAILED, True), (True, FAILED, True), (False, False, False))
    assert [each.answer for each in parent if each.correct] == [COUNTED_AS_RIGHT] * 3
    found = made((parent, winner))
    assert (found.first.accuracy, found.second.accuracy) == (pytest.approx(3 / 9), pytest.approx(4 / 9))
    assert (found.first.errors_by_class, found.second.errors_by_class) == ({}, {"infrastructure": 2})


# ---------------------------------------------------------------- the whole command


N_SEALED, EPOCHS = 20, 3
OPTIONS = (
    *(*MINI_BOOTSTRAP, f"data.n_test={N_SEALED}", f"gate.epochs={EPOCHS}"),
    *("model.num_retries=0", "run.concurrency=4"),
)
QUESTIONS = {each.id: each.question for each in ToyDataset(8, 8, N_SEALED).load("test").samples}
Messages = list[dict[str, Any]]
Right = dict[str, dict[str, int]]  # side → question → right answers


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with simulated_server() as server:
        yield server


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Right:
    """What both sides answer where nothing fails: a request has the same reply each time."""
    place = tmp_path_factory.mktemp("alone")
    with simulated_server() as server:
        assert tuning_command(place, *over_http(server, *OPTIONS)).code == 0
    return {name: right(place / "run", name) for name in ("parent", "winner")}


def right(folder: Path, name: str) -> dict[str, int]:
    counts = dict.fromkeys(QUESTIONS, 0)
    for record in read_side(folder, name):
        counts[record.sample_id] += record.correct
    return counts


def about(*ids: str) -> Callable[[Messages], bool]:
    return lambda messages: any(QUESTIONS[each] in json.dumps(messages, ensure_ascii=False) for each in ids)


def has_examples(messages: Messages) -> bool:
    """Bootstrap's winner has them, its parent has none."""
    return any(message["role"] == "assistant" for message in messages)


def accuracy(right: dict[str, int]) -> float:
    return pytest.approx(sum(right.values()) / (N_SEALED * EPOCHS))  # type: ignore[return-value]


@pytest.mark.slow  # whole runs
@pytest.mark.parametrize("fails", ["parent", "winner"])
def test_answers_that_fail_on_one_side_alone_count_against_the_new_prompts(
    fails: str, alone: Right, server: SimulatedServer, tmp_path: Path
) -> None:
    one = next(each for each in QUESTIONS if alone["winner"][each] > alone["parent"][each])
    server.always_fails = lambda messages: about(one)(messages) and has_examples(messages) == (fails == "winner")
    run = tuning_command(tmp_path, *over_http(server, *OPTIONS))
    assert run.code == 0, run.err
    verdict, failed = run.verdict, {"parent": 0, "winner": 0, fails: EPOCHS}
    assert verdict["sealed"]["failed_answers"] == failed
    assert verdict["failed_questions"] == [one]
    counted = {"parent": alone["parent"], "winner": alone["winner"]}
    counted[fails] = counted[fails] | {one: failed["parent"]}
    assert verdict["baseline"]["accuracy"] == accuracy(counted["parent"])
    assert verdict["winner"]["accuracy"] == accuracy(counted["winner"])
    gains = sum(alone["winner"].values()) - sum(alone["parent"].values())
    assert verdict["gain"] < gains / (N_SEALED * EPOCHS), "what was won on that question is won no more"
