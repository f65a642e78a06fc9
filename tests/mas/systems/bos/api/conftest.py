"""Firebase for the tests of its flow: a server with its replies."""

from collections.abc import Iterator

import pytest

from tests.servers.firebase import FirebaseServer
from tests.servers.loopback import running


@pytest.fixture
def firebase() -> Iterator[FirebaseServer]:
    with running(FirebaseServer()) as server:
        yield server
