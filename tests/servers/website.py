"""A website with everything that a page can be: text, files, redirects to anywhere, and every way to be a nuisance.

    with running(Website()) as site: ...      # site.base_url + "/article"

/article /tables /js-only /empty /latin1 /utf8 /text /data.json /towns.csv /report.pdf /picture.png /video /brotli
/host (the Host header) · /status/<n> · /chain/<n> (so many redirects, 301, 302, 307, 308 in turn) · /loop ·
/to?url=<anywhere> · /hang /drip /endless /reset /cut /no-http /bomb /bad-gzip /members /deflate /raw-deflate
"""

import gzip
import json
import zlib
from collections.abc import Mapping
from typing import ClassVar

from tests.servers.loopback import CUT, DRIP, ENDLESS, HANG, NO_HTTP, RESET, Answer, Asked, LoopbackServer, bomb

_PARAGRAPH = "The lighthouse of Marrow Point was lit in 1874 and stands 41 metres above the sea, as its keepers tell. "
ARTICLE = f"""<!doctype html><html lang="en"><head><title>Marrow Point</title><meta charset="utf-8">
<meta property="article:published_time" content="2021-05-06T07:08:09Z"><script>track()</script></head>
<body><nav><ul><li><a href="/">Home</a></li><li><a href="/about">About this site</a></li></ul></nav>
<main><article><h1>Marrow Point</h1><p>{_PARAGRAPH * 3}</p><h2>Keepers</h2><p>{_PARAGRAPH * 2}See
<a href="/keepers">the list of keepers</a>.</p><table><tr><th>Name</th><th>Year</th></tr>
<tr><td>Ruth Odell</td><td>1874</td></tr><tr><td>Jon Birch</td><td>1901</td></tr></table></article></main>
<footer><p>Printed by the Society of Quiet Lamps</p></footer></body></html>"""
TABLES = """<html><head><title>Results</title></head><body><table><tr><th>Team</th><th>Points</th></tr>
<tr><td>Otters</td><td>12</td></tr></table></body></html>"""
JAPANESE = "\u65e5\u672c"
JS_ONLY = '<!doctype html><html><head><title>App</title></head><body><div id="root"></div><script src="/a.js"></script>'


def pdf(text: str) -> bytes:
    """One page with one line."""
    stream = f"BT /F1 18 Tf 50 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(body)
    return body + b"xref\n0 6\n0000000000 65535 f \n" + table + end


def _page(html: str | bytes, content_type: str = "text/html; charset=utf-8", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(html if isinstance(html, bytes) else html.encode(), 200, {"Content-Type": content_type, **named})


def _bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


_PAGES: Mapping[str, Answer] = {
    "/article": _page(ARTICLE),
    "/gzip": _page(gzip.compress(ARTICLE.encode()), Content_Encoding="gzip"),
    "/members": _page(gzip.compress(b"first, ") + gzip.compress(b"second") + bytes(8), Content_Encoding="gzip"),
    "/deflate": _page(zlib.compress(ARTICLE.encode()), Content_Encoding="deflate"),
    "/raw-deflate": _page(_bare_deflate(ARTICLE.encode()), Content_Encoding="deflate"),
    "/no-encoding": _page("<p>as it is</p>", Content_Encoding=""),
    "/brotli": _page(b"\x0b\x02\x80hello\x03", Content_Encoding="br"),
    "/twice-packed": _page(gzip.compress(gzip.compress(b"x")), Content_Encoding="gzip, gzip"),
    "/bad-gzip": _page(b"\x1f\x8b this is no gzip at all", Content_Encoding="gzip"),
    "/bomb": bomb(),
    "/tables": _page(TABLES),
    "/js-only": _page(JS_ONLY),
    "/empty": _page(""),
    "/latin1": _page(
        "<html><body><p>Caf\xe9 am Fluss, ge\xf6ffnet</p></body></html>".encode("latin-1"),
        "text/html; charset=iso-8859-1",
    ),
    "/iso-2022-jp": _page(f"<p>{JAPANESE}</p>".encode("iso-2022-jp"), "text/html; charset=iso-2022-jp"),
    "/hz-meta": _page(f"<meta charset='hz-gb-2312'><p>{JAPANESE}</p>".encode("hz"), "text/html"),
    "/odd-charset": _page("<html><body><p>still a page</p></body></html>", "text/html; charset=no-such-thing"),
    "/idna-charset": _page("<html><body><p>no page is in this</p></body></html>", "text/html; charset=idna"),
    "/undefined-meta": _page('<html><head><meta charset="undefined"></head><p>x</p></html>', "text/html"),
    "/utf16": _page("<html><body><p>caf\xe9 in sixteen bits</p></body></html>".encode("utf-16")),
    "/wrong-meta": _page('<html><head><meta charset="utf-16"></head><body><p>caf\xe9</p></body></html>', "text/html"),
    "/odd-soup": _page("<table><svg><p>&#0;&#xD800;\x01soup<td colspan=3>" * 20),
    "/surrogate": _page("<html><body><p>half &#xD800; a pair &#0; and more</p></body></html>"),
    "/text": _page("line one\nline two\nline three\n", "text/plain"),
    "/data.json": _page(json.dumps({"towns": [{"name": "Rome", "people": 7}]}), "application/json"),
    "/towns.csv": _page("town,people\nRome,7\nOslo,9\n", "text/csv"),
    "/report.pdf": _page(pdf("Forty-one lamps were counted"), "application/pdf"),
    "/download": _page(pdf("Forty-one lamps were counted"), "application/octet-stream"),
    "/binary": _page(bytes(range(256)) * 10, "application/octet-stream"),
    "/video": _page(b"\x00" * 100, "video/mp4"),
    "/leak": _page("<html><body><p>the gold answer is 17</p></body></html>"),
    "/long": _page(
        "<html><body>" + "".join(f"<p>Paragraph {n} of the long page.</p>" for n in range(2_000)) + "</body>"
    ),
    "/nested": _page("<div>" * 50_000 + "deep down" + "</div>" * 50_000),
    "/hang": HANG,
    "/drip": DRIP,
    "/endless": ENDLESS,
    "/reset": RESET,
    "/cut": CUT,
    "/no-http": NO_HTTP,
    "/many-headers": Answer(b"", headers={f"X-{n}": "x" * 1_000 for n in range(200)}),
}
_CODES = (301, 302, 307, 308)


class Website(LoopbackServer):
    faults: ClassVar[Mapping[str, Answer]] = {
        "429": Answer(b"", 429),
        "429_retry_after_1": Answer(b"", 429, {"Retry-After": "1"}),
        "503": Answer(b"", 503),
        "reset": RESET,
    }

    def answer(self, asked: Asked) -> Answer:
        first, _, rest = asked.path.lstrip("/").partition("/")
        if asked.path in _PAGES:
            return _PAGES[asked.path]
        if first == "status":
            return Answer(b"<p>no</p>", int(rest), {"Content-Type": "text/html"})
        if first == "chain":
            left = int(rest)
            target = f"/chain/{left - 1}" if left > 1 else "/article"
            return Answer(b"", _CODES[left % len(_CODES)], {"Location": target})
        if first == "loop":
            return Answer(b"", 302, {"Location": "/loop"})
        if first == "to":
            return Answer(b"", 302, {"Location": asked.query["url"]})
        if first == "host":
            return _page(f"<html><body><p>asked for {asked.headers.get('host')}</p></body></html>")
        return Answer(b"<p>Not found</p>", 404, {"Content-Type": "text/html"})
