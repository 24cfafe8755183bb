"""The check of the server for agents over HTTP: its state file names a server that lives and answers."""

from __future__ import annotations

import socket

from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.jobs.serving.lifecycle import ServerStatus, forget_dead, server_status
from ktx_cli.jobs.serving.state import ServerState, reached_at

CHECK = "mcp"


def check_server(context: CheckContext) -> list[Finding]:
    """The server that was started answers; or none was."""
    found = server_status(context.layout)
    if found.status == "stopped":
        return [Finding(CHECK, Level.OK, "no server is started; clients start their own")]
    if found.status == "running":
        return [_running(found)]
    if found.state is not None and found.state.is_alive():
        return [Finding(CHECK, Level.WARN, f"the server hangs: {found.problem}", "ktx mcp stop && ktx mcp start")]
    return [_dead(context, found)]


def _running(found: ServerStatus) -> Finding:
    assert found.state is not None
    where = f"a server answers at {found.state.base}, pid {found.state.pid}"
    if found.problem is None:
        return Finding(CHECK, Level.OK, where)
    return Finding(CHECK, Level.WARN, f"{where}, but {found.problem}", "ktx mcp logs")


def _dead(context: CheckContext, found: ServerStatus) -> Finding:
    """Say what a server that is gone left, and whether another program has its port."""
    message, hint = f"a dead server left {context.layout.mcp_state}: {found.problem}", "ktx mcp stop"
    if found.state is not None and _is_taken(found.state):
        message += f"; another program has its port {found.state.port}"
        hint = "ktx mcp stop && ktx mcp start --port 0"

    def forget() -> str:
        gone = forget_dead(context.layout)  # a server may have been started meanwhile
        return f"removed {context.layout.mcp_state}" if gone else "a server lives by now, and was left alone"

    return Finding(CHECK, Level.WARN, message, hint, repair=forget)


def _is_taken(state: ServerState) -> bool:
    """Whether a server could not listen where this one did."""
    host = reached_at(state.settings.host)
    try:
        with socket.create_server((host, state.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return False
    except OSError:
        return True
