"""A small API with the replies that an agent meets: data, no token, wrong parameters, failures, a redirect.

with running(OrdersApi()) as api:
    settings.base_url = api.base_url
"""

import json
from collections.abc import Callable
from typing import Any

from tests.servers.loopback import CUT, HANG, NO_HTTP, RESET, Answer, Asked, LoopbackServer, answer_json

ORDERS = [{"id": 1, "status": "open", "total": 12.5}, {"id": 2, "status": "paid", "total": 40.0}]
DOCUMENTATION: dict[str, Any] = {
    "auth": "none",
    "endpoints": [
        {
            "method": "GET",
            "path": "/orders",
            "summary": "List of orders",
            "query_params": [{"name": "status", "enum": ["open", "paid"]}, {"name": "limit", "type": "integer"}],
        },
        {"method": "GET", "path": "/orders/:order_id", "summary": "One order", "path_params": [{"name": "order_id"}]},
        {"method": "GET", "path": "/orders/newest", "summary": "The newest order"},
        {
            "method": "GET",
            "path": "/account",
            "summary": "The client's account",
            "auth": "bearer",
            "query_params": [{"name": "year", "type": "integer"}],
        },
        {"method": "POST", "path": "/orders", "summary": "New order", "body": {"properties": {"total": {}}}},
        {"method": "GET", "path": "/broken", "summary": "Always fails"},
        {"method": "POST", "path": "/broken", "summary": "Always fails", "body": {"properties": {"total": {}}}},
        {"method": "POST", "path": "/hang", "summary": "Never ends", "body": {"properties": {"total": {}}}},
        {"method": "GET", "path": "/moved", "summary": "Is elsewhere"},
        {"method": "GET", "path": "/page", "summary": "A page, no JSON"},
        {"method": "GET", "path": "/hang", "summary": "Never ends"},
        {"method": "GET", "path": "/reset", "summary": "Closes the connection"},
        {"method": "GET", "path": "/cut", "summary": "Sends half"},
        {"method": "GET", "path": "/nohttp", "summary": "Sends no HTTP"},
    ],
    "snippets": [{"title": "Paging", "text": "Lists are cut to limit entries."}],
}
_WAYS = {"/hang": HANG, "/reset": RESET, "/cut": CUT, "/nohttp": NO_HTTP}


class OrdersApi(LoopbackServer):
    def __init__(self, is_accepted: Callable[[str | None], bool] = lambda authorization: False) -> None:
        super().__init__()
        self._is_accepted = is_accepted
        self.page = b"<h1>Orders</h1>"

    def answer(self, asked: Asked) -> Answer:
        if asked.path in _WAYS:
            return _WAYS[asked.path]
        if asked.path == "/account":
            given = asked.headers.get("authorization")
            if not self._is_accepted(given):
                return answer_json({"error": f"the token {given} is not accepted"}, 401)
            if not asked.query.get("year", "2026").isdigit():
                return answer_json({"error": "year must be a number"}, 400)
            return answer_json({"balance": 77, "token_was": given})
        if asked.path == "/orders" and asked.method == "GET":
            status = asked.query.get("status")
            if status not in (None, "open", "paid"):
                return answer_json({"error": "status must be open or paid"}, 400)
            return answer_json([order for order in ORDERS if status in (None, order["status"])])
        if asked.path == "/orders":
            return answer_json(json.loads(asked.body or b"null"), 201)
        if asked.path == "/moved":
            return Answer(b"", 302, {"Location": "http://127.0.0.2:9/elsewhere"})
        if asked.path == "/page":
            return Answer(self.page, 200, {"Content-Type": "text/html; charset=latin-1"})
        if asked.path == "/orders/newest":
            return answer_json(ORDERS[1])
        for order in ORDERS:
            if asked.path == f"/orders/{order['id']}":
                return answer_json(order)
        return answer_json({"error": "not found"}, 500 if asked.path == "/broken" else 404)
