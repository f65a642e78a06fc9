"""What every tool here owes its caller: a schema that a model can follow, and no heavy import before it is used."""

import subprocess
import sys
from collections.abc import Callable

import dspy
import pytest

from mas.tools.calculator import calculator
from mas.tools.read_file import read_file
from mas.tools.unit_converter import unit_converter

TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
TEXT_OR_NUMBER = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "default": None}
SCHEMAS = {
    "calculator": {"expression": {"type": "string"}},
    "unit_converter": {"quantity": {"type": "string"}, "to_unit": {"type": "string"}},
    "read_file": {
        "file": {"type": "string"},
        "sheet": TEXT_OR_NUMBER,
        "page": {"type": "integer", "default": 1},
        "search": TEXT_OR_NULL,
        "member": TEXT_OR_NULL,
        "lines": TEXT_OR_NUMBER,
    },
}


@pytest.mark.parametrize("function", [calculator, unit_converter, read_file])
def test_dspy_makes_a_complete_schema(function: Callable[..., str]) -> None:
    tool = dspy.Tool(function)
    assert tool.args == SCHEMAS[tool.name]
    assert all(f"{argument}:" in tool.desc or len(tool.args) == 1 for argument in tool.args)


def test_importing_the_tools_imports_no_heavy_library() -> None:
    program = (
        "import sys\n"
        "import mas.tools.calculator, mas.tools.read_file, mas.tools.unit_converter\n"
        "heavy = {'openpyxl', 'pint', 'simpleeval', 'pandas', 'numpy', 'dspy', 'unstructured'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
