"""The attack list: its tests exist, and what it says of an attack is what its tests showed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eval.cli.paths import PROJECT_ROOT
from scripts import attacks

OUTCOMES = (
    "import pytest\ndef test_passes(): pass\ndef test_fails(): assert False\ndef test_skips(): pytest.skip('no key')\n"
    "@pytest.mark.slow\ndef test_slow(): pass\n"
)


@pytest.mark.parametrize("attack", attacks.ATTACKS)
def test_every_test_of_the_list_exists(attack: str) -> None:
    for test in attacks.ATTACKS[attack]:
        file, _, name = test.partition("::")
        tree = ast.parse((PROJECT_ROOT / file).read_text("utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in names if name else any(each.startswith("test_") for each in names), test


def test_an_attack_is_defended_if_its_tests_pass_and_only_then(tmp_path: Path) -> None:
    file = tmp_path / "test_them.py"
    file.write_text(OUTCOMES)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "conftest.py").touch()  # a folder of its own settings, as most tests have
    (tmp_path / "inner" / "test_inner.py").write_text("def test_passes(): pass\n")
    listed = {
        "holds": ("test_them.py::test_passes", "inner/test_inner.py"),
        "partly": ("test_them.py::test_passes", "test_them.py::test_slow"),
        "left": ("test_them.py::test_slow",),
        "fails": ("test_them.py::test_passes", "test_them.py::test_fails"),
        "skipped": ("test_them.py::test_skips",),
    }
    program = (
        f"import sys; sys.path.insert(0, {str(PROJECT_ROOT)!r})\n"
        "from pathlib import Path\nfrom scripts import attacks\n"
        f"attacks.ATTACKS = {listed!r}; attacks.ROOT = Path.cwd()\nsys.exit(attacks.main(sys.argv[1:]))"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, *words]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    everything = run()
    rows = {line.split()[0]: line for line in everything.stdout.splitlines() if line.startswith(tuple(listed))}
    assert everything.returncode == 1
    assert " defended " in rows["holds"] and rows["holds"].endswith("2 tests")
    assert " NOT DEFENDED " in rows["fails"] and "1 of 2 tests failed" in rows["fails"]
    assert " not checked " in rows["skipped"] and rows["skipped"].endswith("no key")
    assert " defended " in rows["partly"] and rows["partly"].endswith("1 tests, 1 slow ones left out (--all)")
    assert " not checked " in rows["left"] and rows["left"].endswith("1 slow ones left out (--all)")
    assert run("hold").returncode == 0
    assert " defended " in run("--all", "left").stdout
    assert run("unknown").returncode == 1
