"""Arguments of bubblewrap that every jail needs.

[*bwrap, *bind_links(ROOT_LINKS), "--", "python3"]        # … --symlink usr/lib /lib …
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")  # to folders in /usr, on today's systems


def bind_links(paths: Iterable[str]) -> Iterator[str]:
    """Yield the arguments that repeat links inside a jail, and bind what is a folder on older systems."""
    for path in paths:
        if Path(path).is_symlink():
            yield from ("--symlink", str(Path(path).readlink()), path)
        elif Path(path).is_dir():
            yield from ("--ro-bind", path, path)
