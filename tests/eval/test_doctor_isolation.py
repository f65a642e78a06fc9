"""What the doctor says of this machine's isolation, and of one that has none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eval.doctor import OK, WARNING, check_isolation
from mas.tools.sandbox.repl import try_isolations
from tests.needs import skip_without


@pytest.fixture(autouse=True)
def untried() -> Iterator[None]:
    """A process tries once what isolates here; others in this one must not see what a test hides."""
    try_isolations.cache_clear()
    yield
    try_isolations.cache_clear()


def test_a_machine_without_anything_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DENO_DIR", str(tmp_path))
    finding = check_isolation()
    assert (finding.name, finding.state) == ("isolation", WARNING)
    assert "apt-get install bubblewrap" in finding.remedy and "pip install deno" in finding.remedy


def test_what_works_here_is_named() -> None:
    skip_without("bubblewrap")
    finding = check_isolation()
    assert (finding.state, finding.remedy) == (OK, "") and finding.what.startswith("bubblewrap ")
