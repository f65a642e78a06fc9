"""A rewritten prompt as changes that can be combined."""

from itertools import permutations

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


def test_a_heading_stays_with_its_list_and_a_reworded_line_takes_the_place_of_the_old_one() -> None:
    changes = divide("solve", BEFORE, f"{BEFORE}\nRules:\n- No units.\n- No words.\nBe brief.")
    assert [len(each.lines) for each in changes] == [3, 1]
    [reworded] = divide("solve", BEFORE, "You solve problems.\nWork slowly, step by step.\nUse your head.")
    assert (reworded.start, reworded.stop, reworded.lines) == (1, 2, ("Work slowly, step by step.",))
