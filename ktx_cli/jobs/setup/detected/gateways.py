"""Gateways that listen on this machine: they are asked for their models, without a key, and nobody else is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ktx_cli.connectors.reaching import is_local
from ktx_cli.context.sources.http_bounds import bound
from ktx_cli.core.clock import monotonic

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS: Final = 0.2
ANSWER_SECONDS: Final = 0.5
"""How long all of an answer may take, connecting included."""

MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LocalGateway:
    """A program that speaks the Anthropic API. `keys`: variables its key may be in."""

    name: str
    port: int
    keys: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


LOCAL_GATEWAYS: Final = (
    LocalGateway("LiteLLM", 4000, ("LITELLM_API_KEY", "LITELLM_MASTER_KEY")),
    LocalGateway("Ollama", 11434),
    LocalGateway("LM Studio", 1234),
)
"""The programs and the ports they listen on unless they are told another."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Something answers there. `models`: what it says it has. `asks_for_key`: it says that only to who has one."""

    models: tuple[str, ...] = ()
    asks_for_key: bool = False


def ask(url: str) -> Listening | None:
    """Return what an address of this machine answers to `GET /v1/models`; None where no gateway does in time."""
    if not _is_plain_loopback(url):
        return None
    import httpx2

    ends = monotonic() + ANSWER_SECONDS

    def left() -> float:
        if (seconds := ends - monotonic()) > 0:
            return seconds
        raise TimeoutError

    timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    # No certificates are read for plain HTTP: that alone takes 40 ms. No proxy stands before loopback.
    with httpx2.Client(timeout=timeout, trust_env=False, verify=False) as client:
        bound(client, left)
        try:
            with client.stream("GET", f"{url.rstrip('/')}/v1/models") as response:
                return _understood(response.status_code, _content(response))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
            return None


def _is_plain_loopback(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and is_local(parts.hostname or "")
    except ValueError:
        return False


def _content(response: httpx2.Response) -> Any:
    """Return the JSON of an answer; `ValueError` for another, or one that is too long."""
    content = b""
    for piece in response.iter_bytes():
        content += piece
        if len(content) > MAX_BYTES:
            raise ValueError("too long")
    return json.loads(content)


def _understood(status: int, value: Any) -> Listening | None:
    """Return what an answer means; a web server that knows nothing of models is no gateway."""
    if not isinstance(value, dict):
        return None
    if status in (401, 403) and "error" in value:
        return Listening(asks_for_key=True)
    entries = value.get("data")
    if status != 200 or not isinstance(entries, list):
        return None
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return Listening(tuple(name for name in names if isinstance(name, str) and name.isprintable()))
