"""A Claude Code session without a network: the real binary with a scripted model, isolated from the user's files.

The binary is made to talk to `api.anthropic.com`: a loopback proxy terminates its TLS with a throw-away certificate and
passes the requests to a `ModelServer`. Only proxy, certificate and token variables are set, all of which the
environment filter of `ktx_cli.llm` keeps, so production code runs unchanged.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import socketserver
import ssl
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme

from ktx_cli.testing.model_server import ModelServer

API_HOST = "api.anthropic.com"
TOKEN = "sk-ant-oat01-made-up-for-tests"


@dataclass
class OfflineSession:
    """A private home folder, and the environment that connects the binary to the scripted server.

    `environ` is complete: pass it instead of `os.environ`. `targets` are the hosts requested from the proxy, which
    passes only `hosts` on to the server.
    """

    server: ModelServer
    home: Path
    environ: dict[str, str]
    targets: list[str] = field(default_factory=list)
    hosts: tuple[str, ...] = (API_HOST,)

    @property
    def config_dir(self) -> Path:
        """Claude Code's own folder in this session."""
        return self.home / ".claude"


@contextlib.contextmanager
def offline_session(
    server: ModelServer, *, signed_in: bool = True, extra: Mapping[str, str] | None = None
) -> Iterator[OfflineSession]:
    """Yield an offline session for the server. `signed_in=False`: without a token. `extra` is added to `environ`."""
    with tempfile.TemporaryDirectory(prefix="ktx-claude-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        (home / ".claude").mkdir(parents=True)
        session = OfflineSession(server, home, {})
        with tls_proxy(session, Path(folder)) as (port, authority):
            session.environ.update(_environment(home, port, authority, signed_in), **(extra or {}))
            yield session


def _environment(home: Path, port: int, authority: Path, signed_in: bool) -> dict[str, str]:
    environ = {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "HTTPS_PROXY": f"http://127.0.0.1:{port}",
        "NODE_EXTRA_CA_CERTS": str(authority),
        "SSL_CERT_FILE": str(authority),
        "TMPDIR": str(home.parent),
    }
    if signed_in:
        environ["CLAUDE_CODE_OAUTH_TOKEN"] = TOKEN
    return environ


@contextlib.contextmanager
def tls_proxy(session: OfflineSession, folder: Path) -> Iterator[tuple[int, Path]]:
    """Run the proxy of a session; yield its port, and the file with the certificate of its authority."""
    authority = trustme.CA()
    pem = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = _Accepted
    authority.issue_cert(*session.hosts).configure_cert(context)
    server = _Proxy(session, context)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1]), pem
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Accepted(ssl.SSLSocket):
    """Pretends to be connected, because `wrap_socket` leaves a socket open if its client has disconnected too early."""

    def getpeername(self) -> Any:
        """Return nothing, without an error."""


class _Proxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, session: OfflineSession, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.session = session
        self.context = context

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: clients disconnect when they are done."""


class _Tunnel(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: _Proxy

    def handle(self) -> None:
        words = self.rfile.readline().decode("latin-1").split()
        while self.rfile.readline().strip():
            continue
        target = words[1] if len(words) > 1 else ""
        self.server.session.targets.append(target)
        if words[:1] != ["CONNECT"] or target not in [f"{host}:443" for host in self.server.session.hosts]:
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            return
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with (
            contextlib.suppress(OSError, ssl.SSLError),
            # The handshake is inside the block, so that a client that disconnects before it leaves no open socket.
            self.server.context.wrap_socket(self.connection, server_side=True, do_handshake_on_connect=False) as inside,
            socket.create_connection(("127.0.0.1", self.server.session.server.port)) as outside,
        ):
            inside.do_handshake()
            outside.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _join(inside, outside)


def _join(inside: ssl.SSLSocket, outside: socket.socket) -> None:
    """Copy bytes both ways until either side ends, in a single thread: two on one TLS socket can crash Python."""
    to: Mapping[socket.socket, socket.socket] = {inside: outside, outside: inside}
    while True:
        ready = [inside] if inside.pending() else select.select([*to], [], [])[0]
        for each in ready:
            each.setblocking(False)
            try:
                data = each.recv(65536)
            except (ssl.SSLWantReadError, BlockingIOError):  # Part of a record, or no content.
                continue
            finally:
                each.setblocking(True)
            if not data:
                return
            to[each].sendall(data)
