"""What the last scan saw in a database: which names are tables, and which are views, with what they read."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ktx_cli.connectors.port import Table, TableRef
from ktx_cli.context.scan.snapshot import MANIFEST, manifest_hashes, read_table, snapshot_path
from ktx_cli.context.tools.ledger import same_table
from ktx_cli.core.errors import KtxError
from ktx_cli.core.recent import Recent
from ktx_cli.project.layout import DATABASE_SOURCE, Layout
from ktx_cli.project.tree import Tree

_MOST_KEPT: Final = 8


class Relations:
    """The relations of one connection, by their names."""

    def __init__(self, tables: Iterable[Table] = ()) -> None:
        self._named: dict[str, list[Table]] = defaultdict(list)
        for table in tables:
            self._named[table.ref.name.casefold()].append(table)

    def find(self, parts: tuple[str, ...]) -> list[Table]:
        """Return the relations a name can be of; one without a schema stands for those of every schema."""
        named = self._named.get(parts[-1].casefold(), []) if parts else []
        return [each for each in named if same_table(parts_of_ref(each.ref), parts)]


_KEPT: Final[Recent[Relations]] = Recent(_MOST_KEPT)


def read_relations(tree: Tree, connection: str) -> Relations:
    """Return what the snapshot of a connection in a tree has; what is not there, or is damaged, is not known."""
    folder = Layout.raw_path(connection, DATABASE_SOURCE)
    listing = tree.read(snapshot_path(connection))
    if listing is None:
        return Relations()
    paths = tuple(tree.paths(f"{folder}/"))
    return _KEPT.get((connection, listing, paths), lambda: Relations(_tables(tree, folder, listing)))


def _tables(tree: Tree, folder: str, listing: bytes) -> Iterable[Table]:
    """Yield the tables whose files are as the scan wrote them."""
    try:
        hashes = manifest_hashes(listing, f"{folder}/{MANIFEST}")
    except KtxError:  # a list nobody can read tells of no table; the next scan writes it anew and says so
        return
    for path, sha256 in hashes.items():
        content = tree.read(f"{folder}/{path}")
        if content is None or hashlib.sha256(content).hexdigest() != sha256:
            continue
        try:
            yield read_table(content, path)
        except KtxError:  # written by a version that knows more kinds of tables
            continue


def parts_of_ref(ref: TableRef) -> tuple[str, ...]:
    """Return the parts of a relation's name, outermost first."""
    return (ref.name,) if ref.schema is None else (ref.schema, ref.name)
