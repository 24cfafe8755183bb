"""The filter before a database: one reading statement of known parts and functions, written anew from its tree."""

from __future__ import annotations

from ktx_cli.connectors.guard.check import CheckedStatement, check
from ktx_cli.connectors.guard.errors import StatementRefusedError
from ktx_cli.connectors.guard.functions import GUARDED_DIALECTS
from ktx_cli.connectors.guard.limits import MAX_CHARACTERS, MAX_DEPTH, MAX_TOKENS
from ktx_cli.connectors.guard.policy import StatementPolicy
from ktx_cli.connectors.guard.servers import EITHER, Server, server_of

__all__ = [
    "EITHER",
    "GUARDED_DIALECTS",
    "MAX_CHARACTERS",
    "MAX_DEPTH",
    "MAX_TOKENS",
    "CheckedStatement",
    "Server",
    "StatementPolicy",
    "StatementRefusedError",
    "check",
    "server_of",
]
