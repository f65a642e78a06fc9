"""HTML page with two prompt sets side by side; it needs no script and loads nothing. Other pages embed its parts.

write_page(Path("diff.html"), parent, tuned)
render_agents(parent, tuned)        # the differences alone, for a page that has `render_styles()`
"""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from eval.reports.html.templates import load_scripts, load_template
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import write_atomically
from optimize.publishing.prompt_diff import (
    build_rows,
    compare_sets,
    format_demo,
    replace_invisible,
)
from optimize.publishing.provenance import build_headline

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

_TEMPLATE = Path(__file__).with_name("diff.html.jinja")


def write_page(path: Path, a: PromptSet, b: PromptSet) -> None:
    """Write the page atomically.

    Raises:
        UserError: it cannot be written.
    """
    try:
        with write_atomically(path) as file:
            file.write(render_page(a, b))
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}); choose another place for --html.") from error


def render_page(a: PromptSet, b: PromptSet) -> str:
    """Return the page as HTML; all text of the prompts is escaped."""
    page = load_template(_TEMPLATE).render(
        sets=[_describe_set(each) for each in (a, b)], agents=render_agents(a, b), scripts=load_scripts()
    )
    return str(page)


def render_agents(a: PromptSet, b: PromptSet) -> "Markup":
    """Return what differs between two sets, agent by agent, as a part of a page."""
    from markupsafe import Markup

    diffs = compare_sets(a, b)
    part = _load_part("diff_agents.html.jinja").render(
        names=[replace_invisible(each.name) for each in (a, b)],
        changed=[each for each in diffs if each.changed],
        unchanged=[each.agent for each in diffs if not each.changed],
        rows=build_rows,
    )
    return Markup(part)


def render_styles() -> "Markup":
    """Return the styles of `render_agents`."""
    from markupsafe import Markup

    return Markup(_load_part("diff.css.jinja").render())


@functools.cache
def _load_part(name: str) -> "Template":
    return load_template(_TEMPLATE.with_name(name), {"fields": format_demo})


def build_notes(prompts: PromptSet) -> list[str]:
    """Return notes on the origin of a set, to be shown above it."""
    origin = [replace_invisible(build_headline(prompts.provenance))] if prompts.provenance else []
    edited = (
        [f"edited after it was published: {', '.join(map(replace_invisible, prompts.edited))}"]
        if prompts.edited
        else []
    )
    return origin + edited


def _describe_set(prompts: PromptSet) -> dict[str, object]:
    return {
        "name": replace_invisible(prompts.name),
        "description": replace_invisible(prompts.description),
        "notes": build_notes(prompts),
        "warn": bool(prompts.edited or (prompts.provenance and not prompts.provenance.get("gated"))),
    }
