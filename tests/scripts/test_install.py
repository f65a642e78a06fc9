"""Set-up by uv: its own lines of the lock, pip's settings in uv's words, and packages that start quickly."""

from pathlib import Path

from scripts.install import extract_requirement, translate_settings

LOCK = (Path(__file__).parents[2] / "requirements.lock").read_text("utf-8")


def test_the_lock_has_uv_with_its_hashes() -> None:
    first, *hashes = extract_requirement(LOCK, "uv").splitlines()
    assert first.startswith("uv==") and len(hashes) > 10
    assert all(line.strip().startswith("--hash=sha256:") for line in hashes)


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
