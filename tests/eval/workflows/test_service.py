"""The address that a system is served at."""

import errno
import os
import socket

import pytest

from eval.workflows.service import open_listener
from mas.runtime.errors import UserError


def test_a_listener_takes_any_free_port_or_the_one_that_is_named() -> None:
    with open_listener("127.0.0.1", 0, "system.service.port") as listener:
        assert listener.family == socket.AF_INET
        host, port = listener.getsockname()
        assert host == "127.0.0.1" and port > 0
        with pytest.raises(UserError) as caught:
            open_listener("127.0.0.1", port, "system.service.port")
    message = str(caught.value)
    assert message.startswith(f"127.0.0.1 port {port} cannot be used ({os.strerror(errno.EADDRINUSE)}")
    assert message.endswith("; choose another system.service.port, or 0 for any that is free.")
    with open_listener("127.0.0.1", port, "system.service.port") as listener:
        assert listener.getsockname() == ("127.0.0.1", port)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_address_with_colons_is_one_of_ipv6() -> None:
    try:
        with open_listener("::1", 0, "port") as listener:
            assert listener.family == socket.AF_INET6
    except UserError as error:
        assert "::1 port 0 cannot be used" in str(error)
