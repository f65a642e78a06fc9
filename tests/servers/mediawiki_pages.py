"""The made-up pages of `mediawiki.py`, with the marks that real ones have: edit links, notes, boxes, spans of cells.

PAGES["Ada Varga"][-1]      # (1003, "2024-02-01T00:00:00Z", "<p>…")
"""

_EDIT = '<span class="mw-editsection">[<a href="/edit">edit</a>]</span>'


def _h2(title: str) -> str:
    return f'<div class="mw-heading mw-heading2"><h2 id="{title}">{title}</h2>{_EDIT}</div>'


_BOX = """<table class="infobox"><tbody><tr><th colspan="2">Ada Varga</th></tr>
<tr><th>Born</th><td><span style="display:none">(1950-03-01)</span>1 March 1950<br>Marrow, Lowland</td></tr>
<tr><th>Genres</th><td><ul><li>Folk</li><li>Jazz</li></ul></td></tr></tbody></table>"""
_HATNOTE = '<div role="note" class="hatnote">Not to be confused with Ada Vargas.</div>'
_LEAD = (
    '<p><b>Ada Varga</b> is a singer.<sup class="reference"><a href="#n1">[1]</a></sup> She has {albums} albums.</p>'
)
_STYLE = "<style>.mw-parser-output{color:red}</style><script>alert(1)</script>"
_ALBUMS = """<table class="wikitable"><caption>Studio albums</caption><tbody>
<tr><th rowspan="2">Year</th><th colspan="2">Album</th></tr><tr><th>Title</th><th>Label</th></tr>
<tr><td rowspan="2">1999</td><td>First | Light</td><td>North</td></tr>
<tr><td>Second Dawn</td><td rowspan="2">South</td></tr>
<tr><td>2003</td><td>Third Noon</td></tr>{more}</tbody></table>"""
_NOTES = """<ol class="references"><li id="n1"><span class="mw-cite-backlink">^</span> <span class="reference-text">
<a class="external text" href="https://press.example.org/varga">Portrait</a>, 2001</span></li></ol>"""
_NAVBOX = '<div class="navbox">Singers of Lowland: a dozen names</div>'


def _varga(albums: int, more: str) -> str:
    life = f"{_h2('Life')}<p>Born in Marrow.</p><h3>Youth</h3><p>She sang in a choir of {albums + 20} people.</p>"
    formula = '<p>Area <span class="mwe-math-element"><math alttext="{\\pi r^2}"><mi>junk</mi></math></span> known.</p>'
    return (
        f"{_STYLE}{_HATNOTE}{_BOX}{_LEAD.format(albums=albums)}{life}{_h2('Discography')}{_ALBUMS.format(more=more)}"
        "<ul><li>Live<ul><li>Marrow 2001</li></ul></li></ul>"
        f"{_h2('Mathematics')}{formula}{_h2('References')}{_NOTES}{_NAVBOX}"
    )


_FOURTH = "<tr><td>2022</td><td>Fourth Dusk</td><td>East</td></tr>"
_FIFTH = "<tr><td>2023</td><td>Fifth Night</td><td>East</td></tr>"
PAGES: dict[str, list[tuple[int, str, str]]] = {  # title → (version, time, rendered text), oldest first
    "Ada Varga": [
        (1001, "2019-06-01T12:00:00Z", _varga(3, "")),
        (1002, "2022-12-30T23:59:59Z", _varga(4, _FOURTH)),
        (1003, "2024-02-01T00:00:00Z", _varga(5, _FOURTH + _FIFTH)),
    ],
    "Varga Peak": [(2001, "2020-01-01T00:00:00Z", "<p>Varga Peak is a mountain of 4,218 metres.</p>")],
    "Mercury (planet)": [(3001, "2021-01-01T00:00:00Z", "<p>The smallest planet.</p>")],
    "Long list": [(4001, "2021-01-01T00:00:00Z", "".join(f"<p>Entry {n} of the long list.</p>" for n in range(2_000)))],
}
REDIRECTS = {"A. Varga": "Ada Varga", "Vargapeak": "Varga Peak"}
DISAMBIGUATIONS = {
    "Mercury": '<ul><li class="toclevel-1 tocsection-1"><a href="#Science">Science</a></li>'
    '<li><a href="/wiki/Mercury_(planet)">Mercury (planet)</a>, the smallest</li>'
    '<li><a href="/wiki/Mercury_(element)">Mercury (element)</a></li><li>no link</li></ul>'
}
EXTRACTS = {
    "Ada Varga": "Ada Varga is a singer from Lowland.",
    "Varga Peak": "Varga Peak is a mountain.",
    "Mercury (planet)": "Mercury is the smallest planet.",
    "Mercury": "Mercury may refer to:",
}
