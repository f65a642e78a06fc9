"""Pages and other files of a run that a reader finds old or new, never half written.

with whole_file(folder / "report.html") as file:
    file.write(template(Path("report.html.jinja")).render(summary=…))
"""

import base64
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


@contextmanager
def whole_file(path: Path, encoding: str = "utf-8") -> Iterator[TextIO]:
    """To be written to; it takes its name once all is written.

    Raises:
        OSError: it cannot be written; what was there before stays as it was.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("w", encoding=encoding, newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def template(path: Path, filters: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """A Jinja template in which values are escaped, and a missing one is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= dict(filters or {})
    return environment.get_template(path.name)


def inline_script(path: Path) -> tuple[Any, str]:
    """A script to be put into a page as it is, and its hash: the page's policy then lets no other one run."""
    from markupsafe import Markup

    text = path.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"
