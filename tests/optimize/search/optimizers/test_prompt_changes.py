"""A rewritten prompt as changes that can be combined."""

from itertools import permutations

import pytest

from optimize.search.optimizers.prompt_changes import Change, apply_changes, divide

BEFORE = "You solve problems.\n\nWork step by step.\nUse your head."


def test_all_changes_together_make_the_rewritten_prompt() -> None:
    after = "You solve problems.\n\nWork step by step.\nUse the calculator.\nGive the number alone.\nNo units."
    changes = divide("solve", BEFORE, after)
    assert sorted(each.lines for each in changes)[1:] == [
        ("Give the number alone.",),
        ("No units.",),
        ("Use the calculator.",),
    ]
    for order in permutations(changes):
        text = apply_changes(BEFORE, order)
        assert set(text.splitlines()) == set(after.splitlines())


def test_changes_of_several_rewritings_are_combined_and_blank_lines_stay() -> None:
    one = divide("solve", BEFORE, "You solve problems.\nWork step by step.\nUse your head.\nNo units.")
    two = divide("solve", BEFORE, "You solve problems.\nWork step by step.\nRound at the end.")
    text = apply_changes(BEFORE, [*one, *two])
    assert text == "You solve problems.\n\nWork step by step.\nNo units.\nRound at the end."


def test_the_same_line_added_to_the_same_place_is_the_same_change_also_after_other_lines() -> None:
    [one] = divide("solve", BEFORE, f"{BEFORE}\nNo units.")
    assert one in divide("solve", BEFORE, f"{BEFORE}\nRound at the end.\nNo units.")
    assert one in divide("solve", BEFORE, "You solve problems.\nWork step by step.\nNo units.")


def test_a_prompt_that_was_written_anew_is_one_change_that_excludes_others() -> None:
    [anew] = divide("solve", BEFORE, "Be exact.\nBe brief.")
    assert anew == Change("solve", 0, 3, ("Be exact.", "Be brief."))
    assert apply_changes(BEFORE, [anew]) == "Be exact.\nBe brief."
    [removed] = divide("solve", BEFORE, "You solve problems.\nWork step by step.")
    assert anew.excludes(removed) and not removed.excludes(Change("solve", 3, 3, ("No units.",)))
    assert not anew.excludes(Change("plan", 0, 3, ()))


def test_lines_that_a_long_prompt_repeats_are_matched_as_all_others() -> None:
    before = "\n".join(["Always be exact."] * 250)
    assert divide("solve", before, f"{before}\nNo units.") == [Change("solve", 250, 250, ("No units.",))]


def test_a_heading_stays_with_its_list_and_a_reworded_line_takes_the_place_of_the_old_one() -> None:
    changes = divide("solve", BEFORE, f"{BEFORE}\nRules:\n- No units.\n- No words.\nBe brief.")
    assert [len(each.lines) for each in changes] == [3, 1]
    [reworded] = divide("solve", BEFORE, "You solve problems.\nWork slowly, step by step.\nUse your head.")
    assert (reworded.start, reworded.stop, reworded.lines) == (1, 2, ("Work slowly, step by step.",))


@pytest.mark.parametrize(
    ("one", "other", "excluded"),
    [
        ((0, 2), (1, 3), True),
        ((0, 1), (1, 2), False),  # one begins where the other ends
        ((1, 2), (0, 1), False),
        ((1, 2), (1, 2), True),
        ((0, 3), (1, 1), True),  # an addition within what is replaced
        ((0, 3), (0, 0), False),
        ((0, 3), (3, 3), False),
        ((1, 1), (1, 1), False),
    ],
)
def test_changes_exclude_each_other_if_their_lines_overlap(
    one: tuple[int, int], other: tuple[int, int], excluded: bool
) -> None:
    first, second = Change("solve", *one, ("A.",)), Change("solve", *other, ("B.",))
    assert first.excludes(second) is excluded and second.excludes(first) is excluded
    assert not first.excludes(Change("plan", *other, ("B.",)))


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        ("One.\nTwo.\nThree.\nFour.", []),
        ("  One.  \n\nTwo.\nThree.\nFour.", []),  # spaces and blank lines are no change
        ("One.\nThree.\nFour.", [(1, 2, ())]),
        ("One.\nFour.", [(1, 2, ()), (2, 3, ())]),  # half of the lines stay
        ("One.", [(0, 4, ("One.",))]),  # less than half
        ("One.\nTwo.\nNew, other words here.\nFour.", [(2, 3, ()), (3, 3, ("New, other words here.",))]),
        ("Zero.  \nOne.\nTwo.\nThree.\nFour.", [(0, 0, ("Zero.",))]),
        ("One.\nTwo.\nThree.\nFour.\n  Five.\nSix.", [(4, 4, ("  Five.",)), (4, 4, ("Six.",))]),
    ],
)
def test_a_rewriting_is_divided_by_line(after: str, changes: list[tuple[int, int, tuple[str, ...]]]) -> None:
    before = "One.\nTwo.\nThree.\nFour."
    found = divide("solve", before, after)
    assert [(each.start, each.stop, each.lines) for each in found] == changes
    assert {each.agent for each in found} <= {"solve"}


@pytest.mark.parametrize(
    ("added", "parts"),
    [
        (["A.", "B."], [1, 1]),
        (["# Rules", "- a", "2) b", "Then."], [3, 1]),
        (["Rules:", "Text below it.", "* a", "1. b", "Then."], [4, 1]),
        (["A.", "  more of it", "\tand more", "B."], [3, 1]),
        (["A.", "- a", "- b"], [1, 1, 1]),  # without a heading, each item stands alone
        (["A.", "Now:", "B."], [1, 2]),
        (["Rules:"], [1]),
    ],
)
def test_added_lines_that_make_sense_together_stay_together(added: list[str], parts: list[int]) -> None:
    changes = divide("solve", BEFORE, "\n".join([BEFORE, *added]))
    assert [len(each.lines) for each in changes] == parts
    assert [line for each in changes for line in each.lines] == added
    assert {(each.start, each.stop) for each in changes} == {(3, 3)}


@pytest.mark.parametrize(("new", "is_reworded"), [("a b x y", False), ("a b c x", True), ("w x y z", False)])
def test_lines_with_more_than_half_of_their_words_in_common_are_reworded(new: str, is_reworded: bool) -> None:
    changes = divide("solve", "One.\na b c d\nTwo.", f"One.\n{new}\nTwo.")
    expected = [Change("solve", 1, 2, (new,))]
    assert changes == (expected if is_reworded else [Change("solve", 1, 2, ()), Change("solve", 2, 2, (new,))])


def test_lines_that_take_the_place_of_others_keep_the_blank_line_before_them() -> None:
    changed = Change("solve", 1, 2, ("Go slowly.", "Step by step."))
    assert apply_changes(BEFORE, [changed]) == "You solve problems.\n\nGo slowly.\nStep by step.\nUse your head."
    second = Change("solve", 2, 3, ("Think.",))
    assert apply_changes(BEFORE, [changed, second]).endswith("Step by step.\nThink.")
    assert apply_changes("\n\nA.\n\n\nB.\n", []) == "A.\n\nB."
    added = Change("solve", 1, 1, ("Read.",))
    assert apply_changes(BEFORE, [added]) == "You solve problems.\nRead.\n\nWork step by step.\nUse your head."
