"""A digest of the code of a tool: what it returned before an edit is no answer of the tool as it is now.

code_digest("mas.tools.wikipedia_pages")     # of all Python files in mas/tools and below
code_digest("my_tools")                      # of my_tools.py, which is in no package
"""

import hashlib
import sys
from functools import cache
from pathlib import Path


@cache
def code_digest(module_name: str) -> str:
    """SHA-256 of the Python files of the package that a module is in, else of its own; as they are at the first call.

    What they import from elsewhere, such as a library, is not in it.
    """
    module = sys.modules.get(module_name)
    package = sys.modules.get(getattr(module, "__package__", None) or "")
    folders = [Path(folder) for folder in getattr(package, "__path__", ())]
    files = sorted((file.relative_to(folder).as_posix(), file) for folder in folders for file in folder.rglob("*.py"))
    if not files and (own := getattr(module, "__file__", None)):
        files = [("", Path(own))]
    digest = hashlib.sha256()
    for name, file in files:
        if file.is_file():  # an editor's lock is a link to nowhere
            digest.update(f"{name}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()
