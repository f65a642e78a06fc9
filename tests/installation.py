"""An installation for tests, with the same key each time.

The marks around tool results, and so the requests that hold them, depend on the key. With a new key in each process
the simulated model would answer differently each time, and a test of its answers could not be repeated.

    patch.setenv("XDG_STATE_HOME", str(make_installation(tmp_path)))
"""

from pathlib import Path

KEY = "key-of-the-tests-installation"


def make_installation(state: Path) -> Path:
    """Write the key below a folder for XDG_STATE_HOME, and return the folder."""
    file = state / "mas-harness" / "key"
    file.parent.mkdir(mode=0o700, parents=True)
    file.touch(mode=0o600)
    file.write_text(KEY, "ascii")
    return state
