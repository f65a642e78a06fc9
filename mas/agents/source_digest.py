"""Digest of a program's source, by which a later session of a run recognizes the program.

    digest_program("my_agent", "compiled.json")     # my_agent.py, the modules of its project that it imports, a file
    digest_program("mas.systems.toy.system")        # of a system of the harness: every module of its package
    digest_program("eval.scorers.exact")            # the same of a scorer

Imports are read from the source, also those inside of functions, so that the digest does not depend on what else is
loaded. A module that is imported by a computed name belongs to it if it was loaded together with the program
(`note_loaded`). Libraries, the standard library and the harness are not part of it: the run names their versions. Nor
are the files that a program opens itself.
"""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

OURS = ("eval", "mas", "mas_harness", "optimize")  # packages of the harness
_CHECKOUT = Path(__file__).resolve().parents[2]
_WHOLE_PACKAGES = ("mas.systems.", "eval.scorers.")  # of the harness: their modules belong together
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git")  # in the top folder of a project
_INSTALLED = ("site-packages", "dist-packages")

_loaded_with: dict[str, set[str]] = {}  # name of a program's module → modules that were first loaded together with it


def digest_program(module_name: str, *files: str | None) -> str:
    """Return the SHA-256 of the source of a program that has been loaded.

    Args:
        module_name: of the module that defines it.
        files: that belong to it, such as its state.
    """
    digest = hashlib.sha256(f"{module_name}\n".encode())
    for name, path in [*list_modules(module_name).items(), *(("", Path(each)) for each in files if each)]:
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


@contextmanager
def note_loaded(module_name: str) -> Iterator[None]:
    """Note which modules are loaded inside the block, in which the program of a module is made."""
    before = set(sys.modules)
    try:
        yield
    finally:
        _loaded_with.setdefault(module_name, set()).update(set(sys.modules) - before)


def list_modules(module_name: str) -> Mapping[str, Path]:
    """Return name and file of each module of the program, sorted by name."""
    file = _find_loaded(module_name)
    return {} if file is None else _list_modules_from(module_name, file)


@cache  # what a program loads later, while it answers, must not change the list
def _list_modules_from(module_name: str, file: Path) -> Mapping[str, Path]:
    if module_name.startswith(_WHOLE_PACKAGES):
        package = file.parent
        return {path.relative_to(package).as_posix(): path for path in sorted(package.rglob("*.py"))}
    project, top = _find_project(module_name, file)
    found: dict[str, Path] = {}
    left = [module_name, *sorted(_loaded_with.get(module_name, ()))]
    while left:
        name = left.pop()
        path = _find_loaded(name) or _find_file(name, top) or _find_file(name, project)
        if name in found or path is None or not _is_of_project(name, path, project):
            continue
        found[name] = path
        left += _list_imports(name, path)
    return dict(sorted(found.items()))


def _find_loaded(name: str) -> Path | None:
    loaded = getattr(sys.modules.get(name), "__file__", None)
    return Path(loaded).resolve() if loaded else None


def _find_file(name: str, folder: Path) -> Path | None:
    place = folder.joinpath(*name.split("."))
    return next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)


def _find_project(module_name: str, file: Path) -> tuple[Path, Path]:
    """Return the top folder of the module's project, and the folder that it is imported from.

    That of an installed module is its top package.
    """
    is_package = file.name == "__init__.py"
    names = module_name.split(".")
    top = file.parents[len(names) - (0 if is_package else 1)]
    if _is_installed(file):
        return top / names[0], top
    marked = (each for each in (top, *top.parents) if any((each / name).exists() for name in _PROJECT_FILES))
    return next(marked, top), top


def _is_of_project(name: str, path: Path, project: Path) -> bool:
    if path.suffix != ".py":
        return False
    if not path.is_relative_to(project):
        return path.with_suffix("") == project  # an installed program of one module
    inside = path.relative_to(project)
    if name.partition(".")[0] in OURS and path.is_relative_to(_CHECKOUT):
        return False
    return not _is_installed(inside) and (_is_installed(project) or not path.is_relative_to(_get_library()))


def _is_installed(path: Path) -> bool:
    return not set(_INSTALLED).isdisjoint(path.parts)


@cache
def _get_library() -> Path:
    return Path(sysconfig.get_path("stdlib")).resolve()


def _list_imports(name: str, path: Path) -> list[str]:
    """Return every name that may be a module which the source of a module imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _resolve(node, package)
            found.add(base)
            found.update(f"{base}.{each.name}".lstrip(".") for each in node.names)
    parents = {each[:place] for each in found for place, char in enumerate(each) if char == "."}
    return sorted(found | parents - {""})


def _resolve(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    base = package.split(".")[: max(0, len(package.split(".")) - node.level + 1)]
    return ".".join([*base, *([node.module] if node.module else [])])
