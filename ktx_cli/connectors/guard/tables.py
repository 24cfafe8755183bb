"""The relations a statement may name: no files, no stages, no other servers, no catalogs that hold secrets."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import TYPE_CHECKING, Final

from ktx_cli.connectors.guard.catalogs import SYSTEM
from ktx_cli.connectors.guard.errors import refused

if TYPE_CHECKING:
    from sqlglot import exp

_OUTSIDE: Final = re.compile(r"://|^[/~\\@]|^[A-Za-z]:[\\/]|(^|[/\\])\.\.?([/\\]|$)|[*?\[]|^s3:|^gs:|^dbfs:")
_DATA_FILE: Final = re.compile(
    r"\.(csv|tsv|parquet|json|jsonl|ndjson|txt|xlsx|db|duckdb|sqlite|arrow|ipc|orc|avro|py|yaml|yml)(\.(gz|zst|bz2))?$",
    re.IGNORECASE,
)
_FILE_FORMATS: Final = frozenset(
    {"csv", "parquet", "json", "orc", "text", "avro", "delta", "binaryfile", "iceberg", "xml", "excel", "image"}
    | {"jdbc", "kafka", "cloudfiles", "hudi", "libsvm", "sql"}
)
"""Names that Databricks takes for the format of a file or of another source where a schema is expected."""

_PATH_DIALECTS: Final = frozenset({"duckdb", "databricks", "snowflake", "clickhouse"})
_FILE_HINT: Final = "name a table; if this is one, `ktx scan` makes its name known"
_CATALOG_HINT: Final = "read information_schema instead"
_SQLITE_HINT: Final = "read sqlite_schema, or pragma_table_info('TABLE')"


def require_row_function(rows: exp.TableFromRows) -> None:
    """Raise unless what stands in TABLE(...) is a function: a text in it names a table."""
    from sqlglot import exp

    if not isinstance(rows.this, exp.Func | exp.Dot):
        raise refused("table", f"`{rows.sql()}`", "names a table by a text", hint="name the table itself")


def require_table(table: exp.Table, dialect: str, known: Container[str]) -> None:
    """Raise for a relation that is no table of this database, or one that holds secrets; `known` are its own names."""
    from sqlglot import exp

    if isinstance(table.this, exp.Func) or table.args.get("rows_from"):
        return  # the lists of functions decide
    if not isinstance(table.this, exp.Identifier):
        raise refused("table", f"`{table.sql()}`", "is not the name of a table")
    parts = [name for part in table.parts for name in (part.name.split(".") if dialect == "bigquery" else [part.name])]
    if len(parts) > 3:
        raise refused("table", f"`{'.'.join(parts)}`", "is a table of another server")
    if dialect in _PATH_DIALECTS and ".".join(parts) not in known and _is_file(parts, dialect):
        raise refused("file", f"`{'.'.join(parts)}`", "is a file, not a table of this connection", hint=_FILE_HINT)
    _require_open(parts, dialect)


def _is_file(parts: list[str], dialect: str) -> bool:
    name = parts[-1]
    if len(parts) > 1 and parts[-2].lower() in _FILE_FORMATS and dialect == "databricks":
        return True
    return bool(_OUTSIDE.search(name)) or (len(parts) == 1 and bool(_DATA_FILE.search(name)))


def _require_open(parts: list[str], dialect: str) -> None:
    """Raise for a relation of a system schema that is not on the list of open ones."""
    system = SYSTEM.get(dialect)
    if system is None:
        return
    folded = [part.lower() for part in parts]
    name, places = folded[-1], folded[:-1]
    if places and places[-1] == "information_schema":
        if system.is_closed_information(name):
            raise _closed(parts, dialect)
    elif places and any(place in system.schemas for place in places):
        if name not in system.open:
            raise _closed(parts, dialect)
    elif (
        not (places and system.schemas) and system.prefix and name.startswith(system.prefix) and name not in system.open
    ):
        raise _closed(parts, dialect)
    if name in system.names:
        raise _closed(parts, dialect)


def _closed(parts: list[str], dialect: str) -> Exception:
    hint = _SQLITE_HINT if dialect == "sqlite" else _CATALOG_HINT
    return refused("catalog", f"`{'.'.join(parts)}`", "is a closed part of the system's catalog", hint=hint)
