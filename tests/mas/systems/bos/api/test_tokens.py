"""Firebase tokens: memory, then the file, then a sign-in; renewed once for all requests that were refused together."""

import asyncio
import hashlib
import json
import stat
from pathlib import Path

import httpx
import pytest

from mas.systems.bos.api.settings import ApiSettings
from mas.systems.bos.api.tokens import MARGIN_SECONDS, Credentials, FirebaseTokens
from mas.systems.bos.contracts.result import AgentFailureError
from tests.servers.firebase import API_KEY, EMAIL, PASSWORD, RENEW, SIGN_IN, FirebaseServer
from tests.servers.loopback import running

pytestmark = pytest.mark.anyio
ACCOUNT = Credentials(API_KEY, EMAIL, PASSWORD)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def open_tokens(firebase: FirebaseServer, folder: Path, clock: Clock | None = None) -> FirebaseTokens:
    return FirebaseTokens(firebase.base_url, firebase.base_url, folder / "state" / "tokens.json", clock or Clock())


async def find(tokens: FirebaseTokens, account: Credentials = ACCOUNT) -> str:
    async with httpx.AsyncClient() as client:
        return await tokens.find(account, client)


async def renew(tokens: FirebaseTokens, refused: str | None) -> str:
    async with httpx.AsyncClient() as client:
        return await tokens.renew(ACCOUNT, client, refused)


async def test_a_token_comes_from_memory_then_from_the_file(firebase: FirebaseServer, tmp_path: Path) -> None:
    """D11 D12"""
    tokens = open_tokens(firebase, tmp_path)
    first = await find(tokens)
    assert await find(tokens) == first
    assert await find(open_tokens(firebase, tmp_path)) == first  # of another process
    assert firebase.asked() == [SIGN_IN]


async def test_the_file_is_private_and_names_no_account(firebase: FirebaseServer, tmp_path: Path) -> None:
    """D12"""
    await find(open_tokens(firebase, tmp_path))
    path = tmp_path / "state" / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(json.loads(path.read_text())) == [ACCOUNT.digest]
    assert EMAIL not in path.read_text()
    assert [each.name for each in path.parent.iterdir()] == ["tokens.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"x": 1}', '{"x": {"id_token": "a"}}'])
async def test_a_damaged_file_costs_a_sign_in(firebase: FirebaseServer, tmp_path: Path, text: str) -> None:
    path = tmp_path / "state" / "tokens.json"
    path.parent.mkdir()
    path.write_text(text)
    assert await find(open_tokens(firebase, tmp_path)) in firebase.valid


async def test_a_token_is_renewed_a_minute_before_it_expires(firebase: FirebaseServer, tmp_path: Path) -> None:
    """D12"""
    clock = Clock()
    tokens = open_tokens(firebase, tmp_path, clock)
    first = await find(tokens)
    clock.now += firebase.lifetime_seconds - MARGIN_SECONDS - 1
    assert await find(tokens) == first
    clock.now += 1
    assert await find(tokens) != first
    assert firebase.asked() == [SIGN_IN, RENEW]


async def test_a_refused_refresh_token_leads_to_a_sign_in(firebase: FirebaseServer, tmp_path: Path) -> None:
    """D14"""
    tokens = open_tokens(firebase, tmp_path)
    first = await find(tokens)
    firebase.revoke_refresh_tokens()
    assert await renew(tokens, first) != first
    assert firebase.asked() == [SIGN_IN, RENEW, SIGN_IN]


async def test_requests_that_were_refused_together_renew_once(firebase: FirebaseServer, tmp_path: Path) -> None:
    tokens = open_tokens(firebase, tmp_path)
    first = await find(tokens)
    renewed = await asyncio.gather(*(renew(tokens, first) for _ in range(5)))
    assert len(set(renewed)) == 1
    assert firebase.asked() == [SIGN_IN, RENEW]


@pytest.mark.parametrize(
    "account",
    [
        Credentials(API_KEY, EMAIL, "wrong password"),
        Credentials(API_KEY, "nobody@example.org", PASSWORD),
        Credentials("", EMAIL, PASSWORD),
    ],
)
async def test_a_refused_account_is_a_configuration_error_without_its_values(
    firebase: FirebaseServer, tmp_path: Path, account: Credentials
) -> None:
    with pytest.raises(AgentFailureError, match="Firebase refused the account") as raised:
        await find(open_tokens(firebase, tmp_path), account)
    assert raised.value.kind == "ConfigurationError"
    shown = f"{raised.value} {raised.value.details} {account!r}"
    assert not [each for each in (account.api_key, account.email, account.password) if each and each in shown]


async def test_a_wrong_key_is_a_configuration_error_without_it(tmp_path: Path) -> None:
    """The emulator takes any key."""
    account = Credentials("wrong-key-0123456789", EMAIL, PASSWORD)
    with running(FirebaseServer()) as firebase, pytest.raises(AgentFailureError, match="refused the account") as raised:
        await find(open_tokens(firebase, tmp_path), account)
    assert "wrong-key" not in f"{raised.value} {raised.value.details}"


async def test_firebase_out_of_reach_is_an_error_without_the_key(tmp_path: Path) -> None:
    tokens = FirebaseTokens("http://127.0.0.1:9", "http://127.0.0.1:9", tmp_path / "t.json")
    with pytest.raises(AgentFailureError, match=r"Firebase cannot be reached \(ConnectError\)") as raised:
        await find(tokens)
    assert raised.value.kind == "HttpRequestError"


def test_the_emulator_counts_before_the_settings(tmp_path: Path) -> None:
    settings = ApiSettings(token_file=str(tmp_path / "t.json"))
    tokens = FirebaseTokens.from_settings(settings, {"FIREBASE_AUTH_EMULATOR_HOST": "127.0.0.1:9099"})
    assert tokens._identity_url == "http://127.0.0.1:9099/identitytoolkit.googleapis.com"
    assert FirebaseTokens.from_settings(settings, {})._securetoken_url == "https://securetoken.googleapis.com"


class Scripted:
    """Firebase without a connection: written replies, and the requests that it got."""

    def __init__(self, folder: Path, *replies: tuple[int, object]) -> None:
        self.replies = list(replies)
        self.requests: list[httpx.Request] = []
        self.clock, self.file = Clock(), folder / "new" / "state" / "tokens.json"
        self.tokens = self.open()

    def open(self) -> FirebaseTokens:
        return FirebaseTokens("https://identity.example/", "https://secure.example/", self.file, self.clock)

    def reply(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        status, content = self.replies.pop(0)
        text = content if isinstance(content, str) else json.dumps(content)
        return httpx.Response(status, text=text, headers={"Location": "https://elsewhere.example"})

    async def find(self) -> str:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self.reply), follow_redirects=True) as client:
            return await self.tokens.find(ACCOUNT, client)

    async def renew(self, refused: str | None) -> str:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self.reply), follow_redirects=True) as client:
            return await self.tokens.renew(ACCOUNT, client, refused)

    @property
    def content(self) -> object:
        return json.loads(self.file.read_text())


def signed_in(number: int, seconds: object = "3600") -> dict[str, object]:
    return {"idToken": f"id-{number}", "refreshToken": f"refresh-{number}", "expiresIn": seconds}


def refreshed(number: int, seconds: object = "3600") -> dict[str, object]:
    return {"id_token": f"id-{number}", "refresh_token": f"refresh-{number}", "expires_in": seconds}


def stored(number: int, expires_at: float = 1_003_600.0) -> dict[str, object]:
    return {"id_token": f"id-{number}", "refresh_token": f"refresh-{number}", "expires_at": expires_at}


async def test_the_requests_to_firebase_and_what_is_kept_of_its_replies(tmp_path: Path) -> None:
    script = Scripted(tmp_path, (200, signed_in(1)), (200, refreshed(2, 7200)))
    assert await script.find() == "id-1"
    assert script.content == {ACCOUNT.digest: stored(1)}
    assert stat.S_IMODE(script.file.parent.stat().st_mode) == 0o700
    script.clock.now += 3540
    assert await script.find() == "id-2"
    assert script.content == {ACCOUNT.digest: stored(2, 1_000_000.0 + 3540 + 7200)}
    first, second = script.requests
    assert (first.method, str(first.url)) == (
        "POST",
        f"https://identity.example/v1/accounts:signInWithPassword?key={API_KEY}",
    )
    assert json.loads(first.content) == {"email": EMAIL, "password": PASSWORD, "returnSecureToken": True}
    assert (second.method, str(second.url)) == ("POST", f"https://secure.example/v1/token?key={API_KEY}")
    assert second.content == b"grant_type=refresh_token&refresh_token=refresh-1"
    assert second.headers["content-type"] == "application/x-www-form-urlencoded"
    for request in script.requests:
        assert request.extensions["timeout"] == dict.fromkeys(("connect", "read", "write", "pool"), 30.0)


async def test_tokens_of_other_accounts_stay_in_the_file_and_memory_counts_before_it(tmp_path: Path) -> None:
    script = Scripted(tmp_path, (200, signed_in(1)))
    script.file.parent.mkdir(parents=True)
    script.file.write_text(json.dumps({"another": stored(9)}))
    assert await script.find() == "id-1"
    assert script.content == {"another": stored(9), ACCOUNT.digest: stored(1)}
    script.file.write_text(json.dumps({ACCOUNT.digest: stored(5)}))
    assert await script.find() == "id-1"
    script.tokens = script.open()
    assert await script.find() == await script.renew("id-4") == "id-5"  # another one was refused: this one is new
    assert len(script.requests) == 1


async def test_a_token_that_is_not_known_is_renewed_by_a_sign_in_and_kept(tmp_path: Path) -> None:
    script = Scripted(tmp_path, (200, signed_in(1)), (400, {}), (200, signed_in(3)))
    assert await script.renew(None) == await script.find() == "id-1"
    assert await script.renew("id-1") == await script.find() == "id-3"  # the refresh token is not accepted any more
    assert [each.url.path for each in script.requests] == [
        "/v1/accounts:signInWithPassword",
        "/v1/token",
        "/v1/accounts:signInWithPassword",
    ]


@pytest.mark.parametrize("status", [199, 201, 302, 400, 503])
async def test_every_other_status_than_200_refuses_the_account(tmp_path: Path, status: int) -> None:
    script = Scripted(tmp_path, (status, signed_in(1)))
    with pytest.raises(AgentFailureError) as raised:
        await script.find()
    message = f"Firebase refused the account of the API (HTTP {status}); check its e-mail address, password and "
    assert (raised.value.kind, str(raised.value)) == ("ConfigurationError", f"{message}web API key")
    assert not script.file.exists()
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    "content", ["no JSON", [], {}, {**signed_in(1), "expiresIn": "soon"}, {"idToken": "a", "expiresIn": 1}, None]
)
async def test_a_reply_without_a_token_is_an_error(tmp_path: Path, content: object) -> None:
    with pytest.raises(AgentFailureError) as raised:
        await Scripted(tmp_path, (200, content)).find()
    assert (raised.value.kind, str(raised.value)) == ("HttpRequestError", "Firebase's reply holds no token")


async def test_a_file_that_cannot_be_written_costs_nothing_now(tmp_path: Path) -> None:
    script = Scripted(tmp_path, (200, signed_in(1)))
    (tmp_path / "new").write_text("in the way")
    assert await script.find() == await script.find() == "id-1"


def test_the_key_of_an_account_is_a_digest_of_api_key_and_address() -> None:
    expected = hashlib.sha256(f"{API_KEY}\0{EMAIL}".encode()).hexdigest()
    assert Credentials(API_KEY, EMAIL, "another password").digest == ACCOUNT.digest == expected
    assert len({Credentials(*each, "p").digest for each in (("a", "b"), ("b", "a"), ("ab", ""), ("", "ab"))}) == 4
    assert repr(ACCOUNT) == "Credentials(…)"


def test_addresses_and_file_come_from_the_settings_the_emulator_or_the_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("mas.systems.bos.api.tokens.find_key_file", lambda: tmp_path / "installation" / "key")

    def read(tokens: FirebaseTokens) -> tuple[str, str, Path]:
        return tokens._identity_url, tokens._securetoken_url, tokens._file

    settings = ApiSettings(identity_url="https://i.example/", securetoken_url="https://s.example//")
    own = tmp_path / "installation" / "firebase_tokens.json"
    assert read(FirebaseTokens.from_settings(settings, {})) == ("https://i.example", "https://s.example", own)
    settings.token_file = str(tmp_path / "t.json")
    assert read(FirebaseTokens.from_settings(settings, {"FIREBASE_AUTH_EMULATOR_HOST": "h:1"})) == (
        "http://h:1/identitytoolkit.googleapis.com",
        "http://h:1/securetoken.googleapis.com",
        tmp_path / "t.json",
    )
