"""SQL Server's log-in with the real client: no password before a certificate was checked, and an intent to read."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses import base
from ktx_cli.warehouses.port import Connector

pytest.importorskip("pymssql")

Open = Callable[..., Connector]
CANARY = "c4n4ry-hunter2"
PRELOGIN, ANSWER, LOGIN = 0x12, 0x04, 0x10
ENCRYPTED, WITHOUT_TLS = 0x03, 0x02
READ_ONLY_INTENT = 0x20


class TdsServer:
    """Greets as SQL Server does, takes one log-in through TLS and refuses it."""

    def __init__(self, certificate: trustme.LeafCert, encryption: int = ENCRYPTED) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Under 1.3 the server's tickets would come behind the handshake, where TDS has no packets for them.
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        certificate.configure_cert(self.context)
        self.encryption = encryption
        self.logins: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve)

    def __enter__(self) -> TdsServer:
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            with link:
                try:
                    self._greet(link)
                except (OSError, EOFError):
                    continue  # the client left: it did not like the certificate

    def _greet(self, link: socket.socket) -> None:
        _packet(link.recv)
        options = struct.pack(">BHHBHHB", 0, 11, 6, 1, 17, 1, 0xFF) + bytes([16, 0, 0, 0, 0, 0, self.encryption])
        link.sendall(_packed(ANSWER, options))
        if self.encryption == WITHOUT_TLS:
            self.logins.append(_packet(link.recv))
            return
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(incoming, outgoing, server_side=True)
        _shake_hands(link, tls, incoming, outgoing)
        self.logins.append(_packet(_reader(link, tls, incoming)))
        tls.write(_packed(ANSWER, _refusal()))
        link.sendall(outgoing.read())
        link.recv(4096)


def _shake_hands(link: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
    done = False
    while not done:
        try:
            tls.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            pass
        if outgoing.pending:
            link.sendall(_packed(PRELOGIN, outgoing.read()))
        if not done:
            incoming.write(_packet(link.recv))


def _reader(link: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        while True:
            try:
                return tls.read(size)
            except ssl.SSLWantReadError:
                data = link.recv(4096)
                if not data:
                    raise EOFError from None
                incoming.write(data)

    return read


def _packet(read: Callable[[int], bytes]) -> bytes:
    """Return the content of the next packet."""
    length = struct.unpack(">xxH4x", _exactly(read, 8))[0]
    return _exactly(read, length - 8)


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = read(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _packed(kind: int, content: bytes) -> bytes:
    return struct.pack(">BBHHBB", kind, 1, len(content) + 8, 0, 1, 0) + content


def _refusal() -> bytes:
    text = "Login failed for user 'reader'."
    words = struct.pack("<H", len(text)) + text.encode("utf-16-le") + bytes([0, 0]) + struct.pack("<I", 1)
    error = struct.pack("<IBB", 18456, 1, 14) + words
    return struct.pack("<BH", 0xAA, len(error)) + error + struct.pack("<BHHQ", 0xFD, 2, 0, 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[TdsServer]:
    with TdsServer(authority.issue_cert("localhost")) as server:
        yield server


def refused(opened: Open, server: TdsServer, **options: Any) -> SourceError:
    with pytest.raises(SourceError) as caught:
        opened("sqlserver", host="localhost", port=server.port, user="reader", password=CANARY, **options)
    assert caught.value.code == "connection"
    assert CANARY not in str(caught.value.to_json())
    return caught.value


def test_a_trusted_server_is_logged_in_to(server: TdsServer, trusted: str, opened: Open) -> None:
    error = refused(opened, server, ca=trusted)
    assert "Login failed for user" in error.message or "error 18456" in error.message
    assert "connections.shop.user and connections.shop.password" in (error.hint or "")
    (login,) = server.logins
    assert login[26] & READ_ONLY_INTENT
    assert "ktx".encode("utf-16-le") in login


def test_another_authority_is_not_told_the_password(server: TdsServer, tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    error = refused(opened, server, ca=str(path))
    assert server.logins == []
    assert "ktx config set connections.shop.ca FILE" in (error.hint or "")


def test_another_host_is_not_told_the_password(authority: trustme.CA, trusted: str, opened: Open) -> None:
    with TdsServer(authority.issue_cert("other.example.com")) as server:
        refused(opened, server, ca=trusted)
        assert server.logins == []


def test_a_server_may_be_trusted_unchecked(server: TdsServer, opened: Open) -> None:
    refused(opened, server, trustServerCertificate=True)
    assert len(server.logins) == 1


@pytest.mark.parametrize("options", [{"trustServerCertificate": True}, {}])
def test_a_server_without_tls_is_not_told_the_password(
    options: dict[str, Any], authority: trustme.CA, trusted: str, opened: Open
) -> None:
    with TdsServer(authority.issue_cert("localhost"), WITHOUT_TLS) as server:
        refused(opened, server, ca=trusted, **options)
        assert server.logins == []


def test_a_server_that_says_nothing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(SourceError) as caught:
        opened("sqlserver", host="localhost", port=listener.getsockname()[1], user="u", trustServerCertificate=True)
    assert "did not respond within 1 seconds" in caught.value.message


def test_a_server_that_is_away(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SourceError) as caught:
        opened("sqlserver", host="localhost", port=port, user="u", trustServerCertificate=True)
    assert "check connections.shop.host and connections.shop.port" in (caught.value.hint or "")
