"""Tuning over HTTP with a reflection model that writes nonsense or fails, and agents' replies that nobody can use."""

from pathlib import Path

import pytest

from optimize.search.optimizers.prompt_rewriter import MAX_FAILURES_IN_A_ROW
from tests.eval.command_line import NO_SEARCH
from tests.optimize.seal_questions import write_seal_questions
from tests.optimize.sent import is_reflection
from tests.optimize.wire import CLAUSE, GEPA, Questions, tune
from tests.servers.reflecting_llm import reflecting_llm

pytestmark = pytest.mark.slow  # whole runs, in processes of their own


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    folder = tmp_path_factory.mktemp("over_http") / "questions"
    return folder, write_seal_questions(folder)


def test_a_reflection_that_cannot_be_read_ends_the_run_before_anything_else_is_spent(
    tmp_path: Path, questions: Questions
) -> None:
    with reflecting_llm(clause=CLAUSE, reflection="garbage") as server:
        wire = tune(tmp_path, server, questions, *GEPA)
    verdict = wire.tuned.verdict
    assert (wire.tuned.code, verdict["published"], verdict["finish_reason"]) == (2, False, "reflection_unparsable")
    assert not wire.tuned.shelf.exists()
    assert 2 <= len(wire.bodies) == verdict["spend"]["lm_calls"] <= 4
    assert all(map(is_reflection, wire.bodies))
    assert "could not be read" in " ".join(verdict["reasons"])


def test_reflections_that_cannot_be_read_any_more_end_the_search_and_open_nothing(
    tmp_path: Path, questions: Questions
) -> None:
    with reflecting_llm(clause=CLAUSE, reflection="garbage", good_reflections=1) as server:
        wire = tune(tmp_path, server, questions, *GEPA)
    verdict = wire.tuned.verdict
    assert (wire.tuned.code, verdict["finish_reason"]) == (2, "reflection_unparsable")
    assert sum(map(is_reflection, wire.bodies)) <= 1 + 2 * MAX_FAILURES_IN_A_ROW, "each is asked for in two formats"
    assert verdict["spend"]["metric_calls"] == 8 + 4, "validation and one minibatch"
    assert wire.rows_in(wire.bodies).isdisjoint(wire.sealed)


def test_a_reflection_model_that_fails_in_the_search_stops_the_run_which_can_go_on(
    tmp_path: Path, questions: Questions
) -> None:
    with reflecting_llm(clause=CLAUSE, reflection="failing", good_reflections=1) as server:
        wire = tune(tmp_path, server, questions, *GEPA)
    assert wire.tuned.code == 3
    note, told, how = wire.tuned.err.splitlines()
    assert f"{note}\n" == NO_SEARCH
    assert told.startswith("stopped: the reflection model gave no usable reply")
    assert "the reflection model is out of order" in told
    assert how.startswith("continue with: python ")
    assert how.endswith("resume=run")
    assert not (wire.tuned.folder / "verdict.json").exists()
    assert wire.rows_in(wire.bodies).isdisjoint(wire.sealed)
