"""The raw files of Looker, and the table that an explore reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ktx_cli.sources.fetch import Document
from ktx_cli.warehouses import DIALECTS, dialect_named

_LONGEST: Final = 2_000
_TEMPLATE: Final = re.compile(r"\$\{|\{\{|\{%|@\{")


class Why(StrEnum):
    """Why an explore has no table here."""

    NO_CONNECTION = "no_connection_mapping"
    TEMPLATE = "looker_template_unresolved"
    DERIVED = "derived_table_not_supported"
    NO_TABLE = "no_physical_table"
    SEVERAL = "multiple_table_references"
    UNREADABLE = "parse_error"


@dataclass(frozen=True, slots=True)
class Target:
    """A table of a connection (`parts` outermost first), or the reason there is none (`why`)."""

    connection: str | None
    parts: tuple[str, ...] = ()
    why: Why | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a raw file."""
        if self.why is not None:
            return {"connection": self.connection, "why": self.why.value}
        return {"connection": self.connection, "table": list(self.parts)}

    @classmethod
    def stored(cls, value: Mapping[str, Any] | None) -> Target:
        """Return it from a raw file."""
        if not value:
            return cls(None, why=Why.NO_TABLE)
        why = value.get("why")
        return cls(value.get("connection"), tuple(value.get("table") or ()), None if why is None else Why(why))


def target_of(sql_table_name: object, connection: str | None) -> Target:
    """Return the table of a `sql_table_name`; `connection` is the one mapped to Looker's, None for none."""
    if connection is None:
        return Target(None, why=Why.NO_CONNECTION)
    text = sql_table_name.strip().rstrip(";").strip() if isinstance(sql_table_name, str) else ""
    if not text:
        return Target(connection, why=Why.NO_TABLE)
    if _TEMPLATE.search(text):
        return Target(connection, why=Why.TEMPLATE)
    if text.startswith("(") or re.match(r"(?i)(?:select|with)\b", text):
        return Target(connection, why=Why.DERIVED)
    found = _parsed(text) if len(text) <= _LONGEST and ";" not in text else Why.UNREADABLE
    return Target(connection, why=found) if isinstance(found, Why) else Target(connection, found)


def _parsed(text: str) -> tuple[str, ...] | Why:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    for dialect in _dialects(text):
        try:
            tree = sqlglot.parse_one(f"SELECT * FROM {text}", read=dialect)
        except (SqlglotError, RecursionError):
            continue
        tables = list(tree.find_all(exp.Table))
        if len(tables) > 1:
            return Why.SEVERAL
        if len(tables) == 1 and _is_alone(tree, tables[0]):
            return tuple(part.name for part in tables[0].parts)
    return Why.UNREADABLE


def _dialects(text: str) -> list[str]:
    """Return the dialects to read a name in: first those whose quotes are in it, of them those of dotted names."""

    def rank(name: str) -> tuple[bool, bool]:
        dialect = dialect_named(name)
        return dialect.name_quotes[0] not in text, not dialect.dotted_names

    return sorted(DIALECTS, key=rank)


def _is_alone(tree: Any, table: Any) -> bool:
    """Say whether a query is nothing but the table, with an alias at most."""
    from sqlglot import exp

    plain = exp.select("*").from_(table.copy())
    named = all(isinstance(part, exp.Identifier) and part.name for part in table.parts)
    return bool(named and isinstance(tree, exp.Select) and tree == plain)


USAGE_PATH: Final = "usage.json"
FOLDERS_PATH: Final = "folders.json"

_FIELD_KEYS: Final = (
    "name", "label", "description", "type", "sql", "view", "primary_key", "hidden", "tags", "value_format_name",
    "enumerations", "filters", "group_label", "timezone", "dimension_group",
)  # fmt: skip
_QUERY_KEYS: Final = (
    "model", "view", "fields", "pivots", "fill_fields", "filters", "filter_expression", "sorts", "limit",
    "dynamic_fields", "total",
)  # fmt: skip
_FILTER_KEYS: Final = ("name", "title", "type", "default_value", "model", "explore", "dimension", "required")
_TILE_KEYS: Final = ("id", "title", "subtitle_text", "note_text", "body_text", "type", "look_id")
_JOIN_KEYS: Final = ("name", "relationship", "type", "sql_on", "foreign_key", "view_label")

Targets = Mapping[tuple[str, str], Target]
"""Model and explore -> the table it reads."""


def explore_path(model: str, explore: str) -> str:
    """Return the raw file of an explore."""
    return f"explores/{_safe(model)}/{_safe(explore)}.json"


def dashboard_path(dashboard: str) -> str:
    """Return the raw file of a dashboard."""
    return f"dashboards/{_safe(dashboard)}.json"


def look_path(look: str) -> str:
    """Return the raw file of a look."""
    return f"looks/{_safe(look)}.json"


def _safe(name: str) -> str:
    """Return a part of a path for an id: as it is where it is plain, else with a digest that tells it apart."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', name)[:60]}-{digest}"


def explore_document(model: str, answer: Mapping[str, Any], connections: Mapping[str, str | None]) -> Document:
    """Return the raw file's document of an explore; `connections`: Looker's name -> the connection here."""
    name = str(answer["name"])
    connection = connections.get(str(answer.get("connection_name")))
    fields = answer.get("fields")
    fields = fields if isinstance(fields, Mapping) else {}
    return {
        **_some(answer, ("label", "description", "view_name", "always_filter", "sql_always_where")),
        "model": model,
        "name": name,
        "looker_connection": answer.get("connection_name"),
        "sql_table_name": answer.get("sql_table_name"),
        "target": target_of(answer.get("sql_table_name"), connection).to_json(),
        "joins": [_join(each, connection) for each in _mappings(answer.get("joins"))],
        "dimensions": _fields(fields.get("dimensions")),
        "measures": _fields(fields.get("measures")),
        "source_name": source_name(model, name),
    }


def source_name(model: str, explore: str) -> str:
    """Return the name of the source an explore becomes."""
    return f"looker__{model}__{explore}"


def _join(join: Mapping[str, Any], connection: str | None) -> Document:
    target = target_of(join.get("sql_table_name"), connection)
    return {**_some(join, _JOIN_KEYS), "from": join.get("from"), "target": target.to_json()}


def _fields(value: Any) -> list[Document]:
    return sorted((_some(each, _FIELD_KEYS) for each in _mappings(value)), key=lambda each: str(each.get("name")))


def dashboard_document(answer: Mapping[str, Any]) -> Document:
    """Return the raw file's document of a dashboard, its queries without targets."""
    return {
        **_some(answer, ("id", "title", "description")),
        "folder": _folder(answer),
        "filters": [_some(each, _FILTER_KEYS) for each in _mappings(answer.get("dashboard_filters"))],
        "tiles": [_tile(each) for each in _mappings(answer.get("dashboard_elements")) if not each.get("deleted")],
    }


def look_document(answer: Mapping[str, Any]) -> Document:
    """Return the raw file's document of a look, its query without a target."""
    facts = _some(answer, ("id", "title", "description"))
    return {**facts, "folder": _folder(answer), "query": query_document(answer.get("query"))}


def _tile(tile: Mapping[str, Any]) -> Document:
    look = tile.get("look")
    maker = tile.get("result_maker")
    nested = [each.get("query") for each in (look, maker) if isinstance(each, Mapping)]
    query = next((each for each in (tile.get("query"), *nested) if isinstance(each, Mapping)), None)
    return {**_some(tile, _TILE_KEYS), "query": query_document(query), "merged": bool(tile.get("merge_result_id"))}


def query_document(query: Any) -> Document | None:
    """Return what a query asks; without ids, which Looker makes anew for the same question."""
    return _some(query, _QUERY_KEYS) if isinstance(query, Mapping) else None


def with_targets(document: Mapping[str, Any], targets: Targets) -> Document:
    """Return a dashboard or a look whose queries say which table they read, as their explores do now."""
    if "tiles" in document:
        tiles = [{**tile, "query": _with_target(tile.get("query"), targets)} for tile in document["tiles"]]
        return {**document, "tiles": tiles}
    return {**document, "query": _with_target(document.get("query"), targets)}


def _with_target(query: Mapping[str, Any] | None, targets: Targets) -> Document | None:
    if not query:
        return None
    unknown = Target(None, why=Why.NO_TABLE)
    target = targets.get((str(query.get("model")), str(query.get("view"))), unknown)
    return {**query, "target": target.to_json()}


def queries_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the queries of a dashboard or a look."""
    tiles = [tile.get("query") for tile in document.get("tiles") or []]
    return [query for query in (*tiles, document.get("query")) if query]


def _folder(answer: Mapping[str, Any]) -> str | None:
    folder = answer.get("folder")
    found = folder.get("id") if isinstance(folder, Mapping) else answer.get("folder_id")
    return None if found is None else str(found)


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _some(value: Mapping[str, Any], keys: Sequence[str]) -> Document:
    return {key: value[key] for key in keys if value.get(key) not in (None, "", [], {}, False)}


_COLUMN: Final = re.compile(r"\$\{TABLE\}\s*\.\s*(?:(?P<plain>[A-Za-z_]\w*)|[\"`\[](?P<quoted>[A-Za-z_]\w*)[\"`\]])")
_KINDS: Final[Mapping[str, str]] = {"number": "number", "yesno": "boolean", "tier": "string", "zipcode": "string"}


def column_of(sql: object) -> str | None:
    """Return the column of `${TABLE}.column`, None for every other SQL."""
    found = _COLUMN.fullmatch(sql.strip().rstrip(";").strip()) if isinstance(sql, str) else None
    return None if found is None else found["plain"] or found["quoted"]


def kind_of(field: Mapping[str, Any]) -> str:
    """Return the ktx type of a dimension."""
    kind = str(field.get("type") or "string")
    if kind.startswith(("date", "time", "duration")):
        return "time"
    return _KINDS.get(kind, "string")
