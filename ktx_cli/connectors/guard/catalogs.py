"""Which relations of each system's own catalog are open: structure and sizes, never passwords or others' statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


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
