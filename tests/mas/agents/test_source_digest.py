"""A program is the same while nothing in its package, and in the modules next to it that it imports, has changed."""

import importlib
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from mas.agents.source_digest import digest_program

_numbers = count()

FILES = {
    "NAME/program.py": "import json, NAME_texts\nfrom .names import FIRST\ndef run():\n  from NAME_late.here import x",
    "NAME/__init__.py": "",
    "NAME/names.py": "FIRST = 'first'",
    "NAME/plugin.py": "NAME = 'loaded by a computed name'",
    "NAME_texts.py": "TEXT = 'Answer.'",
    "NAME_late/here.py": "import NAME_deep as deep",
    "NAME_deep.py": "",
    "NAME_other.py": "",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    name = f"project_{next(_numbers)}"
    for file, text in FILES.items():
        path = tmp_path / file.replace("NAME", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("NAME", name))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name, tmp_path
    for each in [each for each in sys.modules if each.startswith(name)]:
        del sys.modules[each]


def test_a_change_of_any_module_that_the_program_imports_is_noticed(package: tuple[str, Path]) -> None:
    name, folder = package
    importlib.import_module(f"{name}.program")
    before = digest_program(f"{name}.program")
    for file in FILES:
        path = folder / file.replace("NAME", name)
        text = path.read_text()
        path.write_text(f"{text}\n# changed")
        assert (digest_program(f"{name}.program") == before) is (file == "NAME_other.py"), file
        path.write_text(text)
    assert digest_program(f"{name}.program") == before
