"""Firebase's sign-in as its REST reference describes it, with a settable lifetime of tokens.

    with running(FirebaseServer()) as firebase:
        monkeypatch.setenv("FIREBASE_AUTH_EMULATOR_HOST", firebase.base_url.removeprefix("http://"))
        firebase.accepts(token)                   # what an API behind it would say

Status codes and messages are those that the real emulator gave (firebase-tools 15).
"""

import itertools
import json

from tests.servers.loopback import Answer, Asked, LoopbackServer, answer_json

API_KEY, EMAIL, PASSWORD = "web-api-key-0123456789", "ada@example.org", "correct horse battery"
SIGN_IN = "/v1/accounts:signInWithPassword"


def _refuse(message: str, status: int = 400) -> Answer:
    return answer_json({"error": {"code": status, "message": message, "errors": [{"message": message}]}}, status)


class FirebaseServer(LoopbackServer):
    def __init__(self, lifetime_seconds: int = 3600) -> None:
        super().__init__()
        self.lifetime_seconds = lifetime_seconds
        self.valid: set[str] = set()  # ID tokens that an API accepts
        self._numbers = itertools.count(1)

    def accepts(self, authorization: str | None) -> bool:
        return (authorization or "").removeprefix("Bearer ") in self.valid

    def asked(self) -> list[str]:
        return [each.path for each in self.requests]

    def answer(self, asked: Asked) -> Answer:
        if not asked.query.get("key"):
            return _refuse("The request is missing a valid API key.", 403)
        if asked.query["key"] != API_KEY:
            return _refuse("API key not valid. Please pass a valid API key.", 403)
        path = asked.path[max(asked.path.find("/v1/"), 0) :]  # the emulator has the service's name before it
        if path == SIGN_IN:
            given = json.loads(asked.body)
            if given.get("email") != EMAIL:
                return _refuse("EMAIL_NOT_FOUND")
            if given.get("password") != PASSWORD:
                return _refuse("INVALID_PASSWORD")
            number, expires = next(self._numbers), str(self.lifetime_seconds)
            token, refresh = f"id-token-number-{number:04d}", f"refresh-token-number-{number:04d}"
            self.valid.add(token)
            return answer_json({"localId": "u1", "idToken": token, "refreshToken": refresh, "expiresIn": expires})
        return _refuse("NOT_FOUND", 404)
