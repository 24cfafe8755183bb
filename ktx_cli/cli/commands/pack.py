"""`ktx pack`: what a question needs of the project, in one text."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from typer import Argument, Option

from ktx_cli.cli.blocks import Lines
from ktx_cli.cli.commands.completion import connection_option
from ktx_cli.cli.contract import Result, Session, command

commands = typer.Typer()

_TOKENS = 4_000
_LEAST, _MOST = 500, 32_000


@command(commands, "pack")
def pack(
    session: Session,
    words: Annotated[list[str], Argument(metavar="QUESTION", help="The question, in the words of who asks.")],
    tokens: Annotated[
        int, Option("--tokens", metavar="N", min=_LEAST, max=_MOST, help="The size of the pack in tokens, at most.")
    ] = _TOKENS,
    connection: Annotated[str | None, connection_option("Only this database.")] = None,
    user: Annotated[str | None, Option("--user", metavar="ID", help="Use the pages of this user too.")] = None,
    values: Annotated[bool, Option("--values/--no-values", help="Include values of columns.")] = True,
) -> Result:
    """Gather everything that a question needs: tables, joins, measures, rules, open decisions and a draft query.

    Agents get the same from the `context_pack` tool of the MCP server. Nothing is asked of a model or a database.

    Examples: `ktx pack "Net revenue by region in 2025?"`, `ktx pack --tokens 2000 "How many orders were shipped late?"`
    """
    from ktx_cli.agent_tools import open_searcher
    from ktx_cli.jobs.pack.pack import PackRequest, context_pack
    from ktx_cli.project import connection_of
    from ktx_cli.semantic import load_layer

    layout, config = session.load_project()
    if connection is not None:
        connection_of(config, connection)
    request = PackRequest(" ".join(words), tokens, connection, user, values=values and config.scan.privacy != "strict")
    searcher = open_searcher(layout, config, os.environ)
    try:
        found = context_pack(layout, config, request, searcher=searcher, load=load_layer)
    finally:
        searcher.close()
    session.warn(*found.warnings)
    return Result(found.to_json(), [Lines(tuple(found.text.rstrip("\n").split("\n")))])
