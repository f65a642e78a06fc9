"""Rows of the page: marks, causes, order, and what is written into its blocks."""

from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.attribution.broken_link import BrokenLink, Evidence
from eval.reports.html.blocks import BlockWriter
from eval.reports.run_report import answers as module
from eval.reports.run_report.answers import AnswerGatherer, AnswerRow, Gathered, gather_answers
from eval.runs.record import NOT_RUN, ErrorDetails, ExtraScore, HumanVerdict, PlannedQuestion, Record, Usage
from tests.eval.reports.html.test_blocks import read
from tests.eval.stored_run import answered


def gather(*records: Record, plan: str = "q1 q2 q3", most: int = 10) -> Gathered:
    return gather_answers(records, [PlannedQuestion(each, "Which?") for each in plan.split()], most)


def row(**changes: Any) -> AnswerRow:
    return gather(answered("q1", "17", **changes)).questions[0].answers[changes.get("epoch", 1)]


def details(**changes: Any) -> dict[str, Any]:
    return read(gather(answered("q1", "17", **changes)).blocks)["steps", 1]


@pytest.mark.parametrize(
    ("changes", "mark", "lost"),
    [
        ({}, "right", ""),
        ({"score": 0.5}, "partial", "program"),
        ({"score": 0.0}, "wrong", "program"),
        ({"score": None}, "wrong", "program"),
        ({"score": 0.0, "limit": "tokens"}, "wrong", "limit tokens"),
        ({"target": None, "score": None}, "unscored", ""),
        ({"error": "it broke", "error_class": "model"}, "error", "error model"),
        ({"error": "too late", "error_class": NOT_RUN}, "not run", "not run"),
    ],
)
def test_each_answer_has_its_mark_and_its_cause(changes: dict[str, Any], mark: str, lost: str) -> None:
    made = row(**changes)
    assert (made.mark, made.lost) == (mark, lost)
    assert ("spent" in details(**changes)) == (mark != "not run")


def test_an_answer_shows_its_explanation_error_place_and_cost() -> None:
    assert row(explanation="equal").why == "equal"
    assert row(score=0.5, explanation="half of it").why == "0.50: half of it"
    assert row(score=0.0, explanation="not equal").why == "not equal"
    failure = ErrorDetails("ValueError", "the stack", step="solve", retry_counts={"critic": 2, "other": 0})
    broken = details(error="it broke", error_component="expert", error_details=failure)
    assert [broken[name] for name in ("error", "failed in", "stack")] == [
        "unknown: it broke", "expert; step solve; rejections critic 2", "the stack"
    ]  # fmt: skip
    assert not {"error", "failed in", "stack"} & details().keys()
    usage = Usage(lm_calls=1, tool_calls=2, input_tokens=30, output_tokens=4, cost_usd=None)
    made = row(usage=usage)
    assert (made.tokens, made.cost_usd) == (34, None)
    assert details(usage=usage)["spent"] == "0.0 s, 1 model call, 2 tool calls, 34 tokens, cost n/a"
    assert row(usage=replace(usage, lm_calls=0)).cost_usd == 0.0, "nothing was sent"
    extra = {"tone": ExtraScore(0.25, "harsh"), "form": ExtraScore(None, error="no verdict")}
    found = details(extra_scores=extra)["extra"]
    assert found == [["scorer tone", "0.25: harsh"], ["scorer form", "not scored: no verdict"]]


def test_questions_come_in_the_datasets_order_with_their_last_attempts() -> None:
    records = [
        answered("q9", "17"), answered("q2", "16", wall_seconds=2.0), answered("q1", "17", epoch=2),
        answered("q1", "16", epoch=1, attempt=1), answered("q1", "17", epoch=1, attempt=2),
        answered("q1", "16", epoch=2, attempt=0), answered("q2", "17", epoch=2, wall_seconds=3.0),
    ]  # fmt: skip
    shown = gather(*records).questions
    assert [each.id for each in shown] == ["q1", "q2", "q9"], "a question that is not of the dataset comes last"
    assert [(each.epoch, each.attempt, each.line) for each in shown[0].in_order] == [(1, 2, "17"), (2, 1, "17")]
    assert [each.id for each in gather(*records, most=1).questions] == ["q1"]


def test_calls_are_written_whole_and_found_from_their_step() -> None:
    system = "You plan. " * 3_000
    call = {
        **{"id": 2, "parent": 1, "kind": "lm", "name": "model", "start_seconds": 0.0, "end_seconds": 0.5},
        "inputs": {"system": system, "messages": [{"role": "user", "parts": [{"text": "Plan!"}, {"image": "a.png"}]}]},
        "outputs": {"role": "assistant", "parts": [{"text": "One."}]},
        "attributes": {"input_tokens": 7, "output_tokens": 2, "cost_usd": 0.5},
    }
    agent = {"id": 1, "parent": None, "kind": "agent", "name": "planner"}
    blocks = read(gather(answered("q1", "17", trajectory=[agent, call])).blocks)
    assert blocks["steps", 1]["steps"][0]["calls"] == [2]
    assert blocks["prompts", 1] == {
        "2": {
            "title": "model · 0.5 s · 7 + 2 tokens · $0.5000",
            "messages": [["system", system], ["user", 'Plan!\n{"image": "a.png"}']],
            "reply": "One.",
            "error": "",
        }
    }


def test_a_wrong_answer_names_the_step_at_which_it_was_lost_and_shows_why() -> None:
    times = {"start_seconds": 0.0, "end_seconds": 1.0}
    spans: list[dict[str, Any]] = [
        {"id": 0, "parent": None, "kind": "agent", "name": "solver", "outputs": {"answer": "16"}, **times},
        {"id": 1, "parent": 0, "kind": "tool", "name": "read_file", "error": "ToolError: damaged", **times},
    ]
    gathered = gather(answered("q1", "16", trajectory=spans))
    assert gathered.answers[0].lost == "tool read_file"
    opened = read(gathered.blocks)["steps", 1]
    assert opened["broken"] == opened["steps"][0]["inner"][0]["span"] == 1
    assert "ToolError: damaged" in opened["evidence"]
    assert "evidence" not in details(trajectory=spans), "a right answer lost nothing"


def test_tags_with_one_value_are_no_filter() -> None:
    plan = [
        PlannedQuestion("q1", "Which?", tags={"source": "web", "year": "1"}),
        PlannedQuestion("q2", "Which?", tags={"source": "mail", "year": "1"}),
    ]
    assert gather_answers([answered("q1", "17"), answered("q2", "17")], plan, 10).tags == ["source"]


def test_what_people_said_is_shown_with_its_provenance() -> None:
    verdict = HumanVerdict("1", "wrong_gold", "ada", "2026-11-23T02:10:00+00:00", "night", "table 2", "17", "16", 0.0)
    pending = HumanVerdict("2", "right", "bob", "2026-11-23T02:11:00+00:00", "night", is_applied=False)
    assert row(human=[verdict, pending]).people == "wrong gold, right"
    assert details(human=[verdict, pending])["people"].split("\n") == [
        "wrong gold: ada, 2026-11-23 02:10 UTC, who saw it in night; gold answer '16' corrected to '17'; "
        "the scorer had given a score of 0; note: table 2",
        "right: bob, 2026-11-23 02:11 UTC, who saw it in night; not applied yet",
    ]
    assert "people" not in details()


def test_of_attempts_with_the_same_number_the_first_is_kept() -> None:
    shown = gather(answered("q1", "16"), answered("q1", "17"), answered("q1", "18", attempt=0)).questions[0]
    assert [(each.attempt, each.line) for each in shown.in_order] == [(1, "16")]


def test_texts_longer_than_their_line_are_found_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def rest(*records: Record) -> list[str]:
        return [each.rest for each in gather(*records).questions]

    long, whole = "x" * 241, "y" * 240
    assert rest(answered("q1", whole, question=whole, explanation=whole)) == [""]
    assert rest(answered("q1", long, question="q" * 241, explanation="e" * 241)) == [
        f"{'q' * 241}\n{long}\n{'e' * 241}"
    ]
    assert rest(answered("q1", None, error="e" * 241, explanation="f" * 241)) == ["e" * 241]
    both = [answered("q1", long, question="q" * 241, epoch=epoch) for epoch in (1, 2)]
    assert rest(*both) == [f"{'q' * 241}\n{long}{long}"], "a question is written once"
    monkeypatch.setattr(module, "MAX_REST_CHARS", 241)
    assert rest(answered("q1", long), answered("q2", long)) == [long, ""]
    monkeypatch.setattr(module, "MAX_REST_CHARS", 242)
    assert rest(answered("q1", long), answered("q2", long), answered("q3", long)) == [long, long, ""]


def test_a_row_has_every_short_fact_of_its_question_and_answer() -> None:
    usage = Usage(lm_calls=1, input_tokens=30, output_tokens=4, cost_usd=0.5)
    record = answered(
        "q1", "x" * 300, question="w" * 300, gold="g" * 300, level=None, file="a.csv", usage=usage,
        epoch=2, attempt=3, wall_seconds=1.23456, seconds_by_agent={"solve": 1.0}, explanation="e" * 300,
        limit="tokens",
    )  # fmt: skip
    plan = [PlannedQuestion("q1", "Which?", tags={"topic": "a", "expected": "b"})]
    (question,) = gather_answers([record], plan, 1).questions
    cut = {"x": "x" * 239 + "…", "w": "w" * 239 + "…", "g": "g" * 239 + "…", "e": "e" * 239 + "…"}
    assert (question.id, question.level, question.line, question.file) == ("q1", "", cut["w"], "a.csv")
    assert (question.target, question.tags, question.kind) == (cut["g"], {"topic": "a"}, "table")
    (answer,) = question.in_order
    assert (answer.key, answer.epoch, answer.attempt, answer.value) == (1, 2, 3, 0.0)
    assert (answer.line, answer.why, answer.limit, answer.lost) == (cut["x"], cut["e"], "tokens", "limit tokens")
    assert (answer.seconds, answer.tokens, answer.cost_usd) == (1.235, 34, 0.5)
    assert (answer.seconds_by_agent, answer.error, answer.error_class) == ({"solve": 1.0}, "", "")
    failed = row(error="it broke", error_class="model", score=1.0)
    assert (failed.value, failed.error, failed.error_class, failed.why) == (0.0, "it broke", "model", "model: it broke")
    assert row(error="it broke").error_class == "unknown"
    assert gather(answered("q1", None)).questions[0].in_order[0].line == ""


def test_everything_that_opens_with_an_answer_is_written_and_nothing_that_is_empty() -> None:
    usage = Usage(lm_calls=2, tool_calls=1, input_tokens=1_000, output_tokens=4, cost_usd=0.5)
    assert details(usage=usage, attempt=2, trajectory=[], explanation="equal", limit="tokens", wall_seconds=2.0) == {
        "question": "What is q1?", "target": "17", "answer": "17", "scorer": "equal", "ended by": "tokens",
        "reasoning": "because", "spent": "2.0 s, 2 model calls, 1 tool call, 1,004 tokens, $0.5000; try 2",
        "thread id": "thread-q1",
    }  # fmt: skip
    stopped = {"error": "stopped", "error_class": NOT_RUN, "trajectory": [], "reasoning_trace": ""}
    missing = read(gather(answered("q1", None, None, **stopped)).blocks)["steps", 1]
    assert {name: text for name, text in missing.items() if name != "evidence"} == {
        "question": "What is q1?", "error": "not_run: stopped", "thread id": "thread-q1"
    }  # fmt: skip
    long = details(trajectory=[], question="q" * 2_001, explanation="e" * 2_001, reasoning_trace="r" * 2_001)
    cut = "… 1 characters more in records.jsonl"
    assert [long[name][2_000:] for name in ("question", "scorer", "reasoning")] == [cut] * 3


def test_links_that_are_known_are_taken_for_their_epoch_and_others_are_found() -> None:
    known = BrokenLink("tool", "search", Evidence("It failed."), step=7)
    records = [answered("q1", "16", epoch=1), answered("q1", "16", epoch=2)]
    found = gather_answers(records, [PlannedQuestion("q1", "Which?")], 1, {("q1", 2): known})
    assert [each.lost for each in found.answers] == ["program", "tool search"]
    opened = read(found.blocks)["steps", 2]
    assert (opened["evidence"], opened["broken"]) == ("It failed.", 7)


def test_blocks_of_wrong_answers_and_of_chosen_questions_outlast_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[tuple[str, int, int]] = []
    monkeypatch.setattr(BlockWriter, "add", lambda _, name, key, value, rank: added.append((name, key, rank)))
    gatherer = AnswerGatherer(BlockWriter(1), kept_first=["q3"])
    records = [answered("q1", "17"), answered("q2", "16"), answered("q3", "17")]
    gatherer.gather(records, [PlannedQuestion(each, "Which?") for each in ("q1", "q2", "q3")], 3)
    assert added == [
        ("steps", 1, 2), ("prompts", 1, 3), ("steps", 2, 0), ("prompts", 2, 1), ("steps", 3, 0), ("prompts", 3, 1)
    ]  # fmt: skip
    added.clear()
    gatherer.gather([answered("q4", "17", trajectory=[])], [], 1)
    assert added == [("steps", 4, 2)], "keys go on, and an answer without calls has no prompts"


def test_a_critic_that_approved_a_wrong_answer_is_named_and_one_of_an_answer_in_error_is_only_marked() -> None:
    def critic(id: int, decision: str) -> dict[str, Any]:
        times = {"start_seconds": 0.0, "end_seconds": 1.0}
        return {
            "id": id,
            "parent": None,
            "kind": "agent",
            "name": f"critic_{id}",
            "outputs": {"decision": decision},
        } | times

    spans = [critic(1, "reject"), critic(2, "approve")]
    cases: list[tuple[dict[str, Any], str, list[bool]]] = [
        ({"score": 0.0}, "critic_2", [False, True]),
        ({"score": 0.5}, "critic_2", [False, True]),
        ({"score": 1.0}, "", [False, False]),
        ({"error": "it broke", "score": None}, "", [False, True]),
    ]
    for changes, approved_by, marks in cases:
        shown = row(trajectory=spans, **changes)
        assert shown.approved_by == approved_by, changes
        assert [step.get("misled", False) for step in details(trajectory=spans, **changes)["steps"]] == marks, changes


def test_the_text_of_a_failure_that_many_answers_share_is_in_memory_once() -> None:
    first, second = "".join(["it ", "broke"]), "".join(["it ", "broke"])
    found = gather(answered("q1", None, error=first), answered("q2", None, error=second)).answers
    assert first is not second and found[0].error is found[1].error


def test_the_value_of_an_answer_without_a_whole_point_stands_before_its_explanation() -> None:
    assert [row(score=score, explanation="so").why for score in (0.0, 0.004, 0.996, 1.0)] == [
        "so", "0.00: so", "1.00: so", "so"
    ]  # fmt: skip
    assert details(score=0.5, explanation="so")["scorer"] == "0.50: so"


def test_the_place_of_a_failure_has_only_what_is_known() -> None:
    def place(component: str | None, **known: Any) -> str | None:
        made = ErrorDetails("ValueError", "the stack", **known)
        found = details(error="it broke", error_component=component, error_details=made).get("failed in")
        return None if found is None else str(found)

    assert place(None) is None
    assert place("expert") == "expert"
    assert place(None, step="solve") == "step solve"
    assert place(None, retry_counts={"a": 1, "b": 0, "c": 2}) == "rejections a 1, c 2"
    assert place("expert", retry_counts={"a": 0}) == "expert"
