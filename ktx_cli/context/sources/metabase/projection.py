"""What of Metabase is certain without a model: its texts about tables and columns, and models that are one table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.context.sources.metabase.documents import collection_path
from ktx_cli.context.sources.metabase.fetching import USAGE_PATH
from ktx_cli.context.sources.model import Snapshot
from ktx_cli.context.sources.port import ProjectContext, Projection
from ktx_cli.context.sources.table_texts import TableText, write_texts
from ktx_cli.core.text import one_line, plural

_PLAIN: Final = frozenset(("source-table", "fields", "lib/type"))
"""What a query may say and still be a table as it is."""

_Tables = Mapping[tuple[int, int], tuple[str, tuple[str, ...]]]
"""Database and table id -> connection, and the parts of the table's name."""


def project(snapshot: Snapshot, context: ProjectContext) -> Projection:
    """Write the texts; what the cards compute is left to a model."""
    parsed = {path: json.loads(file.read()) for path, file in snapshot.files.items()}
    databases = {path: document for path, document in parsed.items() if path.startswith("databases/")}
    cards = {path: document for path, document in parsed.items() if path.startswith("cards/")}
    texts: dict[str, list[TableText]] = {}
    tables: dict[tuple[int, int], tuple[str, tuple[str, ...]]] = {}
    for path, database in databases.items():
        for table in database["tables"]:
            parts = _parts(table)
            tables[database["id"], table["id"]] = database["connection"], parts
            if text := _text(table, parts, path):
                texts.setdefault(database["connection"], []).append(text)
    for connection, text in _models(cards, tables):
        texts.setdefault(connection, []).append(text)
    described = write_texts(context, "metabase", texts)
    control = (path for path in parsed if not path.startswith("cards/"))
    return Projection(
        artifacts=described.artifacts,
        owned=described.owned,
        report=described.report,
        handled=frozenset((*control, USAGE_PATH)) & frozenset(parsed),
        left=tuple(_left(cards, parsed)),
    )


def _parts(table: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(table[key]) for key in ("schema", "name") if table.get(key))


def _text(table: Mapping[str, Any], parts: tuple[str, ...], raw: str) -> TableText | None:
    said = (table.get(key) for key in ("description", "points_of_interest", "caveats"))
    description, columns = "\n\n".join(filter(None, said)), _columns(table)
    return TableText(parts, raw, description or None, columns) if parts and (description or columns) else None


def _columns(document: Mapping[str, Any]) -> dict[str, str]:
    columns = document["columns"]
    return {str(each["name"]): each["description"] for each in columns if each.get("name") and each.get("description")}


def _models(cards: Mapping[str, Any], tables: _Tables) -> Iterator[tuple[str, TableText]]:
    """Yield what models say of the one table they show, by id."""
    for path, card in sorted(cards.items(), key=lambda item: item[1]["id"]):
        shown = _table_of(card)
        if card["type"] != "model" or shown is None or shown not in tables:
            continue
        connection, parts = tables[shown]
        columns = _columns(card)
        if card.get("description") or columns:
            yield connection, TableText(parts, path, card.get("description"), columns)


def _table_of(card: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return database and table of a card that shows the rows of one table, all of them, and nothing else."""
    query = card["query"].get("query")
    if not isinstance(query, Mapping):
        return None
    stages = query.get("stages")
    asked = stages[0] if isinstance(stages, list) and len(stages) == 1 else query.get("query")
    if not isinstance(asked, Mapping) or not _PLAIN.issuperset(asked):
        return None
    table = asked.get("source-table")
    return (card["database_id"], table) if isinstance(table, int) else None


def _left(cards: Mapping[str, Any], parsed: Mapping[str, Any]) -> Iterator[str]:
    counted = Counter(collection_path(card.get("collection_id")) for card in cards.values())
    for path, count in sorted(counted.items()):
        name = one_line(str(parsed.get(path, {}).get("name") or path), 80)
        yield f"Metabase, {name}: what {plural(count, 'card')} compute, as measures and pages"
    metrics = [card for card in cards.values() if card["type"] == "metric"]
    if metrics:
        yield f"Metabase: {plural(len(metrics), 'metric')} as measures"
