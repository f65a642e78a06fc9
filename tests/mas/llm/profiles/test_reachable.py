"""Addresses that are checked before anything is spent."""

import pytest

from mas.llm.profiles.reachable import check_reachable
from mas.runtime.errors import UserError

EXAMPLE = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize("url", ["http://[::1", "http://ann:topsecret@[::1", "localhost:8000", "http://"])
def test_what_is_no_url_is_a_sentence_without_its_password(url: str) -> None:
    with pytest.raises(UserError, match="is not a URL") as caught:
        check_reachable(url, "model.base_url", "model server", EXAMPLE)
    assert str(caught.value).startswith("model.base_url")
    assert f"expected something like {EXAMPLE}." in str(caught.value)
    assert "topsecret" not in str(caught.value)
