"""The sealed test: fresh answers of both sides, rows of the run's own store."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from dspy.lm15 import Request as LMRequest
from dspy.lm15 import Response
from dspy.utils.exceptions import LMServerError

from eval.analysis.run_list.read_runs import read_entry
from eval.analysis.statistics.paired_tests import Pair, run_paired_test
from eval.benchmarks.fingerprint import compute_fingerprint
from eval.benchmarks.toy_set import ToyDataset
from eval.cli.command import run_cli
from eval.report import task as report
from eval.runs.store import read_run_info
from eval.workflows.python_api import compare, open_run
from mas.prompt_sets.prompt_set import digest
from mas.runtime.errors import UserError
from optimize.gate.sealed_log import begin_test
from tests.command import (
    SEALED_LOG,
    TUNED_SET,
    Finished,
    copy_run,
    forget_answers,
    forget_results,
    keep_result,
    read_side,
    run_command,
)
from tests.optimize.planted_runs import ALWAYS, SLIGHTLY, Obedient, planted_run
from tests.scripted_model import all_text


@pytest.mark.slow
def test_both_are_asked_each_sealed_question_and_nothing_else(tmp_path: Path) -> None:
    model = Obedient()
    tuned = planted_run(tmp_path, "gate.epochs=2", texts={"finalize": ALWAYS}, model=model)
    sealed = set(tuned.read("splits")["sealed"])
    for name, right in (("parent", 12), ("winner", 60)):
        records = read_side(tuned.folder, name)
        assert {(each.sample_id, each.epoch) for each in records} == {(id, epoch) for id in sealed for epoch in (1, 2)}
        assert sum(each.correct for each in records) == right
    assert tuned.verdict["sealed"] == tuned.verdict["sealed"] | {
        "n_questions": 30,
        "epochs": 2,
        "wins": 24,
        "losses": 0,
    }
    begun, judged = read_log(tmp_path)
    run_id, p = read_run_info(tuned.folder).run_id, tuned.verdict["p"]
    assert begun["begun"] == {"run": run_id, "winner_sha256": digest(tuned.kept), "simulated": True}
    assert (judged["judged"], judged["p"]) == (run_id, p)
    assert len(model.requests) == tuned.verdict["spend"]["lm_calls"], "all of it is in the run's budget"


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


@pytest.mark.slow
def test_answers_that_the_server_failed_are_asked_once_more(tmp_path: Path) -> None:
    model = Failing(*range(1, 6))
    tuned = planted_run(tmp_path, texts={"finalize": ALWAYS}, model=model)
    assert tuned.code == 0, tuned.err
    assert "  5 answers that the model's server failed are asked again" in tuned.out
    assert tuned.verdict["baseline"]["errors"] == tuned.verdict["winner"]["errors"] == {}
    assert (tuned.verdict["baseline"]["accuracy"], tuned.verdict["winner"]["accuracy"]) == (0.2, 1.0)
    assert model.n_sealed == 2 * 30 * 3 + 5, "no other answer is asked again"


def read_log(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / SEALED_LOG).read_text().splitlines()]


def read_levels(place: Path) -> list[float]:
    return [each["allowance"]["level"] for each in read_log(place) if "begun" in each]


def test_no_sealed_question_is_asked_before_the_test_is_in_the_log(tmp_path: Path) -> None:
    log, logged = tmp_path / SEALED_LOG, list[bool]()

    class Watching(Obedient):
        def respond(self, request: LMRequest) -> Response:
            asked = all_text(request)
            if any(is_sealed and question in asked for question, (_, _, is_sealed) in self.golds.items()):
                logged.append('"begun"' in log.read_text())
            return super().respond(request)

    planted_run(tmp_path, "data.n_test=8", texts={"finalize": ALWAYS}, model=Watching())
    assert logged and all(logged)


@pytest.mark.slow
@pytest.mark.parametrize("n_looks", [1, 4])
def test_a_test_whose_answers_were_removed_is_not_drawn_again(n_looks: int, tmp_path: Path) -> None:
    """Neither after its verdict nor after a look with which it goes on."""
    looks = (f"gate.looks={n_looks}", "seed=3")
    first = planted_run(tmp_path, *looks, texts={"finalize": SLIGHTLY})
    assert first.verdict["sealed"]["level"] == 0.03
    forget_answers(first.folder)
    forget_results(first.folder, "verdict")
    if n_looks > 1:
        keep_result(first.folder, "looks", first_look := first.read("looks")[:1])
        assert [each["decision"] for each in first_look] == ["continue"]
    model = Obedient()
    again = planted_run(tmp_path, *looks, "resume=run", texts={"finalize": SLIGHTLY}, model=model)
    assert again.code == 1 and "has lost the answers of the sealed test that has begun" in again.err
    assert model.requests == [] and read_levels(tmp_path) == [0.03]


@pytest.mark.slow
def test_a_test_that_was_killed_before_its_first_question_keeps_its_level(rejected: Finished, tmp_path: Path) -> None:
    first, place = copy_run(rejected, tmp_path / "copy"), tmp_path / "copy"
    verdict = first.verdict
    forget_answers(first.folder)
    forget_results(first.folder, "verdict", "looks", "sealed")
    begun, _ = first.sealed_log.read_text().splitlines()
    first.sealed_log.write_text(f"{begun}\n")
    again = planted_run(place, "resume=run", texts={"finalize": SLIGHTLY}, model=Obedient())
    assert again.code == 0, again.err
    assert again.verdict["sealed"] == verdict["sealed"] and read_levels(place) == [0.03]


@pytest.mark.slow
def test_a_verdict_that_is_deleted_is_written_again_from_the_same_answers(rejected: Finished, tmp_path: Path) -> None:
    first, place = copy_run(rejected, tmp_path / "copy"), tmp_path / "copy"
    verdict = first.verdict
    forget_results(first.folder, "verdict")
    model = Obedient()
    again = planted_run(place, "resume=run", texts={"finalize": SLIGHTLY}, model=model)
    assert (again.verdict["p"], again.verdict["sealed"]) == (verdict["p"], verdict["sealed"])
    assert model.requests == [] and read_levels(place) == [0.03]


@pytest.mark.parametrize("edited", ["winner", "parent"])
def test_prompts_that_were_edited_after_the_search_are_neither_tested_nor_published(
    edited: str, published: Finished, tmp_path: Path
) -> None:
    first, place = copy_run(published, tmp_path / "copy"), tmp_path / "copy"
    forget_answers(first.folder)
    forget_results(first.folder, "shortlist", "verdict")
    shutil.rmtree(first.kept_folder)
    if edited == "parent":
        (first.folder / "prompts" / "finalize_system_prompt.txt").write_text(f"{ALWAYS} Or not.\n")
    else:
        kept = first.read("prompts c001")
        keep_result(first.folder, "prompts c001", {**kept, "texts": {**kept["texts"], "finalize": f"{ALWAYS} Or not."}})
    model = Obedient()
    again = planted_run(place, "resume=run", texts={"finalize": ALWAYS}, model=model)
    assert again.code == 1 and "changed since the run wrote" in again.err
    assert read_entry(first.folder).state == "stopped", "it has ended with a notice"
    assert model.requests == [] and not (first.shelf / TUNED_SET).exists()
    assert len(read_levels(place)) == 1, "no other test was begun"


def test_20_attempts_under_other_names_seeds_and_folders_end_in_a_refusal(rejected: Finished, tmp_path: Path) -> None:
    place = tmp_path / "copy"
    log, questions = copy_run(rejected, place).sealed_log, read_log(place)[0]["questions"]
    for number in range(2, 18):  # the tests of others, which take as long as the first
        begin_test(f"r{number}", questions, "aa", simulated=True, file=log)
    model = Obedient()
    given = (f"run.dir={place / 'last'}", "name=another_in_a_test", "seed=9")
    last = planted_run(place, *given, texts={"finalize": ALWAYS}, model=model)
    assert last.code == 1 and model.requests == [], "nothing is spent"
    assert "17 earlier sealed tests used sealed questions of this run: together they have used up" in last.err
    assert rejected.code == 0 and sum(read_levels(place)) <= 0.05


LOOKS = ("gate.looks=4", "seed=3")


@pytest.mark.slow
def test_a_clear_gain_ends_the_test_early_and_the_other_questions_stay_unopened(tmp_path: Path) -> None:
    model = Obedient()
    tuned = planted_run(tmp_path, *LOOKS, texts={"finalize": ALWAYS}, model=model)
    sealed, lines = tuned.verdict["sealed"], tuned.read("looks")
    assert tuned.verdict["published"] and [each["decision"] for each in lines] == ["continue", "success"]
    expected = {
        "look": 2, "looks": 4, "n_questions": 15, "n_sealed": 30, "n_answers": 30, "n_answers_saved": 30,
        "stopped": "success", "level": 0.03, "look_level": pytest.approx(0.00116, abs=1e-5),
    }  # fmt: skip
    assert sealed == sealed | expected
    opened = {each.sample_id for each in read_side(tuned.folder, "parent")}
    asked = {sample for sample in model.golds if any(sample in all_text(request) for _, request in model.requests)}
    assert len(opened) == 15 and sum(model.golds[each][2] for each in asked) == 15, "no other question was sent"
    begun, judged = read_log(tmp_path)
    splits = {each.question: each.id for each in ToyDataset(n_test=30).load("test").samples}
    marks = {compute_fingerprint(question) for question, sample_id in splits.items() if sample_id in opened}
    assert judged["n_opened"] == 15 and set(begun["questions"][:15]) == marks and len(begun["questions"]) == 30
    stopped = "topped at look 2 of 4, after 15 of 30 questions: a gain was shown; 30 of 60 answers were saved"
    assert f"  s{stopped}; the intervals are adjusted for the looks" in tuned.out
    assert "  look 1 of 4, 8 of 30 questions: continue\n" in tuned.out
    assert "60 answers at most, about half without a gain" in tuned.out
    assert f"s{stopped}" in (tuned.folder / "report.html").read_text("utf-8")
    provenance = (tuned.shelf / TUNED_SET / "provenance.yaml").read_text("utf-8")
    assert "look: 2" in provenance and "n_answers_saved: 30" in provenance
    wide, whole = tuned.verdict["gain_ci95"], run_paired_test([Pair((0.0,), (1.0,))] * 12 + [Pair((1.0,), (1.0,))] * 3)
    assert whole.ci95 and wide[0] < whole.ci95[0], "the interval is that of a test that might have stopped before"
    compared = compare(f"{tuned.folder}:parent", f"{tuned.folder}:c001")
    assert compared.difference == tuned.verdict["gain"]
    assert set(open_run(f"{tuned.folder}:c001").table["id"]) == opened
    assert run_cli(lambda: report([f"{tuned.folder}:c001"])) == 0
    assert "report.html" in {path.name for path in (tuned.folder / "c001").iterdir()}
    with pytest.raises(UserError, match="c002 has no answers to sealed questions"):
        open_run(f"{tuned.folder}:c002")
    again = planted_run(
        tmp_path, *LOOKS, f"run.dir={tmp_path / 'second'}", "name=another_in_a_test", texts={"finalize": ALWAYS}
    )
    assert "1 earlier sealed test used sealed questions of this run" in again.out


@pytest.mark.slow
def test_a_test_without_hope_ends_early_and_a_stopped_one_goes_on_to_the_same_verdict(tmp_path: Path) -> None:
    alone = planted_run(tmp_path / "alone", *LOOKS, texts={"finalize": SLIGHTLY})
    assert (alone.verdict["finish_reason"], alone.verdict["sealed"]["stopped"]) == ("not_significant", "hopeless")
    n_answers, lines = alone.verdict["sealed"]["n_answers"], alone.read("looks")
    assert 16 < n_answers < 60 and "a gain at the end had become improbable" in alone.out
    assert [each["decision"] for each in lines] == ["continue"] * (len(lines) - 1) + ["hopeless"]

    place, broken = tmp_path / "run", Failing(*range(3 * 16 + 1, 1_000))  # from the second look on
    first = planted_run(place, *LOOKS, texts={"finalize": SLIGHTLY}, model=broken)
    assert first.code == 3 and first.read("looks") == lines[:1] and first.read("verdict") is None
    refused = run_command(place, "eval/compare", f"{first.folder}:parent", f"{first.folder}:c001")
    assert refused.code == 1 and "are not read before" in refused.err, "nobody sees a score before the verdict"
    model = Failing()
    second = planted_run(place, *LOOKS, "resume=run", texts={"finalize": SLIGHTLY}, model=model)
    assert second.code == 0, second.err
    assert model.n_sealed == 3 * (n_answers - 16), "the first look's answers are not asked again"
    for name in ("p", "gain", "gain_ci95", "reasons", "sealed"):
        assert second.verdict[name] == alone.verdict[name], name
    assert second.read("looks") == lines

    forget_results(second.folder, "verdict", "looks")
    model = Failing()
    third = planted_run(place, *LOOKS, "resume=run", texts={"finalize": SLIGHTLY}, model=model)
    assert (third.verdict["p"], third.verdict["sealed"]) == (alone.verdict["p"], alone.verdict["sealed"])
    assert model.requests == [] and read_levels(place) == [0.03]
