"""The command tree: the root, and every command's registration."""

from __future__ import annotations

from typing import Final

from ktx_cli.cli.commands import (
    agents,
    completion,
    config,
    connection,
    demo,
    diff,
    doctor,
    eval,
    index,
    ingest,
    lint,
    llm,
    mcp,
    memory,
    runs,
    scan,
    search,
    setup,
    sl,
    sql,
    status,
    usage,
    wiki,
)
from ktx_cli.cli.root import new_app

app = new_app()

_COMMANDS: Final = (
    *(setup, status, doctor, connection, ingest, scan, memory),
    *(sl, wiki, search, index, sql, lint, diff, eval, agents),
    *(mcp, runs, llm, usage, config, demo, completion),
)

for module in _COMMANDS:
    module.register(app)
