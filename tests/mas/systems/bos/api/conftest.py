"""Firebase for the tests of its flow: the local fake, and the real emulator where it is installed."""

from collections.abc import Iterator

import pytest

from tests.servers.firebase import FirebaseServer
from tests.servers.firebase_emulator import EmulatedFirebase, find_emulator
from tests.servers.loopback import running


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with find_emulator(tmp_path_factory.mktemp("firebase")) as host:
        yield host


@pytest.fixture(params=["fake", pytest.param("emulator", marks=[pytest.mark.firebase, pytest.mark.slow])])
def firebase(request: pytest.FixtureRequest) -> Iterator[FirebaseServer]:
    emulated = request.param == "emulator"
    with running(EmulatedFirebase(request.getfixturevalue("emulator")) if emulated else FirebaseServer()) as server:
        yield server
