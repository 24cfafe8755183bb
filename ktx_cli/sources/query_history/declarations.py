"""The joins in a database's queries as declarations. If they changed, the database is scanned again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.documents import Snapshot
from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable
from ktx_cli.sources.query_history.raw_files import parsed

TOOL: Final = "history"


def declarations_of(snapshot: Snapshot) -> Declarations:
    """Return the scanned tables that queries read, and their joins on equal columns, from both sides.

    The IDs of the tables are their names as queries write them. A join that few queries have counts as any other,
    because a scan only uses joins to a column without repeated values.
    """
    read = (parsed(file.read(), path) for path, file in snapshot.files.items() if path.startswith("tables/"))
    documents = [document for document in read if document.get("source")]
    tables = {str(document["table"]): _table(str(document["table"])) for document in documents}
    joins = [join for document in documents for join in _joins(document, tables)]
    return Declarations(TOOL, tables, tuple(dict.fromkeys(joins)))


def _table(name: str) -> DeclaredTable:
    *_, schema, table = ("", *name.split("."))
    return DeclaredTable(table, schema)


def _joins(document: Mapping[str, Any], tables: Mapping[str, DeclaredTable]) -> list[DeclaredJoin]:
    own = str(document["table"])
    return [
        DeclaredJoin(
            own, tuple(str(mine) for mine, _ in join["on"]), join["with"], tuple(str(o) for _, o in join["on"])
        )
        for join in document.get("joins", ())
        if join["with"] in tables and join["on"]
    ]
