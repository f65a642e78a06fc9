"""A program is the same while nothing in the modules of its project has changed."""

import hashlib
import importlib
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from mas.agents.source_digest import digest_program, list_modules, note_loaded
from mas.systems.toy.system import ToySystem

_numbers = count()

FILES = {
    "program.py": "import NAME.texts\nfrom NAME import steps\nfrom .names import FIRST\ndef run(): import NAME.late",
    "__init__.py": "",
    "texts.py": "TEXT = 'Answer.'",
    "steps/__init__.py": "from .first import step",
    "steps/first.py": "from ..deep import here\ndef step(): ...",
    "deep/here.py": "from pathlib import Path",
    "names.py": "FIRST = 'first'",
    "late.py": "",
    "plugin.py": "NAME = 'loaded by a computed name'",
    "other.py": "",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    name = f"project_{next(_numbers)}"
    for file, text in FILES.items():
        path = tmp_path / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("NAME", name))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name, tmp_path / name
    for each in [each for each in sys.modules if each.startswith(name)]:
        del sys.modules[each]


def load(name: str) -> None:
    with note_loaded(f"{name}.program"):
        importlib.import_module(f"{name}.program")
        importlib.import_module(f"{name}.plug{'in'}")


def test_a_change_of_any_module_that_the_program_imports_is_noticed(package: tuple[str, Path]) -> None:
    name, folder = package
    load(name)
    before = digest_program(f"{name}.program")
    for file in FILES:
        path = folder / file
        text = path.read_text()
        path.write_text(f"{text}\n# changed")
        assert (digest_program(f"{name}.program") == before) is (file == "other.py"), file
        path.write_text(text)
    assert digest_program(f"{name}.program") == before


def test_what_else_is_loaded_does_not_count(package: tuple[str, Path]) -> None:
    name, folder = package
    load(name)
    before = digest_program(f"{name}.program")
    importlib.import_module(f"{name}.other")
    importlib.import_module(f"{name}.late")
    assert digest_program(f"{name}.program") == before
    state = folder / "state.json"
    state.write_text("{}")
    assert (with_state := digest_program(f"{name}.program", str(state), None)) != before
    state.write_text("[]")
    assert digest_program(f"{name}.program", str(state), None) != with_state


def test_modules_of_the_top_folder_belong_to_the_project_and_libraries_in_it_do_not(
    package: tuple[str, Path], tmp_path: Path
) -> None:
    name, _ = package
    (tmp_path / "pyproject.toml").touch()
    helper, library = tmp_path / f"{name}_helper.py", tmp_path / ".venv" / "site-packages" / f"{name}_library.py"
    library.parent.mkdir(parents=True)
    helper.touch()
    library.touch()
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / f"{name}_main.py").write_text(f"import {name}_helper, {name}_library, {name}.texts, json")
    sys.path[:0] = [str(scripts), str(library.parent)]
    try:
        importlib.import_module(f"{name}_main")
    finally:
        del sys.path[:2]
    before = digest_program(f"{name}_main")
    library.write_text("changed = True")
    assert digest_program(f"{name}_main") == before
    helper.write_text("changed = True")
    assert digest_program(f"{name}_main") != before


def test_an_installed_program_is_its_own_package(package: tuple[str, Path], tmp_path: Path) -> None:
    name, folder = package
    installed = tmp_path / "site-packages"
    installed.mkdir()
    folder.rename(installed / name)
    (installed / f"{name}_library.py").touch()
    (installed / name / "texts.py").write_text(f"import {name}_library")
    sys.path.insert(0, str(installed))
    try:
        load(name)
    finally:
        sys.path.remove(str(installed))
    before = digest_program(f"{name}.program")
    (installed / f"{name}_library.py").write_text("changed = True")
    assert digest_program(f"{name}.program") == before
    (installed / name / "names.py").write_text("FIRST = 'second'")
    assert digest_program(f"{name}.program") != before


def test_a_system_of_the_harness_is_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = ToySystem().source_sha256
    module = sys.modules[ToySystem.__module__]
    for path in Path(str(module.__file__)).parent.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(module, "__file__", str(tmp_path / "system.py"))
    assert ToySystem().source_sha256 == before
    with (tmp_path / "program.py").open("a") as file:
        file.write("# changed")
    assert ToySystem().source_sha256 != before


def test_the_modules_of_a_program_are_those_that_its_source_imports(package: tuple[str, Path]) -> None:
    """Whatever else was loaded with it, and also what only a call would import."""
    name, folder = package
    importlib.import_module(f"{name}.program")
    files = {
        "": "__init__.py",
        ".deep.here": "deep/here.py",
        ".late": "late.py",
        ".names": "names.py",
        ".program": "program.py",
        ".steps": "steps/__init__.py",
        ".steps.first": "steps/first.py",
        ".texts": "texts.py",
    }
    found = list_modules(f"{name}.program")
    assert found == {f"{name}{module}": (folder / file).resolve() for module, file in files.items()}
    assert list(found) == sorted(found)
    assert list_modules(f"{name}.never_loaded") == {}


def test_a_digest_is_of_names_and_contents_in_order(package: tuple[str, Path], tmp_path: Path) -> None:
    name, folder = package
    importlib.import_module(f"{name}.texts")
    state = tmp_path / "state.json"
    state.write_text("{}")

    def sha256(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    texts = f"{name}.texts {sha256((folder / 'texts.py').read_bytes())}\n"
    whole = f"{name}.texts\n{texts} {sha256(b'{}')}\n {sha256(b'')}\n"
    assert digest_program(f"{name}.texts", None, str(state), str(tmp_path / "gone"), "") == sha256(whole.encode())


def test_a_compiled_module_is_no_source(package: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name, folder = package
    (folder / "texts.py").write_text(f"import {name}.fast")
    (folder / "fast.so").touch()
    fast = ModuleType(f"{name}.fast")
    fast.__file__ = str(folder / "fast.so")
    monkeypatch.setitem(sys.modules, f"{name}.fast", fast)
    importlib.import_module(f"{name}.texts")
    assert sorted(list_modules(f"{name}.texts")) == [name, f"{name}.texts"]
