"""Install the locked packages into this environment: by uv, or by pip if uv fails.

    .venv/bin/python scripts/install.py requirements.lock

uv is installed first, by pip, from its own lines of the lock. Every package is checked against the hashes of the lock.
Pip's settings (its files and PIP_ variables) say where packages come from, for uv too.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
UV_VARIABLES = {  # by pip's option; several values are separated by spaces
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "cert": "SSL_CERT_FILE",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}


def extract_requirement(lock: str, name: str) -> str:
    """Return the lines of one package in a lock: its version and its hashes.

    Raises:
        ValueError: the lock has no such package.
    """
    found = re.search(rf"^{re.escape(name)}==.*\n(?:[ \t]+--hash.*\n)*", lock, re.MULTILINE)
    if found is None:
        raise ValueError(f"the lock does not have {name}")
    return found[0]


def translate_settings(listed: str) -> dict[str, str]:
    """Return the environment variables of uv for the output of `pip config list`; later lines win."""
    found: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, quoted = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in ("global", "install", ":env:") and (variable := UV_VARIABLES.get(option)):
            try:
                found[variable] = " ".join(str(ast.literal_eval(quoted)).split())
            except (ValueError, SyntaxError):
                continue
    return found


def can_be_written(folder: Path) -> bool:
    """Return True if the folder can be written or made: a home may be missing or read-only."""
    return os.access(next(each for each in (folder, *folder.parents) if each.exists()), os.W_OK)


def install_by_uv(lock: Path, environment: Mapping[str, str]) -> bool:
    """Install uv and then all packages, and return True if that worked."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "uv.txt"
        own.write_text(extract_requirement(lock.read_text("utf-8"), "uv"), encoding="utf-8")
        if subprocess.run([*PIP, "install", "--quiet", "--require-hashes", "-r", str(own)], check=False).returncode:
            return False
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
    # Pip looks into all indexes for every package; with hashes it does not matter which one answers.
    # Compiled now, as pip does it: else the first start is slow, and each one where Python may not write bytecode.
    own_settings = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_NO_CONFIG": "1", "UV_COMPILE_BYTECODE": "1"}
    settings = {**own_settings, **translate_settings(listed)}
    uv = Path(sys.executable).with_name("uv")
    cache = subprocess.run([str(uv), "cache", "dir"], env={**environment}, capture_output=True, text=True, check=False)
    if not can_be_written(Path(cache.stdout.strip())):
        settings["UV_NO_CACHE"] = "1"
    command = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "--require-hashes", "-r", str(lock)]
    return subprocess.run(command, env={**environment, **settings}, check=False).returncode == 0


def main() -> int:
    lock = Path(sys.argv[1])
    if install_by_uv(lock, os.environ):
        return 0
    print("uv could not install the packages; pip does it, which takes some minutes", file=sys.stderr)
    return subprocess.run([*PIP, "install", "--quiet", "--require-hashes", "-r", str(lock)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
