"""Tuning over HTTP with a reflection model that fails in the middle of the search."""

from pathlib import Path

import pytest

from tests.eval.command_line import NO_SEARCH
from tests.optimize.seal_questions import write_seal_questions
from tests.optimize.wire import CLAUSE, GEPA, Questions, tune
from tests.servers.reflecting_llm import reflecting_llm

pytestmark = pytest.mark.slow  # whole runs, in processes of their own


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    folder = tmp_path_factory.mktemp("over_http") / "questions"
    return folder, write_seal_questions(folder)


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
    assert {body["model"] for body in wire.bodies} == {"default"}, "without a reflection_model, the run's own rewrites"
