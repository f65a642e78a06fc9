"""The seams to DSPy's internals: the versions that they accept, and that nothing else reaches behind them."""

import re

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.prompt_sets.dspy_internals import check_dspy_version
from mas.runtime.errors import UserError


@pytest.mark.parametrize("version", ["3.4.1", "3.4.2", "3.4.12rc1"])
def test_a_version_of_dspy_that_it_was_written_for_is_accepted(version: str) -> None:
    check_dspy_version(version)


@pytest.mark.parametrize("version", ["2.6.27", "3.4.0", "3.5.0", "3.5.0b1", "4.0", "3.5"])
def test_another_version_of_dspy_is_refused_with_the_one_to_install(version: str) -> None:
    with pytest.raises(UserError, match=rf"DSPy {version} is installed, .* pip install 'dspy>=3\.4\.1,<3\.5'"):
        check_dspy_version(version)


def test_no_other_module_imports_what_dspy_does_not_export() -> None:
    internal = re.compile(r"^\s*(?:from|import) dspy\.(?!lm15\b|utils\.exceptions\b)", re.MULTILINE)
    found = {
        path.relative_to(PROJECT_ROOT).as_posix()
        for package in ("mas", "eval", "optimize")
        for path in (PROJECT_ROOT / package).rglob("*.py")
        if internal.search(path.read_text("utf-8"))
    }
    assert found == {"mas/prompt_sets/dspy_internals.py", "optimize/search/dspy_compat.py"}
