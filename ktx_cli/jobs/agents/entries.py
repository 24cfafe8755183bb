"""The entry of this project's server in a client's configuration: how it is written, and which entries are ktx's."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.agents.targets import Client, Scope

TOKEN: Final = "KTX_MCP_TOKEN"
"""The variable that holds the token of a server that is not on this machine."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SERVE: Final = ("mcp", "stdio")
_ATTRIBUTE: Final = "--user-attribute"
_NAMES: Final = ("ktx", "ktx.exe")


@dataclass(frozen=True, slots=True)
class Address:
    """A server that is running. `token`: the variable its token is in, None where it asks for none."""

    url: str
    token: str | None

    @classmethod
    def parse(cls, url: str, token: str | None) -> Address:
        """Return a checked address; a server elsewhere asks for a token, of `KTX_MCP_TOKEN` unless it is named.

        Raises `UsageError` for what is no address, and for one with a secret in it.
        """
        host = _checked(url)
        if token is not None and not _VARIABLE.fullmatch(token):
            raise UsageError(
                "--token-env takes the name of a variable, not a token", hint=f"for example: --token-env {TOKEN}"
            )
        return cls(url, token or (None if _is_local(host) else TOKEN))


def _checked(url: str) -> str:
    example = "for example: --http http://127.0.0.1:7878/mcp"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise UsageError("--http is no address", hint=example) from None
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise UsageError("--http takes the address of a server, http:// or https://", hint=example)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise UsageError(
            "--http takes no user, password or query: they could hold a secret, and client files are shared",
            hint=f"put the token into a variable, and name it: --token-env {TOKEN}",
        )
    return host


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def stdio_entry(
    client: Client, scope: Scope, program: str, project: Path, variables: Sequence[str], attributes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the entry with which a client starts the server itself.

    `variables`: names of what the project's secrets are in, for a client that hands on only those it is told.
    `attributes`: of the caller, each as `--user-attribute` takes it.
    """
    if scope is Scope.USER:
        at: list[str] = ["--project-dir", str(project)]
    else:
        at = ["--project-dir", client.workspace] if client.workspace else []
    args = [*at, *_SERVE, *(word for each in attributes for word in (_ATTRIBUTE, each))]
    if client.form == "opencode":
        return {"type": "local", "command": [program, *args]}
    started = {"command": program, "args": args}
    if client.form == "codex":
        return {**started, **({"env_vars": sorted(variables)} if variables else {})}
    return started if client.form == "plain" else {"type": "stdio", **started}


def http_entry(client: Client, address: Address) -> dict[str, Any]:
    """Return the entry for a server that is running; its token is only ever referred to."""
    if client.form == "codex":
        return {"url": address.url, **({"bearer_token_env_var": address.token} if address.token else {})}
    bearer = f"Bearer {client.reference.format(name=address.token)}"
    reached = {"url": address.url, **({"headers": {"Authorization": bearer}} if address.token else {})}
    if client.form == "cursor":
        return reached
    return {"type": "remote" if client.form == "opencode" else "http", **reached}


def words_of(entry: Any) -> list[str]:
    """Return the command line an entry starts, [] where it starts none."""
    if not isinstance(entry, Mapping):
        return []
    command, args = entry.get("command"), entry.get("args", [])
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list) or not isinstance(args, list):
        return []
    return [word for word in (*words, *args) if isinstance(word, str)]


def is_ktx(entry: Any) -> bool:
    """Say whether an entry starts the server of a ktx project."""
    words = words_of(entry)
    if not words or PurePath(words[0]).name.lower() not in _NAMES:
        return False
    end = len(words)
    while words[max(end - 2, 0) : end - 1] == [_ATTRIBUTE]:
        end -= 2
    return tuple(words[max(end - 2, 0) : end]) == _SERVE


def attributes_in(entry: Any) -> list[str]:
    """Return the attributes of the caller an entry starts its server with, as `--user-attribute` takes them."""
    words = words_of(entry) if is_ktx(entry) else []
    return [value for option, value in itertools.pairwise(words) if option == _ATTRIBUTE]


def is_address(entry: Any) -> bool:
    """Say whether an entry has the form of one for a server that is running."""
    return isinstance(entry, Mapping) and isinstance(entry.get("url"), str) and not words_of(entry)


def folder_of(entry: Any) -> Path | None:
    """Return the project folder an entry names, None where it names none or leaves it to the client."""
    words = words_of(entry)
    after = words[words.index("--project-dir") + 1 :] if "--project-dir" in words else []
    return Path(after[0]) if after and not after[0].startswith("$") else None


def is_of(entry: Any, scope: Scope, project: Path) -> bool:
    """Say whether an entry starts the server of this project: that it names, or the one it stands in."""
    if not is_ktx(entry):
        return False
    folder = folder_of(entry)
    return scope is Scope.PROJECT if folder is None else _same(folder, project)


def _same(one: Path, other: Path) -> bool:
    return one == other or one.resolve() == other.resolve()
