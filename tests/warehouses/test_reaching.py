"""Reaching a server: one time limit for all of it, and no readable password on its way."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, SourceError
from ktx_cli.warehouses import base
from ktx_cli.warehouses import server as reaching
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.postgres.connector import is_encrypted, reaches_this_machine, without_clear_text
from ktx_cli.warehouses.registry import connect

Open = Callable[..., Connector]
Talk = Callable[[socket.socket], None]
CANARY = "c4n4ry-hunter2"


@pytest.mark.table(
    ("host", "local"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("/run/postgresql", True),
        ("@socket", True),
        ("/run/postgresql,127.0.0.1", True),
        ("127.0.0.1,db.example.com", False),
        ("db.example.com", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
    ],
)
def test_what_is_local(host: str, local: bool) -> None:
    assert reaching.is_local(host) is local


@pytest.mark.parametrize(
    ("parameters", "environ", "local"),
    [
        ({"host": "localhost", "hostaddr": "127.0.0.1"}, {}, True),
        ({"host": "localhost", "hostaddr": "10.0.0.1"}, {}, False),
        ({"host": "db.example.com", "hostaddr": "127.0.0.1"}, {}, True),
        ({"host": "/run/postgresql"}, {}, True),
        ({"host": "/run/postgresql"}, {"PGHOSTADDR": "10.0.0.1"}, False),
        ({"host": "/run/postgresql"}, {"PGSERVICE": "shop"}, False),
        ({"host": "/run/postgresql", "service": "shop"}, {}, False),
        ({"host": "127.0.0.1", "hostaddr": "127.0.0.1"}, {"PGHOSTADDR": "10.0.0.1"}, True),
        ({"host": "127.0.0.1,db"}, {}, False),
    ],
)
def test_where_libpq_goes(
    parameters: dict[str, str], environ: dict[str, str], local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert reaches_this_machine(parameters) is local


@pytest.mark.table(
    ("parameters", "encrypted"),
    [
        ({}, False),
        *(({"sslmode": mode}, False) for mode in ("disable", "allow", "prefer", "nonsense")),
        *(({"sslmode": mode}, True) for mode in ("require", "verify-ca", "verify-full")),
        ({"gssencmode": "require"}, True),
        ({"gssencmode": "prefer"}, False),
    ],
)
def test_what_is_encrypted_for_certain(parameters: dict[str, str], encrypted: bool) -> None:
    assert is_encrypted(parameters) is encrypted


@pytest.mark.table(
    ("given", "required"),
    [
        ("", "!password"),
        ("password", "!password"),
        ("password, scram-sha-256", "scram-sha-256"),
        ("scram-sha-256,md5", "scram-sha-256,md5"),
        ("!md5", "!md5,!password"),
        ("!password", "!password"),
    ],
)
def test_methods_without_clear_text(given: str, required: str) -> None:
    assert without_clear_text(given) == required


class FakeServer:
    """Answers every connection with `talk` and keeps all the bytes it was sent."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.received = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def options(self, **more: Any) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "username": "ann", "password": CANARY, **more}

    def stop(self) -> None:
        """Wait until everything was received; harmless when called twice."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                with self._listener.accept()[0] as link:
                    link.settimeout(3)
                    with contextlib.suppress(OSError):
                        self._talk(link)
                        while more := link.recv(4096):
                            self.received += more


@pytest.fixture
def serve() -> Iterator[Callable[[Talk], FakeServer]]:
    servers: list[FakeServer] = []

    def start(talk: Talk) -> FakeServer:
        servers.append(FakeServer(talk))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make nothing count as this machine, so that a server on loopback stands for one on the network."""
    monkeypatch.setattr(reaching, "_is_local", lambda host: False)


def postgres_asks_for_clear_text(link: socket.socket) -> None:
    start = link.recv(4096)
    if start[4:8] == struct.pack(">I", 80877103):  # may we use TLS?
        link.sendall(b"N")
        link.recv(4096)
    link.sendall(b"R" + struct.pack(">II", 8, 3))


def mysql_packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


def mysql_asks(plugin: bytes, more: bytes = b"") -> Talk:
    # PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH; no TLS.
    greeting = (
        b"\x0a8.0.30\0" + struct.pack("<I", 1) + b"12345678\0" + struct.pack("<H", 0x8200) + b"\xff\x02\0"
        + struct.pack("<H", 0x0008) + b"\x15" + b"\0" * 10 + b"123456789012\0" + b"mysql_native_password\0"
    )  # fmt: skip

    def talk(link: socket.socket) -> None:
        link.sendall(mysql_packet(0, greeting))
        link.recv(4096)
        link.sendall(mysql_packet(2, b"\xfe" + plugin + b"\0" + more))

    return talk


ASKING = {
    "postgres": ("postgres", postgres_asks_for_clear_text, "sslmode require"),
    "mysql": ("mysql", mysql_asks(b"mysql_clear_password"), "ssl true"),
    "mariadb": ("mysql", mysql_asks(b"dialog", b"\x04Password: "), "ssl true"),
}


@pytest.mark.parametrize("who", ASKING)
@pytest.mark.parametrize("more", [{}, {"ssl": False}])
def test_a_server_that_asks_for_clear_text_gets_none(
    who: str, more: dict[str, Any], serve: Callable[[Talk], FakeServer], far_away: None, opened: Open
) -> None:
    driver, talk, setting = ASKING[who]
    server = serve(talk)
    with pytest.raises(SourceError, match="plaintext password") as caught:
        opened(driver, **server.options(**more))
    assert caught.value.code == "connection"
    assert caught.value.hint == f"ktx config set connections.shop.{setting}"
    server.stop()
    assert CANARY.encode() not in server.received


@pytest.mark.parametrize("who", ASKING)
def test_a_server_of_this_machine_gets_it(who: str, serve: Callable[[Talk], FakeServer], opened: Open) -> None:
    driver, talk, _ = ASKING[who]
    done = threading.Event()
    heard: list[bytes] = []

    def answer(link: socket.socket) -> None:
        talk(link)
        heard.append(link.recv(4096))
        link.close()
        done.set()

    with pytest.raises(SourceError):
        opened(driver, **serve(answer).options())
    assert done.wait(10)
    assert CANARY.encode() in heard[0]


@pytest.mark.parametrize("more", [{"sslmode": "require"}, {"ssl": True, "rejectUnauthorized": False}])
def test_postgres_without_the_wanted_tls_sends_nothing(
    more: dict[str, Any], serve: Callable[[Talk], FakeServer], far_away: None, opened: Open
) -> None:
    server = serve(postgres_asks_for_clear_text)
    with pytest.raises(SourceError, match="SSL"):
        opened("postgres", **server.options(**more))
    server.stop()
    assert CANARY.encode() not in server.received


def test_a_libpq_that_cannot_refuse(
    serve: Callable[[Talk], FakeServer], far_away: None, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from psycopg import pq

    monkeypatch.setattr(pq, "version", lambda: 150004)
    with pytest.raises(ConfigError, match=r"libpq \(15\)") as caught:
        opened("postgres", **serve(postgres_asks_for_clear_text).options())
    assert "connections.shop.sslmode require" in (caught.value.hint or "")


def silent(link: socket.socket) -> None:
    """Say nothing."""


def mysql_logs_in_and_is_silent(link: socket.socket) -> None:
    mysql_asks(b"mysql_native_password", b"1" * 20 + b"\0")(link)
    link.recv(4096)
    link.sendall(mysql_packet(4, b"\0\0\0\x02\0\0\0"))


def mysql_drips(link: socket.socket) -> None:
    link.sendall(b"\xff\xff\x7f\0")
    for _ in range(200):
        link.sendall(b"\x0a")
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("driver", "talk", "seconds"),
    [
        ("postgres", silent, 2),  # libpq waits no less
        ("mysql", silent, 0.5),
        ("mysql", mysql_logs_in_and_is_silent, 0.5),
        ("mysql", mysql_drips, 0.5),
    ],
)
def test_a_server_that_does_not_answer(
    driver: str,
    talk: Talk,
    seconds: float,
    serve: Callable[[Talk], FakeServer],
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "CONNECT_SECONDS", seconds)
    start = time.monotonic()
    with pytest.raises(SourceError, match=f"did not respond within {seconds} seconds") as caught:
        opened(driver, **serve(talk).options())
    # The statement limit would be 40 seconds.
    assert time.monotonic() - start < 15
    assert caught.value.code == "connection"
    assert "connections.shop.host" in (caught.value.hint or "")


def test_addresses_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.0, 6.0, 6.5, 11.0])
    monkeypatch.setattr(reaching.time, "monotonic", lambda: next(now))
    # The first used 6 of its 2.5 seconds, the second next to nothing; for the fourth nothing is left.
    assert list(reaching.shares(["a", "b", "c", "d"], 10)) == [("a", 2.5), ("b", 4 / 3), ("c", 1.75)]


def test_the_next_address_is_tried(serve: Callable[[Talk], FakeServer], monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(silent)
    monkeypatch.setattr(reaching, "addresses", lambda host, port: ["127.0.0.2", "127.0.0.1"])
    with reaching.open_socket("two.example.com", server.port, 5) as link:
        assert link.getpeername()[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["nowhere.invalid", "a..b"])
@pytest.mark.parametrize("driver", ["postgres", "mysql"])
def test_a_name_without_an_address(driver: str, host: str) -> None:
    with pytest.raises(SourceError) as caught:
        connect(ConnectionSpec("x", driver, {"host": host, "username": "ann", "password": CANARY}))
    assert caught.value.code == "connection"
    assert host in caught.value.message
    assert "connections.x.host" in (caught.value.hint or "")
