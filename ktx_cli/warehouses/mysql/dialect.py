"""MySQL's and MariaDB's SQL."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog, lower_words_in, words_in
from ktx_cli.warehouses.port import SemanticType, StoredAs, Table
from ktx_cli.warehouses.time_arithmetic import DAY, DateOrTimestamp, YearlyChange
from ktx_cli.warehouses.trees import call, enclosed, minus, number, text, times, word

_OPEN_INFORMATION: Final = """
applicable_roles character_sets check_constraints collation_character_set_applicability collations column_statistics
columns columns_extensions enabled_roles engines events geometry_columns index_statistics key_column_usage keywords
parameters partitions referential_constraints routines schemata schemata_extensions sequences spatial_ref_sys
sql_functions st_geometry_columns st_spatial_reference_systems st_units_of_measure statistics table_constraints
table_constraints_extensions table_statistics tables tables_extensions triggers view_routine_usage view_table_usage
views
"""
_TIME_FORMATS: Final = {"second": "%Y-%m-%d %H:%i:%s", "minute": "%Y-%m-%d %H:%i:00", "hour": "%Y-%m-%d %H:00:00"}


_STATEMENT_ERRORS: Final = frozenset(
    {1046, 1052, 1054, 1055, 1064, 1066, 1096, 1109, 1111, 1140, 1142, 1143, 1146, 1222, 1241, 1248, 1305, 1370}
)


class MySqlDialect(Dialect):
    """The SQL of MySQL and MariaDB."""

    name = "mysql"
    title = "MySQL"
    name_quotes = ("`", "`")
    escapes_in_texts = True
    texts_in_double_quotes = True
    has_grouping_sets = False
    rounds_averages = True
    time_difference = "datediff({0}, {1})"
    timestamp_type = "DATETIME(6)"  # Without digits, casting a fraction rounds up.
    has_zones = False  # Only if somebody loaded them.
    counted_from = 1  # no DATE_TRUNC
    casts_cost_indexes = True
    casts_strictly = False
    folds_texts = True
    text_hash = "md5(convert({} USING utf8mb4))"  # A hash of the same text in two character sets would differ.
    exact_texts = "COLLATION_NAME REGEXP '_(bin|cs)(_|$)'"
    dates_as_texts = True
    explain_options = r"(?:extended|partitions|format\s*=\s*(?:json|traditional|tree))?"
    explain_describes = True
    headers_from = "text"
    has_several_servers = True
    has_sequence_tables = True
    padded_types = frozenset({"CHAR", "NCHAR", "BINARY"})
    has_grants = True
    all_tables_form = "{}.*"
    grants_usage = False
    hides_closed_tables = True
    system = SystemCatalog(
        schemas=frozenset({"mysql", "performance_schema", "sys"}), open_information=frozenset(_OPEN_INFORMATION.split())
    )

    def server_functions(self, server: str) -> Sequence[str]:
        """Return the additional functions in `mysql` or `mariadb`."""
        return words_in(__package__, f"functions_{server}.txt")

    def grammar_words(self) -> frozenset[str]:
        """Return the words that may precede a parenthesis without a call."""
        return lower_words_in(__package__, "grammar.txt")

    def fenced(self, query: exp.Select) -> exp.Select:
        """Return a query that is not merged into the outer one, because of a limit that does not drop any rows."""
        return query.limit(2**64 - 1, copy=False)

    def rendered(self, tree: exp.Expr, *, copy: bool = True) -> str:
        """Return the SQL of a statement, with REGEXP as an operator."""
        return str(_generator()(dialect="mysql", comments=False, normalize_functions=False).generate(tree, copy=copy))

    def _timestamp_literal(self, moment: str) -> exp.Expr:
        return self.cast(text(moment), "DATETIME")

    def _whole_quotient(self, count: exp.Expr, step: int) -> exp.Expr:
        return exp.IntDiv(this=enclosed(count), expression=number(step))

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units."""
        return call("DATE_ADD", value, self._interval(count, unit))

    def units_between(self, unit: str, start: exp.Expr, end: exp.Expr) -> exp.Expr:
        """Return the days or months between two dates."""
        return call("DATEDIFF", end, start) if unit == DAY else call("TIMESTAMPDIFF", word(unit.upper()), start, end)

    def truncated_time(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return a timestamp truncated to the second, minute or hour."""
        return self.as_timestamp(call("DATE_FORMAT", value, text(_TIME_FORMATS[unit])))

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at an instant, in whole seconds.

        UNIX_TIMESTAMP of a TIMESTAMP column is the stored value, whatever the zone of the session.
        """
        return self._since_epoch(call("UNIX_TIMESTAMP", value), zone)

    def _matches(self, value: exp.Expr, pattern: str) -> exp.Expr:
        """Return whether a text matches a pattern, by a function that MySQL and MariaDB have."""
        return exp.GT(this=call("REGEXP_INSTR", value, text(pattern)), expression=number(0))

    def _differs(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr | None:
        if stored_as is StoredAs.JSON_TEXT:
            return exp.EQ(this=call("JSON_VALID", value), expression=number(0))
        return super()._differs(value, stored_as)

    def typed_value(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return a stored value as a value of its type; a cast would ignore an offset."""
        if stored_as is not StoredAs.ISO_TIMESTAMP_TZ:
            return super().typed_value(value, stored_as)
        length = call("CHAR_LENGTH", value)
        utc = self.as_timestamp(call("LEFT", value, minus(length, number(1))))
        local = self.as_timestamp(call("LEFT", value, minus(length, number(6))))
        moved = call("CONVERT_TZ", local, call("RIGHT", value, number(6)), text("+00:00"))
        is_utc = exp.Like(this=value.copy(), expression=text("%Z"))
        instant = exp.Case(ifs=[exp.If(this=is_utc, true=utc)], default=moved)
        return exp.Case(ifs=[exp.If(this=self._has_shape(value, stored_as), true=instant)])

    def _of_epoch(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        if stored_as is StoredAs.EPOCH_SECONDS:
            return super()._of_epoch(value, stored_as)
        start = self.literal(datetime(1970, 1, 1), "timestamp")
        return call("DATE_ADD", start, self._interval(times(value, number(1000)), "microsecond"))

    def _yearly(self, value: exp.Expr, change: YearlyChange) -> exp.Expr:
        month_and_day = text(f"-{change.month:02}-{change.day:02}")
        return self._by_weeks(value, change, self.as_date(call("CONCAT", self.extract("YEAR", value), month_and_day)))

    def semantic_type(self, native_type: str) -> SemanticType:
        """Return the type of a column; `tinyint(1)` and `bit(1)` are booleans."""
        is_boolean = re.match(r"(tinyint|bit)\(1\)", native_type.strip().lower()) is not None
        return SemanticType.BOOLEAN if is_boolean else super().semantic_type(native_type)

    def readable(self, value: str, native_type: str) -> str:
        """Return a value, converted to a number for bits."""
        return f"{value} + 0" if native_type.startswith("bit") else value

    def row_number(self, table: Table) -> str | None:
        """Return the primary key if it is a single whole number."""
        if len(table.primary_key) != 1:
            return None
        (key,) = table.primary_key
        native = next(column.native_type.lower() for column in table.columns if column.name == key)
        return self.quote(key) if re.match(r"(tiny|small|medium|big)?int", native) else None

    def reader_role(self, name: str, database: str | None, schemas: Sequence[str]) -> str | None:
        """Return the statements that create a SELECT-only role for a database."""
        if not database:
            return None
        place = f"{self.quote(database)}.*"
        return f"CREATE USER {name}@'%' IDENTIFIED BY '...'; GRANT SELECT, SHOW VIEW ON {place} TO {name}@'%'"

    def is_statement_error(self, error: BaseException, sql: str) -> bool:
        """Return whether the error's number indicates a mistake in the statement."""
        return error.args[:1] != () and error.args[0] in _STATEMENT_ERRORS

    def role(self, user: str) -> str:
        """Return the SQL for `user@host` in a GRANT."""
        name, _, host = user.rpartition("@")
        return "@".join("'" + part.replace("\\", "\\\\").replace("'", "''") + "'" for part in (name, host))


@functools.cache
def _generator() -> Any:
    """Return the generator that writes REGEXP as an operator: MariaDB has no such function, but a user could define
    one.
    """
    from sqlglot.dialects.mysql import MySQL

    def regexp(self: Any, node: exp.RegexpLike) -> str:
        return str(self.function_fallback_sql(node) if node.args.get("flag") else self.binary(node, "REGEXP"))

    transforms = {**MySQL.Generator.TRANSFORMS, exp.RegexpLike: regexp}
    return type("MySqlGenerator", (MySQL.Generator,), {"TRANSFORMS": transforms})


DIALECT = MySqlDialect()
