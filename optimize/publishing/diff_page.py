"""HTML page with two prompt sets side by side; it needs no script and loads nothing.

write_page(Path("diff.html"), parent, tuned)
"""

from pathlib import Path
from typing import Any

from eval.reports.html.templates import load_template
from mas.prompt_sets.prompt_set import PromptSet
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import write_atomically
from optimize.publishing.prompt_diff import (
    build_rows,
    compare_sets,
    format_demo,
    format_unified_diff,
    replace_invisible,
)
from optimize.publishing.provenance import build_headline

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
    diffs = compare_sets(a, b)
    return str(
        load_template(_TEMPLATE, {"fields": format_demo}).render(
            sets=[_about(each) for each in (a, b)],
            changed=[each for each in diffs if each.changed],
            unchanged=[each.agent for each in diffs if not each.changed],
            same=not format_unified_diff(a, b),
            rows=build_rows,
        )
    )


def build_notes(prompts: PromptSet) -> list[str]:
    """Return notes on the origin of a set, to be shown above it."""
    origin = [replace_invisible(build_headline(prompts.provenance))] if prompts.provenance else []
    edited = (
        [f"edited after it was published: {', '.join(map(replace_invisible, prompts.edited))}"]
        if prompts.edited
        else []
    )
    return origin + edited


def _about(prompts: PromptSet) -> dict[str, Any]:
    return {
        "name": replace_invisible(prompts.name),
        "description": replace_invisible(prompts.description),
        "notes": build_notes(prompts),
        "warn": bool(prompts.edited or (prompts.provenance and not prompts.provenance.get("gated"))),
    }
