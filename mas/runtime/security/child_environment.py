"""Environment of every child process: the variables that it needs, and no others."""

import os
from fnmatch import fnmatchcase

BASE = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")
NETWORK = ("*_PROXY", "*_proxy", "SSL_CERT_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


def build_child_environment(*more: str, **variables: str) -> dict[str, str]:
    """Return what every program needs, more variables of this process by pattern, and new ones."""
    patterns = (*BASE, *more)
    kept = {name: value for name, value in os.environ.items() if any(fnmatchcase(name, each) for each in patterns)}
    return {**kept, **variables}
