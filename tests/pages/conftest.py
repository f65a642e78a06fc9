from collections.abc import Iterator
from typing import Any

import pytest

from tests.pages.browser import browser, why_not


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    if reason := why_not():
        pytest.skip(reason)
    with browser(width=1440) as page:
        yield page
