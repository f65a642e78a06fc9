"""Words that the style rules out, in the prose of all pages and in the comments of `conf/`."""

import re
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from tests.docs.test_links import PAGES, read_prose

RULED_OUT = re.compile(
    r"\b(beside|mend|mends|mended|anew|afresh|giveaways?|veil(?:ed)?|purse|of these|at work|came to be|an honest no"
    r"|picked by|is told|are told|was told|stands? (?:in|beside|for)|go on with)\b",
    re.IGNORECASE,
)
ALLOWED = ("the agent is told",)
FILES = [*PAGES, *sorted((PROJECT_ROOT / "conf").rglob("*.yaml"))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PROJECT_ROOT)))
def test_the_prose_has_no_word_that_the_style_rules_out(file: Path) -> None:
    text = read_prose(file) if file.suffix == ".md" else file.read_text("utf-8")
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    assert RULED_OUT.findall(text) == []
