"""Lines side by side: which belong together, where gaps are, and what of a line differs."""

from pathlib import Path

import pytest

from mas.prompt_sets.prompt_set import PromptSet
from optimize.publishing.prompt_diff import (
    Row,
    build_rows,
    compare_sets,
    format_demo,
    format_unified_diff,
    replace_invisible,
)

LINES = [f"line {n}" for n in range(1, 13)]


def prompts(texts: dict[str, str], **demos: list[dict[str, object]]) -> PromptSet:
    return PromptSet("set", "toy", texts, Path("set"), demos=demos)


def show(rows: list[Row]) -> list[str]:
    """Each row in one line: kind, numbers, and the parts with those that differ in brackets."""
    sides = [(row, (row.left_line, row.left), (row.right_line, row.right)) for row in rows]
    return [" ".join((row.kind, *(_show_side(*side) for side in both))) for row, *both in sides]


def _show_side(line: int | None, parts: list[tuple[str, bool]] | None) -> str:
    text = "".join(f"[{text}]" if differs else text for text, differs in parts or [])
    return f"{'-' if line is None else line}:{text}"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a\nb", "a\nb", []),
        (None, "a", ["added -: 1:[a]"]),
        ("a", None, ["removed 1:[a] -:"]),
        (None, None, []),
        ("", None, ["removed 1: -:"]),
        ("Keep it.", "Keep it so.", ["changed 1:Keep it. 1:Keep it[ so]."]),
        ("Cut all of it.", "Cut it.", ["changed 1:Cut[ all of] it. 1:Cut it."]),
        ("one two", "three four", ["removed 1:[one two] -:", "added -: 1:[three four]"]),
        # alike from two of five words on
        ("a b c d e", "a b x y z", ["changed 1:a b[ c d e] 1:a b[ x y z]"]),
        ("a b c d e", "a w x y z", ["removed 1:[a b c d e] -:", "added -: 1:[a w x y z]"]),
        # the two lines that are most alike are in one row, those before and after them around it
        ("x\na b c d", "a b c e\ny", ["removed 1:[x] -:", "changed 2:a b c[ d] 1:a b c[ e]", "added -: 2:[y]"]),
        ("a b c\na b c d", "a b c d e", ["removed 1:[a b c] -:", "changed 2:a b c d 1:a b c d[ e]"]),
        # of equally alike ones the first
        ("a b\na b", "a b c", ["changed 1:a b 1:a b[ c]", "removed 2:[a b] -:"]),
        ("a b c", "a b\na b", ["changed 1:a b[ c] 1:a b", "added -: 2:[a b]"]),
    ],
)
def test_lines_are_shown_side_by_side(before: str | None, after: str | None, shown: list[str]) -> None:
    assert show(list(build_rows(before, after))) == [each.replace("1: -:", "1:[] -:") for each in shown]


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        (0, ["removed", "added", "same", "same", "same", "gap"]),
        (3, ["same", "same", "same", "removed", "added", "same", "same", "same", "gap"]),
        (4, ["gap", "same", "same", "same", "removed", "added", "same", "same", "same", "gap"]),
        (8, ["gap", "same", "same", "same", "removed", "added", "same", "same", "same"]),
        (11, ["gap", "same", "same", "same", "removed", "added"]),
    ],
)
def test_around_a_change_are_three_lines_and_gaps_for_the_others(changed: int, kinds: list[str]) -> None:
    after = [*LINES[:changed], "quite another", *LINES[changed + 1 :]]
    rows = list(build_rows("\n".join(LINES), "\n".join(after)))
    assert [row.kind for row in rows] == kinds
    assert all(row.left_line == row.right_line for row in rows if row.kind == "same")
    assert [row.left_line for row in rows if row.kind == "removed"] == [changed + 1]
    assert [row.right_line for row in rows if row.kind == "added"] == [changed + 1]


def test_there_is_a_gap_between_changes_that_are_far_apart() -> None:
    after = ["first", *LINES[1:11], "last"]
    kinds = [row.kind for row in build_rows("\n".join(LINES), "\n".join(after))]
    assert kinds == ["removed", "added", *["same"] * 3, "gap", *["same"] * 3, "removed", "added"]
    assert [row.kind for row in build_rows("\n".join(LINES), "\n".join(after), context=0)].count("same") == 0


@pytest.mark.parametrize("n", [20, 21, 45])
def test_long_blocks_are_compared_in_pieces_and_no_line_is_lost(n: int) -> None:
    old, new = [f"word{k} is old {k}" for k in range(n)], [f"word{k} is new {k}" for k in range(n + 3)]
    rows = list(build_rows("\n".join(old), "\n".join(new)))
    assert [row.left_line for row in rows if row.left_line] == list(range(1, n + 1))
    assert [row.right_line for row in rows if row.right_line] == list(range(1, n + 4))
    assert ["".join(text for text, _ in row.left or []) for row in rows if row.left] == old
    assert ["".join(text for text, _ in row.right or []) for row in rows if row.right] == new
    paired = [(row.left_line, row.right_line) for row in rows if row.kind == "changed"]
    assert paired[:20] == [(k, k) for k in range(1, 21)]


def test_what_differs_is_told_by_agent() -> None:
    one, two = {"task": "1", "result": "2"}, {"task": "2", "result": "4"}
    a = prompts({"same": "S.", "text": "T.", "gone": "G.", "more": "M.", "less": "L.", "order": "O."},
                less=[one], order=[one, two])  # fmt: skip
    b = prompts({"same": "S.", "text": "T!", "more": "M.", "less": "L.", "order": "O.", "new": "N."},
                more=[one, one], order=[two, one])  # fmt: skip
    found = {each.agent: each for each in compare_sets(a, b)}
    assert list(found) == ["same", "text", "gone", "more", "less", "order", "new"]
    assert [agent for agent, each in found.items() if not each.changed] == ["same"]
    assert (found["gone"].before, found["gone"].after) == ("G.", None)
    assert (found["new"].before, found["new"].after) == (None, "N.")
    assert found["more"].added == [(1, one), (2, one)] and found["more"].removed == []
    assert found["less"].removed == [(1, one)] and found["less"].added == []
    assert found["order"].reordered and not found["order"].removed and not found["order"].added
    assert not any(each.reordered for agent, each in found.items() if agent != "order")
    written = format_unified_diff(a, b)
    assert "--- a/gone_system_prompt.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-G.\n" in written
    assert "--- /dev/null\n+++ b/new_system_prompt.txt\n@@ -0,0 +1 @@\n+N.\n" in written
    assert "--- a/text_system_prompt.txt\n+++ b/text_system_prompt.txt\n@@ -1 +1 @@\n-T.\n+T!\n" in written
    assert "--- a/less in demos.json\n+++ /dev/null\n" in written and "+++ b/more in demos.json\n" in written


def test_a_demo_is_shown_by_field_and_nothing_in_it_is_invisible() -> None:
    assert format_demo({"task": "a\u202eb", "working": ["ü", {"n": 1}]}) == [
        ("task", "a\ufffdb"),
        ("working", '[\n "ü",\n {\n  "n": 1\n }\n]'),
    ]
    assert replace_invisible("a\tb\nc\x1b[31m\u200b") == "a\tb\nc\ufffd[31m\ufffd"


def test_very_long_lines_are_compared_as_wholes() -> None:
    words = " ".join(["word"] * 1_999)
    (row,) = build_rows(f"{words} a", f"{words} b")
    assert show([row]) == [f"changed 1:{words}[ a] 1:{words}[ b]"]
    (row,) = build_rows(f"{words} a", f"{words} b c")
    assert row.left == [(f"{words} a", True)] and row.right == [(f"{words} b c", True)]


@pytest.mark.parametrize("unseen", [
    "\x00\x08", "\x0b\x1f", "\x7f\x9f", "\u061c", "\u200b\u200f", "\u2028\u202e", "\u2060\u2069", "\ufeff",
    "\ud800\udfff",
])  # fmt: skip
def test_all_of_each_range_of_invisible_characters_is_replaced_and_nothing_beside_it(unseen: str) -> None:
    first, last = ord(unseen[0]), ord(unseen[-1])
    inside = "".join(map(chr, range(first, last + 1)))
    assert replace_invisible(inside) == "\ufffd" * len(inside)
    beside = "".join(chr(n) for n in (first - 1, last + 1) if n >= 0)
    assert replace_invisible(beside) == beside


def test_unchanged_lines_have_their_own_number_on_each_side() -> None:
    assert list(build_rows("keep\nthis", "something else\nkeep\nthis")) == [
        Row("added", right=[("something else", True)], right_line=1),
        Row("same", [("keep", False)], [("keep", False)], 1, 2),
        Row("same", [("this", False)], [("this", False)], 2, 3),
    ]
    assert list(build_rows("\n".join(LINES), "\n".join([*LINES[:5], *LINES[6:]]), context=1)) == [
        Row("gap"),
        Row("same", [("line 5", False)], [("line 5", False)], 5, 5),
        Row("removed", left=[("line 6", True)], left_line=6),
        Row("same", [("line 7", False)], [("line 7", False)], 7, 6),
        Row("gap"),
    ]


def test_a_demo_that_is_there_more_often_is_missing_as_often_as_it_went() -> None:
    one, two = {"task": "1"}, {"task": "2"}
    (agent,) = compare_sets(prompts({"a": "A."}, a=[one, two, one, one]), prompts({"a": "A."}, a=[one, two]))
    assert (agent.removed, agent.added, agent.reordered, agent.changed) == ([(3, one), (4, one)], [], False, True)


def test_the_unified_diff_has_three_lines_around_a_change_and_the_demos_of_an_agent_after_its_text() -> None:
    a = prompts({"math": "\n".join(LINES)})
    b = prompts({"math": "\n".join([*LINES[:5], "new", *LINES[6:]])}, math=[{"task": "ü"}])
    assert format_unified_diff(a, a) == ""
    assert format_unified_diff(a, b) == (
        "--- a/math_system_prompt.txt\n+++ b/math_system_prompt.txt\n@@ -3,7 +3,7 @@\n"
        " line 3\n line 4\n line 5\n-line 6\n+new\n line 7\n line 8\n line 9\n"
        "--- /dev/null\n+++ b/math in demos.json\n@@ -0,0 +1,5 @@\n"
        '+[\n+  {\n+    "task": "ü"\n+  }\n+]\n'
    )
