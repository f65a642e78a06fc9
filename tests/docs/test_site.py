"""The site that `make docs` builds: strict, with every page, and without anything from another host."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT

LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]+src=\"?(https?:)?//|<link[^>]+rel=\"?stylesheet\"?[^>]+href=\"?https?:"
)


def test_the_site_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs-material is in the dev extra")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {
        page.relative_to(PROJECT_ROOT / "docs").with_suffix(".html") for page in (PROJECT_ROOT / "docs").rglob("*.md")
    }
    assert {page for page in pages if not (tmp_path / "site" / page).is_file()} == set()
    texts = {page: (tmp_path / "site" / page).read_text("utf-8") for page in pages}
    assert [page for page, text in texts.items() if LOADED.search(text) or "fonts.googleapis" in text] == []
    assert "gaia-states.svg" in texts[Path("explanation/architecture.html")]
