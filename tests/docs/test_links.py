"""Links of all Markdown pages: files and headings exist. No network is used."""

import re
import subprocess
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT

LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)")
EXTERNAL = re.compile(r"[a-z]+:")
DOCS = PROJECT_ROOT / "docs"


def read_pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    pages = (PROJECT_ROOT / line for line in listed.stdout.splitlines())
    return sorted(page for page in pages if page.is_file() and "sample" not in page.parts)


PAGES = read_pages()


def read_prose(page: Path) -> str:
    """Return a page's text without its code blocks and inline code."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+).+?\1", "", text)


def read_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        anchors.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    dead = []
    for target in LINK.findall(read_prose(page)):
        if EXTERNAL.match(target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and anchor not in read_anchors(found)):
            dead.append(target)
    assert dead == []


def test_every_page_of_the_documentation_is_linked_from_its_index() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall(read_prose(index))}
    assert {page for page in PAGES if page.is_relative_to(DOCS) and page != index} - linked == set()


def test_no_file_names_a_page_that_does_not_exist() -> None:
    """`docs/….md` in code, configuration, tests, messages and pages."""
    listed = subprocess.run(
        ["git", "grep", "-noIE", r"docs/[a-z/-]+\.(md|png)"], cwd=PROJECT_ROOT, capture_output=True, text=True
    )
    lines = [line for line in listed.stdout.splitlines() if not line.startswith("tests/docs/test_links.py")]
    assert len(lines) > 20
    assert [line for line in lines if not (PROJECT_ROOT / line.rpartition(":")[2]).is_file()] == []
