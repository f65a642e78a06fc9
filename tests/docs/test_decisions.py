"""Citations in code: documents that are in the repository, and decisions that exist."""

import re
import subprocess

from eval.cli.paths import PROJECT_ROOT

RECORDS = "docs/explanation/decisions.md"
FOLDERS = ("mas", "eval", "optimize", "conf", "tests", "scripts", "deploy", "prompts", "docs", "README.md")
ABSENT = re.compile(
    r"gaia-(design|architecture|data-structures|logical-flow)|bos-ai-|\bDECISIONS\b|(architecture|design) document"
    r"|\b[Tt]he specification\b|knowledge/\w+\.md"
)
CITATION = re.compile(r"decisions\.md ((?:\d+[a-d]?)(?:(?:, | and )\d+[a-d]?)*)")


def read_lines() -> list[tuple[str, str]]:
    command = [
        "git",
        "grep",
        "--untracked",
        "-nI",
        "",
        "--",
        *FOLDERS,
        ":!tests/docs/test_decisions.py",
        ":!*/vendor/*",
    ]
    listed = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    split = (line.split(":", 2) for line in listed.stdout.splitlines())
    return [(f"{path}:{number}", text) for path, number, text in split if "/sample/" not in path]


def test_no_file_cites_a_document_that_is_not_in_the_repository() -> None:
    assert [f"{place}: {text.strip()}" for place, text in read_lines() if ABSENT.search(text)] == []


def test_every_cited_decision_has_a_record() -> None:
    records = set(re.findall(r"^### (\d+[a-d]?)\. ", (PROJECT_ROOT / RECORDS).read_text("utf-8"), re.MULTILINE))
    cited = {
        (place, number)
        for place, text in read_lines()
        for numbers in CITATION.findall(text)
        for number in re.findall(r"\d+[a-d]?", numbers)
    }
    assert len(cited) >= 10
    assert {(place, number) for place, number in cited if number not in records} == set()
