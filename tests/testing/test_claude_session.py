"""The proxy of an offline session leaves nothing open behind clients that hang up."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from typing import Any

import pytest

from ktx_cli.testing.claude_session import API_HOST, offline_session
from ktx_cli.testing.model_server import ModelServer


def test_a_client_that_hangs_up_before_the_handshake(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap, wrapped, tried = ssl.SSLContext.wrap_socket, [], threading.Event()

    def hung_up(context: ssl.SSLContext, connection: socket.socket, **options: Any) -> ssl.SSLSocket:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
        client.close()
        try:
            wrapped.append(wrap(context, connection, **options))
        finally:
            tried.set()
        return wrapped[0]

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", hung_up)
    with offline_session(model_server) as session:
        port = int(session.environ["HTTPS_PROXY"].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(f"CONNECT {API_HOST}:443 HTTP/1.1\r\n\r\n".encode())
            assert tried.wait(30)
    assert wrapped, "what fails there leaves its socket to the garbage collector"
