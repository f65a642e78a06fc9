"""The sealed test: fresh answers of both, side by side, which every command of eval's can read."""

import json
import re
import subprocess
import sys
from pathlib import Path

from dspy.lm15 import Request as LMRequest
from dspy.lm15 import Response
from dspy.utils.exceptions import LMServerError

from eval.cli.paths import PROJECT_ROOT
from eval.workflows.paired_evaluation import Arm, read_arm_records
from mas.prompt_sets.prompt_set import digest
from tests.optimize.planted_runs import ALWAYS, Obedient, planted_run
from tests.scripted_model import all_text


def test_both_are_asked_each_sealed_question_and_nothing_else(tmp_path: Path) -> None:
    model = Obedient()
    tuned = planted_run(tmp_path, "gate.epochs=2", texts={"finalize": ALWAYS}, model=model)
    sealed = set(tuned.read("splits")["sealed"])
    for name, right in (("parent", 12), ("winner", 60)):
        records = read_arm_records(Arm(name, tuned.folder / "sealed" / name, tuned.kept, None))
        assert {(each.sample_id, each.epoch) for each in records} == {(id, epoch) for id in sealed for epoch in (1, 2)}
        assert sum(each.correct for each in records) == right
    assert tuned.verdict["sealed"] == tuned.verdict["sealed"] | {
        "n_questions": 30,
        "epochs": 2,
        "wins": 24,
        "losses": 0,
    }
    opened = [json.loads(line) for line in (tmp_path / "sealed_sets.jsonl").read_text().splitlines()]
    tuning = tuned.read("tuning")
    assert [(each["run"], each["sealed_digest"]) for each in opened] == [(tuning["run_id"], tuning["sealed_digest"])]
    assert opened[0]["prompts_sha256"] == digest(tuned.kept)
    assert len(model.requests) == tuned.verdict["spend"]["lm_calls"], "all of it is in the run's budget"


def test_its_two_runs_can_be_compared_as_any_others(tmp_path: Path) -> None:
    tuned = planted_run(tmp_path, texts={"finalize": ALWAYS})
    command = [sys.executable, str(PROJECT_ROOT / "eval" / "compare.py")]
    compared = subprocess.run(
        [*command, str(tuned.folder / "sealed" / "parent"), str(tuned.folder / "sealed" / "winner")],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (compared.returncode, compared.stderr) == (0, "")
    assert "+80.0" in compared.stdout


class Failing(Obedient):
    """Its server fails these of the requests for sealed answers, counted from 1."""

    def __init__(self, *failing: int) -> None:
        super().__init__()
        self.failing, self.n_sealed = failing, 0

    def respond(self, request: LMRequest) -> Response:
        sealed = any(is_sealed and question in all_text(request) for question, (_, _, is_sealed) in self.golds.items())
        self.n_sealed += sealed
        if sealed and self.n_sealed in self.failing:
            raise LMServerError("out of order", model=self.name)
        return super().respond(request)


def test_answers_that_the_server_failed_are_asked_once_more(tmp_path: Path) -> None:
    model = Failing(*range(1, 6))
    tuned = planted_run(tmp_path, texts={"finalize": ALWAYS}, model=model)
    assert tuned.code == 0, tuned.err
    assert "  5 answers that the model's server failed are asked again" in tuned.out
    assert "in error" not in tuned.out
    assert tuned.verdict["baseline"]["errors"] == tuned.verdict["winner"]["errors"] == {}
    assert (tuned.verdict["baseline"]["accuracy"], tuned.verdict["winner"]["accuracy"]) == (0.2, 1.0)
    assert model.n_sealed == 2 * 30 * 3 + 5, "no other answer is asked again"


def test_a_server_that_goes_on_failing_stops_the_test_which_can_go_on(tmp_path: Path) -> None:
    """Of 60 answers 9 fail in the first round, and of these 4 in the second."""
    first_round = 9 + (60 - 9) * 3
    model = Failing(*range(1, 10), *range(first_round + 1, first_round + 5))
    in_turn = ("run.concurrency=2",)
    first = planted_run(tmp_path, *in_turn, texts={"finalize": ALWAYS}, model=model)
    assert first.code == 3
    assert re.search(r"^stopped: the server failed 4 of the sealed answers, and again .*out of order", first.err)
    assert "continue with: " in first.err
    assert not (first.folder / "verdict.json").exists()
    assert first.read("tuning")["state"]["sealed_opened_before"] == 0, "noted as soon as it was opened"
    again = Failing()
    second = planted_run(tmp_path, *in_turn, "resume=run", texts={"finalize": ALWAYS}, model=again)
    assert second.code == 0, second.err
    assert again.n_sealed == 4 * 3, "only what had failed"
    assert (second.verdict["baseline"]["accuracy"], second.verdict["winner"]["accuracy"]) == (0.2, 1.0)
    assert second.verdict["baseline"]["errors"] == second.verdict["winner"]["errors"] == {}


def test_who_opens_the_same_set_again_is_told(tmp_path: Path) -> None:
    planted_run(tmp_path, texts={"finalize": ALWAYS})
    again = planted_run(
        tmp_path, f"run.dir={tmp_path / 'second'}", "name=another_in_a_test", texts={"finalize": ALWAYS}
    )
    sentence = "All 30 sealed questions were used in 1 earlier sealed test"
    assert again.out.index(sentence) < again.out.index("7/8 gate") < again.out.rindex(sentence)
    verdict = json.loads((tmp_path / "second" / "verdict.json").read_text("utf-8"))
    assert (verdict["sealed"]["opened_before"], verdict["sealed"]["questions_opened_before"]) == (1, 30)


def test_the_moment_of_opening_is_noted(tmp_path: Path) -> None:
    tuning = planted_run(tmp_path, texts={"finalize": ALWAYS}).read("tuning")
    assert tuning["started_at"] < tuning["state"]["sealed_opened_at"] < tuning["state"]["ended_at"]
