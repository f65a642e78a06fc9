"""Links of all Markdown pages: files and headings exist. No network is used."""

import re
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT

LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)")
EXTERNAL = re.compile(r"[a-z]+:")
DOCS = PROJECT_ROOT / "docs"


PAGES = [
    *PROJECT_ROOT.glob("*.md"),
    *sorted(
        path
        for top in ("docs", "deploy", "prompts")
        for path in (PROJECT_ROOT / top).rglob("*.md")
        if "node_modules" not in path.parts
    ),
]


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
    """`docs/….md` in code, configuration, messages and pages."""
    sources = [path for top in ("mas", "eval", "optimize") for path in (PROJECT_ROOT / top).rglob("*.py")]
    sources += [*(PROJECT_ROOT / "conf").rglob("*.yaml"), *PAGES]
    named = {page for path in sources for page in re.findall(r"docs/[a-z/-]+\.(?:md|png)", path.read_text("utf-8"))}
    assert len(named) > 5
    assert [page for page in sorted(named) if not (PROJECT_ROOT / page).is_file()] == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """`make docs` fails otherwise."""
    listed = re.findall(r"(\S+\.md)$", (PROJECT_ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
