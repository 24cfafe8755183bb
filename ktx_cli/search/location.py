"""Where the search index of a project is: in a file, or in the database of `storage.postgres`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.project import configured_search

if TYPE_CHECKING:
    from ktx_cli.project import KtxConfig, Layout, SharedDatabase


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """The search index of a project in Postgres. `memo` is the file with the digests of this working tree's units."""

    database: SharedDatabase
    memo: Path


def index_of(layout: Layout, config: KtxConfig, environ: Mapping[str, str]) -> Path | SharedIndex:
    """Return where the search index of a project is; raises `ConfigError` or `SecretError` for an invalid setting."""
    database = configured_search(layout, config, environ)
    return layout.search_index if database is None else SharedIndex(database, layout.search_memo)
