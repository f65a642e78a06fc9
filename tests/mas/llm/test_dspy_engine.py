"""The seam to DSPy's engines: the versions that it accepts, and that nothing else reaches behind it."""

import re
from pathlib import Path

import pytest

from mas.llm.dspy_engine import check_dspy_version
from mas.runtime.errors import UserError


@pytest.mark.parametrize("version", ["3.4.1", "3.4.2", "3.4.12rc1"])
def test_a_version_of_dspy_that_it_was_written_for_is_accepted(version: str) -> None:
    check_dspy_version(version)


@pytest.mark.parametrize("version", ["2.6.27", "3.4.0", "3.5.0", "3.5.0b1", "4.0"])
def test_another_version_of_dspy_is_refused_with_the_one_to_install(version: str) -> None:
    with pytest.raises(UserError, match=rf"DSPy {version} is installed, .* pip install 'dspy>=3\.4\.1,<3\.5'"):
        check_dspy_version(version)


def test_no_other_module_imports_dspys_engines_or_its_vendored_packages() -> None:
    internal = re.compile(r"^\s*(?:from|import) dspy\.(?:_vendor|clients)", re.MULTILINE)
    sources = Path(__file__).parents[3].joinpath("mas").rglob("*.py")

    assert [path.name for path in sources if internal.search(path.read_text())] == ["dspy_engine.py"]
