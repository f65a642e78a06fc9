"""The invented shop's API: each answer, and each error of a real one."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from eval.benchmarks.databases import shop_api
from eval.benchmarks.databases.shop_api import Reply, answer, make_server

STOCK: list[dict[str, object]] = [
    {"product_id": 1, "warehouse": "Oslo", "units": 5},
    {"product_id": 2, "warehouse": "Bergen", "units": 0},
    {"product_id": 3, "warehouse": "Oslo", "units": 12},
]
FACTS: dict[str, object] = {
    "stock": STOCK,
    "rates": {"NOK": 11.5},
    "shipping": {"Norway": 4, "New Zealand": 20},
    "deliveries": {"2024-09": 7},
}
NO_COUNTRY = {"error": "country must be one of Norway, New Zealand; weight_kg a whole number"}
NO_MONTH = {"error": "month must be written YYYY-MM, such as 2024-09"}


def listed(*numbers: int) -> Reply:
    return 200, {"total": len(numbers), "items": [STOCK[number - 1] for number in numbers]}


@pytest.mark.parametrize(
    ("path", "query", "reply"),
    [
        ("/stock", {}, listed(1, 2, 3)),
        ("/stock/", {"warehouse": "oSLo"}, listed(1, 3)),
        ("/stock", {"at_least": "5"}, listed(1, 3)),
        ("/stock", {"at_least": "6"}, listed(3)),
        ("/stock", {"at_least": "0", "warehouse": "Bergen"}, listed(2)),
        ("/stock", {"warehouse": "Paris"}, listed()),
        ("/stock", {"at_least": "-1"}, (400, {"error": "at_least must be a whole number"})),
        ("/stock/2", {}, (200, STOCK[1])),
        ("/stock/9", {}, (404, {"error": "no product 9"})),
        ("/stock/%32", {}, (200, STOCK[1])),
        ("/rates/nok", {}, (200, {"currency": "NOK", "per_euro": 11.5})),
        ("/rates/XXX", {}, (404, {"error": "no such currency"})),
        ("/shipping", {"country": "norway", "weight_kg": "0"}, (200, {"price_euro": 4})),
        ("/shipping", {"country": "new zealand", "weight_kg": "3"}, (200, {"price_euro": 26})),
        ("/shipping", {"country": "France", "weight_kg": "3"}, (400, NO_COUNTRY)),
        ("/shipping", {"country": "Norway"}, (400, NO_COUNTRY)),
        ("/shipping", {"country": "Norway", "weight_kg": "1.5"}, (400, NO_COUNTRY)),
        ("/shipping", {"weight_kg": "1"}, (400, NO_COUNTRY)),
        ("/deliveries", {"month": "2024-09"}, (200, {"month": "2024-09", "deliveries": 7})),
        ("/deliveries", {"month": "2024-10"}, (200, {"month": "2024-10", "deliveries": 0})),
        ("/deliveries", {"month": "2024-9"}, (400, NO_MONTH)),
        ("/deliveries", {"month": "2024-091"}, (400, NO_MONTH)),
        ("/deliveries", {}, (400, NO_MONTH)),
        ("/reports/margin", {}, (500, {"error": "the report could not be made"})),
        ("/reports", {}, (404, {"error": "no such endpoint"})),
        ("/stock/1/more", {}, (404, {"error": "no such endpoint"})),
        ("/", {}, (404, {"error": "no such endpoint"})),
    ],
)
def test_each_endpoint_has_its_answers_and_errors(path: str, query: dict[str, str], reply: Reply) -> None:
    assert answer(FACTS, path, query, None) == reply


@pytest.mark.parametrize(("token", "error"), [(None, "a token is needed"), ("any", "the token is not valid")])
def test_no_token_is_ever_valid(token: str | None, error: str) -> None:
    assert answer(FACTS, "/staff", {}, token) == (401, {"error": error})


@contextmanager
def serving() -> Iterator[str]:
    with make_server(FACTS) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(0.01))
        thread.start()
        try:
            assert server.server_address[0] == "127.0.0.1"
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_the_server_answers_in_json_on_the_loopback_address(capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as address:
        with urllib.request.urlopen(f"{address}/stock?warehouse=Oslo&at_least=12") as reply:
            assert (reply.status, reply.headers["Content-Type"]) == (200, "application/json")
            content = reply.read()
            assert reply.headers["Content-Length"] == str(len(content))
            assert json.loads(content) == listed(3)[1]
        request = urllib.request.Request(f"{address}/staff", headers={"Authorization": "Bearer x"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        with refused.value as error:
            assert (error.code, json.loads(error.read())) == (401, {"error": "the token is not valid"})
    assert capsys.readouterr() == ("", ""), "standard output holds the address alone"


class NoServer:
    """A server that ends as soon as it serves."""

    server_address = ("127.0.0.1", 4711)
    facts: object = None
    n_served = 0

    def serve_forever(self) -> None:
        self.n_served += 1


def test_the_program_prints_its_address_and_serves_the_facts_of_the_shop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, given = NoServer(), list[dict[str, object]]()
    monkeypatch.setattr(shop_api, "make_server", lambda facts: given.append(facts) or server)
    shop_api.main()
    assert capsys.readouterr().out == "http://127.0.0.1:4711\n"
    assert server.n_served == 1 and set(FACTS) <= set(given[0])
