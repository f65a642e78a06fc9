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

from eval.config.tracking import LocalTracking
from eval.mlflow_export.exporter_launcher import ExportRequest
from eval.runs.logs import RunLogs
from mas.runtime.security.redaction import build_redactor, encode_secret, redact_value, sort_secrets

KEY = 'sk-"prüf/+==\\k%y 1'
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": json.dumps,
    "JSON without ASCII": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON with escaped slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps({"body": json.dumps({"key": text})}),
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


def test_logs_and_what_goes_to_mlflow_are_masked_alike(tmp_path: Path) -> None:
    told = f"Basic {base64.b64encode(f'me:{KEY}'.encode()).decode()} {quote(KEY, safe='')}"
    with RunLogs(tmp_path, redact=[KEY]) as logs:
        logs.entry_point.info("refused", reply=told)
    line = json.loads((tmp_path / "logs" / "entry_point.log").read_text("utf-8"))["reply"]
    request = ExportRequest.build(LocalTracking(folder=str(tmp_path)), [KEY])
    assert line == request.redact(told)
    assert line.startswith("Basic bWU6") and line.endswith(" ***") and line.count("***") == 2


def test_each_form_of_a_secret_has_its_name() -> None:
    secret = 'k/"é+ß'
    assert encode_secret(secret) == {
        "plain": 'k/"é+ß',
        "json": 'k/\\"\\u00e9+\\u00df',
        "json_slashes": 'k\\/\\"\\u00e9+\\u00df',
        "json_twice": 'k/\\\\\\"\\\\u00e9+\\\\u00df',
        "json_unicode_slashes": 'k\\/\\"é+ß',
        "json_unicode_twice": 'k/\\\\\\"\\u00e9+\\u00df',
        "percent": "k%2F%22%C3%A9%2B%C3%9F",
        "percent_lower": "k%2f%22%c3%a9%2b%c3%9f",
        "percent_path": "k/%22%C3%A9%2B%C3%9F",
        "percent_path_lower": "k/%22%c3%a9%2b%c3%9f",
        "percent_all": "%6B%2F%22%C3%A9%2B%C3%9F",
        "percent_all_lower": "%6b%2f%22%c3%a9%2b%c3%9f",
        "base64_0": "ay8iw6krw5",
        "base64_1": "svIsOpK8Of",
        "base64_2": "rLyLDqSvDn",
    }
    assert encode_secret("abc") == {"plain": "abc", "percent_all": "%61%62%63"} and encode_secret("") == {}
    assert encode_secret("12345678")["base64_0"] == "MTIzNDU2Nz"


def test_secrets_are_sorted_by_length_without_empty_and_equal_ones() -> None:
    assert sort_secrets(["bb", "", "cccc", "a", "bb"]) == ["cccc", "bb", "a"]


def test_a_value_without_a_secret_is_itself_and_one_with_a_secret_is_a_copy() -> None:
    redact = build_redactor(('sk-"1\\2345',))
    clean = {"a": [1, "x", None], "path": Path("/data/a.csv")}
    assert redact_value(clean, redact) is clean
    found = redact_value({'sk-"1\\2345': ['a sk-"1\\2345', {"b": 'sk-"1\\2345'}, 5, None], "p": Path("/a/x")}, redact)
    assert found == {'sk-"1\\2345': ["a ***", {"b": "***"}, 5, None], "p": "x"}, "keys are ours"
    assert redact_value('sk-"1\\2345', redact) == "***"


def test_what_json_cannot_hold_is_made_such_that_it_can() -> None:
    redact = build_redactor(("secret-1",))
    loop: list[object] = ["secret-1"]
    loop.append(loop)
    found = redact_value(loop, redact)
    assert found[0] == found[1][0] == "***"
    assert redact_value({(1, 2): "secret-1"}, redact) == {"[1, 2]": "***"}
