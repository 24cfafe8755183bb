"""Which server runs on a project: a small file that says so, and whether the process it names is that server."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli import __version__
from ktx_cli.core.clock import isoformat, now
from ktx_cli.core.errors import BusyError, KtxError
from ktx_cli.jobs.serving.settings import EVERYWHERE, ServerSettings
from ktx_cli.project.files import read_bytes, storage_error, write_atomic
from ktx_cli.project.layout import Layout
from ktx_cli.project.leases import host_identity, process_start
from ktx_cli.project.state import prepare_private_folder

SCHEMA: Final = 1
HEALTH_SECONDS: Final = 2.0
_LONGEST: Final = 65_536


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server that was started. `instance`: what its `/health` answers with; `since` in ISO form."""

    instance: str
    settings: ServerSettings
    port: int
    token_required: bool
    pid: int
    process_start: str
    host_identity: str
    hostname: str
    since: str
    version: str

    @property
    def base(self) -> str:
        """The address without a path, as a client on this machine uses it."""
        host = reached_at(self.settings.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def url(self, folder: str) -> str:
        """Return where the server answers for the project in a folder."""
        found = next((each for each in self.settings.projects if each.folder == folder), self.settings.projects[0])
        return self.base + found.path

    def is_alive(self) -> bool:
        """Say whether the process that was started lives, and not another one with its number."""
        here = self.host_identity == host_identity()
        return here and bool(self.process_start) and process_start(self.pid) == self.process_start

    def to_json(self) -> dict[str, Any]:
        """Return the state as it stands in the file."""
        fields = {name: getattr(self, name) for name in _PLAIN}
        return {"schema": SCHEMA, "settings": self.settings.to_json(), **fields}


_PLAIN: Final = (
    *("instance", "port", "token_required", "pid", "process_start"),
    *("host_identity", "hostname", "since", "version"),
)


def state_of_this_process(instance: str, settings: ServerSettings, port: int, *, token_required: bool) -> ServerState:
    """Return the state of the server this process is."""
    pid = os.getpid()
    return ServerState(
        instance=instance,
        settings=settings,
        port=port,
        token_required=token_required,
        pid=pid,
        process_start=process_start(pid) or "",
        host_identity=host_identity(),
        hostname=socket.gethostname(),
        since=isoformat(now()),
        version=__version__,
    )


def reached_at(host: str) -> str:
    """Return the address under which a program of this machine reaches a server."""
    if host in EVERYWHERE:
        return "127.0.0.1" if host == EVERYWHERE[0] else "::1"
    return host


def read_server_state(layout: Layout) -> ServerState | None:
    """Return what the file says, None where there is none or it is none of ours; raises `StorageError`."""
    data = read_bytes(layout.mcp_state)
    if data is None or len(data) > _LONGEST:
        return None
    try:
        document = json.loads(data)
        settings = ServerSettings.from_json(document["settings"])
        return ServerState(settings=settings, **{name: document[name] for name in _PLAIN})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def write_server_state(layout: Layout, state: ServerState) -> None:
    """Write the file, for this user alone."""
    prepare_private_folder(layout)
    write_atomic(layout.mcp_state, json.dumps(state.to_json(), indent=2).encode() + b"\n", mode=0o600)


def remove_server_state(layout: Layout, instance: str | None) -> None:
    """Remove the file where it is about this server; None: whatever it is about."""
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
    """Be the only server over HTTP of a project for a block; `BusyError` where there is one."""
    prepare_private_folder(layout)
    try:
        descriptor = os.open(layout.mcp_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise storage_error(layout.mcp_lock, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"a server runs on {layout.root} already", hint="ktx mcp status") from None
        yield
    finally:
        os.close(descriptor)


def asked_health(state: ServerState, timeout: float = HEALTH_SECONDS) -> Mapping[str, Any] | None:
    """Return what the server says of itself; None where nobody, or another server, answers at its address."""
    connection = http.client.HTTPConnection(reached_at(state.settings.host), state.port, timeout=timeout)
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
    return KtxError(
        str(document.get("message", "the server did not start")),
        hint=document.get("hint"),
        details=document.get("details") or {},
        code=str(document.get("code", "failed")),
    )
