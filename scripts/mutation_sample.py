"""Draw small faults of the source at random, run the tests of each faulty module, and report what no test noticed.

    .venv/bin/python scripts/mutation_sample.py --n 150 --seed 1 --jobs 2
    .venv/bin/python scripts/mutation_sample.py --n 20 --seed 7 --only eval/runs
    .venv/bin/python scripts/mutation_sample.py --only eval/cli --kinds boundary --tests own --n 999  # every one
    .venv/bin/python scripts/mutation_sample.py --tests near --n 60 --seed 3  # then its survivors in all other tests:
    .venv/bin/python scripts/mutation_sample.py --survivors outputs/mutants/seed3_n60.md

Faults (mutants) are boundaries of comparisons, negated conditions, constants changed by one, removed statements,
swapped arguments and operands, other results. Each is made in a copy of the repository, where the module's own tests
run (`tests/<path>/test_<module>.py`), then, if they notice nothing, those in the same folder, then those that reach the
line (where `--coverage` has them), then those that import the module, then those of the commands; of slow tests only
the module's own run, and only for survivors that are judged again. A test that fails without the fault, too, does not
count.

The result is printed and written to `outputs/mutants/seed<seed>_n<n>.md`, with a line for each survivor in which a
reader may say why nobody could notice it. The source tree itself is never changed.
"""

import argparse
import ast
import difflib
import json
import os
import queue
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from coverage import CoverageData

from eval.analysis.statistics.intervals import compute_accuracy_interval

ROOT = Path(__file__).resolve().parents[1]
WARM_PYTEST = Path(__file__).with_name("warm_pytest.py")
PACKAGES = ("mas", "eval", "optimize")
LEFT_OUT = ("eval/benchmarks/sample/",)  # attachments of questions
MAX_CONSTANT = 20  # a larger one is a limit that no test should know to the last digit
NEAR, FAR = ("mirrored", "package"), ("reaching", "importing", "commands")
STAGES_BY_TESTS = {"own": ("mirrored",), "near": NEAR, "all": (*NEAR, *FAR)}
REACHING = FAR[0]  # tests elsewhere that reach the line, where a coverage file says so
SLOW = "slow"  # the module's own tests once more, those that are marked so
BEFORE = "noticed before"  # stage of a mutant that an earlier report counts as noticed
TIMEOUT_SECONDS = 300.0  # for the tests of one stage; a mutant that hangs was noticed
NICENESS = 10
MAX_PARAMETERS = 3  # of one parametrized test that reaches a line
_BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_TIME = re.compile(r"(SECONDS|TIMEOUT|INTERVAL)S?$|^timeout$", re.IGNORECASE)
_SURVIVOR = re.compile(r"^\d+\. `(.+):(\d+)` (.+)$", re.MULTILINE)
_PATH = re.compile(r"folder|path|root|parent|Path|shelf|state$|name$|_dir|OUTPUTS|PROJECT_ROOT")
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One fault: the module's whole text with it."""

    path: str  # of the module, below the repository
    line: int
    kind: str
    text: str
    original: str

    def diff(self) -> str:
        lines = difflib.unified_diff(self.original.splitlines(), self.text.splitlines(), lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


# Making mutants

Write = Callable[[], str]
Change = tuple[str, ast.expr | ast.stmt, Write]  # kind of fault, the node that is replaced, the text in its place


@dataclass(frozen=True)
class Site:
    """Place of a possible fault; its text is only made if it is drawn."""

    path: str
    kind: str
    node: ast.expr | ast.stmt
    write: Write

    def make(self, source: str) -> Mutant | None:
        """Return the mutant; None if it is no Python, or the same program."""
        begin, end = (_find_offset(source, *place) for place in _get_span(self.node))
        text = source[:begin] + self.write() + source[end:]
        try:
            differs = ast.dump(ast.parse(text)) != ast.dump(ast.parse(source))
        except SyntaxError:
            return None
        return Mutant(self.path, self.node.lineno, self.kind, text, source) if differs else None


def _get_span(node: ast.expr | ast.stmt) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _find_offset(source: str, line: int, column: int) -> int:
    """Return the index of a place; columns of `ast` count bytes."""
    lines = source.split("\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())


def find_sites(path: str, source: str) -> Iterator[Site]:
    """Yield every place of a module at which a fault can be made, and each fault there."""
    for node in _walk(ast.parse(source)):
        for kind, replaced, write in _mutate(node):
            yield Site(path, kind, replaced, write)


def _walk(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield what runs: no annotations, decorators, docstrings, types, f-strings, and no block of a script.

    The arguments of a class (`total=False`) are for the type checker, and a second more or less of a waiting time
    could only be noticed by a test that measures it.
    """
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        if (name == "keywords" and isinstance(node, ast.ClassDef)) or (name == "value" and _is_time(node)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_left_out(child):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            if not isinstance(child, ast.JoinedStr) and not _is_size(child):
                yield from _walk(child)


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring, or the ... of a protocol
    if isinstance(node, ast.If):
        return any(
            isinstance(each, ast.Name) and each.id in ("__name__", "TYPE_CHECKING") for each in ast.walk(node.test)
        )
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_size(node: ast.AST) -> bool:
    """Return whether the node is a number of bytes such as `2**16` or `64 << 20`, too large to be known exactly."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow | ast.LShift)
        and all(isinstance(side, ast.Constant) for side in (node.left, node.right))
    )


def _is_time(node: ast.AST) -> bool:
    """Return whether the node gives a number to a name or an argument that is a waiting time."""
    if not isinstance(node, ast.keyword | ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Constant):
        return False
    if not node.value.value:
        return False  # to have none at all, or not to wait, is another behaviour
    if isinstance(node, ast.keyword):
        return bool(_TIME.search(node.arg or ""))
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(each, ast.Name) and each.id.isupper() and _TIME.search(each.id) for each in targets)


def _mutate(node: ast.expr | ast.stmt) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        yield from _mutate_comparison(node)
    elif isinstance(node, ast.BoolOp):
        yield "and/or", node, _write(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "negation", node, _write(node.operand)
    elif isinstance(node, ast.IfExp):
        yield "negation", node, _write(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Constant):
        yield from _mutate_constant(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text_or_path(node):
        yield "arithmetic", node, _write(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Call):
        yield from _mutate_call(node)
    elif isinstance(node, ast.stmt):
        yield from _mutate_statement(node)


def _mutate_comparison(node: ast.Compare) -> Iterator[Change]:
    for place, operator in enumerate(node.ops):
        for kind, others in (("boundary", _BOUNDARIES), ("comparison", _OPPOSITES)):
            if other := others.get(type(operator)):
                yield kind, node, _write(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])


def _mutate_constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield "boolean", node, _text(repr(not node.value))
    elif isinstance(node.value, int) and 0 <= node.value <= MAX_CONSTANT:
        for other in (node.value + 1, node.value - 1):
            yield "constant", node, _text(f"({other})" if other < 0 else str(other))


def _mutate_call(node: ast.Call) -> Iterator[Change]:
    first, second = (*node.args[:2], None, None)[:2]
    if first and second and not any(isinstance(each, ast.Starred) for each in (first, second)):
        yield "swapped arguments", node, _write(node, args=[second, first, *node.args[2:]])
    if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        yield "other function", node, _write(node, func=ast.Name(_FUNCTIONS[node.func.id]))


def _mutate_statement(node: ast.stmt) -> Iterator[Change]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        yield "removed call", node, _text("pass")
    elif isinstance(node, ast.If | ast.While):
        yield "negated condition", node.test, _write(ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _mutate_result(node.value)
    elif _may_be_removed(node):
        yield "removed statement", node, _text("pass")


def _may_be_removed(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):  # without a name, the module would not even be loaded
        return not any(isinstance(each, ast.Name | ast.Tuple) for each in node.targets)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Delete)


def _mutate_result(value: ast.expr) -> Iterator[Change]:
    if isinstance(value, ast.Constant) and value.value in (None, True, False):
        return  # `boolean` has it
    if isinstance(value, ast.Tuple) and len(value.elts) == 2:
        yield "other result", value, _write(value, elts=value.elts[::-1])
    elif isinstance(value, ast.Compare | ast.BoolOp):
        yield "other result", value, _write(ast.UnaryOp(ast.Not(), value))
    else:
        yield "other result", value, _text("None")


def _text(text: str) -> Write:
    return lambda: text


def _write(node: ast.expr, **changes: object) -> Write:
    """Return what writes the node with some fields changed."""

    def write() -> str:
        fields = {**{name: getattr(node, name) for name in node._fields}, **changes}
        text = ast.unparse(ast.fix_missing_locations(type(node)(**fields)))
        return text if isinstance(node, ast.Call | ast.Name | ast.Constant) else f"({text})"

    return write


def _is_text_or_path(node: ast.BinOp) -> bool:
    """Return whether Python itself would refuse another operator."""
    sides = (node.left, node.right)
    if any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in sides):
        return True
    return isinstance(node.op, ast.Div) and any(_PATH.search(ast.unparse(side)) for side in sides)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def draw_mutants(root: Path, only: Sequence[str], seed: int, wanted: Sequence[str] = ()) -> Iterator[Mutant]:
    """Yield all mutants (of the wanted kinds) in a random order: kinds take turns, and no line comes twice."""
    kinds: dict[str, list[Site]] = defaultdict(list)
    sources: dict[str, str] = {}
    for path in sorted(each for package in PACKAGES for each in (root / package).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(tuple(only) or PACKAGES) and not name.startswith(LEFT_OUT):
            sources[name] = path.read_text("utf-8")
            for site in find_sites(name, sources[name]):
                if not wanted or site.kind in wanted:
                    kinds[site.kind].append(site)
    draw = random.Random(seed)
    left = [kinds[kind] for kind in sorted(kinds)]
    for each in left:
        draw.shuffle(each)
    drawn: set[tuple[str, int]] = set()
    while left := [each for each in left if each]:
        for each in left:
            site = each.pop()
            mutant = site.make(sources[site.path])
            if mutant is not None and (mutant.path, mutant.line) not in drawn:
                drawn.add((mutant.path, mutant.line))
                yield mutant


# Running tests


class ReachingTests:
    """Tests that reach a line, as `pytest --cov --cov-context=test` has written them down."""

    def __init__(self, coverage_file: Path) -> None:
        self._data = CoverageData(str(coverage_file))
        self._data.read()

    def list_tests(self, path: str, line: int) -> list[str]:
        """Return the ids of tests of any folder: of a parametrized one a few. None reaches what an import runs."""
        contexts = self._data.contexts_by_lineno(str(ROOT / path)).get(line, [])
        by_test: dict[str, list[str]] = defaultdict(list)
        for test in sorted({context.rpartition("|")[0] for context in contexts} - {""}):
            by_test[test.partition("[")[0]].append(test)
        return [test for tests in by_test.values() for test in tests[:MAX_PARAMETERS]]


def list_stages(root: Path, path: str, reaching: Sequence[str] = ()) -> list[tuple[str, list[str]]]:
    """Return the tests of a module, from its own to those of the commands, then its own slow ones.

    A stage has its name, and files, folders, or ids of tests. Where it is known which tests reach the line, they take
    the place of those that import the module, and of the commands'.
    """
    module, package = Path(path), Path("tests") / Path(path).parent
    mirrored = package / f"test_{module.name}"
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    names = re.compile(rf"\b{re.escape(name)}\b|from {re.escape(name.rpartition('.')[0])} import .*\b{module.stem}\b")
    tests = sorted((root / "tests").rglob("test_*.py"))
    importing = [each.relative_to(root) for each in tests if names.search(each.read_text("utf-8"))]
    package_tests, commands = (
        [each.relative_to(root) for each in tests if each.parent == root / folder]
        for folder in (package, Path("tests") / module.parts[0])
    )
    own_slow = [(SLOW, [str(mirrored)])] if (root / mirrored).exists() else []
    done: set[Path] = set()
    result: list[tuple[str, list[str]]] = []
    for stage, targets in zip((*NEAR, *FAR[1:]), ([mirrored], package_tests, importing, commands), strict=True):
        if new := [each for each in targets if (root / each).exists() and each not in done]:
            done.update(new)
            result.append((stage, [str(each) for each in new]))
        if stage == NEAR[-1] and (further := [each for each in reaching if Path(each.partition("::")[0]) not in done]):
            result.append((REACHING, further))
            return [*result, *own_slow]
    return [*result, *own_slow]


@dataclass
class Verdict:
    """Outcome of one mutant."""

    mutant: Mutant
    stage: str = ""  # whose tests noticed it; empty: none did
    test: str = ""  # the first that failed
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)  # tests that fail without the mutant, too


class Copy:
    """Copy of the repository, in which one mutant at a time is made and tested."""

    def __init__(self, folder: Path, reaching: ReachingTests | None = None) -> None:
        self.folder = folder
        self._reaching = reaching
        self._sound: set[str] = set()  # tests that are known to pass without a mutant
        subprocess.run(["git", "clone", "--quiet", "--local", str(ROOT), str(folder)], check=True)
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
        ).stdout.decode()
        for name in filter(None, listed.split("\0")):  # with what is not committed yet
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        if (ROOT / ".venv").exists() and not (folder / ".venv").exists():
            (folder / ".venv").symlink_to(ROOT / ".venv")
        # By hash: a mutant of the same length within the same second is another text all the same.
        compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
        subprocess.run([*compiling, *(each for each in PACKAGES if (folder / each).exists())], cwd=folder, check=False)
        self._server = PytestServer(folder)

    def close(self) -> None:
        self._server.close()

    def judge(self, mutant: Mutant, stages: Sequence[str] = (*NEAR, *FAR)) -> Verdict:
        """Make the mutant, run the tests of these stages, and take it back."""
        verdict, began = Verdict(mutant), time.monotonic()
        module = self.folder / mutant.path
        reaching = self._reaching.list_tests(mutant.path, mutant.line) if self._reaching else []
        for stage, targets in list_stages(self.folder, mutant.path, reaching):
            while stage in stages and not verdict.stage:
                module.write_text(mutant.text, encoding="utf-8")
                failed = self._find_failing_test(targets, verdict.broken, stage == SLOW)
                module.write_text(mutant.original, encoding="utf-8")
                if failed is None:
                    break
                if failed and failed not in self._sound:
                    if self._find_failing_test([failed], [], stage == SLOW) is not None:
                        verdict.broken.append(failed)
                        continue
                    self._sound.add(failed)
                verdict.stage, verdict.test = stage, failed or "(no end within the time)"
        verdict.seconds = time.monotonic() - began
        return verdict

    def _find_failing_test(self, targets: Sequence[str], left_out: Sequence[str], slow: bool = False) -> str | None:
        """Return the first test that fails; empty if they do not end; None if all pass."""
        marked = "slow" if slow else "not slow"
        options = ["-x", "-q", "-m", marked, "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=no", "-rfE"]
        deselected = [part for each in left_out for part in ("--deselect", each)]
        code, out = self._server.run([*options, *deselected, *targets])
        if code is None:
            return ""
        if code in (0, 5):  # 5: nothing but slow tests
            return None
        found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", out, re.MULTILINE)
        return found[1] if found else targets[0]  # the test process itself died


class PytestServer:
    """Process that has imported the libraries, and runs pytest in forks of itself (`scripts/warm_pytest.py`)."""

    def __init__(self, folder: Path) -> None:
        self._output = folder.parent / f"{folder.name}.out"
        self._process = subprocess.Popen(
            [sys.executable, str(WARM_PYTEST), str(folder)],
            env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # `select` knows nothing of lines that have been read ahead
            preexec_fn=_restore_signals,
        )

    def run(self, arguments: Sequence[str]) -> tuple[int | None, str]:
        """Return the exit code, None if the tests do not end within the time, and what pytest printed."""
        source, sink = self._process.stdout, self._process.stdin
        assert source and sink
        request = {"arguments": list(arguments), "seconds": int(TIMEOUT_SECONDS) + 10, "output": str(self._output)}
        sink.write(json.dumps(request).encode() + b"\n")
        group = int(source.readline())
        in_time, _, _ = select.select([source], [], [], TIMEOUT_SECONDS)
        _kill_group(group)  # with it the processes that its tests have left
        code = int(source.readline())
        return (code if in_time else None), self._output.read_text("utf-8", errors="replace")

    def close(self) -> None:
        with self._process:  # closes the pipes and waits
            self._process.kill()


def _restore_signals() -> None:
    """Undo what `nohup` and a shell's background do: tests that send signals would wait for ever."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGHUP else signal.default_int_handler)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def judge_all(
    mutants: Sequence[Mutant],
    jobs: int,
    show: Callable[[Verdict], None],
    stages: Sequence[str] = (*NEAR, *FAR),
    reaching: ReachingTests | None = None,
) -> list[Verdict]:
    """Judge the mutants in as many copies as there are jobs; the result has their order."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as parent:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(Copy(Path(parent) / str(number), reaching))

        def judge(mutant: Mutant) -> Verdict:
            place = copies.get()
            try:
                verdict = place.judge(mutant, stages)
            finally:
                copies.put(place)
            show(verdict)
            return verdict

        try:
            with ThreadPoolExecutor(jobs) as pool:
                return list(pool.map(judge, mutants))
        finally:
            for _ in range(jobs):
                copies.get().close()


# Reporting


def write_report(verdicts: Sequence[Verdict], command: str) -> str:
    """Return the result as Markdown."""
    survivors = [each for each in verdicts if not each.stage]
    killed = len(verdicts) - len(survivors)
    low, high = compute_accuracy_interval(killed, len(verdicts)) or (0.0, 1.0)
    stages = Counter(each.stage if each.stage == BEFORE else f"{each.stage} tests" for each in verdicts if each.stage)
    lines = [
        f"# {killed} of {len(verdicts)} mutants noticed: {killed / len(verdicts):.0%} ({low:.0%} to {high:.0%})",
        "",
        f"`{command}`",
        "",
        "By: " + ", ".join(f"{name} {count}" for name, count in stages.most_common()) + ".",
        "",
        "| Kind | Noticed | Of |",
        "|---|---|---|",
    ]
    for kind in sorted({each.mutant.kind for each in verdicts}):
        of_kind = [each for each in verdicts if each.mutant.kind == kind]
        lines.append(f"| {kind} | {sum(bool(each.stage) for each in of_kind)} | {len(of_kind)} |")
    lines += ["", "## Survivors", ""]
    for number, each in enumerate(survivors, 1):
        lines += [f"{number}. `{each.mutant.path}:{each.mutant.line}` {each.mutant.kind}", ""]
        lines += ["   ```diff", *(f"   {line}" for line in each.mutant.diff().splitlines()), "   ```", ""]
        lines += ["   Equivalent, because: ", ""]
    if broken := sorted({test for each in verdicts for test in each.broken}):
        lines += ["## Tests that fail without a mutant, too", "", *(f"- `{test}`" for test in broken), ""]
    return "\n".join(lines)


def read_survivors(report: Path, mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return those of the mutants that survived according to an earlier report of the same draw."""
    left = {(path, int(line), kind) for path, line, kind in _SURVIVOR.findall(report.read_text("utf-8"))}
    found = [each for each in mutants if (each.path, each.line, each.kind) in left]
    if len(found) != len(left):
        sys.exit(
            f"{report} is of another state of the sources: {len(left) - len(found)} survivors are not drawn any more"
        )
    return found


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=150, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once, each in its own copy")
    parser.add_argument("--only", nargs="*", default=[], metavar="PATH", help="modules whose path begins like this")
    parser.add_argument("--kinds", nargs="*", default=[], metavar="KIND", help="kinds of faults, for example boundary")
    parser.add_argument(
        "--tests",
        choices=list(STAGES_BY_TESTS),
        default="all",
        help="own: those of the module's own file; near: those of its folder, too; all: those of the commands, too",
    )
    parser.add_argument(
        "--coverage",
        type=Path,
        metavar="FILE",
        help="written by `pytest --cov --cov-context=test`: the tests that reach the line are among all tests, too",
    )
    parser.add_argument("--at-least", type=float, default=0.0, help="share that must be noticed")
    parser.add_argument(
        "--survivors",
        type=Path,
        metavar="REPORT",
        help="judge only the survivors of a report, by the tests beyond the module's folder and its own slow ones; "
        "the result is that of all its mutants",
    )
    given = parser.parse_args(arguments)
    if given.survivors is None:
        return given
    (command,) = re.findall(r"^`scripts/mutation_sample\.py(.*)`$", given.survivors.read_text("utf-8"), re.MULTILINE)
    before = parser.parse_args(shlex.split(command))
    return argparse.Namespace(
        **{**vars(given), "n": before.n, "seed": before.seed, "only": before.only, "kinds": before.kinds}
    )


def main(arguments: Sequence[str]) -> int:
    """Draw, judge and report; exit code 1 if fewer than the wanted share were noticed."""
    given = _parse(arguments)
    drawn = list(islice(draw_mutants(ROOT, given.only, given.seed, given.kinds), given.n))
    if not drawn:
        sys.exit("there is nothing to mutate; --only takes paths such as eval/runs, --kinds words such as boundary")
    mutants, stages, name = drawn, STAGES_BY_TESTS[given.tests], f"seed{given.seed}_n{len(drawn)}"
    if given.survivors:
        mutants, stages, name = read_survivors(given.survivors, drawn), (*FAR, SLOW), f"{name}_all_tests"
    os.nice(NICENESS)
    done = Counter[bool]()

    def show(verdict: Verdict) -> None:
        done[bool(verdict.stage)] += 1
        word = f"noticed by {verdict.test}" if verdict.stage else "SURVIVED"
        place = f"{verdict.mutant.path}:{verdict.mutant.line} {verdict.mutant.kind}"
        print(f"{done.total()}/{len(mutants)} {place}, {verdict.seconds:.0f} s: {word}", flush=True)

    reaching = ReachingTests(given.coverage) if given.coverage else None
    judged = judge_all(mutants, given.jobs, show, stages, reaching)
    verdicts = judged + [Verdict(mutant, BEFORE) for mutant in drawn if mutant not in mutants]
    report = write_report(verdicts, f"scripts/mutation_sample.py {shlex.join(arguments)}".strip())
    file = ROOT / "outputs" / "mutants" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(report, encoding="utf-8")
    print(f"\n{report}\nwritten to {file.relative_to(ROOT)}")
    return int(sum(bool(each.stage) for each in verdicts) / len(verdicts) < given.at_least)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
