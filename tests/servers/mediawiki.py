"""A small Wikipedia behind MediaWiki's api.php: search, titles, versions with their times, rendered text.

    with running(MediaWikiServer()) as server: ...      # tools.web.wikipedia_url=server.api_url

Answers have the forms of https://www.mediawiki.org/wiki/API:Main_page, in both format versions: the `wikipedia`
package asks for the first. The pages are made up. A user agent without a contact in brackets is refused with 403, as
Wikimedia does since 2025.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from tests.servers.loopback import DEEP, NUISANCES, Answer, Asked, LoopbackServer, answer_json, bomb
from tests.servers.mediawiki_pages import DISAMBIGUATIONS, EXTRACTS, PAGES, REDIRECTS


def _error(code: str, info: str) -> Answer:
    return answer_json({"error": {"code": code, "info": info}, "servedby": "mw1"})


_POLICY = b"Please set a user-agent and respect our robot policy https://w.wiki/4wJS. See also T400119.\n"


class MediaWikiServer(LoopbackServer):
    faults: ClassVar[Mapping[str, Answer]] = {
        **NUISANCES,
        "401": Answer(b"", 401),
        "403": Answer(_POLICY, 403, {"Content-Type": "text/plain"}),
        "429": Answer(b"Too many requests", 429, {"Content-Type": "text/plain"}),
        "429_retry_after_1": Answer(b"Too many requests", 429, {"Retry-After": "1"}),
        "429_retry_after_3600": Answer(b"Too many requests", 429, {"Retry-After": "3600"}),
        "500": Answer(b"", 500),
        "502": Answer(b"", 502),
        "503": Answer(b"<html>Wikimedia Error</html>", 503, {"Content-Type": "text/html"}),
        "ratelimited": _error("ratelimited", "You've exceeded your rate limit."),
        "deep": DEEP,
        "list": answer_json([]),
        "nothing": answer_json({"batchcomplete": True}),
        "bomb": bomb(50, "application/json"),
    }

    @property
    def api_url(self) -> str:
        return f"{self.base_url}/w/api.php"

    def answer(self, asked: Asked) -> Answer:
        if asked.path != "/w/api.php":
            return Answer(b"Not found", 404)
        if "(" not in asked.headers.get("user-agent", "") or "no contact" in asked.headers["user-agent"]:
            return self.faults["403"]
        query = asked.query
        if query.get("action") == "parse":
            return _parse(query)
        if query.get("list") == "search":
            return _search(query)
        if "|" in query.get("titles", "") or "extracts" in query.get("prop", ""):
            return answer_json(_extracts(query, f"{self.base_url}/wiki/"))
        return answer_json(_page(query, f"{self.base_url}/wiki/"))


def _search(query: Mapping[str, str]) -> Answer:
    words = query["srsearch"].casefold().split()
    texts = {title: f"{title} {EXTRACTS.get(title, '')}".casefold() for title in [*PAGES, *DISAMBIGUATIONS]}
    found = [title for title, text in texts.items() if all(word in text for word in words)]
    hits = [{"ns": 0, "title": title, "pageid": _id(title)} for title in found[: int(query.get("srlimit", 10))]]
    return answer_json({"batchcomplete": "", "query": {"searchinfo": {"totalhits": len(found)}, "search": hits}})


def _page(query: Mapping[str, str], base: str) -> dict[str, Any]:
    """`prop=info|revisions` of one title, redirects followed where that is asked for."""
    asked = query.get("titles", "") or _title(int(query.get("pageids", "0")))
    title = asked.replace("_", " ")
    title = title[:1].upper() + title[1:]
    about: dict[str, Any] = {"normalized": [{"from": asked, "to": title}]} if title != asked else {}
    if "redirects" in query and title in REDIRECTS:
        about["redirects"] = [{"from": title, "to": REDIRECTS[title]}]
        title = REDIRECTS[title]
    if title not in PAGES and title not in DISAMBIGUATIONS:
        return _paged(query, about, {"ns": 0, "title": title, "missing": "" if _old(query) else True}, -1)
    page: dict[str, Any] = {"pageid": _id(title), "ns": 0, "title": title}
    if "info" in query.get("prop", ""):
        page["fullurl"] = base + title.replace(" ", "_")
    if "revisions" in query.get("prop", ""):
        page["revisions"] = _revisions(title, query)
    return _paged(query, about, page, _id(title))


def _paged(query: Mapping[str, str], about: dict[str, Any], page: dict[str, Any], number: int) -> dict[str, Any]:
    pages: Any = {str(number): page} if _old(query) else [page]
    return {"batchcomplete": "", "query": {**about, "pages": pages}}


def _revisions(title: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
    """Newest first, or oldest first with `rvdir=newer`; `rvstart` is where the walk begins."""
    if title in DISAMBIGUATIONS:
        return [{"revid": _id(title), "parentid": 0, "timestamp": "2024-01-01T00:00:00Z"}]
    newer = query.get("rvdir") == "newer"
    start = query.get("rvstart", "0" if newer else "9")
    known = sorted(PAGES[title], key=lambda each: each[1], reverse=not newer)
    fitting = [each for each in known if (each[1] >= start if newer else each[1] <= start)]
    return [{"revid": revid, "parentid": 0, "timestamp": time} for revid, time, _ in fitting[: int(query["rvlimit"])]]


def _parse(query: Mapping[str, str]) -> Answer:
    wanted = int(query.get("oldid", "0"))
    listing = [(title, [(_id(title), "", html)]) for title, html in DISAMBIGUATIONS.items()]
    for title, revisions in [*PAGES.items(), *listing]:
        for revid, _, html in revisions:
            if revid == wanted:
                text = f'<div class="mw-content-ltr mw-parser-output" lang="en" dir="ltr">{html}</div>'
                return answer_json({"parse": {"title": title, "pageid": _id(title), "revid": revid, "text": text}})
    return _error("nosuchrevid", f"There is no revision with ID {wanted}.")


def _extracts(query: Mapping[str, str], base: str) -> dict[str, Any]:
    titles = query["titles"].split("|")
    pages = [
        {
            "pageid": _id(each),
            "title": each,
            "fullurl": base + each.replace(" ", "_"),
            "extract": EXTRACTS.get(each, ""),
        }
        for each in titles
    ]
    return {"batchcomplete": True, "query": {"pages": pages}}


def _old(query: Mapping[str, str]) -> bool:
    return query.get("formatversion", "1") == "1"


def _id(title: str) -> int:
    return [*PAGES, *DISAMBIGUATIONS].index(title) + 100


def _title(page_id: int) -> str:
    titles = [*PAGES, *DISAMBIGUATIONS]
    return titles[page_id - 100] if 0 <= page_id - 100 < len(titles) else ""
