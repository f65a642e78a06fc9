"""What of a metric's own feedback an optimiser may read: nothing that quotes the target, and all of the rest."""

import pytest

from eval.analysis.attribution.target_matcher import TargetMatcher
from optimize.feedback.feedback import MAX_OWN_CHARS, join_unquoted, remove_quotes

MATCHER = TargetMatcher("Korthburg")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Too long. Be brief.", "Too long. Be brief."),
        ("Too long. It is Korthburg. Be brief.", "Too long. Be brief."),
        ("It is Korthburg.", ""),
        ("First line;  as it was.\nIt is korthburg!\n\nThird.", "First line;  as it was.\n\nThird."),
        ("It is Korthburg. Be brief.\nSecond.", "Be brief.\nSecond."),
        ("First.\nIt is Korthburg. Be brief.", "First.\nBe brief."),
        ("", ""),
    ],
)
def test_sentences_that_quote_the_target_are_left_out_and_other_lines_stay_as_they_are(text: str, left: str) -> None:
    assert remove_quotes(text, MATCHER) == left


def test_a_very_long_text_is_cut() -> None:
    assert len(remove_quotes("x" * (MAX_OWN_CHARS + 9), MATCHER)) == MAX_OWN_CHARS


def test_of_each_remark_the_first_wording_that_quotes_nothing_is_taken() -> None:
    remarks = [("It is Korthburg.", "It is a town."), ("Korthburg", "korthburg"), ("It failed.", "Bad.")]
    assert join_unquoted(remarks, MATCHER) == "It is a town. It failed."
    assert join_unquoted([], MATCHER) == ""
