"""The SQL of Postgres."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog, lower_words_in, words_in
from ktx_cli.warehouses.port import SemanticType, StoredAs
from ktx_cli.warehouses.time_arithmetic import DateOrTimestamp
from ktx_cli.warehouses.trees import number_of, plus, text, times

OPEN_CATALOG: Final = """
pg_aggregate pg_am pg_attrdef pg_attribute pg_cast pg_class pg_collation pg_constraint pg_database pg_depend
pg_description pg_enum pg_extension pg_foreign_table pg_index pg_indexes pg_inherits pg_language pg_matviews
pg_namespace pg_opclass pg_operator pg_partitioned_table pg_policies pg_policy pg_range pg_rewrite pg_roles
pg_rules pg_sequence pg_sequences pg_shdescription pg_stat_all_indexes pg_stat_all_tables pg_stat_user_indexes
pg_stat_user_tables pg_statio_all_tables pg_statio_user_tables pg_stats pg_tables pg_tablespace pg_timezone_names
pg_trigger pg_ts_config pg_type pg_views
"""
_DENIED: Final = "42501"
_SWITCHES: Final = r"(?:analyze|verbose|costs|buffers|timing|summary|settings)(?:\s+(?:on|off|true|false))?"
_OPTION: Final = rf"(?:{_SWITCHES}|format\s+(?:text|json|xml|yaml))"


class PostgresDialect(Dialect):
    """The SQL of Postgres."""

    name = "postgres"
    title = "Postgres"
    not_summed = frozenset({SemanticType.BOOLEAN})
    sample = "TABLESAMPLE SYSTEM ({percent}) REPEATABLE ({seed})"
    text_cast = "{}::text"
    text_hash = "((hashtextextended({}, 0) >> 4) & 1152921504606846975)"  # Partitions depend on it in all versions.
    numeric_hashes = True
    requires_typed_nulls = True
    filters_aggregates = True
    has_percentiles = True
    decimal_type = "NUMERIC"
    explain_options = rf"(?:\(\s*{_OPTION}(?:\s*,\s*{_OPTION})*\s*\)|analyze(?:\s+verbose)?|verbose|)"
    has_settings = True
    headers_from: Literal["text", "call", ""] = "call"
    default_schema = "public"
    free_places = frozenset({"pg_catalog"})
    folds_function_names = False
    attributes_call = True
    padded_types = frozenset({"CHAR", "NCHAR", "BPCHAR", "BIT"})
    type_schema = "pg_catalog."
    history: Literal["pg_stat_statements", "account_usage", "jobs", ""] = "pg_stat_statements"
    has_grants = True
    system = SystemCatalog(
        schemas=frozenset({"pg_catalog", "pg_toast"}),
        open=frozenset(OPEN_CATALOG.split()),
        prefix="pg_",
        closed_information=("user_mapping", "_pg_", "foreign_server", "foreign_data_wrapper"),
    )

    def built_in_types(self) -> frozenset[str]:
        """Return the built-in types that the parser does not know."""
        return lower_words_in(__package__, "types.txt")

    def function_columns(self) -> Mapping[str, tuple[str, ...]]:
        """Return function -> the names of the columns in its result."""
        return _function_columns()

    def fenced(self, query: exp.Select) -> exp.Select:
        """Return a query that is not merged into the outer one."""
        return query.offset(0, copy=False)

    def extract(self, part: str, value: exp.Expr) -> exp.Expr:
        """Return part of a time as a whole number."""
        return self.cast(super().extract(part, value), "INT")

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by an INTERVAL, times the count if the count is an expression."""
        written = number_of(count)
        span = exp.Interval(this=text(f"{1 if written is None else written} {unit.upper()}"))
        later = plus(value, times(span, count) if written is None else span)
        return self.as_date(later) if kind == "date" else later

    def _of_epoch(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        unit = "1 SECOND" if stored_as is StoredAs.EPOCH_SECONDS else "1 MILLISECOND"
        start = self.literal(datetime(1970, 1, 1), "timestamp")
        return plus(start, times(exp.Interval(this=text(unit)), value))

    def readable(self, value: str, native_type: str) -> str:
        """Return a value, with NULL for an infinite date, a date before the year 1, and 24:00."""
        if native_type == "money":
            return f"{value}::numeric"
        if re.match(r"date|timestamp", native_type):
            return f"CASE WHEN {value} >= '0001-01-01' AND {value} < '10000-01-01' THEN {value} END"
        if re.match(r"time\b", native_type):
            return f"CASE WHEN date_part('hour', {value}) < 24 THEN {value} END"
        return value

    def is_padded(self, native_type: str) -> bool:
        """Return whether a type is `character(n)`, for which comparisons ignore trailing blanks."""
        return re.match(r"character\s*\(", native_type) is not None

    def is_statement_error(self, error: BaseException, sql: str) -> bool:
        """Return whether an error has a position in the statement. A bare "syntax error" may be about a jsonpath in a
        row.
        """
        state = str(getattr(error, "sqlstate", None) or "")
        place = getattr(getattr(error, "diag", None), "statement_position", None)
        return state == _DENIED or (state.startswith("42") and place is not None)

    def reader_role(self, name: str, database: str | None, schemas: Sequence[str]) -> str | None:
        """Return the statements that create a SELECT-only role."""
        created = f"CREATE ROLE {name} LOGIN PASSWORD '...'"
        if not schemas:
            return f"{created}; GRANT pg_read_all_data TO {name}"
        within = ", ".join(map(self.quote, schemas))
        usage, select = f"GRANT USAGE ON SCHEMA {within}", f"GRANT SELECT ON ALL TABLES IN SCHEMA {within}"
        return f"{created}; {usage} TO {name}; {select} TO {name}"


@functools.cache
def _function_columns() -> Mapping[str, tuple[str, ...]]:
    pairs = (word.partition(":") for word in words_in(__package__, "columns.txt"))
    return {name: tuple(columns.split(",")) for name, _, columns in pairs}


DIALECT = PostgresDialect()
