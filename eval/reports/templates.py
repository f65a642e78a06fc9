"""Jinja templates and scripts of the HTML pages."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup


def load_template(path: Path, filters: Mapping[str, Callable[..., object]] | None = None) -> "Template":
    """Return a template in which values are escaped and a missing value is an error."""
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


def load_script(path: Path) -> "tuple[Markup, str]":
    """Return a script for a page as it is, and its hash: the page's policy then lets no other script run."""
    from markupsafe import Markup

    text = path.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"
