"""Who reads the context: the agent clients it is installed in, and the server that runs for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing
from ktx_cli.jobs.agents.targets import CLIENTS, Where
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import Layout

if TYPE_CHECKING:
    from ktx_cli.jobs.agents.listing import State
    from ktx_cli.jobs.serving.lifecycle import ServerStatus


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """The clients that know this project, and the server; None: it was not started. `problems`: what cannot be told."""

    folder: str
    clients: tuple[State, ...] = ()
    server: ServerStatus | None = None
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they stand in the envelope."""
        return {
            "agents": [each.to_json() for each in self.clients],
            "mcp": {"status": "stopped"} if self.server is None else self.server.to_json(self.folder),
        }

    @property
    def agents_text(self) -> str:
        """The clients in one line."""
        said = [f"{each.target} ({each.scope}{_unlike_installed(each.state)})" for each in self.clients]
        return listing([*said, *self.problems], 8) if said or self.problems else "in none"

    @property
    def server_text(self) -> str:
        """The server in one line."""
        if self.server is None or self.server.state is None:
            return "stopped" if self.server is None else self.server.problem or self.server.status
        state = self.server.state
        problem = f", {self.server.problem}" if self.server.problem else ""
        return f"{self.server.status}: {state.url(self.folder)}, pid {state.pid}, since {state.since}{problem}"


def client_facts(layout: Layout, environ: Mapping[str, str]) -> ClientFacts:
    """Look at the files of the clients and of the server; nothing is started."""
    clients: tuple[State, ...] = ()
    problems: list[str] = []
    try:
        clients = _installed(layout, Where(layout.root, environ))
    except KtxError as error:
        problems.append(error.message)
    return ClientFacts(str(layout.root), clients, _server(layout, problems), tuple(problems))


def _installed(layout: Layout, where: Where) -> tuple[State, ...]:
    if not layout.agents_manifest.exists() and not _is_named(where):
        return ()
    from ktx_cli.jobs.agents.listing import NOT_INSTALLED, list_clients

    return tuple(each for each in list_clients(where) if each.state != NOT_INSTALLED)


def _is_named(where: Where) -> bool:
    """Say whether a file of a client has the word ktx, without which none can start its server."""
    places = (place for client in CLIENTS.values() for place in client.places.values())
    files = {path for place in places for path in where.configs(place)}
    return any(b"ktx" in (read_bytes(path) or b"") for path in sorted(files))


def _server(layout: Layout, problems: list[str]) -> ServerStatus | None:
    if not layout.mcp_state.exists():
        return None
    from ktx_cli.jobs.serving.lifecycle import server_status

    try:
        return server_status(layout)
    except KtxError as error:
        problems.append(error.message)
        return None


def _unlike_installed(state: str) -> str:
    return "" if state == "installed" else f", {state}"
