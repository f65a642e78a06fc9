"""A program is the same while nothing in the modules of its project has changed."""

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from mas.agents import source_digest
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


Write = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes files of a project; `main`, the first one, counts as loaded."""

    def write(files: Mapping[str, str]) -> Path:
        for file, text in files.items():
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        note(monkeypatch, "main", tmp_path / next(iter(files)))
        return tmp_path

    return write


def note(monkeypatch: pytest.MonkeyPatch, name: str, path: Path | None) -> None:
    """Let a module count as loaded from a file."""
    module = ModuleType(name)
    module.__file__ = str(path) if path else None
    monkeypatch.setitem(sys.modules, name, module)


def found(folder: Path, name: str = "main") -> dict[str, str]:
    return {each: path.relative_to(folder.resolve()).as_posix() for each, path in list_modules(name).items()}


def test_every_form_of_an_import_is_followed(project: Write) -> None:
    main = (
        "import own.one.deep, both\nfrom own import two as other, VALUE\nfrom . import beside\n"
        "def later():\n    from own.three import name\n"
    )
    folder = project({
        "main.py": main, "beside.py": "import broken", "broken.py": "import (", "both.py": "", "both/__init__.py": "",
        "own/__init__.py": "from . import inner", "own/inner.py": "", "own/one/__init__.py": "",
        "own/one/deep.py": "from .. import four\nfrom ...too_far import a\nfrom ....farther import b",
        "own/two.py": "from .five import x", "own/three.py": "", "own/four.py": "", "own/five.py": "",
        "own/too_far.py": "", "own/farther.py": "", "own/other.py": "", "own/one/four.py": "",
    })  # fmt: skip
    names = [
        "beside", "both", "broken", "main", "own", "own.five", "own.four", "own.inner", "own.one", "own.one.deep",
        "own.three", "own.two",
    ]  # fmt: skip
    packages = {"own": "own/__init__.py", "own.one": "own/one/__init__.py"}
    modules = found(folder)
    assert modules == {name: packages.get(name, f"{name.replace('.', '/')}.py") for name in names}
    assert list(modules) == names


@pytest.mark.parametrize("mark", ["pyproject.toml", "setup.py", "setup.cfg", ".git", None])
def test_a_project_reaches_up_to_the_folder_with_its_mark(project: Write, mark: str | None) -> None:
    files = {"src/code/main.py": "import near, far", "src/code/near.py": "", "near.py": "", "far.py": ""}
    folder = project({**files, **({mark: ""} if mark else {})})
    main = {"main": "src/code/main.py", "near": "src/code/near.py"}
    assert found(folder) == ({"far": "far.py", **main} if mark else main)


def test_the_nearest_mark_is_the_projects(project: Write) -> None:
    folder = project(
        {"a/b/main.py": "import near, far", "a/near.py": "", "far.py": "", "a/setup.py": "", "setup.py": ""}
    )
    assert found(folder) == {"main": "a/b/main.py", "near": "a/near.py"}


def test_a_package_is_imported_from_the_folder_above_it(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project({"own/inner/__init__.py": "import own.helper, beside", "own/helper.py": "", "beside.py": ""})
    note(monkeypatch, "own.inner", folder / "own/inner/__init__.py")
    assert found(folder, "own.inner") == {
        "beside": "beside.py",
        "own.helper": "own/helper.py",
        "own.inner": "own/inner/__init__.py",
    }


def test_an_installed_program_of_one_module_is_that_module(project: Write) -> None:
    for place in ("site-packages", "dist-packages"):
        folder = project({f"{place}/main.py": "import other", f"{place}/other.py": "", f"{place}/pyproject.toml": ""})
        assert found(folder) == {"main": f"{place}/main.py"}


def test_what_is_compiled_without_a_file_or_of_a_library_does_not_belong_to_a_project(
    project: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = "import fast, built_in, standard, installed, mas_harness, missing"
    folder = project({
        "main.py": main, "fast.so": "", "lib/standard.py": "", "site-packages/installed.py": "", "mas_harness.py": "",
    })  # fmt: skip
    monkeypatch.setattr(source_digest, "_get_library", lambda: folder / "lib")
    monkeypatch.delitem(sys.modules, "mas_harness", raising=False)
    note(monkeypatch, "fast", folder / "fast.so")
    note(monkeypatch, "built_in", None)
    note(monkeypatch, "standard", folder / "lib/standard.py")
    note(monkeypatch, "installed", folder / "site-packages/installed.py")
    # A module of the user's with a name of the harness's is his own, wherever else the harness may be.
    assert found(folder) == {"main": "main.py", "mas_harness": "mas_harness.py"}
    assert dict(list_modules("no_such_module")) == dict(list_modules("built_in")) == {}


def test_an_installed_program_lies_within_the_folder_of_the_standard_library(
    project: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project({"lib/site-packages/own/main.py": "import own.helper", "lib/site-packages/own/helper.py": ""})
    monkeypatch.setattr(source_digest, "_get_library", lambda: folder / "lib")
    note(monkeypatch, "own.main", folder / "lib/site-packages/own/main.py")
    assert list(list_modules("own.main")) == ["own.helper", "own.main"]


def test_a_program_in_the_harness_s_own_folder_is_without_the_harness(
    project: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(
        {"main.py": "import mas_harness, own", "mas_harness.py": "import other", "own.py": "", "other.py": ""}
    )
    monkeypatch.setattr(source_digest, "_CHECKOUT", folder)
    monkeypatch.delitem(sys.modules, "mas_harness", raising=False)
    assert found(folder) == {"main": "main.py", "own": "own.py"}


def test_the_digest_is_that_of_the_names_and_contents(project: Write) -> None:
    folder = project({"main.py": "import second", "second.py": "VALUE = 5", "state.json": "{}"})

    def line(name: str, content: str) -> str:
        return f"{name} {hashlib.sha256(content.encode()).hexdigest()}\n"

    lines = "main\n" + line("main", "import second") + line("second", "VALUE = 5")
    assert digest_program("main") == hashlib.sha256(lines.encode()).hexdigest()
    lines += line("", "{}") + line("", "")
    state, gone = str(folder / "state.json"), str(folder / "gone.json")
    assert digest_program("main", state, None, gone, "") == hashlib.sha256(lines.encode()).hexdigest()
    (folder / "second.py").unlink()
    gone_lines = "main\n" + line("main", "import second") + line("second", "")
    assert digest_program("main") == hashlib.sha256(gone_lines.encode()).hexdigest()


def test_modules_are_noted_as_loaded_together_also_when_the_program_fails(
    project: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project({"main.py": "", "before.py": "", "first.py": "", "second.py": ""})
    monkeypatch.setattr(source_digest, "_loaded_with", {})
    note(monkeypatch, "before", folder / "before.py")
    with pytest.raises(ValueError, match="broken"), note_loaded("main"):
        note(monkeypatch, "first", folder / "first.py")
        raise ValueError("broken")
    with note_loaded("main"):
        note(monkeypatch, "second", folder / "second.py")
    assert list(list_modules("main")) == ["first", "main", "second"]


def test_of_a_program_within_the_checkout_the_harness_itself_is_no_part() -> None:
    assert "mas.systems.toy.system" in sys.modules, "this module imports it"
    assert list_modules(__name__) == {__name__: Path(__file__).resolve()}
