"""Secrets are found in the encodings in which servers, pages and logs repeat them."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.runs.logs import RunLogs
from mas.runtime.security.redaction import build_redactor

KEY = 'sk-"prüf/+==\\k%y 1'
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": json.dumps,
    "JSON without ASCII": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON with escaped slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps({"body": json.dumps({"key": text})}),
    "JSON with escaped slashes in JSON": lambda text: json.dumps(json.dumps(text).replace("/", "\\/")),
    "percent": lambda text: quote(text, safe=""),
    "percent, a path": quote,
    "percent, lower case": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "a form": quote_plus,
    "every byte": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, after a user": lambda text: base64.b64encode(f"me:{text}@".encode()).decode(),
    "base64, in a text": lambda text: base64.b64encode(f"a {text} is it".encode()).decode(),
    "base64 of addresses": lambda text: base64.urlsafe_b64encode(f"ab{text}xy".encode()).decode(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(
    before=st.text(max_size=5),
    after=st.text(max_size=5),
    secret=st.just(KEY) | st.text('ab/+ü"\\%? =k9', min_size=8),
)
def test_a_secret_is_masked_in_every_encoding(encoding: str, before: str, after: str, secret: str) -> None:
    written = ENCODINGS[encoding](secret)
    redacted = build_redactor((secret,))(f"{before} {written} {after}")
    assert "***" in redacted
    assert written not in redacted and secret not in redacted


def test_short_secrets_are_masked_as_they_are_alone() -> None:
    redact = build_redactor(("abc", ""))
    assert redact("abc YWJj") == "*** YWJj", "what short letters become in base64 occurs by chance"


def test_a_secret_inside_another_leaves_no_rest() -> None:
    assert build_redactor(("sk-1234567", "sk-1234567-long"))("sk-1234567-long") == "***"


def test_a_log_masks_a_key_in_other_encodings(tmp_path: Path) -> None:
    told = f"Basic {base64.b64encode(f'me:{KEY}'.encode()).decode()} {quote(KEY, safe='')}"
    with RunLogs(tmp_path, [KEY]) as logs:
        logs.entry_point.write("info", "refused", reply=told)
    line = json.loads((tmp_path / "logs" / "entry_point.log").read_text("utf-8"))["reply"]
    assert line.startswith("Basic bWU6") and line.endswith(" ***") and line.count("***") == 2
