"""The settings for an HTTP server, and the token that its clients must send."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ktx_cli import __version__
from ktx_cli.core import (
    BusyError,
    Command,
    Hint,
    KtxError,
    Record,
    ResultWarning,
    SettingPath,
    UsageError,
    isoformat,
    now,
)
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.project import (
    Identity,
    Layout,
    host_identity,
    is_loopback,
    prepare_private_folder,
    process_start,
    read_bytes,
    require_project,
    secrets,
    storage_error,
    write_atomic,
)
from ktx_cli.semantic import SemanticError

DEFAULT_PORT: Final = 7878
TOKEN_VARIABLE: Final = "KTX_MCP_TOKEN"
SHORTEST_TOKEN: Final = 16
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
EVERYWHERE: Final = ("0.0.0.0", "::")

_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class ServedFolder:
    """A server's project: its name in the URL (empty if it is the only project) and its folder."""

    name: str
    folder: str

    @property
    def path(self) -> str:
        """The URL at which the server serves the project."""
        return f"/mcp/{self.name}" if self.name else "/mcp"


@dataclass(frozen=True, slots=True)
class ServerSettings(Record):
    """The settings for a server. `port` 0: any free port. Without the token.

    `user_attributes`: caller attributes for row policies. `agent`: an agent in `serving.agents` that asks. `replica`:
    the published snapshot is served, without sessions, as by any other replica.
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
    profile: Profile = Profile.DEFAULT
    agent: str | None = None
    replica: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ServerSettings:
        """Return the settings from the result of `to_json`."""
        lists = {name: tuple(data[name]) for name in ("allowed_hosts", "allowed_origins")}
        lists |= {"projects": tuple(ServedFolder(**each) for each in data["projects"])}
        return cls(**{**data, **lists, "profile": Profile(data.get("profile", Profile.DEFAULT))})

    def differs(self, other: ServerSettings, *, port: int) -> list[str]:
        """Return the names of settings that differ from those of `other`, which runs on `port`."""
        names = ["host", "profile", "read_only", "privacy", "allowed_hosts", "allowed_origins", "token_file"]
        names += ["user_attributes", "agent", "replica"]
        found = [name for name in names if getattr(self, name) != getattr(other, name)]
        if {each.folder for each in self.projects} != {each.folder for each in other.projects}:
            found.append("projects")
        return found + (["port"] if self.port not in (0, port) else [])


def served_folders(folders: Sequence[str], cwd: Path) -> tuple[ServedFolder, ...]:
    """Return projects with unique names, derived from their folders; a single project needs none.

    Raises `NoProjectError` for a folder without `ktx.yaml`, `UsageError` for a duplicate.
    """
    found = [require_project(folder, {}, cwd) for folder in folders]
    for each in found:
        if found.count(each) > 1:
            raise UsageError(f"{each} is listed twice", hint="list each project once")
    if len(found) == 1:
        return (ServedFolder("", str(found[0])),)
    taken: set[str] = set()
    return tuple(ServedFolder(_unique(each.name, taken), str(each)) for each in found)


def _unique(folder: str, taken: set[str]) -> str:
    slug = re.sub(r"[^a-z0-9_-]+", "-", folder.lower()).strip("-_")[:40] or "project"
    names = (slug, *(f"{slug}-{count}" for count in range(2, len(taken) + 2)))
    name = next(each for each in names if each not in taken)
    taken.add(name)
    return name


def scope_warning(identity: Identity | None) -> ResultWarning | None:
    """Return the warning about a server that accepts every access token for its audience, or None."""
    if identity is None or identity.scopes:
        return None
    audience = identity.audience or identity.resource
    message = f"serving.identity.scopes is empty, so any access token that the issuer grants for {audience} is accepted"
    setting = Command("config", "set", "serving.identity.scopes", '["ktx:read"]')
    return ResultWarning(
        "scopes", message, hint=Hint("name a scope that only clients of this server get, for example: {}", setting)
    )


def required_token(
    settings: ServerSettings, environ: Mapping[str, str], *, issuers: bool = False
) -> tuple[str | None, list[ResultWarning]]:
    """Return the token that clients must send, or None if none is required, and warnings about its source.

    `issuers`: every project accepts the tokens of an issuer, so a server for other machines needs none of its own.
    Raises `UsageError` if one is required but missing, or cannot be sent in a header; `SecretError`.
    """
    token, warnings = _token(settings, environ)
    loopback = is_loopback(settings.host)
    if token is None:
        if not loopback and not issuers:
            message = f"anyone who can reach {settings.host} could query everything, so the server needs a token there"
            hint = Hint("{}, or use a file: --token-file FILE", Command(f"{TOKEN_VARIABLE}=...", program="export"))
            raise UsageError(message, hint=hint)
        return None, warnings
    if not _TOKEN.fullmatch(token):
        raise UsageError("the token contains blanks or characters that a header cannot carry", hint=_make_hint())
    if len(token) < SHORTEST_TOKEN and not loopback:
        raise UsageError(f"the token is shorter than {SHORTEST_TOKEN} characters", hint=_make_hint())
    secrets.remember(token)
    return token, warnings


def _token(settings: ServerSettings, environ: Mapping[str, str]) -> tuple[str | None, list[ResultWarning]]:
    if settings.token_file is None:
        token = environ.get(TOKEN_VARIABLE)
        if token is not None and not token.strip():
            message = f"{TOKEN_VARIABLE} is empty"
            raise UsageError(message, hint=Hint("{}, or {}", Command(TOKEN_VARIABLE, program="unset"), _make_hint()))
        return token, []
    path = Path(settings.token_file)
    reference, folder = f"file:{path}", path.parent
    token = secrets.resolve(reference, project_dir=folder, environ=environ, where="--token-file")
    warning = secrets.check(reference, project_dir=folder, where="the server's token")
    return token.strip(), [] if warning is None else [warning]


def _make_hint() -> Hint:
    return Hint("create a strong token with {}", Command("rand", "-hex", "32", program="openssl"))


SCHEMA: Final = 1
HEALTH_SECONDS: Final = 2.0
_LONGEST: Final = 65_536


@dataclass(frozen=True, slots=True)
class ServerState(Record):
    """A started server: this process. `instance`: identifies it in its `/health` response; `since` in ISO format."""

    instance: str
    settings: ServerSettings
    port: int
    token_required: bool
    pid: int = field(default_factory=os.getpid)
    process_start: str = field(default_factory=lambda: process_start(os.getpid()) or "")
    host_identity: str = field(default_factory=host_identity)
    hostname: str = field(default_factory=socket.gethostname)
    since: str = field(default_factory=lambda: isoformat(now()))
    version: str = __version__
    snapshot: Mapping[str, Any] | None = None
    """The snapshot that a replica serves of the project in whose folder this is stored."""
    problem: Mapping[str, Any] | None = None
    """Why a replica does not serve the newest snapshot, or not with the settings in `ktx.yaml`."""
    is_foreground: bool = False
    """Whether the server logs to the stderr of the command that started it, and not to `.ktx/logs/mcp.log`."""

    @property
    def base(self) -> str:
        """The base URL for clients on this machine."""
        host = reached_at(self.settings.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def url(self, folder: str) -> str:
        """Return the URL at which the server serves the project in a folder."""
        found = next((each for each in self.settings.projects if each.folder == folder), self.settings.projects[0])
        return self.base + found.path

    def is_alive(self) -> bool:
        """Return whether the started process is alive, rather than another process with its pid."""
        here = self.host_identity == host_identity()
        return here and bool(self.process_start) and process_start(self.pid) == self.process_start


def reached_at(host: str) -> str:
    """Return the address at which a program on this machine reaches a server."""
    if host in EVERYWHERE:
        return "127.0.0.1" if host == EVERYWHERE[0] else "::1"
    return host


def read_server_state(layout: Layout) -> ServerState | None:
    """Return the content of the file, or None if there is none or ktx did not write it; raises `StorageError`."""
    data = read_bytes(layout.mcp_state)
    if data is None or len(data) > _LONGEST:
        return None
    try:
        document = json.loads(data)
        document["settings"] = ServerSettings.from_json(document["settings"])
        older = {"snapshot": None, "problem": None, "is_foreground": False}  # what older versions do not store
        document = {**older, **document}
        return ServerState(**{each.name: document[each.name] for each in fields(ServerState)})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def write_server_state(layout: Layout, state: ServerState) -> None:
    """Write the file so that only this user can read it."""
    prepare_private_folder(layout)
    write_atomic(
        layout.mcp_state, json.dumps({"schema": SCHEMA, **_stored(state)}, indent=2).encode() + b"\n", mode=0o600
    )


def _stored(state: ServerState) -> dict[str, Any]:
    """Return the state with the settings first, in the traditional order of the file."""
    data = state.to_json()
    return {"settings": data.pop("settings"), **data}


def remove_server_state(layout: Layout, instance: str | None) -> None:
    """Remove the file if it belongs to this server; None: regardless of its owner."""
    if instance is not None:
        found = read_server_state(layout)
        if found is None or found.instance != instance:
            return
    try:
        layout.mcp_state.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(layout.mcp_state, error, "remove") from error


@contextlib.contextmanager
def only_server(layout: Layout) -> Iterator[None]:
    """Become the only HTTP server of a project for a block; raises `BusyError` if there is another one."""
    prepare_private_folder(layout)
    try:
        descriptor = os.open(layout.mcp_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise storage_error(layout.mcp_lock, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"a server is already running for {layout.root}", hint=Command("mcp", "status")) from None
        yield
    finally:
        os.close(descriptor)


def asked_health(state: ServerState) -> Mapping[str, Any] | None:
    """Return what the server reports about itself, or None if no server, or another one, responds at its address."""
    connection = http.client.HTTPConnection(reached_at(state.settings.host), state.port, timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", "/health")
        answer = json.loads(connection.getresponse().read(_LONGEST))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) and answer.get("id") == state.instance else None


def error_from(document: Mapping[str, Any]) -> KtxError:
    """Return the error that another process wrote as JSON."""
    message, hint = str(document.get("message", "the server did not start")), document.get("hint")
    code = str(document.get("code", "failed"))
    return KtxError(message, hint=hint, details=document.get("details") or {}, code=code)


def server_attributes(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the attributes that a server is started with: text, numbers, booleans; `UsageError` for anything else."""
    from ktx_cli.jobs.semantic.question import read_attributes

    found = read_attributes(texts)
    for name, value in found.items():
        if not isinstance(value, str | int) and not (isinstance(value, float) and isfinite(value)):
            message = f"the value of the attribute `{name}` must be a text, a number or a boolean"
            raise UsageError(message, hint=f"for example: --user-attribute {name}=EU, or --user-attribute {name}:=7")
    return found


@contextlib.contextmanager
def user_attributes_required() -> Iterator[None]:
    """Make the hint about a missing policy attribute explain how to set it on the server: no call argument can."""
    try:
        yield
    except SemanticError as error:
        name = error.details.get("attribute") if error.code == "policy" else None
        if name is not None:
            error.hint = Hint(
                "an argument cannot set it; whoever runs this server starts it with `{}`, or sets `{}` in ktx.yaml",
                Command("mcp", "start", "--user-attribute", f"{name}=VALUE"),
                SettingPath(f"mcp.user_attributes.{name}"),
            )
        raise
