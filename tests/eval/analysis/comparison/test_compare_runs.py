"""Several runs compared with the first: which are taken, what is noted, and what is refused."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.comparison.answers import GivenAnswer
from eval.analysis.comparison.compare_runs import (
    MAX_RUNS,
    ComparedRun,
    ReadRun,
    compare_read_runs,
    compare_runs,
    describe_answers,
    explain_refusal,
    read_runs,
)
from eval.analysis.comparison.comparison import Flip
from eval.analysis.tuned_on import UsedToTune
from eval.runs.folder import format_path, format_resume_hint
from eval.runs.record import Record, Usage
from mas.runtime.errors import UserError
from mas.simulation import SIMULATED_NOTICE
from tests.eval.stored_run import CONFIG, answered, stored_run

RIGHT = [answered("q1", "17"), answered("q2", "17")]


def read(folder: Path, *runs: Sequence[Record], **facts: Any) -> list[ReadRun]:
    return read_runs([stored_run(folder / f"r{n}", each, **facts) for n, each in enumerate(runs)])


def notes(runs: list[ReadRun], intersection: bool = False) -> list[str]:
    (pair,) = compare_read_runs(runs, intersection).comparisons
    return [each for each in pair.notes if "did not record which tools" not in each]


def test_two_to_twenty_six_runs_are_compared_and_none_with_itself(tmp_path: Path) -> None:
    one = tmp_path / "r0"
    with pytest.raises(UserError, match="one run alone cannot be compared; name two or more"):
        read_runs([one])
    with pytest.raises(UserError, match="27 runs are too many for one table; name 26 at most"):
        read_runs([tmp_path / str(n) for n in range(MAX_RUNS + 1)])
    with pytest.raises(UserError, match="r0 is named twice"):
        read_runs([one, tmp_path / "other", tmp_path / "other" / ".." / "r0"])
    with pytest.raises(UserError, match="25") as named:  # the first is read
        read_runs([tmp_path / str(n) for n in reversed(range(MAX_RUNS))])
    assert "too many" not in str(named.value)


def test_each_run_but_the_first_is_compared_with_the_first_and_p_is_adjusted(tmp_path: Path) -> None:
    wrong = [answered(f"q{n}", "18") for n in range(8)]
    right = [answered(f"q{n}", "17") for n in range(8)]
    folders = [stored_run(tmp_path / name, each) for name, each in (("a", right), ("b", wrong), ("c", right))]
    found = compare_runs(folders, intersection=False)
    assert [(pair.run, pair.against) for pair in found.comparisons] == [("B", "A"), ("C", "A")]
    worse, same = found.comparisons
    assert worse.comparison.score.difference == -1 and worse.p_holm == pytest.approx(2 * worse.comparison.score.p)
    assert same.p_holm == same.comparison.score.p == 1
    assert [(run.label, run.name, run.n_missing) for run in found.runs] == [("A", "a", 0), ("B", "b", 0), ("C", "c", 0)]
    assert found.to_dict()["simulated"] is False
    simulated = replace(found, runs=[found.runs[0], replace(found.runs[1], simulated=True)])
    assert (simulated.to_dict()["simulated"], bool(simulated.notice)) == (True, True)


def test_equal_runs_have_nothing_to_note(tmp_path: Path) -> None:
    assert notes(read(tmp_path, RIGHT, RIGHT)) == []


@pytest.mark.parametrize(
    ("n", "shown"), [(1, "1 question met a page that gives it"), (2, "2 questions met pages that give them")]
)
def test_leaked_questions_are_counted(tmp_path: Path, n: int, shown: str) -> None:
    runs = read(tmp_path, RIGHT, RIGHT)
    for id in ("q1", "q2")[:n]:
        runs[1].answers.given[id][1].leaked = True
    assert notes(runs) == [f"B: {shown} away (its report lists them); right answers to these prove little"]


def test_what_another_run_paid_or_answered_is_noted_by_run(tmp_path: Path) -> None:
    first, second = read(tmp_path, RIGHT, RIGHT)
    first.answers.given["q1"][1].cached_calls = 1_500
    second.answers.given["q1"][1].cached_tool_calls = 2
    rescored = replace(second, rescored_from="an earlier run")
    assert notes([first, rescored]) == [
        "1,500 calls of A cost nothing: another run had paid for them (cache.lm)",
        "2 tool calls of B were not made: another run had made them (cache.tools)",
        "B holds the answers of an earlier run, scored again",
    ]


def test_an_unknown_cost_is_counted_by_question(tmp_path: Path) -> None:
    unknown = [RIGHT[0], answered("q2", "17", usage=Usage(1))]
    assert notes(read(tmp_path / "one", RIGHT, unknown)) == [
        "the cost of 1 of 2 questions is unknown to one of them; they are not in its difference"
    ]
    none = [answered(id, "17", usage=Usage(1)) for id in ("q1", "q2")]
    assert notes(read(tmp_path / "all", RIGHT, none))[0].startswith("the cost of 2 of 2 questions is unknown")


def test_other_epochs_prompts_and_tools_are_noted(tmp_path: Path) -> None:
    twice = [answered(id, "17", epoch=epoch) for id in ("q1", "q2") for epoch in (1, 2)]
    folders = [stored_run(tmp_path / "a", RIGHT), stored_run(tmp_path / "b", twice, epochs=2)]
    first, second = read_runs(folders)
    assert notes([first, second]) == [
        "each question was answered 1 and 2 times; the means of each question are compared"
    ]
    resumed = replace(first, setup=replace(first.setup, n_prompt_sets=2, tools_are_seen=True))
    again = replace(resumed, label="B", setup=replace(resumed.setup, n_prompt_sets=1, tools_are_seen=False))
    (pair,) = compare_read_runs([resumed, again], intersection=False).comparisons
    assert pair.notes == (
        "A was resumed with other prompts; those used last are shown",
        "B did not record which tools were offered; those configured are shown",
    )


@pytest.mark.parametrize(
    ("n", "sentence"), [(1, "1 answer is still missing; here it is"), (2, "2 answers are still missing; here they are")]
)
def test_what_two_runs_have_in_common_is_compared_on_request(tmp_path: Path, n: int, sentence: str) -> None:
    three = [*RIGHT, answered("q3", "17")]
    ids = ["q1", "q2", "q3"]
    folders = [stored_run(tmp_path / "a", three), stored_run(tmp_path / "b", three[: 3 - n], planned=ids)]
    runs = read_runs(folders)
    with pytest.raises(UserError, match=rf"cannot be compared yet: {n} .* missing; continue with.*b.*or add --inter"):
        compare_read_runs(runs, intersection=False)
    found = notes(runs, intersection=True)
    questions = "1 question" if n == 2 else "2 questions"
    assert found == [
        f"only what A and B have in common: {questions}; {n} left out ({n} not answered yet by one of the runs)",
        f"{sentence} left out, not counted as wrong",
    ]
    (pair,) = compare_read_runs(runs, intersection=True).comparisons
    assert pair.left_out == {"not answered yet by one of the runs": n}
    assert pair.comparison.score.n_questions == 3 - n


def test_runs_with_other_tasks_are_refused_and_nothing_in_common_too(tmp_path: Path) -> None:
    ruled = {**CONFIG, "scorer": {"x": 1}}
    folders = [stored_run(tmp_path / "a", RIGHT), stored_run(tmp_path / "b", RIGHT, config=ruled)]
    runs = read_runs(folders)
    with pytest.raises(UserError, match=r"had different tasks: their scorers differ; add --intersection .*, or choose"):
        compare_read_runs(runs, intersection=False)
    assert notes(runs, intersection=True) == [
        "only what A and B have in common: 2 questions; 0 left out",
        "A and B were scored by different rules: a difference may be that of the rules",
    ]
    apart = read(tmp_path / "apart", RIGHT, [answered("other", "17")])
    with pytest.raises(UserError, match="no question in common that both have answered; nothing can be compared"):
        compare_read_runs(apart, intersection=True)


def test_answers_are_marked_by_what_they_are_worth() -> None:
    def given(value: float, error_class: str | None = None) -> GivenAnswer:
        return GivenAnswer(1, value, "17", error_class, False, False, 1.0, 10, None, 0)

    graded = (given(1.0), given(0.0), given(0.5))
    flip = Flip("q", None, "Which?", "17", 1.0, graded, (None, given(0.0, "malformed")))
    assert describe_answers(flip) == (["✓ 17", "✗ 17", "◐ 17"], ["! not_run", "! malformed"])


def test_a_run_is_named_whole_in_a_result(tmp_path: Path) -> None:
    folders = [
        stored_run(
            tmp_path / name, RIGHT, run_id=f"run-{name}", system="toy", model="m", simulated=name == "b",
            tools={"expert": ["search", "visit"]}, rescored_from="night" if name == "b" else "",
        )
        for name in "ab"
    ]  # fmt: skip
    first, second = read_runs(folders)
    assert (first.label, str(second), second.used, second.folder) == ("A", "B (b)", None, folders[1])
    assert (first.rescored_from, second.rescored_from) == (None, "night")
    found = compare_runs(folders, intersection=False)
    assert found.runs[1] == ComparedRun(
        label="B", name="b", folder=format_path(folders[1]), run_id="run-b", system="toy", model="m", prompts=None,
        tools={"expert": ["search", "visit"]}, tools_are_seen=True, epochs=1, n_missing=0,
        task_version=first.answers.task_version, simulated=True, rescored_from="night",
    )  # fmt: skip
    assert (found.runs[0].rescored_from, found.runs[0].simulated) == (None, False)
    (pair,) = found.comparisons
    assert found.to_dict() == {
        "runs": [asdict(each) for each in found.runs], "comparisons": [pair.to_dict()], "simulated": True,
        "notice": SIMULATED_NOTICE,
    }  # fmt: skip
    assert pair.to_dict() == {
        "run": "B", "against": "A", **pair.comparison.to_dict(), "used_to_tune": None, "left_out": {},
        "differs": asdict(pair.differs), "notes": pair.notes, "p_holm": 1.0,
    }  # fmt: skip
    assert pair.notes == ("B holds the answers of night, scored again",)


def test_questions_that_the_prompts_were_tuned_on_and_edited_sets_are_in_the_result(tmp_path: Path) -> None:
    first, second = read(tmp_path, RIGHT, RIGHT)
    used = UsedToTune("tuned", frozenset({"q1"}), frozenset({"elsewhere"}), edited=("tuned",))
    (pair,) = compare_read_runs([first, replace(second, used=used)], intersection=False).comparisons
    assert pair.used_to_tune is not None and pair.used_to_tune.sets == {"B": "tuned (1 for training)"}
    assert (pair.used_to_tune.n_questions, pair.used_to_tune.n_without) == (1, 1)
    assert pair.to_dict()["used_to_tune"] == pair.used_to_tune.to_dict()
    told = "tuned_on.json of tuned was edited or removed: which questions it was tuned on is not known"
    assert f"warning: B: {told}" in pair.notes and not any("A: tuned_on" in each for each in pair.notes)


def test_a_part_of_a_proof_and_a_folder_without_a_store_are_not_compared(tmp_path: Path) -> None:
    plain = stored_run(tmp_path / "a", RIGHT)
    proof = stored_run(tmp_path / "b", RIGHT, gold_informed="expert")
    with pytest.raises(UserError, match=r"b cannot be compared: it gave expert the right answers, .* no system\.$"):
        read_runs([plain, proof])
    (tmp_path / "c").mkdir()
    with pytest.raises(UserError, match=r"c.*\.$"):
        read_runs([plain, tmp_path / "c"])


def test_a_refusal_says_what_to_do_about_it(tmp_path: Path) -> None:
    whole = stored_run(tmp_path / "a", RIGHT)
    part = stored_run(tmp_path / "b", RIGHT[:1], planned=["q1", "q2"])
    first, second = read_runs([whole, part])
    assert explain_refusal(first, second, "1 answer is still missing", intersection_hint=False) == (
        f"A (a) and B (b) cannot be compared yet: 1 answer is still missing; {format_resume_hint(part)}."
    )
    assert explain_refusal(second, first, "1 answer is still missing") == (
        f"B (b) and A (a) cannot be compared yet: 1 answer is still missing; {format_resume_hint(part)}, or add "
        "--intersection (--intersection compares the questions that both have in common and have answered)."
    )
    assert explain_refusal(first, second, "their scorers differ") == (
        "A (a) and B (b) had different tasks: their scorers differ; add --intersection (--intersection compares the "
        "questions that both have in common and have answered), or choose other runs."
    )
    assert explain_refusal(first, first, "they are missing", intersection_hint=False) == (
        "A (a) and A (a) had different tasks: they are missing; choose other runs."
    )
