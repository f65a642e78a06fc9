"""What the doctor says of this machine's isolation, and of one that has none."""

from pathlib import Path

import pytest

from eval.workflows.doctor import check_isolation
from eval.workflows.installation import OK, WARNING
from tests.needs import skip_without


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
