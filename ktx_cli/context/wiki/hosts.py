"""Which hosts a page may lead to: those that stand in the texts it was made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.wiki.hidden import hidden_characters
from ktx_cli.context.wiki.instructions import instructions
from ktx_cli.context.wiki.links import hosts_in
from ktx_cli.core.errors import KtxError

_MOST_READ: Final = 2_000_000
"""Bytes of a raw file whose links are looked at."""


def hosts_of(files: Iterable[RawFile]) -> frozenset[str]:
    """Return the hosts raw files name.

    A file that speaks to agents, or hides something from people, names none: its links are not the business's.
    """
    return frozenset(host for file in files for host in _hosts(file))


def _hosts(file: RawFile) -> frozenset[str]:
    if file.size > _MOST_READ:
        return frozenset()
    try:
        text = file.text()
    except KtxError:  # a file that is gone names no host; who reads it is told what is wrong
        return frozenset()
    hosts = hosts_in(text)
    return hosts if hosts and not (any(instructions(text)) or any(hidden_characters(text))) else frozenset()
