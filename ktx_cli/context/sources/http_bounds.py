"""Gives a whole HTTP request one time: the client's own timeouts count from one packet to the next.

A site that sends a byte a second keeps to every such timeout, and need never come to the end of its headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    import httpx2

Left = Callable[[], float]
"""Returns the seconds the request of this thread still has; raises where there are none."""


def bound(client: httpx2.Client, left: Left) -> None:
    """Have whatever a client connects, sends and reads, its proxies included, wait no longer than `left()`."""
    # The pool takes a backend as an argument, but httpx2 does not hand one on to it.
    for transport in (client._transport, *client._mounts.values()):
        pool: Any = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Backend(pool._network_backend, left)


class _Backend:
    """A network backend of httpcore2 whose every wait ends with the request's time."""

    def __init__(self, inner: Any, left: Left) -> None:
        self._inner, self._left = inner, left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _Stream:
        wait = _Wait(self._left)
        stream = wait(lambda most: self._inner.connect_tcp(host, port, most, local_address, socket_options), timeout)
        return _Stream(stream, wait)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(min(seconds, self._left()))


class _Stream:
    """A connection of httpcore2 whose every wait ends with the request's time."""

    def __init__(self, inner: Any, wait: _Wait) -> None:
        self._inner, self._wait = inner, wait

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._wait(lambda most: self._inner.read(max_bytes, most), timeout)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._wait(lambda most: self._inner.write(buffer, most), timeout)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        stream = self._wait(lambda most: self._inner.start_tls(ssl_context, server_hostname, most), timeout)
        return _Stream(stream, self._wait)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Wait:
    """Calls what may wait with the shorter of its own time and the request's."""

    def __init__(self, left: Left) -> None:
        self._left = left

    def __call__(self, call: Callable[[float], Any], timeout: float | None) -> Any:
        import httpcore2

        left = self._left()
        try:
            return call(left if timeout is None else min(timeout, left))
        except httpcore2.TimeoutException:
            self._left()
            raise
