"""Console for tables, colours and live lines: rich's own, without what a text of others could do to the terminal.

console = Console()
console.print(Text("a name\\x1b[2J"))      # "a name\\ufffd[2J"
"""

from collections.abc import Iterable

import rich.console
from rich.segment import Segment

from mas.runtime.terminal import UNSEEN


class Console(rich.console.Console):
    """A console that replaces controls inside texts; those that rich adds for colours and live lines are its own."""

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control is None and UNSEEN.search(segment.text):
                yield Segment(UNSEEN.sub("\N{REPLACEMENT CHARACTER}", segment.text), segment.style)
            else:
                yield segment
