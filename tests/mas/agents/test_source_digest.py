"""A program is the same while nothing in the modules of its project has changed."""

import importlib
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from mas.agents.source_digest import digest_program, note_loaded

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
