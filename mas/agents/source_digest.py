"""Digest of a program's source, by which a later session of a run recognizes the program.

Of a module it covers the modules next to it that it imports; of a package all modules and what these import next to it;
of the harness the system's or scorer's package. Libraries and the harness are not part of it (the run names their
versions), nor files that a program opens itself.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

OURS = ("eval", "mas", "mas_harness", "optimize")  # packages of the harness
_CHECKOUT = Path(__file__).resolve().parents[2]
_WHOLE_PACKAGES = ("mas.systems.", "eval.scorers.")  # of the harness
_INSTALLED = {"site-packages", "dist-packages"}
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+(\w[\w., \t]*))", re.MULTILINE)


def digest_program(module_name: str, *files: str | None) -> str:
    """Return the SHA-256 of the sources of a loaded module's program, and of its other files."""
    digest = hashlib.sha256(f"{module_name}\n".encode())
    for name, path in [*list_modules(module_name).items(), *(("", Path(file)) for file in files if file)]:
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def list_modules(module_name: str) -> Mapping[str, Path]:
    """Return name and file of each module of the program, sorted by name."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return _list_modules_from(module_name, Path(file).resolve()) if file else {}


@cache  # what is added to the folder later must not change the list
def _list_modules_from(module_name: str, file: Path) -> Mapping[str, Path]:
    if module_name.startswith(_WHOLE_PACKAGES):
        return {path.relative_to(file.parent).as_posix(): path for path in sorted(file.parent.rglob("*.py"))}
    folder = file.parents[module_name.count(".") + (file.name == "__init__.py")]  # that it is imported from
    found: dict[str, Path] = {}
    seen, left = set[str](), [module_name.partition(".")[0]]
    while left:
        name = left.pop()
        if name in seen or (folder == _CHECKOUT and name in OURS):
            continue
        seen.add(name)
        for path in [folder / f"{name}.py", *(folder / name).rglob("*.py")]:
            if not path.is_file():
                continue
            found[".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")] = path
            if _INSTALLED.isdisjoint(file.parts):
                left += _list_imports(path)
    return dict(sorted(found.items()))


def _list_imports(path: Path) -> list[str]:
    """Return the top names of the modules that a file imports, also inside of functions."""
    lines = _IMPORT.findall(path.read_text("utf-8", "replace"))
    imported = [name for first, others in lines for name in (first, *others.split(","))]
    return [name.strip().partition(".")[0].partition(" ")[0] for name in imported if name.strip()]
