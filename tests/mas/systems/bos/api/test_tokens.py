"""Firebase tokens: memory, then the file, then a sign-in; renewed once for all requests that were refused together."""

import asyncio
import json
import stat
from pathlib import Path

import httpx
import pytest

from mas.systems.bos.api.services import MARGIN_SECONDS, Credentials, FirebaseTokens
from mas.systems.bos.contracts import AgentFailureError
from tests.servers.firebase import API_KEY, EMAIL, PASSWORD, SIGN_IN, FirebaseServer

pytestmark = pytest.mark.anyio
ACCOUNT = Credentials(API_KEY, EMAIL, PASSWORD)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def open_tokens(firebase: FirebaseServer, folder: Path, clock: Clock | None = None) -> FirebaseTokens:
    return FirebaseTokens(firebase.base_url, folder / "state" / "tokens.json", clock or Clock())


async def find(tokens: FirebaseTokens, account: Credentials = ACCOUNT) -> str:
    async with httpx.AsyncClient() as client:
        return await tokens.find(account, client)


async def renew(tokens: FirebaseTokens, refused: str | None) -> str:
    async with httpx.AsyncClient() as client:
        return await tokens.find(ACCOUNT, client, refused)


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


async def test_a_token_is_renewed_a_minute_before_it_expires(firebase: FirebaseServer, tmp_path: Path) -> None:
    """D12"""
    clock = Clock()
    tokens = open_tokens(firebase, tmp_path, clock)
    first = await find(tokens)
    clock.now += firebase.lifetime_seconds - MARGIN_SECONDS - 1
    assert await find(tokens) == first
    clock.now += 1
    assert await find(tokens) != first
    assert firebase.asked() == [SIGN_IN, SIGN_IN]


async def test_requests_that_were_refused_together_renew_once(firebase: FirebaseServer, tmp_path: Path) -> None:
    tokens = open_tokens(firebase, tmp_path)
    first = await find(tokens)
    renewed = await asyncio.gather(*(renew(tokens, first) for _ in range(5)))
    assert len(set(renewed)) == 1
    assert firebase.asked() == [SIGN_IN, SIGN_IN]


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
