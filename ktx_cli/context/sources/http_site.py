"""The sites that are read over HTTP: where they are, what is sent to them, how errors name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import one_line
from ktx_cli.project import secrets

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class Site:
    """What is talked to. `name` and `where` (`connections.notes`) are for messages.

    `credential` and `address` are the keys of the connection that an error points to. `proxy`: a URL, or a mapping
    with `url`; None: what the environment says.
    """

    name: str
    where: str
    base_url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    credential: str = "api_key"
    address: str = "base_url"
    proxy: Any = field(default=None, repr=False)

    @property
    def hints(self) -> Mapping[str, str]:
        """Return the hints of this site's errors."""
        return {
            "credential": f"check `{self.where}.{self.credential}`, and what its owner may read in {self.name}",
            "address": f"check `{self.where}.{self.address}` and what the connection names to be read",
        }


def open_client(site: Site, timeout: float) -> httpx2.Client:
    """Return a client of this site; `timeout` in seconds. Raises `ConfigError` for what can be no address."""
    import httpx2

    from ktx_cli import __version__

    headers = {"User-Agent": f"ktx/{__version__}", "Accept": "application/json", "Accept-Encoding": "gzip"}
    try:
        return httpx2.Client(
            base_url=_address(site),
            headers={**headers, **sendable(site.headers, site)},
            timeout=timeout,
            proxy=_proxy(site),
            follow_redirects=False,
        )
    except (httpx2.InvalidURL, ValueError) as error:
        raise ConfigError(
            f"`{site.where}` has an address or a proxy that is no URL: {one_line(secrets.mask(str(error)), 200)}",
            hint=f"check `{site.where}.{site.address}`",
        ) from None


def _address(site: Site) -> str:
    """Return the base URL without a user in it, which would stand in logs."""
    if secrets.has_password(site.base_url):
        raise ConfigError(
            f"`{site.where}.{site.address}` has a password in it",
            hint=f"write it without, and give the credentials in `{site.where}.{site.credential}`",
        )
    if not urlsplit(site.base_url).hostname:
        raise ValueError("it has no host")
    return site.base_url.rstrip("/")


def _proxy(site: Site) -> str | None:
    if site.proxy in (None, ""):
        return None
    url = site.proxy.get("url") if isinstance(site.proxy, Mapping) else site.proxy
    if not isinstance(url, str) or "://" not in url:
        raise ConfigError(
            f"`{site.where}.network_proxy` is no address of a proxy",
            hint="write it as `http://proxy.example.com:3128`",
        )
    if secrets.has_password(url):
        secrets.remember(url)
    return url


def sendable(headers: Mapping[str, str], site: Site) -> dict[str, str]:
    """Return headers without blanks around their values; an error would show a value that none can carry."""
    stripped = {name: value.strip() for name, value in headers.items()}
    if all(value.isascii() and value.isprintable() for value in stripped.values()):
        return stripped
    raise ConfigError(
        f"`{site.where}.{site.credential}` has a character that no HTTP header can carry",
        hint="write the credential again, without line breaks and blanks",
    )
