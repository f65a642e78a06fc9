"""Signatures of what a folder says of its run: only this installation can make them.

    signature = sign("run", {"command": ["limit=3"], "config": {…}})
    is_signed("run", {"command": ["limit=3"], "config": {…}}, signature)         # True; False after any change

A run folder is data: a copy from elsewhere may name programs, addresses and keys. What is signed came from the user's
own command line and `conf/`; of anything else only numbers and texts are used.
"""

import hmac
import json

from mas.runtime.errors import UserError
from mas.runtime.installation_key import compute_mac
from mas.runtime.terminal import print_warning


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
