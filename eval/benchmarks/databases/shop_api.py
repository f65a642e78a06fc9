"""API of the invented shop, on the loopback address for the time of a run: only reading, with the errors of a real one.

python -m eval.benchmarks.databases.shop_api          # prints http://127.0.0.1:PORT and serves until it is ended
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from mas.runtime.terminal import print_line

FACTS = Path(__file__).parent / "shop" / "api_facts.json"

Reply = tuple[int, dict[str, Any]]


def answer(facts: dict[str, Any], path: str, query: dict[str, str], token: str | None) -> Reply:
    """Return status and body of a request."""
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["stock"]:
            house, least = query.get("warehouse", "").lower(), query.get("at_least", "0")
            if not least.isdigit():
                return 400, {"error": "at_least must be a whole number"}
            enough = [item for item in facts["stock"] if item["units"] >= int(least)]
            found = [item for item in enough if "warehouse" not in query or item["warehouse"].lower() == house]
            return 200, {"total": len(found), "items": found}
        case ["stock", id_]:
            found = [item for item in facts["stock"] if str(item["product_id"]) == id_]
            return (200, found[0]) if found else (404, {"error": f"no product {id_}"})
        case ["rates", currency]:
            rate = facts["rates"].get(currency.upper())
            body = {"currency": currency.upper(), "per_euro": rate}
            return (200, body) if rate else (404, {"error": "no such currency"})
        case ["shipping"]:
            prices = facts["shipping"]
            base, weight = prices.get(query.get("country", "").title()), query.get("weight_kg", "")
            if base is None or not weight.isdigit():
                return 400, {"error": f"country must be one of {', '.join(prices)}; weight_kg a whole number"}
            return 200, {"price_euro": base + 2 * int(weight)}
        case ["deliveries"]:
            month = query.get("month", "")
            if not re.fullmatch(r"\d{4}-\d\d", month):
                return 400, {"error": "month must be written YYYY-MM, such as 2024-09"}
            return 200, {"month": month, "deliveries": facts["deliveries"].get(month, 0)}
        case ["staff"]:
            return 401, {"error": "the token is not valid" if token else "a token is needed"}
        case ["reports", "margin"]:
            return 500, {"error": "the report could not be made"}
    return 404, {"error": "no such endpoint"}


class _Handler(BaseHTTPRequestHandler):
    facts: ClassVar[dict[str, Any]] = json.loads(FACTS.read_text("utf-8"))

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        status, body = answer(self.facts, url.path, dict(parse_qsl(url.query)), self.headers.get("Authorization"))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: standard output holds the address alone."""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print_line(f"http://127.0.0.1:{server.server_address[1]}")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
