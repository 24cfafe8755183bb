"""The relations a statement may name: no files, no stages, no other servers, no catalogs that hold secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktx_cli.core import Command, Hint
from ktx_cli.warehouses.guard.errors import refused

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
_FILE_HINT: Final = Hint("name a table; if this is one, `{}` makes its name known", Command("scan"))
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


@dataclass(frozen=True, slots=True)
class SystemCatalog:
    """One system's own schemas: all relations in them are closed but those in `open`.

    `prefix` marks names that are looked up in them without a schema; where there are no such schemas, names with any.
    `names` are closed wherever they are. `closed_information` are the beginnings of closed names in
    information_schema; where `open_information` has names, all others are closed.
    """

    schemas: frozenset[str]
    open: frozenset[str] = frozenset()
    prefix: str | tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    closed_information: tuple[str, ...] = ()
    open_information: frozenset[str] = frozenset()

    def is_closed_information(self, name: str) -> bool:
        """Whether a relation of information_schema is closed."""
        if self.open_information:
            return name not in self.open_information
        return name.startswith(self.closed_information) if self.closed_information else False


_POSTGRES_OPEN: Final = """
pg_aggregate pg_am pg_attrdef pg_attribute pg_cast pg_class pg_collation pg_constraint pg_database pg_depend
pg_description pg_enum pg_extension pg_foreign_table pg_index pg_indexes pg_inherits pg_language pg_matviews
pg_namespace pg_opclass pg_operator pg_partitioned_table pg_policies pg_policy pg_range pg_rewrite pg_roles
pg_rules pg_sequence pg_sequences pg_shdescription pg_stat_all_indexes pg_stat_all_tables pg_stat_user_indexes
pg_stat_user_tables pg_statio_all_tables pg_statio_user_tables pg_stats pg_tables pg_tablespace pg_timezone_names
pg_trigger pg_ts_config pg_type pg_views
"""
_REDSHIFT_OPEN: Final = """
pg_table_def pg_external_schema svv_all_columns svv_all_schemas svv_all_tables svv_columns svv_external_columns
svv_external_schemas svv_external_tables svv_redshift_columns svv_redshift_schemas svv_redshift_tables svv_table_info
svv_tables
"""
_MYSQL_INFORMATION: Final = """
applicable_roles character_sets check_constraints collation_character_set_applicability collations column_statistics
columns columns_extensions enabled_roles engines events geometry_columns index_statistics key_column_usage keywords
parameters partitions referential_constraints routines schemata schemata_extensions sequences spatial_ref_sys
sql_functions st_geometry_columns st_spatial_reference_systems st_units_of_measure statistics table_constraints
table_constraints_extensions table_statistics tables tables_extensions triggers view_routine_usage view_table_usage
views
"""
_SQLITE_OPEN: Final = """
pragma_foreign_key_list pragma_index_info pragma_index_list pragma_index_xinfo pragma_table_info pragma_table_list
pragma_table_xinfo
"""
_TSQL_OPEN: Final = """
all_columns all_objects all_views check_constraints columns computed_columns default_constraints extended_properties
foreign_key_columns foreign_keys identity_columns index_columns indexes key_constraints objects partitions schemas
sequences stats stats_columns synonyms tables types views
"""
_CLICKHOUSE_OPEN: Final = """
columns contributors data_skipping_indices databases formats functions one parts parts_columns tables
time_zones
"""

SYSTEM: Final[Mapping[str, SystemCatalog]] = {
    "postgres": SystemCatalog(
        schemas=frozenset({"pg_catalog", "pg_toast"}),
        open=frozenset(_POSTGRES_OPEN.split()),
        prefix="pg_",
        closed_information=("user_mapping", "_pg_", "foreign_server", "foreign_data_wrapper"),
    ),
    "redshift": SystemCatalog(
        schemas=frozenset({"pg_catalog", "pg_toast", "pg_internal", "sys"}),
        open=frozenset((_POSTGRES_OPEN + _REDSHIFT_OPEN).split()),
        prefix=("pg_", "stl_", "stv_", "svl_", "svv_", "svcs_", "sys_"),
    ),
    "mysql": SystemCatalog(
        schemas=frozenset({"mysql", "performance_schema", "sys"}),
        open_information=frozenset(_MYSQL_INFORMATION.split()),
    ),
    "tsql": SystemCatalog(
        schemas=frozenset({"sys"}),
        open=frozenset(_TSQL_OPEN.split()),
        names=frozenset(
            {"syslogins", "sysxlogins", "sysprocesses", "sysusers", "sysservers", "sysremotelogins", "sql_logins"}
        ),
    ),
    "snowflake": SystemCatalog(
        schemas=frozenset({"snowflake", "account_usage", "organization_usage", "reader_account_usage"})
    ),
    "bigquery": SystemCatalog(
        schemas=frozenset(),
        closed_information=("jobs", "sessions", "streaming", "object_privileges", "effective_", "write_api"),
    ),
    "clickhouse": SystemCatalog(schemas=frozenset({"system"}), open=frozenset(_CLICKHOUSE_OPEN.split())),
    "databricks": SystemCatalog(schemas=frozenset({"system"})),
    "trino": SystemCatalog(schemas=frozenset({"system"})),
    "duckdb": SystemCatalog(schemas=frozenset(), names=frozenset({"duckdb_secrets", "duckdb_logs"})),
    "sqlite": SystemCatalog(
        schemas=frozenset(),
        open=frozenset(_SQLITE_OPEN.split()),
        prefix="pragma_",
        names=frozenset({"dbstat", "sqlite_dbpage", "sqlite_memstat", "sqlite_stmt", "sqlite_stmts", "fsdir"}),
    ),
}
"""The catalogs by dialect."""


def qualify(tree: exp.Expr, schema_of: Callable[[str], str | None]) -> None:
    """Give every table without a schema the one that `schema_of` names; names of WITH stay as they are.

    `schema_of` gets the name as the server keeps it: in lower case unless it is quoted.
    """
    from sqlglot import exp

    for table in list(tree.find_all(exp.Table)):
        if table.args.get("db") or not isinstance(table.this, exp.Identifier):
            continue
        name = table.name if table.this.args.get("quoted") else table.name.lower()
        if any(name == part for part, _ in visible_parts(table)):
            continue
        schema = schema_of(name)
        if schema is not None:
            table.set("db", exp.to_identifier(schema, quoted=True))


def visible_parts(table: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the names of WITH that a table's name may mean, each with its part, the nearest first.

    A part sees the parts before it and, where the WITH is recursive, itself and all others; the query sees all.
    """
    from sqlglot import exp

    inside: exp.Expr = table
    above = table.parent
    while above is not None:
        if isinstance(above, exp.With):
            parts = above.expressions
            known = parts if above.args.get("recursive") else parts[: _position(parts, inside)]
            yield from ((_name(part), part) for part in known)
        clause = above.args.get("with_")
        if clause is not None and inside is not clause:
            yield from ((_name(part), part) for part in clause.expressions)
        inside, above = above, above.parent


def _position(parts: list[exp.Expr], part: exp.Expr) -> int:
    return next(place for place, each in enumerate(parts) if each is part)


def _name(part: exp.Expr) -> str:
    identifier = part.args["alias"].this
    return str(identifier.name if identifier.args.get("quoted") else identifier.name.lower())
