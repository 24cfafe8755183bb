"""The Messages API over HTTP, said as Anthropic's SDK says it: importing the SDK takes a second of every run.

Tests hold what is sent here against what the SDK sends.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ktx_cli import __version__

if TYPE_CHECKING:
    import httpx2

API_VERSION: Final = "2026-10-21"
"""The version of the API that requests are written for."""

CONNECTIONS: Final = 1_000
KEPT_CONNECTIONS: Final = 100

_IGNORED: Final = frozenset({"ping", "message"})
"""Events that carry nothing; one without a name is a `message`."""


class StatusError(Exception):
    """A refusal: an answer with a status of 400 and more, or an `error` event in an answer that had begun well."""

    def __init__(self, words: str, body: Any, response: httpx2.Response) -> None:
        super().__init__(words)
        self.body = body
        self.response = response
        self.status_code = response.status_code


class DirectClient:
    """A client of one address. `authorization`: the header that carries the key. Timeouts are seconds."""

    def __init__(
        self, base_url: str, authorization: Mapping[str, str], *, timeout_seconds: float, connect_seconds: float
    ) -> None:
        import httpx2

        self.base_url = base_url
        self._http = httpx2.AsyncClient(
            headers={
                "accept": "application/json",
                "content-type": "application/json",
                "user-agent": f"ktx/{__version__}",
                "anthropic-version": API_VERSION,
                **authorization,
            },
            timeout=httpx2.Timeout(timeout_seconds, connect=connect_seconds),
            limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=KEPT_CONNECTIONS),
            follow_redirects=True,
        )

    @contextlib.asynccontextmanager
    async def answering(
        self, body: Mapping[str, Any]
    ) -> AsyncIterator[tuple[Mapping[str, str], AsyncIterator[dict[str, Any]]]]:
        """Ask, and yield the headers of the answer and its events; the body asks for a stream.

        Raises `StatusError`, and what HTTP and JSON raise.
        """
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        url = f"{self.base_url.rstrip('/')}/v1/messages"
        async with self._http.stream("POST", url, content=content) as response:
            if response.status_code >= 400:
                await response.aread()
                raise _refusal(response.text.strip(), response)
            yield response.headers, _events(response)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> DirectClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


async def _events(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    import httpx2

    async for event in httpx2.EventSource(response, max_event_size=None):
        if event.event == "error":
            raise _refusal(event.data, response)
        if event.data and event.event not in _IGNORED:
            yield json.loads(event.data)


def _refusal(text: str, response: httpx2.Response) -> StatusError:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return StatusError(text or f"status {response.status_code}", text, response)
    return StatusError(f"status {response.status_code}: {body}", body, response)
