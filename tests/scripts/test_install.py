"""Set-up by uv: its own lines of the lock, pip's settings in uv's words, and packages that start quickly."""

from importlib.util import cache_from_source, find_spec
from pathlib import Path

import pytest

from scripts.install import extract_requirement, translate_settings

LOCK = (Path(__file__).parents[2] / "requirements.lock").read_text("utf-8")


def test_the_lock_has_uv_with_its_hashes() -> None:
    first, *hashes = extract_requirement(LOCK, "uv").splitlines()
    assert first.startswith("uv==") and len(hashes) > 10
    assert all(line.strip().startswith("--hash=sha256:") for line in hashes)


def test_a_package_that_is_not_in_the_lock_is_an_error() -> None:
    with pytest.raises(ValueError, match="no-such-package"):
        extract_requirement(LOCK, "no-such-package")


def test_pips_settings_are_passed_on() -> None:
    listed = (
        "global.index-url='https://index.example/simple'\n"
        "install.find-links='/wheels /more'\n"
        "global.extra-index-url='\\nhttps://a.example\\nhttps://b.example'\n"
        "list.index-url='https://not.example'\n"
        ":env:.index-url='https://later.example'\n"
        ":env:.disable-pip-version-check='1'\n"
        "global.cert=unquoted\n"
    )
    assert translate_settings(listed) == {
        "UV_DEFAULT_INDEX": "https://later.example",
        "UV_FIND_LINKS": "/wheels /more",
        "UV_INDEX": "https://a.example https://b.example",
    }


@pytest.mark.parametrize(
    "name", ["dspy", "langgraph.graph", "hydra", "mlflow", "eval.workflows.evaluate", "mas.system"]
)
def test_what_a_command_imports_is_compiled(name: str) -> None:
    """Else each command starts two seconds later where Python may not write bytecode, as in many containers."""
    found = find_spec(name)
    assert found is not None and found.origin is not None
    assert Path(cache_from_source(found.origin)).exists()
