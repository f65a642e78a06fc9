"""One question to a model server about itself, before a run: what it has loaded, how long its context is.

ask_server("http://127.0.0.1:11434/api/ps", 5.0)      # {"models": [{"name": "qwen3:latest", …}]}
"""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from mas.runtime.errors import UserError


def ask_server(
    url: str, timeout_seconds: float, body: dict[str, Any] | None = None, api_key: str | None = None
) -> dict[str, Any] | None:
    """The JSON object that it answers with; None: it knows no such address or no such model (404).

    Raises:
        UserError: no answer in time, or none that can be read.
    """
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
    request = Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urlopen(request, timeout=timeout_seconds) as response:
            answer = json.load(response)
    except HTTPError as error:
        error.close()
        if error.code == 404:
            return None
        raise UserError(
            f"the model server refused {url} with HTTP {error.code}; see its log for the reason."
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(
            f"the model server gave no usable answer at {url} ({error}); see whether model.base_url is right."
        ) from error
    if not isinstance(answer, dict):
        raise UserError(f"the model server's answer at {url} is no JSON object; see whether model.base_url is right.")
    return answer
