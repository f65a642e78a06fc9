"""Remove each method of a contract from each of its implementations in turn, and list removals that no test notices.

    python scripts/remove_methods.py            # all contracts, about three minutes
    python scripts/remove_methods.py Dataset    # one of them

An implementation is a class that `conf/` names, one of its base classes here, a program that a system builds, or a
tool. Each removal happens in a forked process, which runs the contract's conformance tests; exit code 1 if they pass
in one of them.
"""

import contextlib
import inspect
import io
import os
import re
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)

import pytest  # noqa: E402
import yaml  # noqa: E402
from hydra.utils import get_class  # noqa: E402

from eval.benchmarks.dataset import Dataset  # noqa: E402
from eval.execution.executors.contract import Executor  # noqa: E402
from eval.execution.executors.local import LocalExecutor  # noqa: E402
from eval.scorers.score import Scorer  # noqa: E402
from mas.agents.program import AgentProgram  # noqa: E402
from mas.llm.profiles.model import Model  # noqa: E402
from mas.system import System  # noqa: E402
from optimize.search.optimizer import Optimizer  # noqa: E402

SYSTEM_TESTS = "tests/mas/test_system_contract.py"
OWN_PACKAGES = ("mas.", "eval.", "optimize.")
TOOL_TESTS = "tests/mas/tools/test_tool_contract.py"
OPTIONS = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
NOTICED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)  # interrupted: the test module cannot be imported
PROGRAM_METHODS = {
    *("aforward", "forward", "acall", "__call__", "named_predictors", "named_sub_modules", "deepcopy"),
    *("answer", "ask"),  # abstract in the base classes of programs
}


@dataclass(frozen=True)
class Contract:
    """A contract's name, its conformance tests, the methods that it demands and the classes that have them."""

    name: str
    tests: str
    methods: frozenset[str]
    implementations: tuple[type, ...]

    def list_removals(self) -> Iterator[tuple[type | ModuleType, str]]:
        """Yield each class of ours that defines a method of the contract, with the method's name."""
        classes = dict.fromkeys(owner for each in self.implementations for owner in each.__mro__)
        for owner in classes:
            if owner.__module__.startswith(OWN_PACKAGES) and not getattr(owner, "_is_protocol", False):
                for name in sorted(self.methods & vars(owner).keys()):
                    member = vars(owner)[name]
                    if is_method(member) and not getattr(member, "__isabstractmethod__", False):
                        yield owner, name


class ToolContract(Contract):
    """The functions that the systems' configuration names as tools."""

    def list_removals(self) -> Iterator[tuple[type | ModuleType, str]]:
        """Yield the module of each tool, with the name of its function."""
        files = sorted((ROOT / "conf" / "system").glob("*.yaml"))
        tools = (yaml.safe_load(path.read_text("utf-8")).get("tools") or {} for path in files)
        for target in dict.fromkeys(target for each in tools for target in each.values()):
            module, _, name = target.rpartition(".")
            yield import_module(module), name


def read_configured(group: str) -> tuple[type, ...]:
    """Return the classes that the files of `conf/<group>/` name."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "conf" / group).glob("*.yaml"))]
    targets = [found[1] for text in texts if (found := re.search(r"^_target_: (\S+)", text, re.MULTILINE))]
    return tuple(dict.fromkeys(get_class(target) for target in targets))


def list_subclasses(parent: type) -> Iterator[type]:
    """Yield all classes of ours that are derived from a class."""
    for child in parent.__subclasses__():
        if child.__module__.startswith(OWN_PACKAGES):
            yield child
        yield from list_subclasses(child)


def build_contracts() -> list[Contract]:
    """Build the list of contracts with their conformance tests and implementations."""
    found = [
        (System, SYSTEM_TESTS, read_configured("system")),
        (Dataset, "tests/eval/benchmarks/test_conformance.py", read_configured("data")),
        (Scorer, "tests/eval/scorers/test_conformance.py", read_configured("scorer")),
        (Model, "tests/mas/llm/profiles/test_model.py", read_configured("model")),
        (Optimizer, "tests/optimize/search/test_optimizer.py", read_configured("optimizer")),
        (Executor, "tests/eval/execution/executors/test_conformance.py", (LocalExecutor,)),
    ]
    for module in ("bos", "gaia", "single_agent", "toy"):
        import_module(f"mas.systems.{module}.program")
    for module in ("dspy_program", "function_program", "http_program"):
        import_module(f"mas.systems.external.{module}")
    programs = (AgentProgram, *list_subclasses(AgentProgram))
    return [
        *(Contract(each.__name__, tests, frozenset(list_methods(each)), classes) for each, tests, classes in found),
        Contract("Program", SYSTEM_TESTS, frozenset(PROGRAM_METHODS), programs),
        ToolContract("Tool", TOOL_TESTS, frozenset(), ()),
    ]


def list_methods(contract: type) -> Iterator[str]:
    """Yield the names of a contract's methods and properties."""
    for name, member in vars(contract).items():
        if is_method(member) and (name[0] != "_" or name == "__call__"):
            yield name


def is_method(member: object) -> bool:
    """Return True for a function or property of a class; a field's default is neither."""
    return inspect.isfunction(member) or isinstance(member, property)


def start_tests(tests: str, owner: type | ModuleType | None = None, name: str = "") -> int:
    """Run tests in a forked process, without the method if one is given, and return the process's number."""
    sys.stdout.flush()
    if (process := os.fork()) == 0:
        code = -1
        try:
            if owner is not None:
                delattr(owner, name)
            printed = io.StringIO()
            with (
                tempfile.TemporaryDirectory() as folder,  # pytest's own would be shared with the other processes
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
            ):
                code = pytest.main([*OPTIONS, f"--basetemp={folder}/tests", str(ROOT / tests)])
            if code not in (pytest.ExitCode.OK, *NOTICED):
                print(printed.getvalue(), file=sys.stderr)
        finally:
            os._exit(int(code) & 0xFF)
    return process


def wait_for(process: int) -> int:
    """Return pytest's exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def try_removals(contract: Contract, jobs: int) -> Iterator[bool]:
    """Yield whether each removal was noticed, and print it; `jobs` of them are tried at once."""
    running: deque[tuple[int, str]] = deque()
    removals = contract.list_removals()
    while True:
        for owner, name in islice(removals, jobs - len(running)):
            running.append((start_tests(contract.tests, owner, name), f"{owner.__name__}.{name}"))
        if not running:
            return
        process, removal = running.popleft()
        is_noticed = wait_for(process) in NOTICED
        print(f"{contract.name:<10} {removal}: {'noticed' if is_noticed else 'NOT NOTICED'}", flush=True)
        yield is_noticed


def main() -> int:
    only, jobs = set(sys.argv[1:]), os.cpu_count() or 1
    noticed: Counter[bool] = Counter()
    for contract in build_contracts():
        if only and contract.name not in only:
            continue
        if code := wait_for(start_tests(contract.tests)):
            print(f"{contract.tests} does not pass as it is (pytest's exit code {code}): correct that first")
            return 1
        noticed.update(try_removals(contract, jobs))
    print(f"{noticed.total()} methods removed, {noticed[False]} unnoticed")
    return min(noticed[False], 1)


if __name__ == "__main__":
    sys.exit(main())
