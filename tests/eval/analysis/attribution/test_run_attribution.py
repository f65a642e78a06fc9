"""Links and critics over a stored run: the points add up, and each number is that of its definition."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval.analysis.attribution import run_attribution
from eval.analysis.attribution.run_attribution import RunAttribution, attribute_run, read_with_steps
from eval.analysis.summary.from_store import summarise_store
from eval.analysis.summary.summary import Summary, build_from_json
from eval.reports.data_frames import samples_df
from eval.reports.notes import list_notes
from eval.runs.record import Record
from eval.runs.store import RunStore
from tests.eval.foreign_folder import edit_info
from tests.eval.stored_run import answered, stored_run
from tests.optimize.simulated_runs import record, step

APPROVE, REJECT = {"decision": "approve", "feedback": "Fine."}, {"decision": "reject", "feedback": "Again."}


def draft(answer: str) -> list[dict[str, Any]]:
    return step("expert", expert_answer=answer, reasoning_trace="So.")


def review(**outputs: str) -> list[dict[str, Any]]:
    return step("critic_expert", **outputs)


def final(answer: str) -> list[dict[str, Any]]:
    return step("finalizer", final_answer=answer)


def of(sample_id: str, made: Record, epoch: int = 1) -> Record:
    return replace(made, run_id="run-1", sample_id=sample_id, epoch=epoch, thread_id=f"{sample_id}-{epoch}")


def read(folder: Path) -> tuple[RunAttribution, Summary]:
    with RunStore(folder / "run.db", read_only=True) as store:
        found = attribute_run(store)
        return found, summarise_store(store, found)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    redone = [draft("18"), review(**REJECT), draft("17"), review(**APPROVE), final("17")]
    records = [
        of("right", record("17", "17", [draft("17"), review(**APPROVE), final("17")])),
        of("missed", record("17", "18", [draft("18"), review(**APPROVE), final("18")])),
        of("recovered", record("17", "17", redone)),
        of("alarm", record("17", "18", [draft("17"), review(**REJECT), draft("18"), review(**REJECT), final("18")])),
        answered("down", None, score=None, error="down", error_class="infrastructure"),
    ]  # fmt: skip
    return stored_run(tmp_path / "a", records, planned=["right", "missed", "recovered", "alarm", "down", "late"])


def test_the_points_of_all_links_are_what_the_metric_lacks(run: Path) -> None:
    found, summary = read(run)
    lost = {(each.kind, each.name): each.n for each in summary.attribution or ()}

    assert lost == {
        ("agent", "expert"): 1,
        ("agent", "critic_expert"): 1,
        ("error", "infrastructure"): 1,
        ("error", "not_run"): 1,
    }
    assert sum(each.points for each in summary.attribution or ()) == pytest.approx(1 - (summary.score or 0.0))
    assert all(each.points_ci95 is None for each in summary.attribution or ())  # incomplete: a floor has no interval
    assert found.links["missed", 1].step == 1


def test_partly_right_answers_lose_their_part_and_repeats_are_one_question(tmp_path: Path) -> None:
    wrong = record("17", "18", [draft("18"), final("18")])
    records = [of("q1", replace(wrong, score=0.75)), of("q1", wrong, epoch=2)]
    records += [of(sample_id, record("17", "17"), epoch) for sample_id in ("q2", "q3") for epoch in (1, 2)]
    folder = stored_run(tmp_path / "a", records)
    edit_info(folder, epochs=2)
    (lost,) = read(folder)[1].attribution or ()

    assert (lost.name, lost.n, lost.points) == ("expert", 2, pytest.approx(1.25 / 6))
    assert lost.points_ci95 is not None and lost.points_ci95[0] < lost.points < lost.points_ci95[1]


def test_a_critic_is_a_classifier_of_drafts(run: Path) -> None:
    critic = read(run)[1].critics["critic_expert"]

    assert critic.judges == ("expert",) and critic.is_exact
    assert (critic.n_reviews, critic.approved_right, critic.misses) == (6, 2, 1)
    assert (critic.hits, critic.false_alarms) == (2, 1)
    assert (critic.precision, critic.recall) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (critic.n_rejecting, critic.n_recovered) == (2, 1)


def test_other_work_is_judged_by_attribution_and_said_to_be(tmp_path: Path) -> None:
    plan = step("planner", steps=["Count."])
    empty = step("planner", steps=[])
    critic = step("critic_planner", **APPROVE)
    again = step("critic_planner", **REJECT)
    records = [
        of("a", record("17", "17", [plan, critic, draft("17"), final("17")])),
        of("b", record("17", "18", [empty, critic, draft("18"), final("18")])),
        of("c", record("17", "17", [plan, again, plan, critic, draft("17"), final("17")])),
    ]
    numbers = read(stored_run(tmp_path / "a", records))[1].critics["critic_planner"]

    assert not numbers.is_exact
    assert (numbers.approved_right, numbers.misses, numbers.n_unknown) == (2, 1, 1)
    assert (numbers.n_rejecting, numbers.n_recovered) == (1, 1)


def test_only_declared_agents_are_critics(run: Path) -> None:
    edit_info(run, critics=["other"])

    assert read(run)[1].critics == {}


def test_a_critic_s_cost_is_that_of_its_own_calls(tmp_path: Path) -> None:
    call = {"kind": "lm", "name": "m", "attributes": {"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.25}}
    made = record("17", "17", [[*draft("17"), call], [*review(**APPROVE), call, call], final("17")])
    critic = read(stored_run(tmp_path / "a", [of("q1", made)]))[1].critics["critic_expert"]

    assert (critic.lm_calls, critic.input_tokens, critic.output_tokens, critic.cost_usd) == (2, 20, 4, 0.5)


def test_they_are_in_the_notes_the_data_frame_and_the_json(run: Path) -> None:
    summary = read(run)[1]
    notes = dict(list_notes(summary))

    assert "expert 16.7" in notes["points lost"] and "not run 16.7" in notes["points lost"]
    assert "2 of 3 rejections justified" in notes["critic critic_expert"]
    frame = samples_df(run).set_index("id")
    assert frame.loc["missed", ["lost_at_kind", "lost_at"]].tolist() == ["agent", "expert"]
    assert frame.loc["late", "lost_at"] == "not_run" and frame["lost_at"].isna()["right"]
    assert build_from_json(Summary, summary.to_dict()).critics == summary.critics


def test_what_a_program_s_predictors_do_in_right_answers_helps(tmp_path: Path) -> None:
    def answer(sample_id: str, target: str, found: str, said: str) -> Record:
        steps = [step("extract", found=found), step("answer", request=found, label=said)]
        return replace(of(sample_id, record(target, said, steps)), state={"outputs": {"label": said}})

    right = [answer(f"r{n}", f"paris{n}", f"the city paris{n}", f"paris{n}") for n in range(4)]
    wrong = answer("w", "london9", "the river thames", "berlin7")

    assert read(stored_run(tmp_path / "a", [*right, wrong]))[0].links["w", 1].name == "extract"
    assert read(stored_run(tmp_path / "b", [wrong]))[0].links["w", 1].name == "answer"


@pytest.mark.parametrize(("most", "name"), [(3, "extract"), (2, "answer")])
def test_so_many_right_answers_are_read_and_no_more(
    most: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three show a habit."""
    monkeypatch.setattr(run_attribution, "MAX_RIGHT_ANSWERS", most)

    def answer(sample_id: str, target: str, found: str, said: str) -> Record:
        steps = [step("extract", found=found), step("answer", request=found, label=said)]
        return replace(of(sample_id, record(target, said, steps)), state={"outputs": {"label": said}})

    right = [answer(f"r{n}", f"paris{n}", f"the city paris{n}", f"paris{n}") for n in range(4)]
    wrong = answer("w", "london9", "the river thames", "berlin7")
    assert read(stored_run(tmp_path / "a", [*right, wrong]))[0].links["w", 1].name == name


def test_only_the_last_attempt_at_each_sample_and_epoch_is_read_with_its_steps(tmp_path: Path) -> None:
    first = of("q1", record("17", "18", [draft("18"), review(**APPROVE), final("18")]))
    again = replace(of("q1", record("17", "17", [draft("17"), review(**REJECT), final("17")])), attempt=2)
    twice = of("q1", record("17", "3", [draft("3"), final("3")]), epoch=2)
    other = of("q2", record("17", "4", [draft("4"), final("4")]))
    folder = stored_run(tmp_path / "a", [again, first, twice, other], epochs=2)
    with RunStore(folder / "run.db", read_only=True) as store:
        wanted = [(each.sample_id, each.epoch, each.attempt) for each in read_with_steps(store, lambda key: True)]
        assert wanted == [("q1", 1, 2), ("q1", 2, 1), ("q2", 1, 1)]
        (second,) = read_with_steps(store, {("q1", 2)}.__contains__)
        assert second.trajectory == twice.trajectory and second.answer == "3"
        found = attribute_run(store)
    assert list(found.links) == [("q1", 2), ("q2", 1)]
    assert found.critics.counts["critic_expert"].n_reviews == 1, "of the attempt that counts"


@pytest.mark.parametrize(("critics", "n_parsed"), [([], 2), (None, 4), (["critic_expert"], 4)])
def test_of_a_run_without_critics_only_answers_that_lost_points_are_parsed(
    critics: list[str] | None, n_parsed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        of("right", record("17", "17", [draft("17"), review(**APPROVE), final("17")])),
        of("wrong", record("17", "18", [draft("18"), review(**APPROVE), final("18")])),
        answered("down", None, score=None, gold=None, error="down", error_class="infrastructure"),
        of("unscored", replace(record("17", "18", [draft("18"), final("18")]), target=None, score=None)),
    ]
    parsed: list[str] = []
    find = run_attribution.find_broken_link

    def find_link(record: Record, *rest: Any) -> Any:
        parsed.append(record.sample_id)
        return find(record, *rest)

    monkeypatch.setattr(run_attribution, "find_broken_link", find_link)
    folder = stored_run(tmp_path / "a", records, critics=critics)
    with RunStore(folder / "run.db", read_only=True) as store:
        found = attribute_run(store)
    assert len(parsed) == n_parsed and {"wrong", "down"} <= set(parsed)
    assert {key: link.kind for key, link in found.links.items()} == {("wrong", 1): "agent", ("down", 1): "error"}
    assert list(found.critics.counts) == ([] if critics == [] else ["critic_expert"])


@pytest.mark.parametrize(("labels", "n_right"), [(["York", "New York"], 0), ([], 1)])
def test_labels_of_the_run_decide_what_is_right(labels: list[str], n_right: int, tmp_path: Path) -> None:
    made = of("q1", record("York", "no", [draft("in New York"), review(**APPROVE), final("no")]))
    folder = stored_run(tmp_path, [made], labels=labels, critics=["critic_expert"])
    with RunStore(folder / "run.db", read_only=True) as store:
        reviews = attribute_run(store).critics.counts["critic_expert"].by_sample["q1"]
    assert (reviews.approved_right, reviews.approved_wrong) == (n_right, 1 - n_right)
