"""The first broken link of an answer: kind, name, step and evidence, which may quote the target."""

from dataclasses import replace
from typing import Any

import pytest

from eval.analysis.attribution.agent_steps import AgentSteps
from eval.analysis.attribution.broken_link import (
    MAX_QUOTED_CHARS,
    BrokenLink,
    Evidence,
    build_matcher,
    find_broken_link,
    name_link,
)
from eval.analysis.attribution.predictor_attribution import RightAnswers
from eval.analysis.attribution.target_matcher import LabelMatcher, TargetMatcher
from eval.runs.record import ErrorDetails, Record
from eval.scorers.labels import LabelSet
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


def test_an_answer_that_lost_no_point_has_none() -> None:
    right = record("17", "17", [expert("17"), finalizer("17")])

    assert find_broken_link(right) is None
    assert find_broken_link(replace(right, target=None, score=None)) is None


def test_the_agent_is_named_with_its_step_its_words_and_the_critic_that_approved_them() -> None:
    link = find(record("17", "18", [expert("18"), APPROVED, finalizer("18")]))

    assert (link.kind, link.name, link.step) == ("agent", "expert", 1)
    for part in ('expert said "18"', "critic_expert approved it", 'expected was "17"'):
        assert part in link.evidence.for_people


def test_an_agent_whose_retries_ran_out_shows_the_rejection() -> None:
    made = record("17", "18", [expert("18"), REJECTED, finalizer("18")], limit="retry_limit:expert")

    link = find(made)

    assert (link.kind, link.name) == ("agent", "expert")
    assert 'critic_expert rejected it: "Count again."' in link.evidence.for_people


def test_retries_that_ran_out_on_unreadable_replies_are_a_fault_of_format() -> None:
    made = record("17", "18", [expert("18"), finalizer("18")], limit="retry_limit:expert")
    event = {"name": "unusable reply", "agent": "expert", "error": "no field expert_answer"}
    trajectory = [{**span, "events": [event]} if span["name"] == "expert" else span for span in made.trajectory]

    link = find(replace(made, trajectory=trajectory))

    assert (link.kind, link.name) == ("format", "expert")
    assert "no field expert_answer" in link.evidence.for_people


def test_retries_that_ran_out_after_a_false_alarm_are_the_critics_even_if_more_replies_were_unreadable() -> None:
    made = record("17", "18", [expert("17"), REJECTED, finalizer("18")], limit="retry_limit:expert")
    event = {"name": "unusable reply", "agent": "expert", "error": "no field expert_answer"}
    trajectory = [{**span, "events": [event, event]} if span["name"] == "expert" else span for span in made.trajectory]

    link = find(replace(made, trajectory=trajectory))

    assert (link.kind, link.name) == ("agent", "critic_expert")


def test_a_tool_that_never_worked_is_named_with_its_error() -> None:
    link = find(record("17", "18", [expert("18", BROKEN, tool("calculator", "18")), finalizer("18")]))

    assert (link.kind, link.name, link.step) == ("tool", "read_file", 2)
    assert "ToolError: damaged" in link.evidence.for_people


def test_a_tool_that_worked_in_the_end_is_not_the_cause() -> None:
    worked = tool("read_file", "Figolth 17", file="a.csv")

    assert find(record("17", "18", [expert("18", BROKEN, worked), finalizer("18")])).name == "expert"


def test_an_agent_that_reports_a_failure_is_named() -> None:
    made = record("17", "The API failed.", [step("api", answer=None, error="HTTP 404"), finalizer("The API failed.")])

    link = find(made)

    assert (link.kind, link.name, link.step) == ("agent", "api", 1)
    assert "HTTP 404" in link.evidence.for_people


def test_an_answer_that_is_right_in_content_lost_its_point_by_its_form() -> None:
    link = find(record("17", "It is 17 km.", [expert("17"), finalizer("It is 17 km.")]))

    assert (link.kind, link.name) == ("format", "finalizer")
    assert 'in place of "17"' in link.evidence.for_people


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


def test_a_program_without_steps_is_one_link() -> None:
    link = find(record("17", "18"))

    assert (link.kind, link.name, link.step) == ("agent", "program", None)
    assert "no steps" in link.evidence.for_people


def test_quotes_are_cut() -> None:
    link = find(record("17", "x" * 9_000, [finalizer("x" * 9_000)]))

    assert len(link.evidence.for_people) < 5 * MAX_QUOTED_CHARS


def test_evidence_is_no_text_that_a_prompt_could_take() -> None:
    assert not isinstance(Evidence("17"), str | tuple)


# Whole links, evidence included.

REASONED = (
    "As far as can be told, what it was given sufficed, and this agent's own reasoning or calculation went wrong."
)
GIVEN_UP = "The question was given up: its work was rejected until its retries ran out."
DIFFER = 'The answer was "18"; expected was "17".'
ALL_FAILED = "Every tool call of this agent failed, and it went on without the evidence."
NO_STEPS = "The program shows no steps, so that no part of it can be named."
WORKED = tool("calculator", "18")


def with_unread(made: Record, agent: str, *errors: str) -> Record:
    """Events of replies that could not be read, in the first span."""
    events = [{"name": "unusable reply", "agent": agent, "error": each} for each in errors]
    return replace(made, trajectory=[{**made.trajectory[0], "events": events}, *made.trajectory[1:]])


def link(kind: Any, name: str, evidence: str, at: int | None = None) -> BrokenLink:
    return BrokenLink(kind, name, Evidence(evidence), at)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (record("17", "18", [expert("18"), finalizer("18")]),
         link("agent", "expert", f'{REASONED} expert said "18". {DIFFER}', 1)),
        (record("17", "18", [expert("18"), APPROVED, step("judge", decision="approve"), finalizer("18")]),
         link("agent", "expert", f'{REASONED} expert said "18". judge approved it. {DIFFER}', 1)),
        (record("17", "18", [expert("18"), REJECTED, expert("18"), finalizer("18")]),
         link("agent", "expert", f'{REASONED} expert said "18". {DIFFER}', 3)),
        (record("17", None, [step("expert", expert_answer="", note=""), finalizer("")]),
         link("agent", "expert",
              f'{REASONED} expert said "". The answer was nothing; expected was "17".', 1)),
        (record("17", "18"), link("agent", "program", f"{DIFFER} {NO_STEPS}")),
        (record("17", "18", [step("silent")]), link("agent", "program", f"{DIFFER} {NO_STEPS}")),
        (record("17", "18", [expert("18", BROKEN), finalizer("18")]),
         link("tool", "read_file", f'{ALL_FAILED} read_file failed: "ToolError: damaged".', 2)),
        (record("17", "18", [expert("18", WORKED, BROKEN, tool("search", error="ToolError: gone")), finalizer("18")]),
         link("tool", "read_file", "Every call of the tool read_file failed, and the answer was wrong. "
              'read_file failed: "ToolError: damaged".', 3)),
        (record("17", "18", [step("api", result=None, error="HTTP\n 404"), step("api", result=None, error="HTTP 500"),
                             expert("18"), finalizer("18")]),
         link("agent", "api", f'api reported a failure: "HTTP 404". {DIFFER}', 1)),
        (record("17", "It is 17 km.", [expert("17"), finalizer("It is 17 km.")]),
         link("format", "finalizer", 'Right in content, wrong in form: "It is 17 km." in place of "17".', 2)),
        (record("17", "It is 17 km."),
         link("format", "program", 'Right in content, wrong in form: "It is 17 km." in place of "17".')),
        (record("17", "It is 17 km.", [expert("17"), finalizer("It is 17 km.")], parts={"format_loss": 0.0}),
         link("agent", "finalizer",
              "The answer was right in content, and this agent did not give it the form that the question asks for. "
              'finalizer said "It is 17 km.". The answer was "It is 17 km."; expected was "17".', 2)),
        (record("17", "18", [expert("18"), finalizer("18")], limit="tool_calls"),
         link("limit", "tool_calls",
              "While expert was running, the limit tool_calls was reached, and the answer was wrong.", 1)),
        (record("17", "18", [expert("18"), finalizer("18")], limit="tool_calls",
                error_details=ErrorDetails(agent="finalizer")),
         link("limit", "tool_calls",
              "While finalizer was running, the limit tool_calls was reached, and the answer was wrong.", 2)),
        (record("17", "18", limit="tool_calls"),
         link("limit", "tool_calls", "The limit tool_calls was reached, and the answer was wrong.")),
    ],
)  # fmt: skip
def test_a_wrong_answer_has_one_link_with_all_that_shows_it(made: Record, expected: BrokenLink) -> None:
    assert find_broken_link(made) == expected


@pytest.mark.parametrize(
    ("steps", "errors", "expected"),
    [
        ([expert("18"), step("critic_expert", decision="reject", feedback="Count."), expert("18"), REJECTED], [],
         link("agent", "expert", f'{GIVEN_UP} expert said "18". critic_expert rejected it: "Count again.". {DIFFER}',
              3)),
        ([expert("18"), step("critic_expert", decision="reject", feedback="")], [],
         link("agent", "expert", f'{GIVEN_UP} expert said "18". critic_expert rejected it: "reject". {DIFFER}', 1)),
        ([expert("18"), REJECTED], [("expert", "no field")],
         link("agent", "expert", "The question was given up: some of its replies could not be read. "
              f'expert said "18". critic_expert rejected it: "Count again.". {DIFFER}', 1)),
        ([expert("18"), REJECTED], [("expert", "no field"), ("expert", "no JSON")],
         link("format", "expert", 'Replies of expert could not be read until its retries ran out: "no field".', 1)),
        ([expert("18"), REJECTED], [("critic_expert", "no field"), ("critic_expert", "no JSON")],
         link("agent", "expert", f'{GIVEN_UP} expert said "18". critic_expert rejected it: "Count again.". {DIFFER}',
              1)),
        ([step("other", note="x"), REJECTED, expert("18")], [("expert", "no field")],
         link("format", "expert", 'Replies of expert could not be read until its retries ran out: "no field".', 3)),
        ([expert("18"), APPROVED], [],
         link("agent", "expert", f'{GIVEN_UP} expert said "18". critic_expert approved it. {DIFFER}', 1)),
        ([step("other", note="x")], [],
         link("agent", "expert", f"{DIFFER} {NO_STEPS}")),
    ],
)  # fmt: skip
def test_exhausted_retries_show_the_last_rejection_or_the_first_unreadable_reply_whichever_were_more(
    steps: list[Any], errors: list[tuple[str, str]], expected: BrokenLink
) -> None:
    made = record("17", "18", [*steps, finalizer("18")], limit="retry_limit:expert")
    agent = errors[0][0] if errors else ""
    assert find_broken_link(with_unread(made, agent, *(error for _, error in errors))) == expected


BY_EXPERT = ErrorDetails(agent="expert")


@pytest.mark.parametrize(
    ("error_class", "changes", "expected"),
    [
        ("infrastructure", {"error_details": BY_EXPERT},
         link("error", "infrastructure", 'While expert was running, "it broke".', 2)),
        ("infrastructure", {"error_details": ErrorDetails()}, link("error", "infrastructure", '"it broke".')),
        (None, {}, link("error", "unknown", '"it broke".')),
        ("not_run", {"error_details": BY_EXPERT},
         link("error", "not_run", "The run stopped before this question was answered.")),
        ("limit", {"limit": "lm_calls", "error_details": BY_EXPERT},
         link("limit", "lm_calls", 'While expert was running, the limit lm_calls was reached: "it broke".', 2)),
        ("limit", {"error_component": "planner"},
         link("limit", "limit", 'While planner was running, the limit limit was reached: "it broke".', 1)),
        ("limit", {"limit": "lm_calls"}, link("limit", "lm_calls", 'The limit lm_calls was reached: "it broke".')),
        ("truncated", {"error_component": "planner", "error_details": BY_EXPERT},
         link("limit", "max_tokens", 'While planner was running, "it broke".', 1)),
        ("truncated", {}, link("limit", "max_tokens", '"it broke".')),
        ("context_overflow", {"error_details": BY_EXPERT},
         link("limit", "context_window", 'While expert was running, "it broke".', 2)),
        ("malformed", {"error_component": "planner"},
         link("format", "planner", 'A reply of planner could not be read: "it broke".', 1)),
        ("malformed", {}, link("error", "malformed", '"it broke".')),
        ("tool", {"error_component": "search"}, link("tool", "read_file", 'The tool read_file failed: "it broke".', 3)),
        ("tool", {"error_component": "search", "trajectory": []},
         link("tool", "search", 'The tool search failed: "it broke".')),
        ("tool", {"trajectory": []}, link("tool", "tool", 'The tool tool failed: "it broke".')),
    ],
)  # fmt: skip
def test_a_failure_has_the_link_of_its_class_with_all_that_shows_it(
    error_class: Any, changes: dict[str, Any], expected: BrokenLink
) -> None:
    assert find_broken_link(failed(error_class, **changes)) == expected


def test_a_failed_answer_has_a_link_even_if_nobody_scores_it() -> None:
    unscored = replace(failed("infrastructure"), target=None)
    assert find_broken_link(unscored) == link("error", "infrastructure", '"it broke".')


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ("x" * MAX_QUOTED_CHARS, "x" * MAX_QUOTED_CHARS),
        ("x" * (MAX_QUOTED_CHARS + 1), "x" * MAX_QUOTED_CHARS + "…"),
        (" a\n\n b\t", "a b"),
    ],
)
def test_a_quote_is_one_line_of_at_most_so_many_characters(said: str, quoted: str) -> None:
    assert find_broken_link(record("17", said)) == link(
        "agent", "program", f'The answer was "{quoted}"; expected was "17". {NO_STEPS}'
    )


def test_a_link_is_titled_by_its_kind_unless_it_is_an_agent() -> None:
    assert [link(*each, "x").title for each in (("agent", "expert"), ("tool", "search"), ("error", "not_run"))] == [
        "expert", "tool search", "not run"
    ]  # fmt: skip
    assert name_link("error", "internal") == "error internal" and name_link("agent", "not_run") == "not_run"


def test_a_label_is_found_as_a_label_and_any_other_target_as_a_text() -> None:
    labels = LabelSet(("billing", "delivery"))
    found = build_matcher("Billing", labels)
    assert isinstance(found, LabelMatcher) and found.text == "billing" and found.matches("billing, I think")
    assert [type(build_matcher(*each)) for each in (("other", labels), ("billing", None), ("billing",))] == [
        TargetMatcher, TargetMatcher, TargetMatcher
    ]  # fmt: skip
    made = record("billing", "delivery", [expert("billing or delivery"), finalizer("delivery")])
    assert find(made).name == "finalizer", "the text of the target is in the draft"
    named = find_broken_link(made, labels=labels)
    assert named is not None and named.name == "expert", "of labels, the draft names two"


def test_right_answers_of_a_users_program_help_to_find_its_link() -> None:
    def own(target: str, answer: str, read: str) -> Record:
        steps = [step("extract", found=read), step("conclude", request=read, label=answer)]
        return record(target, answer, steps, state={"outputs": {"label": answer}})

    known = RightAnswers()
    for number in range(3):
        made = replace(own(f"paris{number}", f"paris{number}", f"the city paris{number}"), sample_id=f"q{number}")
        known.add(made, AgentSteps.of(made), TargetMatcher(made.target or ""))
    wrong = own("london9", "berlin7", "the river thames")
    assert find(wrong).name == "conclude"
    helped = find_broken_link(wrong, known)
    assert helped is not None and (helped.name, helped.step) == ("extract", 1)
