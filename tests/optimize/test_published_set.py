"""A set that one command has found, tested and published, used by another: the same messages, and the higher score.

In the simulated world; over HTTP see `test_over_http.py`.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from eval.cli.paths import PROJECT_ROOT
from eval.runs.record import Record
from eval.runs.store import open_run
from mas.prompt_sets.prompt_set import SUFFIX, digest, read_prompt_set
from tests.command import TUNED_SET, read_side, tuning_command
from tests.eval.command_line import EvalCommand, Finished
from tests.optimize.sent import instructions_in

pytestmark = pytest.mark.slow  # whole runs, in processes of their own

EPOCHS = 2
SIZES = ("data.n_train=40", "data.n_val=40", "data.n_test=100")
TOY = ("system=toy", "data=toy", "model=offline", *SIZES)
AGENTS = ("plan", "solve", "finalize")
Asked = dict[tuple[str, int], list[Any]]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """With the optimizer's own settings."""
    budget = ("budget.metric_calls=900", f"gate.epochs={EPOCHS}", "gate.looks=1", "shortlist.epochs=1")
    return tuning_command(tmp_path_factory.mktemp("toy"), *TOY, *budget)


def evaluated(command: EvalCommand, prompts: Path) -> Finished:
    return command(*TOY, "split=test", f"run.epochs={EPOCHS}", f"prompts={prompts}")


def asked(records: Iterable[Record]) -> Asked:
    """What the model was sent for each answer, in order: all that a request is made of."""
    return {
        (record.sample_id, record.epoch): [each["inputs"] for each in record.trajectory if each["kind"] == "lm"]
        for record in records
    }


def test_one_command_finds_tests_and_publishes_a_set_that_scores_higher_on_sealed_questions(
    tuned: Finished, eval_command: EvalCommand
) -> None:
    verdict = tuned.verdict
    assert (tuned.code, verdict["published"], verdict["finish_reason"]) == (0, True, "improved"), tuned.out
    assert verdict["simulated"]
    assert verdict["gain_ci95"][0] > 0
    assert verdict["p"] <= 0.05
    accuracy = {
        folder.name: evaluated(eval_command, folder).summary["accuracy"]
        for folder in (tuned.shelf / TUNED_SET, PROJECT_ROOT / "prompts" / "toy_baseline")
    }
    assert accuracy[TUNED_SET] > accuracy["toy_baseline"] + verdict["gain_ci95"][0]


def test_the_eval_command_sends_the_published_set_byte_for_byte_as_the_sealed_test_did(
    tuned: Finished, eval_command: EvalCommand
) -> None:
    finished = evaluated(eval_command, tuned.shelf / TUNED_SET)
    with open_run(finished.folder) as store:
        tested, again = asked(read_side(tuned.folder, "winner")), asked(store.records())
    assert len(tested) == 100 * EPOCHS
    assert again.keys() == tested.keys()
    for key, requests in tested.items():
        assert requests
        assert json.dumps(again[key]) == json.dumps(requests), key


def test_the_sides_of_the_sealed_test_were_sent_what_the_files_say(tuned: Finished) -> None:
    sets = {"winner": tuned.shelf / TUNED_SET, "parent": PROJECT_ROOT / "prompts" / "toy_baseline"}
    for side, folder in sets.items():
        texts = {(folder / f"{agent}{SUFFIX}").read_text("utf-8").strip() for agent in AGENTS}
        sent = {
            instructions_in(request["system"])
            for each in asked(read_side(tuned.folder, side)).values()
            for request in each
        }
        assert sent == texts


def test_the_published_folder_is_the_candidate_that_was_tested(tuned: Finished) -> None:
    published = read_prompt_set(tuned.shelf / TUNED_SET, AGENTS, "toy", PROJECT_ROOT)
    assert digest(published) == tuned.verdict["winner"]["prompts_sha256"]
    assert published.edited == ()
    assert {each.variant for each in read_side(tuned.folder, "winner")} == {digest(published)}
