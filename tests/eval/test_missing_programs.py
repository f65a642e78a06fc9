"""A machine on which a tool cannot work: the user reads it before the run, and in the summary if it was called."""

from pathlib import Path

import pytest

from tests.process import started


@pytest.mark.slow
def test_python_without_isolation_is_named_before_the_run_and_in_the_summary(tmp_path: Path) -> None:
    bare = {"PATH": "/nowhere", "DENO_DIR": str(tmp_path)}
    asked = ["system=bos", "data=bos_sample", "model=offline", "ids=[computation-val-01,computation-val-02]"]
    with started(tmp_path / "run", *asked, "tracking=off", environment=bare) as running:
        ended = running.end()
        before, *_ = (running.printed / "err").read_text().splitlines()
    assert "python_repl_tool" in before and "apt-get install bubblewrap" in before
    summary = ended.summary
    assert summary["tool_errors"]["python_repl_tool"] == summary["calls_by_tool"]["python_repl_tool"] > 0
    assert "bubblewrap is not installed" in summary["first_tool_errors"]["python_repl_tool"]
    assert "python_repl_tool never worked" in ended.out and "bubblewrap is not installed" in ended.out
