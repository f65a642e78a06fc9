"""The page `docs/reference/errors.md`: its table of faults is the tested one."""

import re

from eval.cli.paths import PROJECT_ROOT
from tests.test_faults import LASTING, PASSING

PAGE = (PROJECT_ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
ROW = re.compile(r"^\| ((?:`\w+` ?)+) \| `?(\w+)`? \| (\S) \| (answered|the same) \|$", re.MULTILINE)


def test_the_table_of_faults_is_the_tested_one() -> None:
    told = {
        name: (None, None) if kind == "answered" else (kind, int(requests))
        for names, kind, requests, _ in ROW.findall(PAGE)
        for name in names.replace("`", "").split()
    }
    assert told == {name: (kind, requests if kind else None) for name, (kind, requests) in LASTING.items()}


def test_what_comes_of_a_passing_fault_is_the_tested_too() -> None:
    answered = {
        name
        for names, _, _, passing in ROW.findall(PAGE)
        if passing == "answered"
        for name in names.replace("`", "").split()
    }
    assert answered == {name for name, (kind, _) in PASSING.items() if kind is None}
