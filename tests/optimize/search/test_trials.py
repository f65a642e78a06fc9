"""Answers that an optimizer asks for: each paid for once, none beyond the budget, and none scored that was cut off."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import BillingError, InvalidRequestError
from dspy.utils.exceptions import AdapterParseError

from optimize.search.budget import BudgetSettings
from optimize.search.trials import _RETRIED_REPLY, MAX_SAME_ERRORS, UNREADABLE, extract_steps, keep_last_steps
from tests.optimize.toy_search import CountedModel, ToySearch, toy, toy_search

CALLS_AN_ANSWER = 3


class Mumbling(dspy.Module):
    """A program whose model never keeps the form."""

    async def aforward(self, question: str, file: object = None, inputs: object = None) -> dspy.Prediction:
        raise AdapterParseError("ChatAdapter", dspy.Signature("question -> answer"), "Let me think about this.")


@pytest.fixture
def search(tmp_path: Path) -> Iterator[ToySearch]:
    with toy_search(tmp_path) as opened:
        yield opened


def rows(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / "trials.db")) as database:
        return database.execute("SELECT * FROM trials").fetchall()


def test_the_same_question_to_the_same_prompts_is_asked_and_counted_once(search: ToySearch) -> None:
    first = search.student.trial(search.val_ids[0])
    again = search.student.deepcopy().trial(search.val_ids[0])
    assert first.record is again.record and first.completed
    assert search.model.sent == CALLS_AN_ANSWER
    assert search.ledger.spend().metric_calls == search.trials.n_completed == 1


def test_threads_that_ask_the_same_at_once_share_one_answer(tmp_path: Path) -> None:
    async def slow(request: Any) -> None:
        await asyncio.sleep(0.05)

    with toy_search(tmp_path, model=CountedModel(slow)) as search, ThreadPoolExecutor(8) as pool:
        trials = list(pool.map(search.student.trial, [search.val_ids[0]] * 8))
        assert search.model.sent == CALLS_AN_ANSWER
        assert {id(trial.record) for trial in trials} == {id(trials[0].record)}


def test_an_answer_that_memory_has_lost_is_replayed_and_not_counted_again(tmp_path: Path) -> None:
    with toy_search(tmp_path, kept_answers=1) as search:
        one, two = search.val_ids[:2]
        scores = [search.student.trial(each).record.score for each in (one, two, one)]
        assert scores[0] == scores[2]
        assert search.model.sent == 2 * CALLS_AN_ANSWER
        assert search.ledger.spend().metric_calls == search.trials.n_completed == 2


def test_memory_loses_the_oldest_answer_first(tmp_path: Path) -> None:
    with toy_search(tmp_path, kept_answers=2) as search:
        one, two, three = search.val_ids[:3]
        records = {each: search.student.trial(each).record for each in (one, two)}
        assert search.student.trial(one).record is records[one], "now the younger of the two"
        search.student.trial(three)
        assert search.student.trial(one).record is records[one]
        assert search.student.trial(two).record is not records[two]


def test_each_first_answer_is_a_row_also_after_a_second_session(tmp_path: Path) -> None:
    for _ in range(2):
        with toy_search(tmp_path) as search:
            trial = search.student.trial(search.val_ids[0])
    ((candidate, sample_id, epoch, score, error_class, lm_calls, cost_usd, wall_seconds),) = rows(tmp_path)
    assert (sample_id, epoch, score, error_class) == (search.val_ids[0], 1, trial.record.score, None)
    assert (len(candidate), lm_calls, cost_usd) == (64, CALLS_AN_ANSWER, 0.0) and wall_seconds > 0


def test_another_epoch_is_a_fresh_answer_and_may_go_uncounted(search: ToySearch) -> None:
    ids = search.val_ids[:6]
    first = search.student.answer_all(ids)
    fresh = search.student.answer_all(ids, epoch=2, counted=False)
    assert [trial.record.epoch for trial in fresh] == [2] * 6
    assert [trial.record.sample_id for trial in fresh] == ids
    assert search.model.sent >= 2 * 6 * CALLS_AN_ANSWER
    assert [trial.record.answer for trial in first] != [trial.record.answer for trial in fresh]
    assert search.ledger.spend().metric_calls == 6


def test_beyond_the_budget_of_answers_nothing_is_asked_and_the_score_is_nought(tmp_path: Path) -> None:
    with toy_search(tmp_path, budget=BudgetSettings(metric_calls=2)) as search:
        trials = [search.student.trial(each) for each in search.val_ids[:4]]
        assert [trial.completed for trial in trials] == [True, True, False, False]
        assert [trial.record.score for trial in trials[2:]] == [0.0, 0.0]
        assert "budget.metric_calls" in trials[2].record.explanation
        assert search.model.sent == 2 * CALLS_AN_ANSWER
        assert search.student.trial(search.val_ids[0]).completed, "what is known costs nothing"
        assert search.trials.own_stop_reason is None, "the shortlist may go on asking"
    assert len(rows(tmp_path)) == 2


def test_an_answer_that_runs_out_of_requests_half_way_is_kept_nowhere(tmp_path: Path) -> None:
    with toy_search(tmp_path, budget=BudgetSettings(lm_calls=CALLS_AN_ANSWER + 1)) as search:
        one, two = (search.student.trial(each) for each in search.val_ids[:2])
        assert one.completed and not two.completed
        assert search.model.sent == CALLS_AN_ANSWER + 1
    assert len(rows(tmp_path)) == 1


def test_a_provider_that_takes_no_more_calls_ends_everything(tmp_path: Path) -> None:
    async def refuse(request: Any) -> None:
        raise BillingError("no credit left")

    with toy_search(tmp_path, model=CountedModel(refuse)) as search:
        trials = [search.student.trial(each) for each in search.val_ids[:3]]
        assert not any(trial.completed for trial in trials)
        assert "no credit left" in str(search.trials.own_stop_reason)
        assert search.model.sent == 1
    assert rows(tmp_path) == []


def test_the_first_answers_that_fail_alike_stop_the_search_unless_prompts_may_change_it(tmp_path: Path) -> None:
    async def misunderstand(request: Any) -> None:
        raise InvalidRequestError("no such parameter")

    with toy_search(tmp_path / "internal", model=CountedModel(misunderstand)) as search:
        trials = [search.student.trial(each) for each in search.val_ids[:8]]
        assert [trial.completed for trial in trials] == [True] * MAX_SAME_ERRORS + [False] * (8 - MAX_SAME_ERRORS)
        assert "the first 5 answers all failed in the same way" in str(search.trials.own_stop_reason)
        assert "no such parameter" in str(search.trials.own_stop_reason)

    with toy_search(tmp_path / "malformed", program=Mumbling()) as search:
        records = [search.trials.run(Mumbling(), "c", each).record for each in search.val_ids[:8]]  # type: ignore[arg-type]
        assert {record.error_class for record in records} == {"malformed"}
        assert search.trials.own_stop_reason is None, "a better prompt may be understood"


def test_a_scorer_that_fails_is_counted_apart(tmp_path: Path) -> None:
    def broken(question: str, answer: str | None, target: str) -> Any:
        raise ZeroDivisionError("no verdict")

    with toy_search(tmp_path, scorer=broken) as search:
        trial = search.student.trial(search.val_ids[0])
        assert trial.completed and trial.record.score is None
        assert (search.trials.n_completed, search.trials.n_metric_errors) == (1, 1)
        assert "no verdict" in str(search.trials.metric_error)


def test_cancelling_ends_what_is_in_flight_at_once(tmp_path: Path) -> None:
    cancelled: list[float] = []

    async def hang(request: Any) -> None:
        if search.model.sent == 4:  # as many as are asked at once
            cancelled.append(time.monotonic())
            search.trials.cancel()
        await asyncio.sleep(30)

    with toy_search(tmp_path, model=CountedModel(hang), threads=4) as search:
        trials = search.student.answer_all(search.val_ids)
        assert time.monotonic() - cancelled[0] < 3
        assert not any(trial.completed for trial in trials)
        assert search.model.sent == 4, "the rest was not begun"
    assert rows(tmp_path) == []


def test_a_defect_of_the_harness_is_raised_and_not_scored(search: ToySearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimize.search.trials.select_steps", lambda *_: 1 / 0)
    assert not search.student.trial(search.val_ids[0]).completed
    with pytest.raises(ZeroDivisionError):
        search.trials.check()
    with pytest.raises(ZeroDivisionError):
        search.student.answer_all(search.val_ids)


def test_questions_that_fail_are_answers_in_error(tmp_path: Path) -> None:
    """The simulated model's replies cannot be read now and then."""
    samples = toy()[1]["train"]
    with toy_search(tmp_path, max_metric_calls=60) as search:
        trials = search.student.answer_all([each.id for each in samples])
        malformed = [trial for trial in trials if trial.record.error_class == "malformed"]
        assert malformed and all(trial.completed and trial.record.score is None for trial in malformed)
        assert search.trials.n_metric_errors == 0


class Two(dspy.Module):
    """Two predictors: one with a request as our agents have it, one of a user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = dspy.Predict("task -> result")
        self.own = dspy.Predict("question, hint -> answer")


def agent_span(name: str, inputs: dict[str, Any], retried_at: list[float], error: str | None = None) -> dict[str, Any]:
    events = [{"name": _RETRIED_REPLY, "seconds": at} for at in retried_at] + [{"name": "step", "seconds": 9.0}]
    return {"id": 1, "parent": None, "kind": "agent", "name": name, "inputs": inputs, "events": events, "error": error}


def reply_span(start_seconds: float, text: str, parent: int = 1, kind: str = "lm") -> dict[str, Any]:
    outputs = {"parts": [{"type": "text", "text": text}, {"type": "tool_call", "name": "search"}]}
    return {"id": 2, "parent": parent, "kind": kind, "start_seconds": start_seconds, "outputs": outputs}


NO_CALLS = dspy.ToolCalls(tool_calls=[])
CALLS = dspy.ToolCalls(tool_calls=[dspy.ToolCalls.ToolCall(name="search", args={})])


def test_steps_are_what_was_parsed_without_tools_and_calls_of_tools() -> None:
    program, other, no_calls = Two(), dspy.Predict("a -> b"), NO_CALLS
    given = {"task": "a", "tools": ["search"], "history": dspy.History(messages=[])}
    trace = [
        (program.agent, given, dspy.Prediction(result="", tool_calls=CALLS)),
        (program.agent, {"task": "a", "tools": ["search"]}, dspy.Prediction(result="1")),
        (other, {"a": "x"}, dspy.Prediction(b="y")),
        (program.own, {"question": "q", "hint": "h"}, dspy.Prediction(answer="2", tool_calls=no_calls)),
    ]  # fmt: skip
    found = extract_steps(program, trace, [])
    assert [(name, inputs) for name, inputs, _ in found] == [
        ("agent", {"task": "a"}),
        ("own", {"question": "q", "hint": "h"}),
    ]


def test_a_tool_call_that_is_all_an_agent_returns_is_a_step_but_no_example() -> None:
    """Such as a query, which the system runs: its agent would otherwise be shown its refusals alone."""
    program = Two()
    asked = (program.agent, {"task": "a", "tools": ["search"]}, dspy.Prediction(result="", tool_calls=CALLS))
    found = extract_steps(program, [asked], [])
    assert [(name, inputs) for name, inputs, _ in found] == [("agent", {"task": "a"})]
    assert keep_last_steps(found) == []


@pytest.mark.parametrize(
    ("retried_at", "error", "texts"),
    [
        ([], None, []),
        ([], "ValueError: of a tool", []),
        ([2.0], None, ["first"]),
        ([3.0], None, ["second"]),
        ([2.0, 3.5], None, ["first", "second"]),
        ([0.5], None, []),
        ([], "AdapterParseError: no field", ["third"]),
        ([2.0], "AdapterParseError: no field", ["first", "third"]),
    ],
)
def test_a_reply_that_could_not_be_read_is_the_last_one_before_it_was_given_up(
    retried_at: list[float], error: str | None, texts: list[str]
) -> None:
    replies = [reply_span(1.0, "first"), reply_span(3.0, "second"), reply_span(4.0, "third")]
    others = [reply_span(1.5, "of another", parent=7), reply_span(1.6, "a tool's", kind="tool")]
    spans = [agent_span("agent", {"request": "Do it."}, retried_at, error), *replies, *others]
    found = extract_steps(Two(), [], spans)
    assert [(name, inputs, outputs[UNREADABLE]) for name, inputs, outputs in found] == [
        ("agent", {"task": "Do it."}, text) for text in texts
    ]


def test_a_users_predictor_has_its_own_fields_as_inputs() -> None:
    for given, inputs in (
        ({"question": "q", "hint": "h", "more": "x"}, {"question": "q", "hint": "h"}),
        ({"more": "x"}, {"question": ""}),
    ):
        ((_, found, _),) = extract_steps(Two(), [], [agent_span("own", given, [2.0]), reply_span(1.0, "first")])
        assert found == inputs
    assert extract_steps(Two(), [], [agent_span("stranger", {}, [2.0]), reply_span(1.0, "first")]) == []


def test_of_several_steps_of_an_agent_the_last_readable_one_is_an_example() -> None:
    steps: list[Any] = [
        ("plan", {}, {"steps": "a"}), ("solve", {}, {"result": "1"}), ("plan", {}, {"steps": "b"}),
        ("solve", {}, {UNREADABLE: "?"}),
    ]  # fmt: skip
    assert keep_last_steps(steps) == [steps[1], steps[2]]


def test_an_answer_from_before_the_search_is_counted_when_the_search_asks_for_it(search: ToySearch) -> None:
    sample_id, student = search.val_ids[0], search.student
    before = student.trial(sample_id, counted=False)
    assert search.ledger.spend().metric_calls == 0
    assert student.trial(sample_id) is before and student.trial(sample_id) is before
    assert search.ledger.spend().metric_calls == 1
