"""Reaches a server: its addresses in turn within one time limit, and whether a password may travel readable there."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

CLEAR_TEXT = "the server asks for the password in clear text, and nothing makes sure that the connection is encrypted"
"""What is said of a server that was not given the password."""


def is_local(host: str) -> bool:
    """Whether a host, or every one of a list with commas, is this machine.

    Local is a unix socket (a path, or `@` and a name), `localhost` and a loopback address. Any other name is not, to
    whatever it may lead.
    """
    return all(_is_local(each.strip()) for each in host.split(","))


def addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host, each once, in the system's order. Raises `OSError` when there is none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except UnicodeError as error:
        raise OSError(f"{host!r} is no host name") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def shares(places: Sequence[str], seconds: float) -> Iterator[tuple[str, float]]:
    """Yield the places to try and the seconds each may take; what one does not use is left to those behind it."""
    deadline = time.monotonic() + seconds
    for number, place in enumerate(places):
        left = deadline - time.monotonic()
        if left <= 0:
            return
        yield place, left / (len(places) - number)


def open_socket(host: str, port: int, seconds: float) -> socket.socket:
    """Return a connected TCP socket to the first address that answers. Raises `OSError`."""
    failure: OSError = TimeoutError("timed out")
    for address, share in shares(addresses(host, port), seconds):
        try:
            link = socket.create_connection((address, port), share)
        except OSError as error:
            failure = error
            continue
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return link
    raise failure


@contextmanager
def cut_after(link: socket.socket | int, seconds: float) -> Iterator[threading.Event]:
    """Shut the connection when the block takes longer, whatever waits on it; the event tells that it was.

    `link` is its socket, or the file descriptor of a connection that another library reads.
    """
    # TLS takes the socket over under another object, so hold on to the connection itself. `socket.dup` would also make
    # it block, on which libpq waits for data that never comes.
    number = link if isinstance(link, int) else link.fileno()
    twin = socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM)
    expired = threading.Event()

    def cut() -> None:
        expired.set()
        try:
            twin.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other side has closed it already

    timer = threading.Timer(max(seconds, 0), cut)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()
        timer.join()
        twin.close()


def _is_local(host: str) -> bool:
    if host.startswith(("/", "@")) or host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
