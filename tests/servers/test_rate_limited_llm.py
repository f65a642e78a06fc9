import select
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.servers.rate_limited_llm import ANSWER


@pytest.mark.parametrize(("option", "header"), [(["--retry-after"], "2"), ([], None)])
def test_what_the_bucket_does_not_cover_is_refused_and_counted(option, header):
    script = Path(__file__).with_name("rate_limited_llm.py")
    command = [sys.executable, str(script), "--port=0", "--burst=2", "--requests-per-second=0.6", "--latency-seconds=0"]
    with subprocess.Popen([*command, *option], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 30)[0]
            url = process.stdout.readline().strip()
            with httpx.Client(trust_env=False) as client:
                replies = [client.post(f"{url}/chat/completions", json={}) for _ in range(3)]
                stats = client.get(url.removesuffix("/v1") + "/stats").json()
        finally:
            process.kill()
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert replies[0].json()["choices"][0]["message"]["content"] == ANSWER
    assert replies[2].headers.get("retry-after") == header
    assert (stats["good"], stats["rejected"]) == (2, 1)
