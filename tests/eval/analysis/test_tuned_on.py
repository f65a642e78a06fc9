"""Which questions of a run its prompts were tuned on: found by their words, and told before and after."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval.analysis.tuned_on import UsedToTune, describe_unknown, format_questions, read_tuning_use
from eval.benchmarks.fingerprint import compute_fingerprint
from eval.benchmarks.toy_set import ToyDataset
from eval.cli.paths import PROJECT_ROOT
from eval.runs.record import PlannedQuestion
from eval.runs.run_info import RunInfo, TuningUse, find_tuning_use
from eval.runs.store import RunStore
from mas.prompt_sets.prompt_set import PromptSet, read_prompt_set, write_prompt_set
from mas.prompt_sets.tuned_on import TunedOn
from tests.eval.command_line import EvalCommand, Finished, dataset, question

AGENTS = ("plan", "solve", "finalize")
TOY = ("system=toy", "data=toy", "model=offline", "data.n_val=4")


def marks(*questions: str) -> frozenset[str]:
    return frozenset(map(compute_fingerprint, questions))


def prompts(name: str, tuned_on: TunedOn | None) -> PromptSet:
    return PromptSet(name, "toy", {"plan": "Plan."}, Path(name), tuned_on=tuned_on)


def read_use(use: TuningUse | None) -> UsedToTune | None:
    return read_tuning_use(RunInfo(tuning_use=use))


def planned(*texts: str) -> list[PlannedQuestion]:
    return [PlannedQuestion(f"other-{number}", text) for number, text in enumerate(texts)]


def test_a_question_is_known_again_under_another_id() -> None:
    tuned = prompts("mine", TunedOn(marks("One?", "Two?"), marks("Two?", "Three?")))
    facts = find_tuning_use([prompts("first", None), tuned], planned("one?", "Two?", "Three?", "Four?"), {})
    used = read_use(facts)
    assert used == UsedToTune("mine", frozenset({"other-0", "other-1"}), frozenset({"other-2"}))
    assert used.description == "mine (2 for training, 1 for validation)"


def test_the_same_words_about_another_attachment_are_another_question() -> None:
    tuned = prompts("mine", TunedOn(frozenset({compute_fingerprint("Rows?", "aa")}), frozenset()))
    facts = find_tuning_use([tuned], planned("Rows?", "Rows?", "Rows?"), {"other-0": "aa", "other-1": "bb"})
    used = read_use(facts)
    assert used is not None
    assert used.ids == {"other-0"}


def test_of_prompts_that_say_nothing_and_of_older_runs_nothing_is_known() -> None:
    assert read_use(find_tuning_use([prompts("hand", None)], planned("One?"), {})) is None
    assert read_use(None) is None


def test_all_sets_of_a_resumed_run_count() -> None:
    sets = [prompts("a", TunedOn(marks("One?"), marks())), prompts("b", TunedOn(marks(), marks("One?", "Two?")))]
    used = read_use(find_tuning_use(sets, planned("One?", "Two?", "Three?"), {}))
    assert used == UsedToTune("a and b", frozenset({"other-0"}), frozenset({"other-1"}))


@pytest.mark.parametrize(
    ("learnt", "picked", "n", "expected"),
    [
        ("", "", 3, None),
        ("a", "b", 4, "2 of the 4 questions were used to tune mine (1 for training, 1 for validation), so its score on "
         "them is inflated; on the other 2 it is reported separately"),
        ("", "a", 2, "1 of the 2 questions was used to tune mine (1 for validation), so its score on it is inflated; "
         "on the other one it is reported separately"),
        ("a", "b", 2, "all 2 questions were used to tune mine (1 for training, 1 for validation), so its score on "
         "them is inflated; no other is scored"),
        ("a", "", 1, "the one question was used to tune mine (1 for training), so its score on it is inflated; no "
         "other is scored"),
    ],
)  # fmt: skip
def test_the_warning_says_how_many_and_what_is_left(learnt: str, picked: str, n: int, expected: str | None) -> None:
    assert UsedToTune("mine", frozenset(learnt), frozenset(picked)).describe_warning(n) == expected


def test_the_warning_says_which_questions_count_where_some_have_no_gold_answer() -> None:
    warning = UsedToTune("mine", frozenset("a"), frozenset()).describe_warning(4, n_unscored=3)
    assert warning is not None
    assert warning.startswith("1 of the 4 questions with a gold answer was used to tune mine")


EDITED = "tuned_on.json of mine was edited or removed: which questions it was tuned on is not known"
CHECKSUMS = {"checksums": {"tuned_on.json": "9f86"}}


def test_of_a_set_whose_marks_were_removed_nothing_is_known_and_that_is_told() -> None:
    removed = replace(prompts("mine", None), edited=("tuned_on.json",), provenance=CHECKSUMS)
    facts = find_tuning_use([prompts("mine", None), removed], planned("One?"), {})  # first the run's own copy
    used = read_use(facts)
    assert used == UsedToTune("mine", frozenset(), frozenset(), ("mine",))
    assert used.describe_warning(1) == EDITED
    assert used.describe_warning(0, n_unscored=1) is None


def test_marks_that_are_left_in_an_edited_file_still_count() -> None:
    edited = replace(prompts("mine", TunedOn(marks("One?"), marks())), edited=("tuned_on.json",))
    used = read_use(find_tuning_use([edited], planned("One?", "Two?"), {}))
    assert used is not None
    assert used.ids == {"other-0"}
    assert str(used.describe_warning(2)).endswith(f"; {EDITED}")


def test_a_later_session_with_other_prompts_does_not_forget_it_and_one_with_the_file_restored_does() -> None:
    restored = replace(prompts("mine", TunedOn(marks("One?"), marks())), provenance=CHECKSUMS)
    removed = replace(restored, tuned_on=None, edited=("tuned_on.json",))
    other = replace(prompts("other", None), texts={"plan": "Plan well."})
    before = find_tuning_use([removed], planned("One?"), {})
    copy = prompts("mine", None)
    later = read_use(find_tuning_use([copy, other], planned("One?"), {}, RunInfo(tuning_use=before)))
    assert later == UsedToTune("mine", frozenset(), frozenset(), ("mine",))
    mended = read_use(find_tuning_use([copy, restored], planned("One?"), {}, RunInfo(tuning_use=before)))
    assert mended == UsedToTune("mine", frozenset({"other-0"}), frozenset())


def tuned_set(folder: Path, learnt_from: Sequence[str], picked_by: Sequence[str]) -> Path:
    toy = read_prompt_set("toy_baseline", AGENTS, "toy", PROJECT_ROOT)
    made = PromptSet("x", "toy", toy.texts, folder, tuned_on=TunedOn(marks(*learnt_from), marks(*picked_by)))
    write_prompt_set(folder, made)
    return folder


def published(folder: Path) -> Path:
    checksums = {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    (folder / "provenance.yaml").write_text(yaml.safe_dump({"checksums": checksums}))
    return folder


def asked_by(finished: Finished) -> dict[str, Any]:
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        return {each.id: each.question for each in store.read_plan()}


def test_a_run_warns_before_and_reports_the_rest_beside(eval_command: EvalCommand, tmp_path: Path) -> None:
    untuned = eval_command(*TOY)
    assert "tun" not in untuned.out
    assert untuned.summary["used_to_tune"] is None
    texts = list(asked_by(untuned).values())
    finished = eval_command(*TOY, f"prompts={tuned_set(tmp_path / 'owned', texts[:1], texts[1:2])}")
    warning = (
        "warning: 2 of the 4 questions were used to tune owned (1 for training, 1 for validation), so its score on "
        "them is inflated"
    )
    before, _, after = finished.out.partition("tuned on: 2 of the 4 questions were used to tune owned")
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
    assert "tuned on: none of the 4 questions was used to tune owned" in finished.out


def test_a_published_set_without_its_marks_is_never_said_to_be_clean(eval_command: EvalCommand, tmp_path: Path) -> None:
    folder = published(tuned_set(tmp_path / "mine", ["Another one?"], []))
    (folder / "tuned_on.json").unlink()
    finished = eval_command(*TOY, f"prompts={folder}")
    assert f"warning: {EDITED}" in finished.out
    assert f"tuned on: {EDITED}" in finished.out
    assert EDITED in (finished.folder / "report.html").read_text("utf-8")
    assert finished.summary["used_to_tune"]["n_questions"] is None, "0 would say that none was"


@pytest.mark.parametrize("is_published", [True, False])
def test_a_run_that_began_without_marks_gets_them_when_it_is_resumed(
    eval_command: EvalCommand, tmp_path: Path, is_published: bool
) -> None:
    texts = [each.question for each in ToyDataset(n_val=4).load("val").samples]
    folder = tuned_set(tmp_path / "owned", texts[:1], texts[1:2])
    if is_published:
        published(folder)
    marks_file = (folder / "tuned_on.json").read_text()
    (folder / "tuned_on.json").unlink()
    first = eval_command(*TOY, f"prompts={folder}")
    assert ("edited or removed" in first.out) == is_published
    (folder / "tuned_on.json").write_text(marks_file)
    resumed = eval_command(f"run.resume={first.folder}", "run.epochs=2", "run.allow_config_change=true")
    assert first.summary["used_to_tune"]["n_questions"] == 2, resumed.err
    assert "tuned on: 2 of the 4 questions were used to tune owned" in resumed.out
    assert "edited or removed" not in resumed.out
    assert (first.folder / "prompts" / "tuned_on.json").read_text() == marks_file


def test_questions_without_a_gold_answer_are_in_no_warning(eval_command: EvalCommand, tmp_path: Path) -> None:
    toy = ToyDataset(n_val=4).load("val").samples
    rows = [question(each.id, each.question, "?" if n < 2 else each.target) for n, each in enumerate(toy)]
    prompts = f"prompts={tuned_set(tmp_path / 'owned', [each.question for each in toy[:2]], [])}"
    start = ("system=toy", "model=offline", prompts)
    finished = eval_command(*start, *dataset(tmp_path / "some", *rows))
    assert "warning" not in finished.out
    assert "inflated" not in finished.out
    assert "none of the 2 questions with a gold answer was used to tune owned" in finished.out
    unscored = eval_command(*start, *dataset(tmp_path / "none", *rows[:2]), f"run.dir={tmp_path / 'unscored'}")
    assert unscored.code == 0, unscored.err
    assert "used to tune" not in unscored.out


def test_a_sweep_says_so_of_the_job_that_has_such_prompts(eval_command: EvalCommand, tmp_path: Path) -> None:
    texts = [each.question for each in ToyDataset(n_val=4).load("val").samples]
    sets = f"prompts={PROJECT_ROOT}/prompts/toy_baseline,{tuned_set(tmp_path / 'owned', texts[:1], texts[1:2])}"
    swept = eval_command("-m", *TOY, sets, f"run.dir={tmp_path}/job-${{hydra:job.num}}")
    assert "job 1: 2 of the 4 questions were used to tune owned" in swept.out, swept.err
    assert "job 0: 2 of these" not in swept.out


BOTH_USED = UsedToTune("mine", frozenset("abc"), frozenset("de"), ("mine", "other"))


def test_the_use_among_some_samples_keeps_the_rest_of_it() -> None:
    assert BOTH_USED.ids == frozenset("abcde")
    assert BOTH_USED.among(["b", "d", "z"]) == UsedToTune("mine", frozenset("b"), frozenset("d"), ("mine", "other"))
    assert BOTH_USED.among([]).ids == frozenset()


@pytest.mark.parametrize(
    ("learnt", "picked", "described"),
    [
        ("abc", "de", "mine (3 for training, 2 for validation)"),
        ("", "d", "mine (1 for validation)"),
        ("a", "", "mine (1 for training)"),
    ],
)
def test_a_description_counts_both_uses_that_there_were(learnt: str, picked: str, described: str) -> None:
    assert UsedToTune("mine", frozenset(learnt), frozenset(picked)).description == described


@pytest.mark.parametrize(
    ("n", "n_unscored", "told"),
    [
        (1, 0, "question"),
        (2, 0, "2 questions"),
        (1, 1, "question with a gold answer"),
        (2, 1, "2 questions with a gold answer"),
    ],
)
def test_questions_are_counted_in_words(n: int, n_unscored: int, told: str) -> None:
    assert format_questions(n, n_unscored) == told


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        ((), None),
        (
            ("mine",),
            "tuned_on.json of mine was edited or removed: which questions it was tuned on is not known",
        ),
        (
            ("mine", "other"),
            "tuned_on.json of mine and other was edited or removed: which questions they were tuned on is not known",
        ),
    ],
)
def test_sets_of_which_nothing_is_known_are_named(edited: tuple[str, ...], told: str | None) -> None:
    assert describe_unknown(edited) == told
    assert UsedToTune("mine", frozenset(), frozenset(), edited).describe_warning(3) == told


def test_a_warning_tells_the_use_and_then_what_is_not_known() -> None:
    unknown = describe_unknown(BOTH_USED.edited)
    assert BOTH_USED.describe_warning(7, 1) == (
        "5 of the 7 questions with a gold answer were used to tune mine (3 for training, 2 for validation), so its "
        f"score on them is inflated; on the other 2 it is reported separately; {unknown}"
    )
    assert UsedToTune("mine", frozenset("a"), frozenset()).describe_warning(1, 2) == (
        "the one question with a gold answer was used to tune mine (1 for training), so its score on it is inflated; "
        "no other is scored"
    )


def test_a_set_that_was_edited_in_several_places_is_named_once() -> None:
    use = TuningUse(prompts="mine", learnt_from=["a"], picked_by=["b", "c"], edited={"1": "x", "2": "y", "3": "x"})
    assert read_use(use) == UsedToTune("mine", frozenset("a"), frozenset("bc"), ("x", "y"))
