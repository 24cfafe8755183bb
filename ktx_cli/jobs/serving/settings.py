"""How a server over HTTP is asked to run, and the token its clients must show."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.errors import ResultWarning, UsageError
from ktx_cli.core.text import shell_words
from ktx_cli.project import secrets
from ktx_cli.project.resolve import require_project

DEFAULT_PORT: Final = 7878
TOKEN_VARIABLE: Final = "KTX_MCP_TOKEN"
SHORTEST_TOKEN: Final = 16
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
EVERYWHERE: Final = ("0.0.0.0", "::")

_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class ServedFolder:
    """A project among those a server has: its name in the address (empty where it is the only one) and its folder."""

    name: str
    folder: str

    @property
    def path(self) -> str:
        """Where the server answers for it."""
        return f"/mcp/{self.name}" if self.name else "/mcp"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server was asked to run. `port` 0: whichever is free. No token is in it.

    `user_attributes`: of the caller, for row policies.
    """

    projects: tuple[ServedFolder, ...]
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    read_only: bool = False
    privacy: bool = False
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    token_file: str | None = None
    user_attributes: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as they are handed to the process that serves."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ServerSettings:
        """Return what `to_json` gave."""
        lists = {name: tuple(data[name]) for name in ("allowed_hosts", "allowed_origins")}
        return cls(**{**data, **lists, "projects": tuple(ServedFolder(**each) for each in data["projects"])})

    def differs(self, other: ServerSettings, *, port: int) -> list[str]:
        """Return the names of what is asked for differently than by `other`, which runs on `port`."""
        names = ["host", "read_only", "privacy", "allowed_hosts", "allowed_origins", "token_file", "user_attributes"]
        found = [name for name in names if getattr(self, name) != getattr(other, name)]
        if {each.folder for each in self.projects} != {each.folder for each in other.projects}:
            found.append("projects")
        return found + (["port"] if self.port not in (0, port) else [])


def is_loopback(host: str) -> bool:
    """Say whether only programs of this machine reach a host; names other than `localhost` may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def served_folders(folders: Sequence[str], cwd: Path) -> tuple[ServedFolder, ...]:
    """Return projects under names of their own, made of the folders' names; one alone needs none.

    Raises `NoProjectError` for a folder without `ktx.yaml`, `UsageError` for one that is named twice.
    """
    found = [require_project(folder, {}, cwd) for folder in folders]
    twice = next((each for each in found if found.count(each) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is named twice", hint="name each project once")
    if len(found) == 1:
        return (ServedFolder("", str(found[0])),)
    taken: set[str] = set()
    return tuple(ServedFolder(_unique(each.name, taken), str(each)) for each in found)


def _unique(folder: str, taken: set[str]) -> str:
    slug = re.sub(r"[^a-z0-9_-]+", "-", folder.lower()).strip("-_")[:40] or "project"
    name, count = slug, 1
    while name in taken:
        count += 1
        name = f"{slug}-{count}"
    taken.add(name)
    return name


def required_token(settings: ServerSettings, environ: Mapping[str, str]) -> tuple[str | None, list[ResultWarning]]:
    """Return the token clients must show, None for none, and what to know about where it was.

    Raises `UsageError` where one is needed and missing, or is none a header can carry; `SecretError`.
    """
    token, warnings = _token(settings, environ)
    loopback = is_loopback(settings.host)
    if token is None:
        if not loopback:
            raise UsageError(
                f"whoever reaches {settings.host} could ask everything: the server needs a token there",
                hint=f"export {TOKEN_VARIABLE}=..., or name a file: --token-file FILE",
            )
        return None, warnings
    if not _TOKEN.fullmatch(token):
        raise UsageError("the token has blanks or letters in it that a header cannot carry", hint=_make_hint())
    if len(token) < SHORTEST_TOKEN and not loopback:
        raise UsageError(f"the token is shorter than {SHORTEST_TOKEN} letters", hint=_make_hint())
    secrets.remember(token)
    return token, warnings


def _token(settings: ServerSettings, environ: Mapping[str, str]) -> tuple[str | None, list[ResultWarning]]:
    if settings.token_file is None:
        token = environ.get(TOKEN_VARIABLE)
        if token is not None and not token.strip():
            raise UsageError(f"{TOKEN_VARIABLE} is empty", hint=f"unset {TOKEN_VARIABLE}, or {_make_hint()}")
        return token, []
    path = Path(settings.token_file)
    reference, folder = f"file:{path}", path.parent
    token = secrets.resolve(reference, project_dir=folder, environ=environ, where="--token-file")
    warning = secrets.check(reference, project_dir=folder, where="the server's token")
    return token.strip(), [] if warning is None else [warning]


def _make_hint() -> str:
    return shell_words("openssl", "rand", "-hex", "32") + " makes a good one"
