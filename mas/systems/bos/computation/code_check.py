"""Check of code before it runs: imports from a list, and none of the functions that reach beyond a calculation.

    find_violation("import os", ["math"])        # "the module os may not be imported; allowed: math"

The sandbox is what shuts the code in. This check refuses early and says why.
"""

import ast
from collections.abc import Collection

_CALLS = frozenset(("exec", "eval", "compile", "__import__", "breakpoint", "input", "help", "exit", "quit"))
_ATTRIBUTES = frozenset(
    ("__subclasses__", "__globals__", "__builtins__", "__code__", "__loader__", "__bases__", "__base__", "__mro__")
)


def find_violation(code: str, allowed_imports: Collection[str]) -> str | None:
    """Return what the code may not do, or None.

    Raises:
        SyntaxError: it is no Python.
    """
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or "."]
        else:
            modules = []
        for module in modules:
            if module.partition(".")[0] not in allowed_imports:
                return f"the module {module} may not be imported; allowed: {', '.join(sorted(allowed_imports))}"
        if isinstance(node, ast.Name) and (node.id in _CALLS or node.id in _ATTRIBUTES):
            return f"{node.id} may not be used"
        if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            return f"the attribute {node.attr} may not be used"
    return None
