"""T-SQL, the SQL of SQL Server."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog
from ktx_cli.warehouses.port import SemanticType, StoredAs
from ktx_cli.warehouses.time_arithmetic import SECOND, DateOrTimestamp, Stretch, YearlyChange
from ktx_cli.warehouses.trees import call, enclosed, negative, number, text, word

_OPEN_CATALOG: Final = """
all_columns all_objects all_views check_constraints columns computed_columns default_constraints extended_properties
foreign_key_columns foreign_keys identity_columns index_columns indexes key_constraints objects partitions schemas
sequences stats stats_columns synonyms tables types views
"""


class SqlServerDialect(Dialect):
    """T-SQL, the SQL of SQL Server."""

    name = "tsql"
    title = "SQL Server"
    not_summed = frozenset({SemanticType.BOOLEAN, SemanticType.TIME})
    text_cast = "CAST({} AS nvarchar(max))"
    text_hash = "lower(CONVERT(varchar(32), HASHBYTES('MD5', {}), 2))"
    distinct_estimate = "approx_count_distinct({})"
    compares_missing_values = False
    name_quotes = ("[", "]")
    requires_typed_nulls = True
    conditions_are_values = False
    nests_with = False
    rounds_averages = True
    timestamp_type = "DATETIME2"
    has_zones = False  # They differ from those of the IANA list.
    counted_from = 1  # DATETRUNC requires SQL Server 2022.
    casts_cost_indexes = True
    has_try_cast = True
    folds_texts = True
    exact_texts = "(COLLATION_NAME LIKE '%[_]CS[_]%' OR COLLATION_NAME LIKE '%[_]BIN%')"
    recurses_without_word = True
    type_schema = "sys."
    has_grants = True
    all_tables_form = "SCHEMA::{}"
    grants_usage = False
    system = SystemCatalog(
        schemas=frozenset({"sys"}),
        open=frozenset(_OPEN_CATALOG.split()),
        names=frozenset(
            {"syslogins", "sysxlogins", "sysprocesses", "sysusers", "sysservers", "sysremotelogins", "sql_logins"}
        ),
    )

    def built_in_types(self) -> frozenset[str]:
        """Return the built-in types that the parser does not know."""
        return frozenset({"sysname", "hierarchyid", "sql_variant", "geometry", "geography", "timestamp", "rowversion"})

    def value(self, value: Any) -> str:
        """Return the SQL for a literal; strings have the prefix N, without which other characters become `?`."""
        return exp.National(this=value).sql(dialect=self.name) if isinstance(value, str) else super().value(value)

    def limited(self, select: str, rows: int) -> str:
        """Return a SELECT that returns at most the given number of rows."""
        return select.replace("SELECT ", f"SELECT TOP ({rows}) ", 1)

    def extract(self, part: str, value: exp.Expr) -> exp.Expr:
        """Return part of a time as a whole number."""
        return call("DATEPART", word(part), value)

    def _has_shape(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return whether a text has the shape, as far as LIKE can tell: there are no regular expressions."""
        day = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
        trimmed = call("RTRIM", value)
        if stored_as is StoredAs.NUMBER_TEXT:
            return exp.not_(exp.Like(this=trimmed, expression=text("%[^0-9.-]%")))
        form = day if stored_as is StoredAs.ISO_DATE else f"{day}[ T][0-9][0-9]:%"
        return exp.Like(this=trimmed, expression=text(form))

    def _whole_quotient(self, count: exp.Expr, step: int) -> exp.Expr:
        return exp.Div(this=enclosed(count), expression=number(step), typed=True)

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units."""
        return self._dateadd(value, count, unit)

    def truncated_time(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return a timestamp truncated to the second, minute or hour; DATEADD supports these until the year 4083."""
        moment = self.as_timestamp(value)
        if unit == SECOND:
            return call("DATEADD", word("NANOSECOND"), negative(self.extract("NANOSECOND", moment)), moment)
        origin, named = self.literal(datetime(1, 1, 1), "timestamp"), word(unit.upper())
        return call("DATEADD", named, call("DATEDIFF", named, origin, moment), origin)

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at an instant."""
        return self.between_zones(self.as_timestamp(call("SWITCHOFFSET", value, text("+00:00"))), "UTC", zone)

    def _by_changes(self, value: exp.Expr, changes: tuple[Stretch, ...]) -> exp.Expr:
        return self.moved(self.as_timestamp(value), self._difference(value, changes), SECOND, "timestamp")

    def _yearly(self, value: exp.Expr, change: YearlyChange) -> exp.Expr:
        parts = self.extract("YEAR", value), number(change.month), number(change.day)
        return self._by_weeks(value, change, call("DATEFROMPARTS", *parts))

    def semantic_type(self, native_type: str) -> SemanticType:
        """Return the type of a column. `bit` is a boolean; `timestamp`, which counts row changes, is not a time."""
        special = {"bit": SemanticType.BOOLEAN, "timestamp": SemanticType.STRING}.get(native_type.strip().lower())
        return special or super().semantic_type(native_type)

    def beginning(self, value: str, length: int) -> str:
        """Return the first characters of a text."""
        return f"SUBSTRING({value}, 1, {length})"

    def sample_clause(self, count: int, percent: str, seed: int) -> str | None:
        """Return the clause that samples pages."""
        return f" TABLESAMPLE ({percent} PERCENT) REPEATABLE ({max(seed, 1)})"


DIALECT = SqlServerDialect()
