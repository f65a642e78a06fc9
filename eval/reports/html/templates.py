"""Jinja templates, scripts and data blocks of the HTML pages.

template = load_template(Path("report.html.jinja"))
template.render(scripts=load_scripts(CHARTS, Path("report.js")), …)
"""

import base64
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mas.runtime.security.private_file import write_atomically
from mas.runtime.terminal import escape_controls

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from markupsafe import Markup

FOLDER = Path(__file__).parent
_PIECE = 64  # template events that are joined before they are written
_UNSAFE = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Scripts:
    """Scripts of a page, and the source list of its Content-Security-Policy that lets no other script run."""

    texts: "tuple[Markup, ...]"
    policy: str  # "'sha256-…' 'sha256-…'"


def load_template(path: Path, filters: Mapping[str, Callable[..., object]] | None = None) -> "Template":
    """Return a template in which values are escaped and a missing value is an error.

    It may extend and import the templates of this folder; `embed` writes a value as JSON into a data block.
    """
    environment = _make_environment(path.parent)
    if filters:
        environment = environment.overlay()
        environment.filters = {**environment.filters, **filters}
    return environment.get_template(path.name)


@functools.cache  # it keeps the templates that it has compiled
def _make_environment(folder: Path) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader([folder, FOLDER])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["embed"] = _embed_json
    return environment


def write_page(path: Path, template: Path, values: Mapping[str, object]) -> None:
    """Write a page from its template; a reader sees the old one or the whole new one.

    Raises:
        OSError: the page cannot be written; one that is already there stays as it was.
    """
    stream = load_template(template).stream(values)
    stream.enable_buffering(_PIECE)
    with write_atomically(path) as file:
        file.writelines(map(escape_controls, stream))


def load_scripts(*paths: Path) -> Scripts:
    """Return scripts as they are, in this order; each is listed once."""
    from markupsafe import Markup

    texts = [path.read_text(encoding="utf-8") for path in dict.fromkeys(paths)]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return Scripts(tuple(map(Markup, texts)), " ".join(f"'sha256-{digest}'" for digest in digests))


def _embed_json(value: object) -> "Markup":
    """Return a value as JSON that can stand in a `<script type="application/json">`: no text in it ends the block."""
    from markupsafe import Markup

    return Markup(write_json(value).translate(_UNSAFE))


def write_json(value: object) -> str:
    """Return a value as short JSON; characters that cannot be seen, or that turn text around, are spelt out in it."""
    return json.dumps(map_texts(value, str), ensure_ascii=False, separators=(",", ":"))


def map_texts(value: object, change: Callable[[str], object]) -> object:
    """Return a copy with every text in it, without such characters, changed; keys are kept."""
    if isinstance(value, str):
        return change(escape_controls(value))
    if isinstance(value, Mapping):
        return {escape_controls(str(name)): map_texts(each, change) for name, each in value.items()}
    return [map_texts(each, change) for each in value] if isinstance(value, list | tuple) else value
