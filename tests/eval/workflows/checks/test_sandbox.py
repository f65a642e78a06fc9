"""What the doctor says of this machine's isolation, and of one that has none."""

from pathlib import Path

import pytest

from eval.workflows.checks.installation import OK, WARNING
from eval.workflows.checks.machine import check_isolation
from mas.tools.sandbox import deno
from mas.tools.sandbox.selection import try_isolations
from tests.needs import skip_without


def test_a_machine_without_anything_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deno, "_packaged", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    finding = check_isolation()
    assert (finding.name, finding.state) == ("isolation", WARNING)
    assert "apt-get install bubblewrap" in finding.remedy and "pip install deno" in finding.remedy


def test_deno_that_cannot_run_pyodide_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "deno"
    program.write_text(f'#!/bin/sh\n[ "$1" = info ] && echo \'{{"denoDir": "{tmp_path}"}}\' && exit\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(deno, "_packaged", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = check_isolation()
    assert finding.state == WARNING
    assert "Deno cannot run Pyodide here (exit code 1)" in finding.remedy


def test_what_works_here_is_named() -> None:
    choice = try_isolations("bubblewrap")
    skip_without("bubblewrap")
    finding = check_isolation()
    assert (finding.state, finding.what, finding.remedy) == (OK, choice.probe_result, "")
