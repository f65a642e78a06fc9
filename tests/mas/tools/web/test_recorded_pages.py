"""What agents read of web pages is the same as ever: blocks, lists, tables, sections, searches, and refusals.

After a change that is meant to alter texts, `PYTHONPATH=. python tests/mas/tools/web/test_recorded_pages.py` records
them anew; the difference of `recorded_pages.json` shows what agents then read.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mas.tools.files.document import Document
from mas.tools.files.html_rows import list_headings, read_rows, remove_unstorable, select_section
from mas.tools.results import ToolError
from mas.tools.web.html_page import read_html
from mas.tools.web.page_view import FetchedPage, FoundPage, PageSource, show_document, show_found_pages

FILE = Path(__file__).with_name("recorded_pages.json")
TOWNS = "".join(
    f"<p>The town of Town{n} has {n * 37} people, a harbour and a market on day {n % 7}.</p>" for n in range(30)
)
ARTICLE = (
    "<html><head><title>Towns &amp; more</title><meta name='date' content='2024-05-01'></head><body>"
    f"<nav><a href='/'>Home</a></nav><article><h1>Towns</h1>{TOWNS}</article>"
    "<footer>Imprint of Velmor</footer></body></html>"
)
HTML = {
    "blocks": "a<p>b <b>c</b></p>d<div>e<div>f</div>g</div><br>h<hr>i<blockquote>j<p>k</p></blockquote>"
    "<pre> l\n\tm</pre>",
    "lists": "<ul><li>a<ul><li>b</li><li>c<p>d</p></li></ul></li><li></li></ul><ol start=3><li>e</li><li>f</li></ol>"
    "<dl><dt>g</dt><dd>h</dd></dl>",
    "headings": "<h1>A  a</h1>1<h2>B</h2>2<h3>C</h3>3<h2>D</h2>4<h6>E</h6>5<h1>B</h1>6",
    "table": "<table><caption>T</caption><thead><tr><th>a<th>b</thead><tbody><tr><td>1<td>2|3<tr><td></tbody></table>",
    "spans": "<table><tr><td rowspan=2>a<td colspan=3>b<tr><td>c<td rowspan=0>d<td>e<tr><td colspan=2>f</table>",
    "nested": "<table><tr><td>a<table><tr><td>b<td>c</table><td><ul><li>d<li>e</ul></table>",
    "left out": "<script>x</script><style>y</style><noscript>n</noscript><template>t</template>a"
    "<!-- b --><svg><text>c</svg>",
    "inline": "<p>a<a href='https://x.example/'>b</a><img alt='c'><sup>2</sup><sub>3</sub> <code>d</code>"
    "\n e&nbsp;f</p>",
    "odd": "&#0;&#x1F;&#xD800;&#x110000;&#65;\x0b<p>a\ud800</p><unknown>b</unknown>",
    "empty": "<p> </p><table></table><ul></ul>",
    "deep": f"{'<div>' * 300}a{'</div>' * 300}b",
}
SOURCE = ("Towns, https://example.org/", "https://example.org/", "Towns")


def attempt(read: Callable[[], object]) -> object:
    try:
        return read()
    except ToolError as error:
        return f"error: {error}"


def read_page(body: bytes, content_type: str = "text/html") -> object:
    answer = read_html(body, {"url": "https://example.org/a", "content_type": content_type})
    fetched = FetchedPage(PageSource(*SOURCE), Document.from_facts(answer.pop("document")))

    def show(page: int, search: str) -> object:
        result = show_document(fetched, page, search)
        return {"text": str(result), "facts": result.describe()}

    wanted = ((1, ""), (2, ""), (1, "town7"), (1, "Imprint"), (1, "none of it"), (0, ""))
    return [answer, *(attempt(partial(show, page, search)) for page, search in wanted)]


def read_wiki(html: str) -> object:
    lines = read_rows(html)
    return [list_headings(lines), *(select_section(lines, section) for section in ("b", " # C ", "none"))]


def read_all() -> dict[str, object]:
    found: dict[str, object] = {f"rows of {name}": read_rows(remove_unstorable(html)) for name, html in HTML.items()}
    found["article"] = attempt(lambda: read_page(ARTICLE.encode()))
    found["short page"] = attempt(lambda: read_page(b"<title>T</title><p>Short.</p><script>x</script>"))
    found["page without text"] = attempt(lambda: read_page(b"<script>x</script>"))
    found["nothing"] = attempt(lambda: read_page(b"<p></p>"))
    for charset in ("latin-1", "utf-16", "no-such", "rot13", "idna"):
        found[f"charset {charset}"] = attempt(
            partial(read_page, "<p>Größe</p>".encode("latin-1"), f"text/html; charset={charset}")
        )
    found["own charset"] = attempt(lambda: read_page("<meta charset='latin-1'><p>Größe</p>".encode("latin-1")))
    found["mark"] = attempt(lambda: read_page("<p>Größe</p>".encode("utf-16")))
    found["wiki"] = read_wiki(HTML["headings"])
    pages = [FoundPage(" a\n b", "https://a.example/", "text " * 500), FoundPage("c" * 400, "https://b.example/", " ")]
    shown = [show_found_pages("Found", each, "nothing") for each in (pages, [])]
    found["list"] = [[str(each), each.describe()] for each in shown]
    found["source"] = list(vars(PageSource(*SOURCE)).values())
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def test_every_page_is_read_as_it_was_recorded() -> None:
    recorded, now = json.loads(FILE.read_text("utf-8")), read_all()
    assert now.keys() == recorded.keys()
    for name, found in now.items():
        assert found == recorded[name], name


if __name__ == "__main__":
    FILE.write_text(json.dumps(read_all(), indent=0, ensure_ascii=True) + "\n", encoding="utf-8")
