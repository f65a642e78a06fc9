"""Protection of the viewer: only its own pages, in the browser of the user who started it, may use it.

    guard = Guard(application, port)
    guard.url                   # "http://127.0.0.1:8770/open?token=…": sets the cookie, then shows the start page

| Threat | Answer |
|---|---|
| another user of this machine | a token, new at each start, in the address that is printed; then a cookie |
| a host name of others that points to this machine | the Host header must name this machine and the port |
| a page of another site | Origin and Sec-Fetch-Site are checked, the cookie is SameSite=Strict |
| a write from such a page | in addition the Origin must be there, and the body JSON |
| scripts in texts that are shown | the policy of each page names its own scripts by their digests |
"""

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
_OPEN = "/open"
_READS = ("GET", "HEAD")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",  # pages bring their own
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware around the whole application, with the secret of one start of the viewer."""

    def __init__(self, application: ASGIApp, port: int) -> None:
        self._application, self._port = application, port
        self.token = secrets.token_urlsafe(24)  # in the printed address, and in the cookie
        self._cookie = f"viewer_{port}"  # cookies of one host are shared by all its ports

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}{_OPEN}?token={self.token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(Request(scope), Headers(scope=scope)) if scope["type"] == "http" else None
        await (answer or self._application)(scope, receive, send_with_headers)

    def _answer(self, request: Request, headers: Headers) -> Response | None:
        """Refuse what does not come from a page of this server, and give the cookie to who has the printed address."""
        hosts, is_read = headers.getlist("host"), request.method in _READS
        if len(hosts) != 1 or hosts[0].lower() not in [f"{name}:{self._port}" for name in _NAMES]:
            return PlainTextResponse("This server answers to 127.0.0.1 and localhost only.\n", 421)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        if origin is not None and origin != f"http://{hosts[0].lower()}":
            return PlainTextResponse("Requests from pages of other origins are refused.\n", 403)
        opens = request.scope["path"] == _OPEN and is_read
        if site not in ("same-origin", "none") and not opens:
            return PlainTextResponse("Requests from pages of other sites are refused.\n", 403)
        is_json = headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
        if not is_read and (origin is None or not is_json):
            return PlainTextResponse("Only the viewer's own pages may write; reload the page.\n", 403)
        if opens and self._is_token(request.query_params.get("token", "")):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if self._is_token(request.cookies.get(self._cookie, "")):
            return None
        return PlainTextResponse("Open the address that python eval/view.py has printed.\n", 401)

    def _is_token(self, given: str) -> bool:
        """Compare in a time that does not depend on where they differ."""
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.token.encode())
