"""The foreign keys in Metabase's table metadata as declarations, which scans read before they infer joins."""

from __future__ import annotations

import json
from typing import Final

from ktx_cli.documents import Snapshot
from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable
from ktx_cli.sources.metabase.fetch import DATABASES

TOOL: Final = "metabase"


def declarations_of(snapshot: Snapshot) -> Declarations:
    """Return the tables of all databases by Metabase's IDs, and the columns that refer to a column of another table."""
    tables: dict[str, DeclaredTable] = {}
    joins: list[DeclaredJoin] = []
    for path, file in snapshot.files.items():
        if not path.startswith(DATABASES):
            continue
        for table in json.loads(file.read())["tables"]:
            id = str(table["id"])
            tables[id] = DeclaredTable(str(table["name"]), str(table.get("schema") or ""))
            joins += [
                DeclaredJoin(id, (str(each["column"]),), str(each["table"]), (str(each["to"]),))
                for each in table.get("references", ())
            ]
    return Declarations(TOOL, tables, tuple(joins))
