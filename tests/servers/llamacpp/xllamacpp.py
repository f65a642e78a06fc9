"""Stand-in for the package of the same name: its server answers every question with "[[ ## answer ## ]] 4"."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace


class CommonParams(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(model=SimpleNamespace(path=""))


class Server:
    def __init__(self, params: CommonParams) -> None:
        if "broken" in params.model.path:
            print("0.1 E load_model: error loading model: it is corrupted or incomplete", file=sys.stderr)
            raise RuntimeError("Failed to init server")
        pages = {
            "/props": {"total_slots": params.n_parallel},
            "/v1/models": {"data": [{"id": "default", "meta": {"n_ctx": params.n_ctx // params.n_parallel}}]},
        }

        class Pages(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply(pages[self.path])

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                message = {"role": "assistant", "content": "[[ ## answer ## ]]\n4"}
                usage = {"prompt_tokens": 900, "completion_tokens": 5}
                self._reply({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

            def _reply(self, value: object) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = ThreadingHTTPServer((params.hostnames[0], params.port), Pages)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
