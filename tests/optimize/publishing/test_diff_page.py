"""The page with two prompt sets: what it says of each set, and of which one it warns."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from optimize.publishing.diff_page import _describe_set, build_notes, render_agents, render_page, write_page
from optimize.publishing.provenance import build_headline

PLAIN = PromptSet("one", "toy", {"plan": "Plan.", "solve": "Solve."}, Path("one"), description="The first.\u200b")
ORIGIN: dict[str, Any] = {"parent": {"name": "start\u202e"}, "gated": True, "optimizer": "gepa", "scores": {}}


def test_the_notes_name_the_origin_and_then_what_was_edited() -> None:
    tuned, headline = replace(PLAIN, provenance=ORIGIN), build_headline(ORIGIN).replace("\u202e", "\ufffd")
    assert "\ufffd" in headline
    edited = replace(tuned, edited=("plan.txt", "so\u200blve.txt"))
    said = "edited after it was published: plan.txt, so\ufffdlve.txt"
    assert build_notes(PLAIN) == []
    assert build_notes(tuned) == [headline]
    assert build_notes(edited) == [headline, said]
    assert build_notes(replace(PLAIN, edited=edited.edited)) == [said]


@pytest.mark.parametrize(
    ("changes", "warn"),
    [
        ({}, False),
        ({"provenance": ORIGIN}, False),
        ({"provenance": {**ORIGIN, "gated": False}}, True),
        ({"edited": ("plan.txt",)}, True),
        ({"edited": ("plan.txt",), "provenance": ORIGIN}, True),
    ],
)
def test_the_page_warns_of_sets_that_no_gate_passed_or_that_were_edited(changes: dict[str, Any], warn: bool) -> None:
    made = replace(PLAIN, name="o\u200bne", **changes)
    described = {"name": "o\ufffdne", "description": "The first.\ufffd", "notes": build_notes(made), "warn": warn}
    assert _describe_set(made) == described


def test_the_sets_stand_in_their_order_and_unchanged_agents_are_named() -> None:
    first = replace(PLAIN, name="o\u200bne", texts={**PLAIN.texts, "end": "Ended."})
    other = replace(PLAIN, name="t\u200bwo", texts={"plan": "Planned.", "solve": "Solve.", "judge": "Judged."})
    part = render_agents(first, other)
    headings = [each.partition("</h3>")[0] for each in part.split("<h3>")[1:]]
    assert headings == [
        "plan",
        'end <span class="quiet">only in o\ufffdne</span>',
        'judge <span class="quiet">only in t\ufffdwo</span>',
        "Unchanged",
    ]
    assert part.index("Plan.") < part.index("Planned.") < part.index("Ended.") < part.index("Judged.")
    assert "Solve." not in part and "solve" in part and "No difference" not in part
    page = render_page(first, other)
    assert part in page and "o\ufffdne → t\ufffdwo" in page
    assert "No difference" in render_agents(first, first)


def test_the_page_is_written_whole_or_the_user_is_told_why_not(tmp_path: Path) -> None:
    path = tmp_path / "diff.html"
    write_page(path, PLAIN, PLAIN)
    assert path.read_text() == render_page(PLAIN, PLAIN)
    assert list(tmp_path.iterdir()) == [path]
    (tmp_path / "file").write_text("")
    missing = tmp_path / "file" / "diff.html"
    with pytest.raises(UserError) as raised:
        write_page(missing, PLAIN, PLAIN)
    assert str(raised.value) == f"{missing} cannot be written (Not a directory); choose another place for --html."
