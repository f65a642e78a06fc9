import subprocess
from pathlib import Path

import pytest
from coverage import CoverageData

from scripts import mutation_sample
from scripts.mutation_sample import (
    Copy,
    Mutant,
    ReachingTests,
    Verdict,
    draw_mutants,
    find_sites,
    list_stages,
    write_report,
)

SOURCE = '''\
"""A docstring with 3 words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    most: int = 7
    text: str = f"é {1}"


def share(count: int, total: int, limits: Limits) -> float:
    """Return a share."""
    if total <= 0:
        raise ValueError(f"{total} < 1")
    note(count)
    limits.seen = True
    return min(count, limits.most) / total


if __name__ == "__main__":
    share(1, 2, Limits())
'''
TEST = """\
import pytest
from eval.small import Limits, share

def test_share() -> None:
    assert share(3, 4, Limits()) == 0.75
"""
BROKEN = "def test_that_always_fails() -> None:\n    assert False\n\n"


def changes(source: str) -> set[tuple[str, str]]:
    """Kind of each fault, and the line as it then is."""
    made = [site.make(source) for site in find_sites("eval/small.py", source)]
    return {(each.kind, each.diff().split("\n")[-1][1:].strip()) for each in made if each}


def test_faults_are_small_changes_of_what_runs_and_of_nothing_else() -> None:
    assert changes(SOURCE) == {
        ("constant", "most: int = 8"),
        ("constant", "most: int = 6"),
        ("negated condition", "if (not total <= 0):"),
        ("boundary", "if (total < 0):"),
        ("constant", "if total <= 1:"),
        ("constant", "if total <= (-1):"),
        ("removed statement", "pass"),
        ("removed call", "pass"),
        ("boolean", "limits.seen = False"),
        ("other result", "return None"),
        ("arithmetic", "return (min(count, limits.most) * total)"),
        ("swapped arguments", "return min(limits.most, count) / total"),
        ("other function", "return max(count, limits.most) / total"),
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a and b", {("and/or", "x = (a or b)")}),
        ("x = not a", {("negation", "x = a")}),
        ("x = a if b else c", {("negation", "x = (c if b else a)")}),
        ("x = a is None", {("comparison", "x = (a is not None)")}),
        ("x = 'é', a > b", {("boundary", "x = 'é', (a >= b)")}),
        ("x = folder / name", set()),
        ("x = 'a' + b", set()),
        ("x = 1000", set()),
        ("x = 2**16, 3 << 20", set()),
        ("x = n << 3", {("constant", "x = n << 4"), ("constant", "x = n << 2")}),
        ("def f():\n    return a, b", {("other result", "return ((b, a))")}),
        ("def f():\n    return a == b", {("comparison", "return (a != b)"), ("other result", "return (not a == b)")}),
        ("class A(TypedDict, total=False):\n    x = 2", {("constant", "x = 3"), ("constant", "x = 1")}),
        ("WAIT_SECONDS = 5\nf(timeout=2)\nTIMEOUT: int = 3", {("removed call", "pass")}),
        ("f(timeout=0)", {("removed call", "pass"), ("constant", "f(timeout=1)"), ("constant", "f(timeout=(-1))")}),
        ("import typing\nif typing.TYPE_CHECKING or TYPE_CHECKING:\n    f(1)", set()),
    ],
)
def test_each_kind_of_fault(line: str, expected: set[tuple[str, str]]) -> None:
    assert changes(line) == expected


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one module, a good test of half of it, and a test that always fails."""
    root = tmp_path / "project"
    for name, text in (
        ("eval/__init__.py", ""),
        ("eval/small.py", SOURCE.replace("note(count)", "str(count)").replace("(frozen=True)", "")),
        ("tests/eval/test_small.py", BROKEN + TEST),
        ("tests/eval/test_other.py", ""),
        ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["."]\nmarkers = ["slow: slow"]\n'),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet", root], check=True)
    subprocess.run(["git", "-C", root, "add", "."], check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", root, *author, "commit", "--quiet", "-m", "one"], check=True)
    monkeypatch.setattr(mutation_sample, "ROOT", root)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # loading them takes longer than these tests
    monkeypatch.setattr(mutation_sample, "os", _WithoutNice())
    return root


class _WithoutNice:
    """`os`, but the tests themselves are not slowed down."""

    def __getattr__(self, name: str) -> object:
        import os

        return (lambda increment: 0) if name == "nice" else getattr(os, name)


@pytest.mark.slow
def test_the_tree_is_not_touched_and_survivors_and_broken_tests_are_reported(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "eval" / "small.py").write_text((project / "eval" / "small.py").read_text() + "\n")  # not committed
    before = {path: path.read_bytes() for path in project.rglob("*.*") if ".git" not in path.parts}
    assert mutation_sample.main(["--n", "5", "--seed", "3", "--jobs", "2", "--at-least", "1"]) == 1
    out = capsys.readouterr().out
    report = (project / "outputs" / "mutants" / "seed3_n5.md").read_text()
    assert report in out
    killed, survived = out.count(": noticed by tests/eval/test_small.py::test_share"), out.count(": SURVIVED")
    assert (killed + survived, killed > 0, survived > 0) == (5, True, True), out
    assert report.startswith(f"# {killed} of 5 mutants noticed: {killed / 5:.0%} (")
    assert report.count("Equivalent, because:") == report.count("```diff") == survived
    assert "- `tests/eval/test_small.py::test_that_always_fails`" in report
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.slow
def test_survivors_are_judged_again_by_further_tests_and_the_modules_slow_ones(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, reports = project / "tests" / "eval" / "test_small.py", project / "outputs" / "mutants"
    own.write_text(TEST)
    assert mutation_sample.main(["--tests", "near", "--n", "5", "--seed", "3"]) == 0
    survived = capsys.readouterr().out.count(": SURVIVED")
    slow = "@pytest.mark.slow\ndef test_again() -> None:\n    assert Limits().most == 7 and share(0, 0, Limits())\n"
    own.write_text(f"{TEST}\n{slow.replace('share(0, 0', 'not share(0, 1')}")
    again = ["--survivors", str(reports / "seed3_n5.md"), "--at-least", "1"]
    mutation_sample.main(again)
    out = capsys.readouterr().out
    assert out.count("/small.py:") >= survived > 0 and f"{survived}/{survived} eval/small.py" in out
    noticed = out.count(": noticed by tests/eval/test_small.py::test_again")
    report = (reports / "seed3_n5_all_tests.md").read_text()
    assert report.startswith(f"# {5 - survived + noticed} of 5 mutants noticed")
    assert f"noticed before {5 - survived}" in report
    (project / "eval" / "small.py").write_text("x = 2\n")
    with pytest.raises(SystemExit, match="another state of the sources"):
        mutation_sample.main(again)


def test_a_seed_draws_the_same_mutants_and_kinds_take_turns(project: Path) -> None:
    drawn = [list(draw_mutants(project, [], seed)) for seed in (1, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert not drawn[0] == drawn[2] == drawn[3]
    assert len({each.line for each in drawn[0]}) == len(drawn[0])
    assert len({each.kind for each in drawn[0][:5]}) == 5
    assert {each.kind for each in draw_mutants(project, [], 1, ["boundary", "boolean"])} == {"boundary", "boolean"}


def test_the_tests_of_a_module_come_from_its_own_to_those_of_the_commands(tmp_path: Path) -> None:
    for name in ("eval/runs/test_store.py", "eval/runs/test_logs.py", "eval/test_run.py", "test_all.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_text("")
    (tmp_path / "tests" / "test_all.py").write_text("from eval.runs.store import RunStore\n")
    assert list_stages(tmp_path, "eval/runs/store.py") == [
        ("mirrored", ["tests/eval/runs/test_store.py"]),
        ("package", ["tests/eval/runs/test_logs.py"]),
        ("importing", ["tests/test_all.py"]),
        ("commands", ["tests/eval/test_run.py"]),
        ("slow", ["tests/eval/runs/test_store.py"]),
    ]
    reaching = ["tests/eval/runs/test_logs.py::test_a", "tests/mas/test_b.py::test_c[1]"]
    assert list_stages(tmp_path, "eval/runs/store.py", reaching)[2:] == [
        ("reaching", ["tests/mas/test_b.py::test_c[1]"]),
        ("slow", ["tests/eval/runs/test_store.py"]),
    ]
    assert list_stages(tmp_path, "eval/runs/logs.py")[0] == ("mirrored", ["tests/eval/runs/test_logs.py"])
    assert [stage for stage, _ in list_stages(tmp_path, "eval/runs/none.py")] == ["package", "commands"]


def test_the_tests_that_reach_a_line_are_read_from_a_coverage_file(tmp_path: Path) -> None:
    module = str(mutation_sample.ROOT / "eval" / "small.py")
    data = CoverageData(str(tmp_path / "coverage"))
    for context in ("", "tests/a.py::b|run", *(f"tests/a.py::c[{number}]|run" for number in range(9, 4, -1))):
        data.set_context(context)
        data.add_lines({module: [3] if context else [1, 3]})
    data.write()
    reaching = ReachingTests(tmp_path / "coverage")
    few = [f"tests/a.py::c[{number}]" for number in (5, 6, 7)]
    assert reaching.list_tests("eval/small.py", 3) == ["tests/a.py::b", *few]
    assert reaching.list_tests("eval/small.py", 1) == reaching.list_tests("eval/small.py", 2) == []


@pytest.mark.slow
def test_a_mutant_that_hangs_was_noticed(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_sample, "TIMEOUT_SECONDS", 2.0)
    original = (project / "eval" / "small.py").read_text()
    text = original.replace("if total <= 0:", "while True:").replace("raise", "#")
    (project / "tests" / "eval" / "test_small.py").write_text(TEST)
    text = text.replace("while True:", "while True:\n        pass")
    copy = Copy(tmp_path / "copy")
    verdict = copy.judge(Mutant("eval/small.py", 14, "negated condition", text, original))
    copy.close()
    assert (verdict.stage, verdict.test) == ("mirrored", "(no end within the time)")


def test_the_share_has_its_interval() -> None:
    mutant = Mutant("eval/__init__.py", 1, "constant", "", "1")
    assert mutant.diff() == "-1"
    report = write_report([Verdict(mutant, "mirrored", "t")] * 8 + [Verdict(mutant)] * 2, "command")
    assert report.startswith("# 8 of 10 mutants noticed: 80% (44% to 95%)")
