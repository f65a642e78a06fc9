"""The secret of this installation, and signatures that only this installation can make.

It is made at the first use, in `$XDG_STATE_HOME/mas-harness/key`, readable by its owner alone; the environment variable
MAS_HARNESS_KEY overrides it, such as for a worker on another machine. Where no folder can be written, the key is one
that ends with the command.

    signature = sign("run", {"command": ["limit=3"], "config": {…}})
    is_signed("run", {"command": ["limit=3"], "config": {…}}, signature)         # True; False after any change
    compute_mac("data mark", "the page's text")       # 64 hexadecimal digits, the same on this installation for ever

A run folder is data: a copy from elsewhere may name programs, addresses and keys. What is signed came from the user's
own command line and `conf/`; of anything else only numbers and texts are used.
"""

import functools
import hashlib
import hmac
import json
import os
import secrets
import stat
from pathlib import Path

from mas.runtime.errors import UserError
from mas.runtime.terminal import print_warning

VARIABLE = "MAS_HARNESS_KEY"
_MIN_CHARS = 16
_KEY_BYTES = 32


def sign(kind: str, content: object) -> str:
    """Return the signature of JSON data; empty, with a warning, if there is no place for this installation's key.

    Args:
        kind: of the content; what is signed as one kind is not valid as another.
        content: plain JSON data.
    """
    try:
        return compute_mac(f"signature of {kind}", _canonical(content))
    except UserError as error:
        print_warning(f"the run is not signed, so resuming it will ask for run.trust=true: {error}")
        return ""


def is_signed(kind: str, content: object, signature: object) -> bool:
    """Return whether this installation signed exactly this content."""
    try:
        expected = compute_mac(f"signature of {kind}", _canonical(content))
    except UserError:  # there is no key, so it has signed nothing
        return False
    return isinstance(signature, str) and hmac.compare_digest(expected.encode(), signature.encode())


def _canonical(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def compute_mac(purpose: str, text: str) -> str:
    """Return a message authentication code of a text as hexadecimal digits; those of other purposes are unrelated.

    Raises:
        UserError: the installation's key cannot be read or made.
    """
    message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
    return hmac.new(read_installation_key(), message, hashlib.sha256).hexdigest()


def read_installation_key() -> bytes:
    """Return the key; make it if there is none yet.

    Raises:
        UserError: it cannot be read, others may read it, or it is too short.
    """
    if given := os.environ.get(VARIABLE):
        if len(given) < _MIN_CHARS:
            raise UserError(f"{VARIABLE} has {len(given)} characters; give it at least {_MIN_CHARS} random ones.")
        return given.encode("utf-8", "surrogateescape")
    try:
        path = find_key_file()
        if not path.exists():
            _make_file(path)
    except (OSError, RuntimeError) as error:
        print_warning(
            f"the key of this installation cannot be stored ({error}), so another one is used for this command alone; "
            f"resuming its run will ask for run.trust=true. Set XDG_STATE_HOME to a folder that can be written."
        )
        os.environ[VARIABLE] = secrets.token_hex(_KEY_BYTES)  # processes that this one starts have it, too
        return read_installation_key()
    return _read_file(path)


def list_installation_secrets() -> list[str]:
    """Return the key, if there is one, among the texts that must not be written anywhere."""
    try:
        return [os.environ.get(VARIABLE) or find_key_file().read_text("ascii").strip()]
    except (OSError, ValueError, RuntimeError):
        return []


def find_key_file() -> Path:
    """Return the path of the key's file."""
    given = os.environ.get("XDG_STATE_HOME") or ""
    state = Path(given) if Path(given).is_absolute() else Path("~/.local/state").expanduser()
    return state / "mas-harness" / "key"


@functools.cache
def _read_file(path: Path) -> bytes:
    try:
        mode, text = path.stat().st_mode, path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise UserError(
            f"the installation's key {path} cannot be read ({error}); make it readable, set XDG_STATE_HOME to another "
            f"folder, or put a key into {VARIABLE}."
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise UserError(f"others may read the installation's key; run: chmod 600 {path}")
    if len(text) < _MIN_CHARS:
        raise UserError(f"the installation's key {path} is damaged; delete the file, and another key is made.")
    return text.encode("ascii")


def _make_file(path: Path) -> None:
    """Write a new key in one step; of several processes that do so at once, one wins.

    Raises:
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = path.with_name(f".key.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(unfinished)
        except FileExistsError:
            return
    finally:
        unfinished.unlink(missing_ok=True)
