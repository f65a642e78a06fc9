"""Conversion of HTML, mostly of wikis, to lines: markdown headings, rows of tables."""

import re
from collections.abc import Iterable, Iterator
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
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue003-\ufffd\U00010000-\U0010ffff]")  # nor our own marks
_REFERENCE = re.compile(r"&#([xX][0-9a-fA-F]{1,8}|[0-9]{1,9});?")
_HEADING_LINE = re.compile(r"(#{1,6}) ")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLOCKS = (
    *_HEADINGS,
    *("p", "blockquote", "pre", "figure", "figcaption", "dt", "dd", "address", "li", "caption", "div", "section"),
    *("article", "body", "html", "center", "main", "details", "ul", "ol", "dl", "table", "td", "th"),
)
# Characters for private use: a heading's "#", a space that stays, the end of a list's mark.
_HASH, _SPACE, _JOIN = "\ue000", "\ue001", "\ue002"


def read_rows(html: str, gone: str = _GONE, links: str = _LINKS) -> list[str]:
    """Return the page as lines, without navigation, edit links and footnote marks.

    `gone` is an XPath of what goes; `links` of links whose addresses, and of pictures whose descriptions are shown.
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
    for formula in root.xpath(".//*[contains(@class, 'mwe-math-element')]"):
        written = formula.xpath(".//@alttext | .//img/@alt")
        formula.clear(keep_tail=True)
        formula.text = written[0] if written else ""
    for link in root.xpath(links):
        link.tail = f" <{link.get('href') or link.get('alt')}>{link.tail or ''}"
    _mark_lines(root)
    text = re.sub(f"{_JOIN}\\s*", "", root.text_content())
    rows = (_flatten(line).replace(_SPACE, " ").rstrip() for line in text.split("\n"))
    # A comment of a program begins as a heading does, and is indented.
    return [(f" {row}" if _HEADING_LINE.match(row) else row).replace(_HASH, "#") for row in rows if row]


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
    """Return the lines from a heading to the next one of its level or above; None: no such heading."""
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


def _mark_lines(root: Any) -> None:
    """Write line breaks, rows of tables, and the marks of headings and lists into the text."""
    for element in root.iter("br", *_BLOCKS):
        element.text, element.tail = f"\n{element.text or ''}", f"\n{element.tail or ''}"
    for table in root.xpath(".//table[not(ancestor::table)]"):
        _set_lines(table, _read_table(table))
    for code in list(root.iter("pre")):
        _set_lines(code, code.text_content().expandtabs().split("\n"))
    for term in list(root.iter("dt")):
        _set_lines(term, [f"{_flatten(term.text_content())}:"])
    for heading in list(root.iter(*_HEADINGS)):
        _set_lines(heading, [f"{_HASH * int(heading.tag[1])} {_flatten(heading.text_content())}"])
    for items in root.iter("ul", "ol"):
        indent = _SPACE * 2 * sum(1 for _ in items.iterancestors("ul", "ol"))
        for number, item in enumerate(items.iterchildren("li"), start=1):
            item.text = f"\n{indent}{f'{number}.' if items.tag == 'ol' else '-'} {_JOIN}{item.text or ''}"


def _set_lines(element: Any, lines: Iterable[str]) -> None:
    text = "\n".join(("", *lines, "")).replace(" ", _SPACE)
    element.clear(keep_tail=True)
    element.text = text


def _read_table(table: Any) -> Iterator[str]:
    for caption in table.xpath("./caption"):
        yield _flatten(caption.text_content())
    rows = table.xpath("./tr | ./thead/tr | ./tbody/tr | ./tfoot/tr")
    headers = next((place for place, row in enumerate(rows) if row.xpath("./td") or not row.xpath("./th")), len(rows))
    grid = _read_grid(rows)
    if not any(grid):  # a layout without cells
        yield from map(_flatten, table.text_content().split("\n"))
    for place, cells in enumerate(grid, start=1):
        texts = [cells.get(column, "") for column in range(max(cells, default=-1) + 1)]
        if any(texts):
            yield f"| {' | '.join(texts)} |"
        if place == headers:
            yield f"|{' --- |' * len(texts)}"


def _read_grid(rows: list[Any]) -> list[dict[int, str]]:
    """Return the cells of each row by column, each in all rows and columns that it spans."""
    grid, filled = [dict[int, str]() for _ in rows], 0
    for place, row in enumerate(rows):
        column = 0
        for cell in row.xpath("./td | ./th"):
            while column in grid[place]:
                column += 1
            lines = map(_flatten, cell.text_content().split("\n"))
            text = " / ".join(line for line in lines if line).replace("|", "\\|")
            width, spanned = _read_span(cell, "colspan", 100), grid[place : place + _read_span(cell, "rowspan", 1_000)]
            filled += width * len(spanned)
            if filled > MAX_CELLS:
                return grid
            for cells in spanned:
                cells.update(dict.fromkeys(range(column, column + width), text))
    return grid


def _read_span(cell: Any, name: str, most: int) -> int:
    text = str(cell.get(name, "1")).strip()
    return max(1, min(most, int(text[:6]))) if text.isascii() and text.isdigit() else 1


def _flatten(text: str) -> str:
    return " ".join(text.split())
