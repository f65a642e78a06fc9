"""YouTube as `youtube-transcript-api` asks for it: the watch page, the innertube player, the timed text.

    with running(YouTubeServer()) as server: ...      # tools.web.youtube_url=server.base_url

What a video is like goes by its id; VIDEOS lists them. Caption addresses are those of the real host, as the real player
answers: whoever follows one must go through the same redirection as for the watch page.
"""

import json
from collections.abc import Mapping
from html import escape
from typing import Any, ClassVar

from tests.servers.loopback import NUISANCES, Answer, Asked, LoopbackServer, bomb

HOST = "https://www.youtube.com"
API_KEY = "AIzaSyTEST_key-123"
LINES = (
    (0.0, 2.5, "Welcome to the birds of Marrow."),
    (2.5, 3.0, "We saw <i>three</i> kinds & more."),
    (3725.0, 4.0, "Goodbye \N{GRINNING FACE}"),
)
_EN = {"code": "en", "name": "English", "kind": ""}
_EN_ASR = {"code": "en", "name": "English (auto-generated)", "kind": "asr"}
_DE = {"code": "de", "name": "German", "kind": ""}
_PT = {"code": "pt-BR", "name": "Portuguese (Brazil)", "kind": "asr"}
VIDEOS: dict[str, list[dict[str, str]]] = {  # with captions
    "birds000001": [_DE, _EN, _EN_ASR],
    "german00001": [_DE, _PT],
    "consent0001": [_EN],
    "longtalk001": [_EN],
    "potoken0001": [_EN],
    "emptytext01": [_EN],
    "notxml00001": [_EN],
    "entities001": [_EN],
    "inside00001": [_EN],
    "blocked0002": [_EN],
}
DETAILS: dict[str, object] = {
    "birds000001": {
        "videoId": "birds000001", "title": "Birds of  Marrow", "author": "Marrow Wildlife", "lengthSeconds": "3731"
    },
    "longtalk001": {"title": "A long talk", "lengthSeconds": "soon"},
    "german00001": ["no", "object"],
}  # fmt: skip
_BOT = "Sign in to confirm you\u2019re not a bot"
_ADULT = "This video may be inappropriate for some users."
UNPLAYABLE: dict[str, dict[str, Any]] = {
    "missing0001": {"status": "ERROR", "reason": "This video is unavailable"},
    "private0001": {"status": "LOGIN_REQUIRED", "reason": "This is a private video"},
    "adults00001": {"status": "LOGIN_REQUIRED", "reason": _ADULT},
    "robot000001": {"status": "LOGIN_REQUIRED", "reason": _BOT},
    "country0001": {"status": "UNPLAYABLE", "reason": "The uploader has not made this video available here"},
}
_TIMED = {
    "emptytext01": "",
    "notxml00001": "<html>never closed",
    "entities001": '<!DOCTYPE t [<!ENTITY a "b">]><transcript><text start="0">&a;</text></transcript>',
}


def _html(text: str) -> Answer:
    return Answer(text.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


class YouTubeServer(LoopbackServer):
    faults: ClassVar[Mapping[str, Answer]] = {
        **NUISANCES,
        **{str(status): Answer(b"sorry", status) for status in (401, 403, 429, 500, 503)},
        "429_retry_after_1": Answer(b"sorry", 429, {"Retry-After": "1"}),
        "bomb": bomb(50),
    }

    def answer(self, asked: Asked) -> Answer:
        if asked.path == "/watch":
            return self._watch(asked)
        if asked.path == "/youtubei/v1/player" and asked.method == "POST" and asked.query.get("key") == API_KEY:
            return self._player(json.loads(asked.body))
        if asked.path == "/api/timedtext":
            return self._timed(asked.query)
        return Answer(b"", 404)

    def _watch(self, asked: Asked) -> Answer:
        video = asked.query.get("v", "")
        if video == "consent0001" and "CONSENT=YES+cb.17" not in asked.headers.get("cookie", ""):
            return _html('<form action="https://consent.youtube.com/s"><input name="v" value="cb.17"></form>')
        if video == "captcha0001":
            return _html('<div class="g-recaptcha"></div>')
        if video == "changed0001":
            return _html("<html>a new kind of page</html>")
        if video == "toomany0001":
            return self.faults["429"]
        if video == "gone0000001":
            return Answer(b"", 404)
        return _html(f'<script>ytcfg.set({{"INNERTUBE_API_KEY": "{API_KEY}"}})</script>')

    def _player(self, body: dict[str, Any]) -> Answer:
        video = body["videoId"]
        assert body["context"]["client"]["clientName"] == "ANDROID"
        if video == "garbled0001":
            return _html("<html>no JSON</html>")
        if video in UNPLAYABLE or video not in VIDEOS:
            status = UNPLAYABLE.get(video, {"status": "OK"})
            return Answer(json.dumps({"playabilityStatus": status}).encode())
        renderer = {"captionTracks": [self._track(video, each) for each in VIDEOS[video]], "translationLanguages": []}
        captions = {"playerCaptionsTracklistRenderer": renderer}
        described = {"videoDetails": DETAILS[video]} if video in DETAILS else {}
        return Answer(json.dumps({"playabilityStatus": {"status": "OK"}, "captions": captions, **described}).encode())

    def _track(self, video: str, caption: dict[str, str]) -> dict[str, Any]:
        kind = f"&kind={caption['kind']}" if caption["kind"] else ""
        url = f"{HOST}/api/timedtext?v={video}&lang={caption['code']}{kind}&fmt=srv3"
        url += "&exp=xpe" if video == "potoken0001" else ""
        url = "http://169.254.169.254/latest/meta-data" if video == "inside00001" else url
        named = {"runs": [{"text": caption["name"]}]}
        track = {"baseUrl": url, "name": named, "languageCode": caption["code"], "isTranslatable": False}
        return {**track, "kind": caption["kind"]} if caption["kind"] else track

    def _timed(self, query: Mapping[str, str]) -> Answer:
        video = query["v"]
        if video in _TIMED:
            return Answer(_TIMED[video].encode(), headers={"Content-Type": "text/xml; charset=utf-8"})
        said = LINES if video != "longtalk001" else [(2.0 * n, 2.0, f"Sentence {n} of the talk.") for n in range(2_000)]
        marked = [(start, length, escape(escape(f"{text} [{query['lang']}]", False))) for start, length, text in said]
        spoken = "".join(f'<text start="{start}" dur="{length}">{text}</text>' for start, length, text in marked)
        xml = f'<?xml version="1.0" encoding="utf-8" ?><transcript>{spoken}</transcript>'
        return Answer(xml.encode(), headers={"Content-Type": "text/xml; charset=utf-8"})
