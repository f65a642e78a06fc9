"""The pages on the sandbox: their kinds and limits are those of `conf/` and of the code."""

from eval.cli.paths import PROJECT_ROOT
from mas.tools.sandbox import seccomp
from mas.tools.sandbox.bubblewrap import OPEN_FILES
from mas.tools.sandbox.deno import MAX_FILE_BYTES, PYODIDE
from mas.tools.sandbox.process import MAX_FILES, MAX_THREADS
from mas.tools.sandbox.settings import KINDS
from tests.docs.test_tools import conf, rows

PAGES = ("reference/sandbox.md", "explanation/sandbox.md")
PAGE = "\n".join((PROJECT_ROOT / "docs" / page).read_text("utf-8") for page in PAGES)


def test_the_limits_are_those_in_conf() -> None:
    limits = {name: str(value) for name, value in conf("tools/standard")["sandbox"].items() if name != "kind"}
    told = {name.strip("`"): default for name, default, _ in rows(PAGE.split("## What the agent gets")[1])}
    assert told == limits


def test_the_fixed_limits_are_those_of_the_code() -> None:
    assert f"At most {MAX_THREADS} threads, {OPEN_FILES} open files, and {MAX_FILES:,} files and links" in PAGE
    assert f"only the {len(seccomp.ALLOWED) + 2} system calls" in PAGE  # clone and prctl, in part
    assert f"those above {MAX_FILE_BYTES // 1_000_000} MB are left out" in PAGE
    assert f"`deno cache {PYODIDE}`" in PAGE


def test_the_kinds_are_those_that_can_be_chosen() -> None:
    told = [name for name, _ in rows(PAGE)]
    assert {name.split("`")[1] for name in told} == set(KINDS)
    [default] = [name for name in told if "(default)" in name]
    assert default == f"`{conf('tools/standard')['sandbox']['kind']}` (default)"
