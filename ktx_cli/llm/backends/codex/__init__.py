"""The user's local Codex session, through `codex app-server`.

Codex can be driven in three ways, and ktx uses its app server: a JSON-RPC protocol over the process's own pipes.

* `codex exec --json` has no end of a turn between two model requests, cannot continue a failed turn, and reaches tools
  only through an MCP server, which needs an open port and shows the model structured content instead of text.
* The Python SDK (`openai-codex`) wraps the same binary and installs 400 MB.
* The app server takes the system prompt, the tools, the schema of the answer and the effort with each call. The model
  calls ktx's tools through the pipe, so there is no port, no token and no other tool server; it reports every model
  response with its usage, and everything that it adds to a request; a turn that failed can be continued. ktx
  therefore runs the agent loop, with its own steps, budget, retries and repairs, as for an API.

Every call has a process of its own, with a private `CODEX_HOME` that contains the login and nothing else of the user's
(`home.py`), a short list of variables (`binary.py`), and checks of what the process loaded before the first prompt
and of what it did until the end (`isolation.py`).
"""

from __future__ import annotations

from typing import Final

from ktx_cli.core import Command
from ktx_cli.llm.backends.openai_api import is_effort_settable
from ktx_cli.llm.registry import BackendKind, SessionProgram

AUTH_MESSAGE: Final = "Codex on this machine has no usable login"
AUTH_HINT: Final = Command("login", program="codex")
"""The message and the hint for a missing or rejected login."""


CODEX: Final = BackendKind(
    name="codex",
    who="Codex",
    label="Your local Codex session",
    maker="ktx_cli.llm.backends.codex.backend:make",
    block="codex",
    client="session",
    program=SessionProgram(
        "codex",
        ("login",),
        session="ktx_cli.llm.backends.codex.backend:local_session",
        candidates="ktx_cli.llm.backends.codex.binary:candidates",
    ),
    models={"default": "gpt-6.1-sol", "triage": "gpt-6-luna", "candidateExtraction": "gpt-6-luna"},
    by_hand=False,
    default_model="gpt-6.1-sol",
    is_effort_settable=is_effort_settable,
    charges_list_prices=True,
    caches_by_itself=True,
    source="codex",
    executor_type="codex_app_server",
    telemetry="openai",
    no_credentials=AUTH_MESSAGE,
    credentials=AUTH_HINT,
)
