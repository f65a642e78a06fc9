"""Which questions of a run its prompts were tuned on: found by their words, and told before and after."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.benchmarks.toy_set import ToyBenchmark
from eval.paths import PROJECT_ROOT
from eval.question_mark import question_mark
from eval.run_folder.planned import PlannedQuestion
from eval.store import RunStore
from eval.tuned_on import UsedToTune, tuned_facts, used_to_tune
from mas.prompts import PromptSet, read_prompt_set, write_prompt_set
from mas.tuned_on import TunedOn
from tests.eval.command_line import EvalCommand, Finished

AGENTS = ("plan", "solve", "finalize")
TOY = ("system=toy", "data=toy", "model=offline", "data.n_val=4")


def marks(*questions: str) -> frozenset[str]:
    return frozenset(map(question_mark, questions))


def prompts(name: str, tuned_on: TunedOn | None) -> PromptSet:
    return PromptSet(name, "toy", {"plan": "Plan."}, Path(name), tuned_on=tuned_on)


def planned(*texts: str) -> list[PlannedQuestion]:
    return [PlannedQuestion(f"other-{number}", text) for number, text in enumerate(texts)]


def test_a_question_is_known_again_under_another_id() -> None:
    tuned = prompts("mine", TunedOn(marks("One?", "Two?"), marks("Two?", "Three?")))
    facts = tuned_facts([prompts("first", None), tuned], planned("one?", "Two?", "Three?", "Four?"), {})
    used = used_to_tune(facts)
    assert used == UsedToTune("mine", frozenset({"other-0", "other-1"}), frozenset({"other-2"}))
    assert used.told == "mine (2 learnt from, 1 picked by)"


def test_the_same_words_about_another_attachment_are_another_question() -> None:
    tuned = prompts("mine", TunedOn(frozenset({question_mark("Rows?", "aa")}), frozenset()))
    facts = tuned_facts([tuned], planned("Rows?", "Rows?", "Rows?"), {"other-0": "aa", "other-1": "bb"})
    used = used_to_tune(facts)
    assert used is not None
    assert used.ids == {"other-0"}


def test_of_prompts_that_say_nothing_and_of_older_runs_nothing_is_known() -> None:
    assert used_to_tune(tuned_facts([prompts("hand", None)], planned("One?"), {})) is None
    assert used_to_tune({}) is None


def test_all_sets_of_a_resumed_run_count() -> None:
    sets = [prompts("a", TunedOn(marks("One?"), marks())), prompts("b", TunedOn(marks(), marks("One?", "Two?")))]
    used = used_to_tune(tuned_facts(sets, planned("One?", "Two?", "Three?"), {}))
    assert used == UsedToTune("a and b", frozenset({"other-0"}), frozenset({"other-1"}))


@pytest.mark.parametrize(
    ("learnt", "picked", "n", "expected"),
    [
        ("", "", 3, None),
        ("a", "b", 4, "2 of these 4 questions were used to tune mine (1 learnt from, 1 picked by): its score on them "
         "flatters; on the other 2 it is reported beside"),
        ("", "a", 2, "1 of these 2 questions was used to tune mine (1 picked by): its score on it flatters; on the "
         "other one it is reported beside"),
        ("a", "b", 2, "all 2 questions were used to tune mine (1 learnt from, 1 picked by): its score on them "
         "flatters, and no other question is asked"),
    ],
)  # fmt: skip
def test_the_warning_says_how_many_and_what_is_left(learnt: str, picked: str, n: int, expected: str | None) -> None:
    assert UsedToTune("mine", frozenset(learnt), frozenset(picked)).warning(n) == expected


def tuned_set(folder: Path, learnt_from: Sequence[str], picked_by: Sequence[str]) -> Path:
    toy = read_prompt_set("toy_baseline", AGENTS, "toy", PROJECT_ROOT)
    made = PromptSet("x", "toy", toy.texts, folder, tuned_on=TunedOn(marks(*learnt_from), marks(*picked_by)))
    write_prompt_set(folder, made)
    return folder


def asked_by(finished: Finished) -> dict[str, Any]:
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        return {each.id: each.question for each in store.planned()}


def test_a_run_warns_before_and_reports_the_rest_beside(eval_command: EvalCommand, tmp_path: Path) -> None:
    untuned = eval_command(*TOY)
    assert "tun" not in untuned.out
    assert untuned.summary["used_to_tune"] is None
    texts = list(asked_by(untuned).values())
    finished = eval_command(*TOY, f"prompts={tuned_set(tmp_path / 'owned', texts[:1], texts[1:2])}")
    warning = "warning: 2 of these 4 questions were used to tune owned (1 learnt from, 1 picked by): its score on them"
    before, _, after = finished.out.partition("tuned on: 2 of these 4 questions were used to tune owned")
    assert warning in before
    told, right = finished.summary["used_to_tune"], [record["score"] for record in finished.records.values()]
    assert told["accuracy_without"] == sum(right[2:]) / 2
    assert f"accuracy without them: {told['accuracy_without']:.1%} of 2" in after
    assert finished.summary["accuracy"] == sum(right) / 4, "the headline stays over all"
    assert "tuned on" in (finished.folder / "report.html").read_text("utf-8")
    assert not any(text in (finished.folder / "prompts" / "tuned_on.json").read_text() for text in texts)


def test_where_none_was_used_there_is_no_warning(eval_command: EvalCommand, tmp_path: Path) -> None:
    finished = eval_command(*TOY, f"prompts={tuned_set(tmp_path / 'owned', ['Another one?'], [])}")
    assert "warning" not in finished.out
    assert "tuned on: none of these 4 questions was used to tune owned" in finished.out


def test_a_sweep_says_so_of_the_job_that_has_such_prompts(eval_command: EvalCommand, tmp_path: Path) -> None:
    texts = [each.question for each in ToyBenchmark(n_val=4).load("val").examples]
    sets = f"prompts={PROJECT_ROOT}/prompts/toy_baseline,{tuned_set(tmp_path / 'owned', texts[:1], texts[1:2])}"
    swept = eval_command("-m", *TOY, sets, f"run.dir={tmp_path}/job-${{hydra:job.num}}")
    assert "job 1: 2 of these 4 questions were used to tune owned" in swept.out, swept.err
    assert "job 0: 2 of these" not in swept.out
