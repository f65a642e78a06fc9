"""Conversion of HTML, mostly of wikis, to lines: headings as in markdown, tables as rows with spans filled in.

read_rows("<h2>Albums</h2><table><tr><th>Year</th></tr><tr><td>2000</td></tr></table>")
# ["## Albums", "| Year |", "| --- |", "| 2000 |"]
"""

import re
from collections.abc import Iterator
from typing import Any

READ_LINES = "mas.tools.files.html_rows:read_lines"
# What goes from a page that is a file: it is not shown, or is what a reader might type or press.
IN_FILES = "//title | //style | //script | //del | //template | //svg | //button | //select | //textarea"
MAX_CELLS = 100_000  # of one table, after its spans are filled in
_GONE = (
    "//title | //style | //script | //noscript | //link | //meta | //del | //sup[contains(@class, 'reference')]"
    " | //*[contains(@class, 'mw-editsection') or contains(@class, 'navbox') or contains(@class, 'noprint')"
    " or contains(@class, 'metadata') or contains(@class, 'mw-empty-elt') or contains(@class, 'mw-jump-link')"
    " or contains(@class, 'mw-cite-backlink') or contains(@class, 'shortdescription') or @id='toc'"
    " or contains(translate(@style, ' ', ''), 'display:none')]"
)
_LINKS = ".//ol[contains(@class, 'references')]//a[contains(@class, 'external')][@href]"
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REFERENCE = re.compile(r"&#([xX][0-9a-fA-F]{1,8}|[0-9]{1,9});?")
_HEADING_LINE = re.compile(r"(#{1,6}) ")
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | {
    *("p", "blockquote", "pre", "figure", "figcaption", "dt", "dd", "address", "li", "caption", "div", "section"),
    *("article", "body", "html", "center", "main", "details", "ul", "ol", "dl", "table"),
}


def read_rows(html: str, gone: str = _GONE, links: str = _LINKS) -> list[str]:
    """Return the page as lines, without navigation, edit links and footnote marks.

    Args:
        gone: an XPath of what goes.
        links: of those whose addresses are shown, and of pictures whose descriptions are.
    """
    from lxml import html as lxml_html  # type: ignore[import-untyped]

    try:
        root = lxml_html.fromstring(
            f"<div>{remove_unstorable(html)}</div>", parser=lxml_html.HTMLParser(remove_comments=True)
        )
    except (lxml_html.etree.ParserError, ValueError):
        return []
    for element in root.xpath(gone):
        if element.getparent() is not None:
            element.drop_tree()
    _mark_text(root, links)
    return [row for row in _walk(root, 0) if row]


def read_lines(data: bytes, _: object) -> dict[str, Any]:
    """Do the task READ_LINES: return the `lines` of a page."""
    return {"lines": read_rows(data.decode("utf-8", "replace"))}


def remove_unstorable(html: str) -> str:
    """Replace characters, and references to them, that lxml parses but refuses to store again."""

    def replace(reference: re.Match[str]) -> str:
        number = int(reference[1][1:], 16) if reference[1][0] in "xX" else int(reference[1])
        return "\ufffd" if number > 0x10FFFF or _NOT_XML.match(chr(number)) else reference[0]

    return _REFERENCE.sub(replace, _NOT_XML.sub("\ufffd", html))


def select_section(lines: list[str], wanted: str) -> list[str] | None:
    """Return the lines from a heading to the next one of its level or above; None if there is no such heading."""
    found, level = list[str](), 0
    for line in lines:
        heading = _HEADING_LINE.match(line)
        if heading and level and len(heading[1]) <= level:
            break
        if heading and not level and _flatten(line.lstrip("# ")).casefold() == _flatten(wanted.lstrip("# ")).casefold():
            level = len(heading[1])
        if level:
            found.append(line)
    return found or None


def list_headings(lines: list[str]) -> list[str]:
    return [line.lstrip("# ") for line in lines if _HEADING_LINE.match(line)]


def _mark_text(root: Any, links: str) -> None:
    """Write into the text what it would lose: line breaks, formulas, and the addresses of links."""
    for element in root.xpath(".//*[contains(@class, 'mwe-math-element')]"):
        formulas = element.xpath(".//@alttext | .//img/@alt")
        tail = element.tail
        element.clear()
        element.text, element.tail = (formulas[0] if formulas else ""), tail
    for element in root.iter("br"):
        element.tail = "\n" + (element.tail or "")
    for element in root.xpath("(.//td | .//th)//*[self::li or self::p or self::div or self::td or self::th]"):
        element.text, element.tail = "\n" + (element.text or ""), "\n" + (element.tail or "")
    for element in root.xpath(links):
        element.tail = f" <{element.get('href') or element.get('alt')}>{element.tail or ''}"


def _walk(element: Any, depth: int) -> Iterator[str]:
    if depth > 60:  # deeper than any page for people
        yield from _split_text(element.text_content())
        return
    loose = element.text or ""  # text and inline elements between two blocks
    for child in element:
        tag = child.tag if isinstance(child.tag, str) else ""
        if tag in _BLOCKS:
            yield from _split_text(loose)
            loose = ""
            yield from _read_block(child, tag, depth + 1)
        elif tag:
            loose += child.text_content()
        loose += child.tail or ""
    yield from _split_text(loose)


def _read_block(element: Any, tag: str, depth: int) -> Iterator[str]:
    if tag in _HEADINGS:
        yield f"{'#' * int(tag[1])} {_flatten(element.text_content())}"
    elif tag == "table":
        yield from _read_table(element)
    elif tag in ("ul", "ol"):
        yield from _read_list(element, tag, depth)
    elif tag == "dt":
        yield from (f"{row}:" for row in _split_text(element.text_content()))
    elif tag == "pre":
        yield from (_indent_mark(line.rstrip()) for line in element.text_content().split("\n"))
    else:
        yield from _walk(element, depth)


def _read_list(element: Any, tag: str, depth: int) -> Iterator[str]:
    number = 0
    for item in element:
        if item.tag != "li":
            yield from _walk(item, depth) if isinstance(item.tag, str) else ()
            continue
        number += 1
        mark = f"{number}. " if tag == "ol" else "- "
        for position, row in enumerate(_walk(item, depth)):
            yield (mark if position == 0 else "  ") + row


def _read_table(table: Any) -> Iterator[str]:
    for caption in table.xpath("./caption"):
        yield from _split_text(caption.text_content())
    grid, header_rows = _read_grid(table)
    if not grid:  # a layout without cells
        yield from _split_text(table.text_content())
    for position, cells in enumerate(grid):
        if any(cells):
            yield f"| {' | '.join(cells)} |"
        if header_rows and position == header_rows - 1:
            yield f"|{' --- |' * len(cells)}"


def _read_grid(table: Any) -> tuple[list[list[str]], int]:
    """Return the cells, each in all rows and columns that it spans, and the number of header rows."""
    grid: list[list[str]] = []
    above: dict[int, tuple[int, str]] = {}  # column → rows still to fill, text
    header_rows = cells_made = 0
    for tr in table.xpath("./tr | ./thead/tr | ./tbody/tr | ./tfoot/tr"):
        row: list[str] = []
        cells = tr.xpath("./td | ./th")
        for cell in (*cells, None):
            while len(row) in above:
                left, text = above.pop(len(row))
                if left > 1:
                    above[len(row)] = (left - 1, text)
                row.append(text)
            if cell is None:
                break
            text = " / ".join(_split_text(cell.text_content())).replace("|", "\\|")
            down = _read_span(cell, "rowspan", 1_000)
            for _ in range(_read_span(cell, "colspan", 100)):
                if down > 1:
                    above[len(row)] = (down - 1, text)
                row.append(text)
        cells_made += len(row)
        if cells_made > MAX_CELLS:
            break
        if len(grid) == header_rows and cells and all(cell.tag == "th" for cell in cells):
            header_rows += 1
        grid.append(row)
    return grid, header_rows


def _read_span(cell: Any, name: str, most: int) -> int:
    text = str(cell.get(name, "1")).strip()
    return max(1, min(most, int(text[:6]))) if text.isascii() and text.isdigit() else 1


def _split_text(text: str) -> Iterator[str]:
    """Yield the lines of a text, split at the line breaks that `_mark_text` has written."""
    yield from (_indent_mark(flat) for line in text.split("\n") if (flat := _flatten(line)))


def _indent_mark(line: str) -> str:
    """Return a line that is no heading; a comment of a program begins as a heading does."""
    return f" {line}" if _HEADING_LINE.match(line) else line


def _flatten(text: str) -> str:
    return " ".join(text.split())
