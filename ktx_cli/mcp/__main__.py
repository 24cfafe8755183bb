"""The process that `ktx mcp start` leaves behind: settings as JSON in its only argument, one line back on stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from ktx_cli.core import KtxError
from ktx_cli.jobs.serve.state import ServerSettings, ServerState
from ktx_cli.mcp.serving import leave


def main() -> None:
    """Serve; whoever started this process reads whether it began from its stdout, which then is the log too."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ktx_cli.mcp.serving import serve_http

    settings = ServerSettings.from_json(json.loads(sys.argv[1]))
    code = 0
    try:
        serve_http(settings, os.environ, _announce)
    except KtxError as error:
        _say({"error": error.to_json()})
        code = error.exit_code
    leave(code)


def _announce(state: ServerState) -> None:
    _say({"instance": state.instance})


def _say(document: dict[str, Any]) -> None:
    """Write the line, once, and let go of whoever waits for it."""
    try:
        os.write(1, json.dumps(document).encode() + b"\n")
    except BrokenPipeError:  # nobody waits any more: the server is there all the same
        pass
    os.dup2(2, 1)


if __name__ == "__main__":
    main()
