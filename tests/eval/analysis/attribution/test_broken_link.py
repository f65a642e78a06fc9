"""The first broken link of an answer: kind, name, step and evidence, which may quote the target."""

from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.attribution.broken_link import (
    BrokenLink,
    find_broken_link,
)
from eval.runs.record import ErrorDetails, Record
from tests.optimize.simulated_runs import record, step, tool

APPROVED = step("critic_expert", decision="approve", feedback="Fine.")
REJECTED = step("critic_expert", decision="reject", feedback="Count again.")
BROKEN = tool("read_file", error="ToolError: damaged", file="a.csv")


def expert(answer: str, *below: dict[str, Any]) -> list[dict[str, Any]]:
    return step("expert", *below, expert_answer=answer, reasoning_trace="It follows.")


def finalizer(answer: str) -> list[dict[str, Any]]:
    return step("finalizer", final_answer=answer)


def failed(error_class: str, **changes: Any) -> Record:
    made = record("17", None, [step("planner", steps=["a"]), step("expert", BROKEN)])
    return replace(made, score=None, error="it broke", error_class=error_class, **changes)


def find(made: Record) -> BrokenLink:
    link = find_broken_link(made)
    assert link is not None
    return link


def test_the_agent_is_named_with_its_step_its_words_and_the_critic_that_approved_them() -> None:
    link = find(record("17", "18", [expert("18"), APPROVED, finalizer("18")]))

    assert (link.kind, link.name, link.step) == ("agent", "expert", 1)
    for part in ('expert said "18"', "critic_expert approved it", 'expected was "17"'):
        assert part in link.evidence


def test_an_agent_whose_retries_ran_out_shows_the_rejection() -> None:
    made = record("17", "18", [expert("18"), REJECTED, finalizer("18")], limit="retry_limit:expert")

    link = find(made)

    assert (link.kind, link.name) == ("agent", "expert")
    assert 'critic_expert rejected it: "Count again."' in link.evidence


def test_a_plan_that_was_rejected_until_the_end_blames_the_pair() -> None:
    rejected = [step("planner", research_steps=["Look."]), step("critic_planner", decision="reject", feedback="No.")]
    made = record("17", "It could not be answered.", [*rejected, *rejected], limit="retry_limit:planner")

    link = find_broken_link(made)

    assert link is not None and (link.kind, link.name) == ("agent", "planner or critic_planner")
    assert "Nothing in the record says which of the two was wrong" in link.evidence


def test_retries_that_ran_out_on_unreadable_replies_are_a_fault_of_format() -> None:
    made = record("17", "18", [expert("18"), finalizer("18")], limit="retry_limit:expert")
    event = {"name": "unusable reply", "agent": "expert", "error": "no field expert_answer"}
    trajectory = [{**span, "events": [event]} if span["name"] == "expert" else span for span in made.trajectory]

    link = find(replace(made, trajectory=trajectory))

    assert (link.kind, link.name) == ("format", "expert")
    assert "no field expert_answer" in link.evidence


def test_retries_that_ran_out_after_a_false_alarm_are_the_critics_even_if_more_replies_were_unreadable() -> None:
    made = record("17", "18", [expert("17"), REJECTED, finalizer("18")], limit="retry_limit:expert")
    event = {"name": "unusable reply", "agent": "expert", "error": "no field expert_answer"}
    trajectory = [{**span, "events": [event, event]} if span["name"] == "expert" else span for span in made.trajectory]

    link = find(replace(made, trajectory=trajectory))

    assert (link.kind, link.name) == ("agent", "critic_expert")


def test_a_tool_that_never_worked_is_named_with_its_error() -> None:
    link = find(record("17", "18", [expert("18", BROKEN, tool("calculator", "18")), finalizer("18")]))

    assert (link.kind, link.name, link.step) == ("tool", "read_file", 2)
    assert "ToolError: damaged" in link.evidence


def test_a_tool_that_worked_in_the_end_is_not_the_cause() -> None:
    worked = tool("read_file", "Figolth 17", file="a.csv")

    assert find(record("17", "18", [expert("18", BROKEN, worked), finalizer("18")])).name == "expert"


def test_an_agent_that_reports_a_failure_is_named() -> None:
    made = record("17", "The API failed.", [step("api", answer=None, error="HTTP 404"), finalizer("The API failed.")])

    link = find(made)

    assert (link.kind, link.name, link.step) == ("agent", "api", 1)
    assert "HTTP 404" in link.evidence


def test_an_answer_that_is_right_in_content_lost_its_point_by_its_form() -> None:
    link = find(record("17", "It is 17 km.", [expert("17"), finalizer("It is 17 km.")]))

    assert (link.kind, link.name) == ("format", "finalizer")
    assert 'in place of "17"' in link.evidence


@pytest.mark.parametrize(
    ("error_class", "changes", "kind", "name"),
    [
        ("infrastructure", {}, "error", "infrastructure"),
        ("not_run", {}, "error", "not_run"),
        ("limit", {"limit": "lm_calls"}, "limit", "lm_calls"),
        ("truncated", {}, "limit", "max_tokens"),
        ("context_overflow", {}, "limit", "context_window"),
        ("malformed", {"error_component": "expert"}, "format", "expert"),
        ("tool", {"error_component": "read_file"}, "tool", "read_file"),
    ],
)
def test_a_failure_has_the_link_of_its_class(error_class: str, changes: dict[str, Any], kind: str, name: str) -> None:
    link = find(failed(error_class, error_details=ErrorDetails(agent="expert"), **changes))

    assert (link.kind, link.name) == (kind, name)


def test_a_limit_under_which_an_answer_was_given_all_the_same_is_the_link() -> None:
    link = find(record("17", "18", [expert("18"), finalizer("18")], limit="tool_calls"))

    assert (link.kind, link.name) == ("limit", "tool_calls")
