"""Addresses of git repositories: https, ssh, `git@host:org/repo.git`, `file:` and local paths; nothing else."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ktx_cli.core.errors import ConfigError
from ktx_cli.project import secrets

PROTOCOLS: Final = "file:http:https:ssh"
"""What git may speak, as `GIT_ALLOW_PROTOCOL` has it."""

_USERS: Final = {"github.com": "x-access-token", "gitlab.com": "oauth2", "bitbucket.org": "x-token-auth"}
"""The user that goes with a token, by host."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HELPER: Final = re.compile(r"[A-Za-z0-9+.-]+::")
_SCP: Final = re.compile(r"(?:[\w.-]+@)?([\w.-]+|\[[0-9A-Fa-f:]+\]):(?!//)(.+)")
_FORMS: Final = "write https://host/org/repo.git, ssh://git@host/org/repo.git, git@host:org/repo.git or a path"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a repository is: `url` without credentials, `path` of one on this disk.

    `user` and `password`: what stood in the URL.
    """

    url: str
    host: str = ""
    path: Path | None = None
    user: str = ""
    password: str = ""

    @property
    def is_web(self) -> bool:
        """Whether it is reached over http or https."""
        return self.url.startswith(("https://", "http://"))

    @property
    def is_plain(self) -> bool:
        """Whether what is sent there can be read on the way; this machine's own servers do not count."""
        return self.url.startswith("http://") and self.host not in ("localhost", "127.0.0.1", "::1")

    def header(self, token: str | None) -> str | None:
        """Return the HTTP header that shows a token, or the credentials of the URL; None where there are none.

        A token with a colon is `user:password`. The header is remembered as a secret.
        """
        if not self.is_web:
            return None
        pair = self._pair(token.strip()) if token and token.strip() else self._own_pair()
        if pair is None:
            return None
        value = base64.b64encode(pair.encode("utf-8")).decode("ascii")
        secrets.remember(value)
        return f"Authorization: Basic {value}"

    def _pair(self, token: str) -> str:
        return token if ":" in token else f"{self.user or _USERS.get(self.host, 'token')}:{token}"

    def _own_pair(self) -> str | None:
        if self.password:
            return f"{self.user}:{self.password}"
        return f"{self.user}:" if self.user else None


def parse_address(text: str, *, base: Path, where: str) -> Address:
    """Return the address a setting says; a relative path starts at `base`. `where` names the setting.

    Raises `ConfigError` for what is none, and for protocols that run programs (`ext::`) or are not encrypted (`git://`).
    """
    stripped = text.strip()
    if not stripped or stripped.startswith("-") or _HELPER.match(stripped) or not stripped.isprintable():
        raise ConfigError(f"{where} is no address of a git repository that ktx reads", hint=_FORMS)
    scheme = _SCHEME.match(stripped)
    if scheme is not None:
        return _url(stripped, scheme[1].lower(), where)
    path = _local(stripped, base)
    scp = _SCP.fullmatch(stripped)
    if scp is not None and not path.exists() and not stripped.startswith(("/", ".", "~")):
        return Address(stripped, scp[1].strip("[]").lower())
    return Address(path.as_uri(), path=path)


def _local(text: str, base: Path) -> Path:
    try:
        return (base / Path(text).expanduser()).resolve()
    except RuntimeError:  # no home folder for this user
        return (base / text).resolve()


def _url(text: str, scheme: str, where: str) -> Address:
    if scheme == "file":
        path = Path(unquote(urlsplit(text).path)).resolve()
        return Address(path.as_uri(), path=path)
    if scheme not in ("https", "http", "ssh"):
        raise ConfigError(f"{where} begins with {scheme}://, which ktx does not use", hint=_FORMS)
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port = "", None
    if not host or host.startswith("-"):
        raise ConfigError(f"{where} names no host that ktx can use", hint=_FORMS)
    shown = f"[{host}]" if ":" in host else host
    place = shown if port is None else f"{shown}:{port}"
    if scheme == "ssh":
        user = f"{parts.username}@" if parts.username else ""
        return Address(f"ssh://{user}{place}{parts.path}", host)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    for secret in (password, user if not password else ""):
        if secret:
            secrets.remember(secret)
    return Address(f"{scheme}://{place}{parts.path}", host, user=user, password=password)
