"""The glossary: one row per term, and the names of its last column exist in the code."""

import re
import subprocess

from eval.cli.paths import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs/reference/glossary.md").read_text("utf-8")
ROWS = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ") and " | " in line]


def test_every_term_has_one_row() -> None:
    terms = [row[0].strip() for row in ROWS if row[0].strip() not in ("Term", "---")]
    assert len(terms) == len(set(terms)) > 40


def test_the_names_in_the_last_column_exist() -> None:
    source = subprocess.run(
        ["git", "grep", "-hIE", "", "--", "mas/*.py", "eval/*.py", "optimize/*.py", "conf/*.yaml"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    missing = []
    for row in ROWS:
        for name in re.findall(r"`([^`]+)`", row[-1]) if len(row) == 3 else []:
            exists = (PROJECT_ROOT / name).exists() if "/" in name else re.search(rf"\b{name.split('.')[-1]}\b", source)
            if not exists:
                missing.append(name)
    assert missing == []
