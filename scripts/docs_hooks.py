"""Hooks of mkdocs (`make docs`) for links and diagrams that the site cannot show as they are.

A link that leaves docs/ becomes plain text, since the site has no such page. A Mermaid diagram, which the repository's
pages draw themselves, becomes its picture: the script that draws it would be loaded from another host.
"""

import re

OUTSIDE = re.compile(
    r"\[([^\]]*)\]\((?:\.\./){2,}[^)]*\)|\[([^\]]*)\]\(\.\./(?!how-to|reference|explanation|tutorial|images)[^)]*\)"
)
MERMAID = re.compile(r"```mermaid\n%% picture: (\S+) \((.+?)\)\n.*?^```", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the page's text as the site shows it. Called by mkdocs for each page."""
    markdown = OUTSIDE.sub(lambda found: found[1] or found[2], markdown)
    return MERMAID.sub(lambda found: f"![{found[2]}]({found[1]})", markdown)
