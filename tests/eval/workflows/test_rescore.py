"""What scoring again keeps, changes, refuses and prints. The command itself: tests/eval/test_rescore.py."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf

from eval.analysis.human_review.labels import HumanLabel, append_label, describe_label
from eval.cli.command import FAILURES, FINISHED, STOPPED, USER_ERROR
from eval.cli.hydra_compat import compose_config
from eval.runs.folder import read_kept_prompts
from eval.runs.record import ErrorDetails, ExtraScore, HumanVerdict, Record, Usage
from eval.runs.run_info import RunInfo, SweepJob, TuningUse
from eval.runs.store import RunStore, StoreError
from eval.scorers.score import Score
from eval.workflows import rescore
from eval.workflows.rescore import TUNING_NOTE, CorrectedRule, rescore_all, rescore_and_report, rescore_run
from mas.prompt_sets.prompt_set import PromptSet, write_prompt_set
from mas.runtime.errors import UserError
from tests.eval.stored_run import CONFIG, answered, stored_run

DATA = "d" * 64
HERE = "tests.eval.workflows.test_rescore"
CONTAINS = {"_target_": "eval.scorers.contains.ContainsScorer"}
JUDGE = {"_target_": "eval.scorers.graded.GradedScorer", "rubric": "r", "judge": {"_target_": "x.Y"}}
NIGHT = "2026-11-21_08-00-00_night"

_at_once: list[int] = [0, 0]  # answers that `wait_together` scores now, and the most so far


async def wait_together(question: str, answer: str | None, target: str) -> bool:
    _at_once[0] += 1
    _at_once[1] = max(_at_once)
    for _ in range(3):
        await asyncio.sleep(0)
    _at_once[0] -= 1
    return True


def metric(gold: Any, pred: Any, trace: object = None) -> bool:
    return bool(gold.label == "17")


def run_of(records: Sequence[Record], folder: Path, **facts: Any) -> Path:
    return stored_run(folder, records, **{"dataset_sha256": DATA, **facts})


def read(folder: Path) -> tuple[RunInfo, list[Record]]:
    with RunStore(folder / "run.db", read_only=True) as store:
        return store.read_info(), list(store.records())


def again(original: Path, *overrides: str, gold: Path | None = None) -> tuple[RunInfo, dict[str, Record]]:
    """Rescores a run, next to it."""
    info, records = read(rescore_run(original, overrides, gold, parent=original.parent))
    return info, {each.sample_id: each for each in records}


def label(gold: Path, record: Record, name: str, **parts: Any) -> HumanLabel:
    found = describe_label(record, name, **{"file_sha256": None, "who": "ada", "run": "old", **parts})
    append_label(gold, DATA, found)
    return found


def targets(folder: Path, *rows: tuple[object, object]) -> Path:
    file = folder / "targets.jsonl"
    file.write_text("".join(json.dumps({"task_id": name, "Final answer": answer}) + "\n" for name, answer in rows))
    return file


@pytest.fixture(autouse=True, scope="module")
def each_choice_composed_once() -> Iterator[None]:
    """Lets Hydra compose each choice of scorers once: it takes a third of a second."""
    compose = cache(compose_config)

    def compose_once(overrides: Sequence[str]) -> DictConfig:
        own = [each for each in overrides if each.startswith("run.")]
        chosen = compose(tuple(each for each in overrides if each not in own)).copy()
        for each in own:
            OmegaConf.update(chosen, *each.split("=", 1))
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rescore, "compose_config", compose_once)
        yield


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Path], Path]]:
    """The runs, and the place of their labels, that were handed over to be sent to MLflow."""
    calls: list[tuple[list[Path], Path]] = []
    monkeypatch.setattr(rescore, "send_labels", lambda folders, gold: calls.append((list(folders), gold)))
    return calls


@pytest.fixture
def unreported(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, int | Exception]], list[tuple[object, ...]]]:
    """Puts given exit codes or errors in place of the rescoring of each run, by its name; returns the calls."""

    def put(results: dict[str, int | Exception]) -> list[tuple[object, ...]]:
        calls: list[tuple[object, ...]] = []

        def report(original: Path, *arguments: object, is_one_of_many: bool = False) -> int:
            calls.append((original.name, *arguments, is_one_of_many))
            found = results[original.name]
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(rescore, "rescore_and_report", report)
        return calls

    return put


def test_all_that_is_known_of_the_run_is_kept_but_its_place_in_a_sweep_and_its_command(tmp_path: Path) -> None:
    config = {**CONFIG, "run": {"name": "night", "epochs": 1}, "extra_scorers": {"c": CONTAINS, "g": JUDGE}}
    sweep = SweepJob("s", "night", "2026-11-21T08:00:00+00:00", "host", 1, 0, [])
    old = run_of(
        [answered("q1", "17")],
        tmp_path / NIGHT,
        config=config,
        command=["scorer=exact"],
        sweep=sweep,
        system="toy",
        model="m",
        task_version="t",
        labels=["a"],
        file_sha256={"q1": "f"},
        prompts={"prompts": "baseline"},
        started_at="2026-11-21T08:00:00+00:00",
        wall_seconds=9.0,
        finished=True,
    )
    write_prompt_set(old / "prompts", PromptSet("baseline", "toy", {"planner": "Plan."}, old))
    before, _ = read(old)
    folder = rescore_run(old, ["scorer=exact", "scorer.ignore_case=true"], None, ["old", "scorer=exact"], tmp_path)
    assert folder.parent == tmp_path
    assert folder.name.endswith("_night_rescored")
    info, (record,) = read(folder)
    expected = {
        **config,
        "scorer": {
            "_target_": "eval.scorers.exact.ExactScorer",
            "ignore_case": True,
            "ignore_whitespace": False,
        },
        "extra_scorers": {"c": CONTAINS},
        "run": {"name": None, "epochs": 1},
    }
    assert yaml.safe_load((folder / "config.yaml").read_text("utf-8")) == expected
    assert (len(info.run_id), record.run_id) == (12, info.run_id)
    assert info.started_at > before.started_at
    assert info.started_at.endswith("+00:00")
    assert info == replace(
        before,
        run_id=info.run_id,
        started_at=info.started_at,
        config=expected,
        command=None,
        sweep=None,
        rescored_from=NIGHT,
        rescored_by=["old", "scorer=exact"],
        task=replace(before.task, task_version=""),
    )
    assert record.extra_scores == {"c": ExtraScore(1.0, record.extra_scores["c"].explanation)}
    assert read_kept_prompts(folder, info.prompts)["prompts"].texts == {"planner": "Plan."}
    with RunStore(folder / "run.db", read_only=True) as new, RunStore(old / "run.db", read_only=True) as source:
        assert new.is_signed()
        assert new.read_plan() == source.read_plan()
        assert new.read_state() == source.read_state()


def test_other_targets_make_other_data_and_unnamed_answers_keep_theirs(tmp_path: Path) -> None:
    found = [{"tool": "read_page", "source": "https://e.org"}]
    rows = [answered("q1", "18", leaks=found), answered("q2", "17", leaks=found, score=0.25)]
    old = run_of(rows, tmp_path / "old", task_version="t", labels=["a"], data_revision="r", file_sha256={"q1": "f"})
    info, records = again(old, gold=targets(tmp_path, ("q1", 18.0)))
    before, _ = read(old)
    assert info.task == replace(before.task, task_version="", dataset_sha256="", labels=[])
    assert info.command is None
    assert [(each.target, each.score, each.leaks) for each in records.values()] == [("18", 1.0, []), ("17", 1.0, found)]


def test_leaks_are_looked_for_with_the_corrected_target_which_may_be_a_label(tmp_path: Path) -> None:
    question = "Which river crosses the old town of Zuerich near the Grossmuenster church today?"
    page = f"{question} It is the Limmat. " + "Nothing else is said of it. " * 40 + "Sihl"
    step = {
        "id": 1,
        "kind": "tool",
        "name": "read_page",
        "inputs": {},
        "outputs": page,
        "attributes": {"result_kind": "page", "source": "https://e.org/a"},
    }
    seen: list[tuple[object, ...]] = []
    ids = [f"q{number}" for number in range(12)]
    rows = [answered(each, "yes", question=f"{question} {each}", trajectory=[step]) for each in ids]
    old = run_of(rows, tmp_path / "old")
    with pytest.MonkeyPatch.context() as patch:

        def find(*arguments: object) -> list[dict[str, str]]:
            seen.append(arguments)
            return [{"tool": "t", "source": "s"}]

        patch.setattr(rescore, "find_web_leaks", find)
        given = [(each, "yes" if number % 2 else "no") for number, each in enumerate(ids[:-1])]
        info, records = again(old, gold=targets(tmp_path, *given, ("q11", "a long answer that is none")))
    assert info.task.labels == ["no", "yes"]
    assert seen == [
        (f"{question} {name}", records[name].target, [step], records[name].target in ("yes", "no")) for name in ids
    ]
    assert all(each.leaks == [{"tool": "t", "source": "s"}] for each in records.values())


def test_sixteen_answers_are_scored_at_a_time_and_none_is_left_out(tmp_path: Path) -> None:
    ids = [f"q{number}" for number in range(33)]
    old = run_of([answered(each, "x") for each in ids], tmp_path / "old")
    _at_once[:] = [0, 0]
    _, records = again(old, "scorer=function", f"scorer.target={HERE}:wait_together")
    assert list(records) == ids
    assert all(each.score == 1.0 for each in records.values())
    assert _at_once == [0, 16]


def test_of_a_failed_answer_only_what_the_scorer_left_is_removed(tmp_path: Path) -> None:
    state = {"error": "no verdict", "error_component": "scorer", "draft": "x"}
    scored = {"parts": {"a": 1.0}, "extra_scores": {"e": ExtraScore(1.0)}, "scorer_usage": Usage(lm_calls=1)}
    details = ErrorDetails("TimeoutError")
    late = {"error": "e", "error_class": "scorer", "error_component": "scorer", "state": state, **scored}
    down = {"error": "e", "error_class": "infrastructure", "error_component": "expert", "state": state, **scored}
    rows = [
        answered("q1", "17", limit="deadline_seconds", score=None, **late),
        answered("q2", "17", limit="lm_calls", score=None, **late),
        answered("q3", "17", limit="deadline_seconds", score=None, error_details=details, **down),
        answered("q4", "17", limit="deadline_seconds", explanation="old", **scored),
    ]
    _, now = again(run_of(rows, tmp_path / "old"), "scorer=exact")
    assert [(each.error, each.error_class, each.error_component, each.limit, each.score) for each in now.values()] == [
        (None, None, None, None, 1.0),
        (None, None, None, "lm_calls", 1.0),
        ("e", "infrastructure", "expert", "deadline_seconds", None),
        (None, None, None, "deadline_seconds", 1.0),
    ]
    assert [each.state for each in now.values()] == [{"draft": "x"}, {"draft": "x"}, state, {"draft": "17"}]
    assert now["q3"].explanation == ""
    for each in now.values():
        assert (each.parts, each.extra_scores, each.scorer_usage) == ({}, {}, Usage())


def test_of_a_run_that_was_scored_again_the_corrected_targets_stay_and_the_verdicts_go(tmp_path: Path) -> None:
    on_question = HumanVerdict("1", "wrong_gold", "ada", "2026", "old", is_of_question=True)
    on_answer = HumanVerdict("2", "right", "ada", "2026", "old")
    old = run_of([answered("q1", "17", human=[on_question, on_answer])], tmp_path / "old", rescored_from="first")
    info, now = again(old, "scorer=exact")
    assert now["q1"].human == [on_question]
    assert info.rescored_from == "old"


def test_by_labels_alone_only_answers_with_a_corrected_target_are_scored_again(tmp_path: Path) -> None:
    rows = [
        answered("q1", "18", explanation="old"),
        answered("q2", "x", explanation="old"),
        answered("q3", "y", score=0.5, explanation="old", parts={"kept": 1.0}),
        answered("q4", "z", score=0.25, explanation="old"),
    ]
    old = run_of(rows, tmp_path / "old")
    gold = tmp_path / "gold"
    corrected = label(gold, rows[0], "wrong_gold", target="18")
    right = label(gold, rows[1], "right")
    unclear = label(gold, rows[3], "ambiguous")
    for place in (gold, gold / f"{DATA}.jsonl"):
        info, now = again(old, gold=place)
        assert [(each.target, each.score, each.explanation, each.parts) for each in now.values()] == [
            ("18", 1.0, "right: the text, as expected", {}),
            ("17", 1.0, "a person accepted this answer as right", {}),
            ("17", 0.5, "old", {"kept": 1.0}),
            ("17", 0.25, "old", {}),
        ]
        assert [[(each.id, each.score_before, each.is_applied) for each in one.human] for one in now.values()] == [
            [(corrected.id, 0.0, True)],
            [(right.id, 0.0, True)],
            [],
            [(unclear.id, 0.25, True)],
        ]
        assert info.task.dataset_sha256 == ""
    _, now = again(old, "scorer=contains", gold=gold)  # a scorer that is named scores all
    assert [each.score for each in now.values()] == [1.0, 1.0, 0.0, 0.0]


def test_labels_that_correct_no_target_leave_the_data_what_it_is(tmp_path: Path) -> None:
    record = answered("q1", "x")
    old = run_of([record], tmp_path / "old", labels=["a"], task_version="t")
    label(tmp_path / "gold", record, "right")
    info, _ = again(old, gold=tmp_path / "gold")
    assert (info.task.dataset_sha256, info.task.labels, info.task.task_version) == (DATA, ["a"], "")


def test_a_label_holds_for_a_question_with_the_same_attachment(tmp_path: Path) -> None:
    first, second = answered("q1", "18"), answered("q2", "18")
    files = {"q1": "1" * 64, "q2": "2" * 64}
    old = run_of([first, second], tmp_path / "old", file_sha256=files)
    label(tmp_path / "gold", first, "wrong_gold", target="18", file_sha256=files["q1"])
    label(tmp_path / "gold", second, "wrong_gold", target="18", file_sha256="3" * 64)
    _, now = again(old, gold=tmp_path / "gold")
    assert [(each.target, each.score, len(each.human)) for each in now.values()] == [("18", 1.0, 1), ("17", 0.0, 0)]


def test_corrected_answers_of_a_judge_are_scored_by_the_rule_unless_a_scorer_is_named(tmp_path: Path) -> None:
    record = answered("q1", "18.0")
    old = run_of([record], tmp_path / "old", config={**CONFIG, "scorer": JUDGE})
    label(tmp_path / "gold", record, "wrong_gold", target="18")
    _, now = again(old, gold=tmp_path / "gold")
    assert (now["q1"].score, now["q1"].parts) == (1.0, {"rule": 1.0, "exact": 0.0})
    _, now = again(old, "scorer=exact", gold=tmp_path / "gold")
    assert (now["q1"].score, now["q1"].parts) == (0.0, {})


def test_the_rule_for_corrected_targets_is_that_of_gaia() -> None:
    why = "by GAIA's rule and the corrected target; the judge was not asked again"
    assert CorrectedRule()("?", "18.0", "18") == Score(1.0, why, {"rule": 1.0, "exact": 0.0})
    assert CorrectedRule()("?", "18", "18") == Score(1.0, why, {"rule": 1.0, "exact": 1.0})
    assert CorrectedRule()("?", None, "18") == Score(0.0, why, {"rule": 0.0, "exact": 0.0})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"target_column": "label"}, "label"),
        ({"target_column": "???"}, None),
        ({"target_column": "${oc.env:HOME}"}, None),
        ({"target_column": ["label"]}, None),
        ({}, None),
        ("jsonl", None),
        (None, None),
    ],
)
def test_the_target_of_a_metric_has_the_name_in_the_data_if_that_is_plain_text(
    tmp_path: Path, data: object, expected: str | None
) -> None:
    old = run_of([answered("q1", "x")], tmp_path / "old", config={**CONFIG, "data": data})
    info, now = again(old, "scorer=function", f"scorer.target={HERE}:metric")
    assert info.config["scorer"]["target_field"] == expected
    assert now["q1"].score == (1.0 if expected else None)


def test_a_name_for_the_target_that_was_typed_is_kept_and_other_scorers_get_none(tmp_path: Path) -> None:
    old = run_of([answered("q1", "x")], tmp_path / "old", config={**CONFIG, "data": {"target_column": "gold"}})
    info, _ = again(old, "scorer=function", f"scorer.target={HERE}:metric", "scorer.target_field=label")
    assert info.config["scorer"]["target_field"] == "label"
    info, _ = again(old, "scorer=contains")
    assert "target_field" not in info.config["scorer"]


def test_extra_scorers_that_are_named_take_the_place_of_those_of_the_run(tmp_path: Path) -> None:
    old = run_of([answered("q1", "a 17")], tmp_path / "old", config={**CONFIG, "extra_scorers": {"c": CONTAINS}})
    info, now = again(old, "scorer=exact", "extra_scorers=[numeric]")
    assert list(info.config["extra_scorers"]) == list(now["q1"].extra_scores) == ["numeric"]
    for overrides, message in (
        (["extra_scorers=[graded]"], "extra_scorers.graded calls a model, and rescoring calls none; leave it out."),
        (["extra_scorers=[numeric]", "extra_scorers.numeric.tolerance=-1"], "tolerance"),
    ):
        with pytest.raises(UserError) as refused:
            rescore_run(old, ["scorer=exact", *overrides], None, parent=tmp_path / "new")
        assert message in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_of_a_run_from_elsewhere_no_scorer_is_used_and_the_new_one_is_not_signed_either(tmp_path: Path) -> None:
    old = run_of([answered("q1", "17")], tmp_path / "old", config={**CONFIG, "extra_scorers": {"c": CONTAINS}})
    with RunStore(old / "run.db") as store:
        store.write_info(store.read_info(), signed=False)
    with pytest.raises(UserError) as refused:
        again(old, gold=targets(tmp_path, ("q1", "17")))
    assert str(refused.value) == (
        f"{old} was made elsewhere, or changed since, so its scorer is not used; name one: scorer=…."
    )
    info, now = again(old, "scorer=exact")
    assert (info.config["extra_scorers"], now["q1"].extra_scores, now["q1"].score) == ({}, {}, 1.0)
    (new,) = [each for each in tmp_path.iterdir() if each.name.endswith("_rescored")]
    with RunStore(new / "run.db", read_only=True) as store:
        assert not store.is_signed()


def test_the_new_folder_is_the_one_that_was_named_and_else_has_the_name_of_the_run(tmp_path: Path) -> None:
    old = run_of([answered("q1", "17")], tmp_path / NIGHT)
    given = tmp_path / "given"
    assert rescore_run(old, ["scorer=exact", f"run.dir={given}"], None, parent=tmp_path / "other") == given
    assert not (tmp_path / "other").exists()
    with pytest.raises(UserError) as refused:
        rescore_run(old, ["scorer=exact", f"run.dir={given}"], None)
    assert str(refused.value) == (f"run.dir={given} already holds a run, one that was scored again; name a new folder.")
    named = rescore_run(old, ["scorer=exact", "run.name=strict"], None, parent=tmp_path)
    assert named.name.endswith("_strict")
    assert read(named)[0].config["run"] == {"name": "strict"}


@pytest.mark.parametrize(
    ("facts", "gold", "message"),
    [
        (
            {"gold_informed": "planner"},
            None,
            "{old} is not scored again: it gave planner the right answers, on questions that an earlier run got wrong "
            "(eval/attribute.py), and measures no system.",
        ),
        ({"rescored_from": "first"}, "gold", "old was scored again from first; apply the labels to that run."),
        ({"config": {"system": {}}}, "targets", "the run does not say how it was scored; give scorer=…."),
        (
            {"config": {"scorer": JUDGE}},
            "targets",
            "scorer=graded calls a model, and rescoring calls none; give another scorer, such as scorer=gaia, or start "
            "a new run.",
        ),
        ({}, "gold", "gold={gold} has no labels yet; review answers with python eval/view.py."),
        (
            {},
            "nowhere",
            "gold={nowhere} is not a file under {here}, nor a folder of labels; give the path of one that exists.",
        ),
    ],
)
def test_what_cannot_be_scored_again_is_told_and_nothing_is_made(
    tmp_path: Path, facts: dict[str, Any], gold: str | None, message: str
) -> None:
    places = {"gold": tmp_path / "gold", "nowhere": tmp_path / "nowhere", "targets": targets(tmp_path, ("q1", "1"))}
    places["gold"].mkdir()
    old = run_of([answered("q1", "17")], tmp_path / "old", **facts)
    overrides = [] if gold else ["scorer=exact"]
    with pytest.raises(UserError) as refused:
        rescore_run(old, overrides, places[gold] if gold else None, parent=tmp_path / "new")
    assert str(refused.value) == message.format(old=old, here=Path.cwd(), **places)
    assert not (tmp_path / "new").exists()


def test_a_run_that_is_going_on_or_is_none_is_refused(tmp_path: Path) -> None:
    old = run_of([answered("q1", "17")], tmp_path / "old")
    with RunStore(old / "run.db"), pytest.raises(UserError) as refused:
        rescore_run(old, ["scorer=exact"], None)
    assert str(refused.value) == f"{old} is still running; score it again when it has ended."
    with pytest.raises(UserError) as refused:
        rescore_run(tmp_path / "none", ["scorer=exact"], None)
    assert str(tmp_path / "none") in str(refused.value)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"task_id": "q9", "Final answer": "1"}, "the run has no question with the task_id 'q9'"),
        ({"task_id": 1.5, "Final answer": "1"}, "the run has no question with the task_id 1.5"),
        ({"task_id": "q2"}, "'Final answer' is missing or empty (\"?\" leaves the question unscored)"),
        ({"task_id": "q2", "Final answer": " "}, "'Final answer' is missing or empty (\"?\" leaves the question "),
        ({"Final answer": "1"}, "'task_id' is missing or empty"),
        (["q1"], "the row is a list, not an object"),
    ],
)
def test_a_row_of_targets_that_is_wrong_is_refused_with_its_line(tmp_path: Path, row: object, problem: str) -> None:
    old = run_of([answered("q1", "17"), answered("q2", "17")], tmp_path / "old")
    file = targets(tmp_path, ("q1", "1"))
    file.write_text(file.read_text() + json.dumps(row) + "\n")
    with pytest.raises(UserError) as refused:
        rescore_run(old, [], file, parent=tmp_path / "new")
    assert f"{file}, line 2: {problem}" in str(refused.value)
    assert str(refused.value).endswith("; correct the file of targets.")
    assert "the row;" not in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_targets_are_numbers_or_texts_with_ids_as_the_run_has_them(tmp_path: Path) -> None:
    rows = [answered("1", "4"), answered("q2", "x"), answered("q3", "y")]
    old = run_of(rows, tmp_path / "old")
    file = targets(tmp_path, (1, 4.0), (" q2 ", "?"), ("q3", 0))
    more = {"task_id": "q3", "Final answer": 0, "Question": "another", "file_name": "nowhere.txt"}
    file.write_text("\n".join([*file.read_text().splitlines()[:2], json.dumps(more)]))
    _, now = again(old, gold=file)
    assert [(each.target, each.score) for each in now.values()] == [("4", 1.0), (None, None), ("0", 0.0)]
    assert [each.question for each in now.values()] == [each.question for each in rows]


def test_lines_that_are_no_labels_are_counted_and_the_first_five_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = answered("q1", "18")
    old = run_of([record], tmp_path / "old")
    gold = tmp_path / "gold"
    label(gold, record, "right")
    file = gold / f"{DATA}.jsonl"
    file.write_text(file.read_text() + "{}\n" * 6)
    again(old, gold=gold)
    shown = ", ".join(f"{file.name}:{number}" for number in range(2, 7))
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        f"warning: 6 lines of {gold} cannot be read and count as no label: {shown}\n",
    )


def test_the_results_of_one_run_are_shown_with_both_folders_and_its_labels_are_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sent: list[tuple[list[Path], Path]]
) -> None:
    record = answered("q1", "18")
    old = run_of([record], tmp_path / "old", tuning_use=TuningUse("tuned", ["q1"], [], {}), finished=True)
    gold = tmp_path / "gold"
    label(gold, record, "right")
    new = tmp_path / "new"
    assert rescore_and_report(old, [f"run.dir={new}"], gold, ["typed"]) == FINISHED
    said = capsys.readouterr()
    assert said.err == f"{TUNING_NOTE}\n"
    lines = said.out.splitlines()
    assert lines[-3:] == [f"scored again from: {old}", f"results: {new}", f"report: {new / 'report.html'}"]
    assert "100.0%" in said.out
    assert sent == [([old], gold)]
    assert read(new)[0].rescored_by == ["typed"]
    assert (new / "summary.json").is_file()


def test_a_failed_question_is_in_the_exit_code_and_targets_are_not_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sent: list[tuple[list[Path], Path]]
) -> None:
    failed = answered("q1", None, score=None, error="e", error_class="infrastructure")
    use = TuningUse("tuned", ["q1"], [], {})
    old = run_of([failed, answered("q2", "1")], tmp_path / "old", finished=True, tuning_use=use)
    file = targets(tmp_path, ("q2", "1"))
    assert rescore_and_report(old, [f"run.dir={tmp_path / 'new'}"], file, []) == FAILURES
    assert (sent, capsys.readouterr().err) == ([], "")
    assert rescore_and_report(old, ["scorer=exact"], None, [], is_one_of_many=True) == FAILURES
    (new,) = [each for each in tmp_path.iterdir() if each.name.endswith("_rescored")]
    said = capsys.readouterr()
    assert (said.out, said.err, sent) == (f"old: accuracy 0.0%, in {new.name}\n", "", [])


def test_one_of_many_runs_is_shown_in_a_line_with_what_people_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sent: list[tuple[list[Path], Path]]
) -> None:
    record = answered("q1", "18")
    old = run_of([record, answered("q2", "17")], tmp_path / "old", planned=["q1", "q2", "q3"])
    label(tmp_path / "gold", record, "right")
    assert rescore_and_report(old, [], tmp_path / "gold", [], is_one_of_many=True) == STOPPED
    (new,) = [each for each in tmp_path.iterdir() if each.name.endswith("_rescored")]
    changes = "0 targets corrected, 1 answer accepted, 0 rejected"
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"old: accuracy 33.3% → 66.7% ({changes}), in {new.name}\n", "")
    assert sent == []


@pytest.mark.parametrize("error", [StoreError("the disk is full"), OSError("the disk is full")])
def test_a_new_run_that_cannot_be_written_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    old = run_of([answered("q1", "17")], tmp_path / "old")
    monkeypatch.setattr(rescore, "write_reports", refuse)
    assert rescore_and_report(old, ["scorer=exact", f"run.dir={tmp_path / 'new'}"], None, []) == STOPPED
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "stopped: the disk is full\n")


def test_mistakes_are_raised_as_they_are(tmp_path: Path) -> None:
    old = run_of([answered("q1", "17")], tmp_path / "old")
    with pytest.raises(MissingConfigException):  # an OSError, too, which is no full disk
        rescore_and_report(old, ["scorer=nope"], None, [])


Unreported = Callable[[dict[str, int | Exception]], list[tuple[object, ...]]]


@pytest.mark.parametrize(
    ("results", "counted", "expected"),
    [
        ([FINISHED, FINISHED], "2 runs", FINISHED),
        ([FINISHED, FAILURES], "2 runs", FAILURES),
        ([UserError("no scorer."), FAILURES], "1 run", USER_ERROR),
        ([UserError("no scorer."), STOPPED], "1 run", STOPPED),
        ([], "0 runs", FINISHED),
    ],
)
def test_of_several_runs_the_worst_result_is_the_exit_code(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    unreported: Unreported,
    sent: list[tuple[list[Path], Path]],
    results: list[int | Exception],
    counted: str,
    expected: int,
) -> None:
    calls = unreported({f"run-{number}": each for number, each in enumerate(results)})
    runs = [tmp_path / f"run-{number}" for number in range(len(results))]
    file = tmp_path / "targets.jsonl"
    assert rescore_all(runs, ["scorer=exact"], file, ["typed"]) == expected
    said = capsys.readouterr()
    assert said.out == f"{counted} scored again\n"
    assert said.err == "".join(
        f"error: run-{number}: {each}\n" for number, each in enumerate(results) if isinstance(each, Exception)
    )
    assert calls == [(each.name, ["scorer=exact"], file, ["typed"], True) for each in runs]
    assert sent == []


def test_labels_are_applied_where_there_are_new_ones_and_the_rest_is_counted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    unreported: Unreported,
    sent: list[tuple[list[Path], Path]],
) -> None:
    record, gold = answered("q1", "18"), tmp_path / "gold"
    first = label(gold, record, "wrong_gold", target="18")
    second = label(gold, record, "right")
    both = [
        HumanVerdict(each.id, each.label, "ada", each.when, "old", is_of_question=each is first)
        for each in (first, second)
    ]
    runs = tmp_path / "eval"
    new, partly, done = (run_of([record], runs / name) for name in ("new", "partly", "done"))
    run_of([replace(record, human=both[:1])], runs / "made-1", rescored_from="partly")
    run_of([replace(record, human=both)], runs / "made-2", rescored_from="done")
    (runs / "broken").mkdir()
    (runs / "broken" / "run.db").write_text("no database")
    other = run_of([answered("q9", "x")], runs / "other")
    busy = run_of([record], runs / "busy")
    calls = unreported({"new": FINISHED, "partly": FAILURES})
    made = runs / "made-2"
    with RunStore(busy / "run.db"):
        code = rescore_all([new, partly, done, made, other, busy, runs / "broken"], [], gold, [])
    said = capsys.readouterr()
    assert code == USER_ERROR
    assert [each[0] for each in calls] == ["new", "partly"]
    busy_line, broken_line = said.err.splitlines()
    assert busy_line == "busy: it is still running; score it again when it has ended"
    assert broken_line.startswith("error: broken: ")
    assert said.out == "2 runs scored again, 1 were already, by the same labels, 2 without a labelled answer\n"
    assert sent == [([new, partly], gold)]
