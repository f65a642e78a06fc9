"""Firebase's sign-in and token renewal as its REST reference describes them, with a settable lifetime of tokens.

    with running(FirebaseServer()) as firebase:
        monkeypatch.setenv("FIREBASE_AUTH_EMULATOR_HOST", firebase.base_url.removeprefix("http://"))
        firebase.accepts(token)                   # what an API behind it would say

Status codes and messages are those that the real emulator gave (firebase-tools 15).
"""

import itertools
import json
from urllib.parse import parse_qs

from tests.servers.loopback import Answer, Asked, LoopbackServer, answer_json

API_KEY, EMAIL, PASSWORD = "web-api-key-0123456789", "ada@example.org", "correct horse battery"
SIGN_IN, RENEW = "/v1/accounts:signInWithPassword", "/v1/token"


def _refuse(message: str, status: int = 400) -> Answer:
    return answer_json({"error": {"code": status, "message": message, "errors": [{"message": message}]}}, status)


class FirebaseServer(LoopbackServer):
    def __init__(self, lifetime_seconds: int = 3600) -> None:
        super().__init__()
        self.lifetime_seconds = lifetime_seconds
        self.valid: set[str] = set()  # ID tokens that an API accepts
        self.refresh_tokens: set[str] = set()
        self._numbers = itertools.count(1)

    def accepts(self, authorization: str | None) -> bool:
        return (authorization or "").removeprefix("Bearer ") in self.valid

    def revoke_refresh_tokens(self) -> None:
        self.refresh_tokens.clear()

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
            token, refresh = self._issue()
            expires = str(self.lifetime_seconds)
            return answer_json({"localId": "u1", "idToken": token, "refreshToken": refresh, "expiresIn": expires})
        if path == RENEW:
            form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
            if form.get("grant_type") != "refresh_token":
                return _refuse("INVALID_GRANT_TYPE")
            if form.get("refresh_token") not in self.refresh_tokens:
                return _refuse("INVALID_REFRESH_TOKEN")
            token, refresh = self._issue()
            expires = str(self.lifetime_seconds)
            return answer_json(
                {"id_token": token, "refresh_token": refresh, "expires_in": expires, "token_type": "Bearer"}
            )
        return _refuse("NOT_FOUND", 404)

    def _issue(self) -> tuple[str, str]:
        number = next(self._numbers)
        token, refresh = f"id-token-number-{number:04d}", f"refresh-token-number-{number:04d}"
        self.valid.add(token)
        self.refresh_tokens.add(refresh)
        return token, refresh
