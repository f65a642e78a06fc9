"""What a child process gets of the environment, and that every program the product starts is given it by name."""

import ast
import re

import pytest

from eval.cli.paths import PROJECT_ROOT
from mas.runtime.security.child_environment import build_child_environment

STARTS = ("run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec", "create_subprocess_shell")
FILES = [
    path
    for folder in ("mas", "eval", "optimize", "deploy")
    for path in sorted((PROJECT_ROOT / folder).rglob("*.py"))
    if not {"sample", "node_modules"} & set(path.parts)
]


def test_a_child_gets_its_path_and_what_is_named_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN", "TESSDATA_PREFIX"):
        monkeypatch.setenv(name, "value")
    monkeypatch.setenv("PATH", "/usr/bin")
    plain = build_child_environment()
    assert plain["PATH"] == "/usr/bin" and "value" not in plain.values()
    named = build_child_environment("TESSDATA_*", "MLFLOW_TRACKING_URI", PATH="/bin", OWN="1")
    assert named["PATH"] == "/bin" and named["OWN"] == "1"
    assert {name for name, value in named.items() if value == "value"} == {"TESSDATA_PREFIX", "MLFLOW_TRACKING_URI"}


def find_starts(tree: ast.AST) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in STARTS
        and ast.unparse(node.func.value) in ("subprocess", "asyncio")
        and ast.unparse(node.func) != "asyncio.run"
    ]


def test_every_program_is_started_with_an_environment_of_its_own() -> None:
    """Without `env=` a child inherits everything, keys included; so it does with a copy of `os.environ`."""
    bare, count = [], 0
    for path in FILES:
        for start in find_starts(ast.parse(path.read_text("utf-8"))):
            count += 1
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in start.keywords}
            if re.search(r"\benviron\b", given.get("env", "os.environ")):
                bare.append(f"{path.relative_to(PROJECT_ROOT)}:{start.lineno}")
    assert bare == []
    assert count >= 10
