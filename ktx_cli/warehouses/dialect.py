"""A SQL dialect as an object: everything that the rest of ktx needs to know about it.

Each built-in warehouse has a subclass in its folder (`warehouses/<name>/dialect.py`, whose `DIALECT` is the object);
`dialect_named` returns it by sqlglot's name. The values here are the defaults. `StoredValues` is the part that converts
times, numbers and booleans stored as another type. At the end are the missing privileges of a role, with the GRANT of
its dialect, for doctor and ingest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Literal, cast

from ktx_cli.core import Hint, SettingPath, listing
from ktx_cli.faces import exp
from ktx_cli.project import WAREHOUSES, Database
from ktx_cli.warehouses.port import ConnectionTest, SemanticType, StoredAs, Table, TableRef, semantic_type
from ktx_cli.warehouses.registry import dialect_of
from ktx_cli.warehouses.time_arithmetic import UTC, TimeArithmetic
from ktx_cli.warehouses.trees import data_type, number, text


@dataclass(frozen=True, slots=True)
class SystemCatalog:
    """A system's schemas: all relations in them are closed, except those in `open`.

    `prefix` marks names that are looked up in them without a schema, or all names if there are no such schemas. `names`
    are closed everywhere. `closed_information` are prefixes of closed names in information_schema; if
    `open_information` has names, all others are closed.
    """

    schemas: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()
    prefix: str | tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    closed_information: tuple[str, ...] = ()
    open_information: frozenset[str] = frozenset()

    def is_closed_information(self, name: str) -> bool:
        """Return whether a relation in information_schema is closed."""
        if self.open_information:
            return name not in self.open_information
        return name.startswith(self.closed_information) if self.closed_information else False


EPOCHS: Final[Mapping[StoredAs, tuple[int, int]]] = {
    StoredAs.EPOCH_SECONDS: (631_152_000, 2_524_608_000),
    StoredAs.EPOCH_MILLISECONDS: (631_152_000_000, 2_524_608_000_000),
}
"""The numbers that count as epoch times: those of the years 1990 to 2049."""

TRUE_WORDS: Final = ("y", "yes", "t", "true")
FALSE_WORDS: Final = ("n", "no", "f", "false")

_DAY: Final = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME: Final = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
_OFFSET: Final = "(Z|[+-][0-9]{2}:[0-9]{2})"
PATTERNS: Final[Mapping[StoredAs, str]] = {
    StoredAs.ISO_DATE: f"^{_DAY} *$",
    StoredAs.ISO_TIMESTAMP: f"^{_DAY}[ T]{_TIME} *$",
    StoredAs.ISO_TIMESTAMP_TZ: f"^{_DAY}[ T]{_TIME}{_OFFSET} *$",
    StoredAs.NUMBER_TEXT: "^-?(0|[1-9][0-9]*)([.][0-9]+)? *$",
}
"""The form of the texts, without backslashes, which dialects write in different ways."""

SHAPES: Final[Mapping[StoredAs, str]] = {
    StoredAs.ISO_DATE: "^[0-9]{4}-[0-9]{2}-[0-9]{2} *$",
    StoredAs.ISO_TIMESTAMP: "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]+ *$",
    StoredAs.ISO_TIMESTAMP_TZ: f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T][0-9:.]+{_OFFSET} *$",
    StoredAs.NUMBER_TEXT: "^-?[0-9]+([.][0-9]+)? *$",
}
"""What a text must look like before it is cast: the cast checks the digits, but might ignore what follows them."""

_FAILURES: Final[Mapping[StoredAs, str]] = {
    StoredAs.ISO_DATE: "not an ISO date",
    StoredAs.ISO_TIMESTAMP: "not an ISO timestamp",
    StoredAs.ISO_TIMESTAMP_TZ: "not an ISO timestamp with an offset",
    StoredAs.NUMBER_TEXT: "not a number",
    StoredAs.BOOLEAN_TEXT: "not a boolean",
}
"""The text that a strict dialect fails to cast in place of a value, which may be personal data."""


class StoredValues(TimeArithmetic):
    """Conversions of stored values in one dialect. Methods return sqlglot trees and copy their arguments."""

    casts_strictly: bool = True
    """Whether a text in another form fails in a cast. If not, it becomes NULL or a wrong value without an error."""

    has_try_cast: bool = False
    """Whether TRY_CAST, or another word for it, returns NULL for a text that a cast refuses."""

    decimal_type: str = "DECIMAL(38, 9)"
    """The type of numbers stored as text."""

    def typed_value(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return a stored value as a value of the type `stored_as.type`; a time is a date or a timestamp in UTC."""
        if stored_as is StoredAs.JSON_TEXT:
            return value.copy()
        if stored_as is StoredAs.BOOLEAN_TEXT:
            return self._boolean(value)
        if stored_as in EPOCHS:
            return self._of_epoch(value, stored_as)
        return self._cast_text(self._checked(value, stored_as), stored_as)

    def present_text(self, value: exp.Expr) -> exp.Expr:
        """Return a text, with NULL for a blank one."""
        return exp.Nullif(this=exp.Trim(this=value.copy()), expression=text(""))

    def misfit(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr | None:
        """Return the condition that a value is present but in another form, or None if the dialect cannot tell.

        Strict dialects without TRY_CAST do not find days beyond the end of their month.
        """
        if stored_as in EPOCHS:
            low, high = EPOCHS[stored_as]
            return exp.Not(this=exp.Between(this=value.copy(), low=number(low), high=number(high - 1)))
        differs = self._differs(value, stored_as)
        return None if differs is None else exp.and_(self._is_filled(value), differs, copy=False)

    def _differs(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr | None:
        """Return the condition that a text, which is not blank, is in another form; None if the dialect cannot tell."""
        if stored_as is StoredAs.JSON_TEXT:
            return None
        if stored_as is StoredAs.BOOLEAN_TEXT:
            return exp.not_(self._is_word(value, (*TRUE_WORDS, *FALSE_WORDS)))
        if not self.casts_strictly:
            return exp.Is(this=self.typed_value(value, stored_as), expression=exp.null())
        if not self.has_try_cast:
            return exp.not_(self._matches(value, PATTERNS[stored_as]))
        shaped = exp.Case(ifs=[exp.If(this=self._has_shape(value, stored_as), true=value.copy())])
        tried = exp.TryCast(this=shaped, to=self._text_type(stored_as))
        return exp.Is(this=tried, expression=exp.null())

    def _matches(self, value: exp.Expr, pattern: str) -> exp.Expr:
        """Return the condition that a text matches a regular expression."""
        return exp.RegexpLike(this=value.copy(), expression=text(pattern))

    def _has_shape(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return the condition that a text may be cast."""
        return self._matches(value, SHAPES[stored_as])

    def _checked(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return a text if it has the shape, and otherwise a text that cannot be cast, or NULL in a dialect that casts
        any text.

        A cast alone would also accept `03/04/2024`, `now` or a zone that it ignores.
        """
        ifs = [exp.If(this=self._has_shape(value, stored_as), true=value.copy())]
        if self.casts_strictly:
            ifs.append(exp.If(this=self._is_filled(value), true=text(_FAILURES[stored_as])))
        return exp.Case(ifs=ifs)

    def _cast_text(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return a text of the shape as a value of the type."""
        cast = exp.Cast(this=value.copy(), to=self._text_type(stored_as))
        return self.of_instant(cast, UTC) if stored_as is StoredAs.ISO_TIMESTAMP_TZ else cast

    def _text_type(self, stored_as: StoredAs) -> exp.DataType:
        """Return the type of the dialect that a text is cast to."""
        if stored_as is StoredAs.ISO_TIMESTAMP_TZ:
            return exp.DataType.build("timestamptz")
        names = {StoredAs.ISO_DATE: "DATE", StoredAs.ISO_TIMESTAMP: self.timestamp_type}
        return data_type(names.get(stored_as, self.decimal_type), self.name).copy()

    def _boolean(self, value: exp.Expr) -> exp.Expr:
        """Return a word as a boolean; the cast around all words fails for any other one, where casts are strict."""
        pairs = ((TRUE_WORDS, True), (FALSE_WORDS, False))
        if not self.casts_strictly:
            ifs = [exp.If(this=self._is_word(value, words), true=exp.Boolean(this=truth)) for words, truth in pairs]
            return exp.Case(ifs=ifs)
        ifs = [exp.If(this=self._is_word(value, words), true=text(str(truth).lower())) for words, truth in pairs]
        ifs.append(exp.If(this=self._is_filled(value), true=text(_FAILURES[StoredAs.BOOLEAN_TEXT])))
        return self.cast(exp.Case(ifs=ifs), "BOOLEAN")

    def _of_epoch(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return the timestamp in UTC of a number of seconds or milliseconds since 1970, in whole seconds."""
        seconds = value if stored_as is StoredAs.EPOCH_SECONDS else self._whole_quotient(value, 1000)
        return self._since_epoch(seconds, UTC)

    def _is_word(self, value: exp.Expr, words: tuple[str, ...]) -> exp.Expr:
        lower = exp.Lower(this=exp.Trim(this=value.copy()))
        return exp.In(this=lower, expressions=[text(word) for word in words])

    def _is_filled(self, value: exp.Expr) -> exp.Expr:
        return exp.NEQ(this=exp.Trim(this=value.copy()), expression=text(""))


class Dialect(StoredValues):
    """A SQL dialect. Attributes describe it; methods return sqlglot trees, or text where stated.

    A subclass overrides what differs. Objects are immutable.
    """

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            object.__setattr__(self, "name", name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a dialect cannot be changed: {name}")

    title: str = ""
    """The dialect's usual name."""

    # Names and literals

    name_quotes: tuple[str, str] = ('"', '"')
    """The quotes around a name; the closing quote is doubled inside the name."""

    escapes_in_names: bool = False
    """Whether a backslash escapes inside a quoted name."""

    escapes_in_texts: bool = False
    """Whether a backslash escapes inside a string."""

    quote_in_texts: str = "''"
    """How to write a quote inside a string."""

    doubled_quotes_vary: bool = False
    """Whether a doubled quote inside a string is a quote in some versions, and ends and begins a string in others."""

    texts_in_double_quotes: bool = False
    """Whether double quotes delimit a string rather than a name."""

    dotted_names: bool = False
    """Whether one quoted name may contain several parts separated by dots."""

    def quote(self, name: str) -> str:
        """Return a quoted name, whatever characters the name has."""
        opening, closing = self.name_quotes
        if self.escapes_in_names:
            return opening + name.replace("\\", "\\\\").replace(closing, f"\\{closing}") + closing
        return opening + name.replace(closing, closing * 2) + closing

    def path(self, ref: TableRef) -> str:
        """Return a table's name with its schema, each part quoted."""
        return ".".join(map(self.quote, self.parts((ref.name,) if ref.schema is None else (ref.schema, ref.name))))

    def parts(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the parts of a table's name as statements contain them, outermost first.

        With `dotted_names`, a schema such as `project.dataset` becomes two of them.
        """
        *outer, name = names
        if self.dotted_names and outer:
            outer[:1] = filter(None, outer[0].rpartition(".")[::2])
        return (*outer, name)

    def value(self, value: Any) -> str:
        """Return the SQL text of a literal. Raises `ValueError` for a value of a type without literals."""
        return exp.convert(value).sql(dialect=self.name)

    # Queries

    requires_typed_nulls: bool = False
    """Whether a column with only NULLs has its own type, which is incompatible with others."""

    conditions_are_values: bool = True
    """Whether a condition may be used as a value."""

    nests_with: bool = True
    """Whether a subquery may have its own WITH clause."""

    joins_by_any_condition: bool = True
    """Whether a join is possible without an equality."""

    correlates_queries: bool = True
    """Whether a subquery in a condition may refer to columns of the outer query."""

    has_grouping_sets: bool = True
    """Whether GROUP BY GROUPING SETS is supported."""

    def limited(self, select: str, rows: int) -> str:
        """Return a SELECT that returns at most the given number of rows."""
        return f"{select} LIMIT {rows}"

    def fenced(self, query: exp.Select) -> exp.Select:
        """Return a query with conditions that the database evaluates before those of an outer query.

        Without it, the database may first evaluate what looks cheapest, and `CAST(note AS INT) = 1` fails on a filtered
        row.
        """
        return query

    compares_missing_values: bool = True
    """Whether IS NOT DISTINCT FROM, or an equivalent operator, is supported."""

    def null_safe(self, one: exp.Expr, two: exp.Expr) -> exp.Expr:
        """Return the condition that two values are equal or both NULL."""
        if not self.compares_missing_values:
            return self._equal_or_both_missing(one, two)
        return exp.NullSafeEQ(this=one, expression=two)

    def null_safe_join(self, one: exp.Expr, two: exp.Expr) -> exp.Expr:
        """Return the condition of a join that two values are equal or both NULL."""
        return self.null_safe(one, two)

    def _equal_or_both_missing(self, one: exp.Expr, two: exp.Expr) -> exp.Expr:
        both = exp.and_(exp.Is(this=one.copy(), expression=exp.null()), exp.Is(this=two.copy(), expression=exp.null()))
        return exp.paren(exp.or_(exp.EQ(this=one, expression=two), both, copy=False), copy=False)

    def floor(self, value: exp.Expr) -> exp.Expr:
        """Return a non-negative number rounded down to a whole number."""
        return exp.Floor(this=value.copy())

    # Aggregates

    filters_aggregates: bool = False
    """Whether every aggregate supports FILTER (WHERE ...)."""

    has_percentiles: bool = False
    """Whether PERCENTILE_CONT ... WITHIN GROUP is an aggregate."""

    rounds_percentiles: bool = False
    """Whether the percentile of a decimal has as many digits as the decimal."""

    rounds_averages: bool = False
    """Whether the average of whole numbers or decimals has few digits."""

    series_in_one_value: bool = False
    """Whether `generate_series` returns one list, which another function converts to rows."""

    reads_lists_by_path: bool = False
    """Whether FROM may name a list in a table's row by its path."""

    # Times

    time_difference: str = ""
    """The form for subtracting times, with places {0} and {1}, if `-` converts times to numbers; else empty."""

    # Values and samples

    folds_texts: bool = False
    """Whether `a`, `A` and `a ` are equal by default, unless a column overrides it."""

    exact_texts: str = ""
    """The condition on information_schema.columns for columns that distinguish such values; empty if there is none."""

    untyped_columns: bool = False
    """Whether a column may contain values of any type."""

    dates_as_texts: bool = False
    """Whether the driver returns a date that Python cannot represent (`0000-00-00`, `44-03-15 (BC)`) as text."""

    exact_row_counts: bool = False
    """Whether the catalog has exact row counts rather than estimates."""

    counts_without_reading: bool = False
    """Whether rows are counted without reading them, so that the catalog's estimate is not needed."""

    samples_single_rows: bool = False
    """Whether `sample_clause` selects single rows rather than blocks."""

    generated_columns_vary: bool = False
    """Whether a generated column may change over time."""

    is_local: bool = False
    """Whether the database is a local file, so that no functions run with another user's rights."""

    def semantic_type(self, native_type: str) -> SemanticType:
        """Return a column's type from its type in the database's spelling.

        Whatever is not a number, time or boolean (text, JSON, arrays, structs, UUIDs, bytes, intervals, geometries, no
        type) is a string; a time of day is a time.
        """
        return semantic_type(native_type)

    sample: str = ""
    """The clause for a sample of a table, with places {count} (rows), {percent} and {seed}; empty if not supported."""

    def sample_clause(self, count: int, percent: str, seed: int) -> str | None:
        """Return the clause that samples about `count` rows or a percentage of a table, or None if not supported."""
        return f" {self.sample.format(count=count, percent=percent, seed=seed)}" if self.sample else None

    def row_number(self, table: Table) -> str | None:
        """Return the SQL for the integer that numbers a table's rows in approximate storage order, if any."""
        return None

    text_cast: str = "{}"
    """The SQL that converts a value to text, with a place {}."""

    text_hash: str = ""
    """The SQL for a hash of the text {}: its MD5 as lower-case hexadecimal digits, or a number with `numeric_hashes`.

    Empty if the database cannot hash. A value must have the same hash in all tables. Hashes are stored: if they differ
    between versions of the database, the version has to be a part of the SQL.
    """

    numeric_hashes: bool = False
    """Whether a hash is a whole number from 0 to 2^60 - 1, for databases that compute one much faster than an MD5."""

    def hashed(self, value: str) -> str:
        """Return the SQL for the hash of a text."""
        return self.text_hash.format(value)

    distinct_estimate: str = ""
    """The aggregate that estimates the number of distinct values of {}, by HyperLogLog or a similar sketch; empty if
    there is none.
    """

    distinct_error: float = 0.025
    """The standard error of `distinct_estimate`, as a share of the number."""

    def as_text(self, value: str) -> str:
        """Return the SQL that converts a value that is neither text nor a number to text."""
        return self.text_cast.format(value)

    def beginning(self, value: str, length: int) -> str:
        """Return the SQL for the first characters of a text."""
        return f"substr({value}, 1, {length})"

    def readable(self, value: str, native_type: str) -> str:
        """Return the SQL for a value that is not text, with NULL for values that Python cannot represent."""
        return value

    def is_padded(self, native_type: str) -> bool:
        """Return whether values of a type have trailing blanks that comparisons ignore; `beginning` removes them."""
        return False

    not_summed: frozenset[SemanticType] = frozenset()
    """The types whose values the database never sums; it may sum other types or treat them as numbers."""

    # Statements of users

    explain_options: str | None = None
    """The EXPLAIN options that only show a plan, as a regular expression, or None without EXPLAIN."""

    explain_describes: bool = False
    """Whether EXPLAIN with a table's name describes the table."""

    tables_query: str = "SELECT table_schema, table_name FROM information_schema.tables"
    """The query that lists the tables; empty if only statements other than queries read the catalog."""

    columns_query: str = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{}'"
    """The query that lists the columns in the table {}."""

    catalog_hint: str = "read information_schema instead"
    """The relations to read instead of a closed part of the system catalog."""

    system: SystemCatalog | None = None
    """The closed part of the system catalog, or None if none is known."""

    has_settings: bool = False
    """Whether `current_setting(name)` returns a setting."""

    headers_from: Literal["text", "call", ""] = ""
    """How a column without an alias is named: by its expression's exact text, or by its function."""

    pivots_are_statements: bool = False
    """Whether PIVOT and UNPIVOT are also statements."""

    row_ids: frozenset[str] = frozenset()
    """Names for the integer that numbers a table's rows, even if it is the primary key."""

    default_schema: str = ""
    """The schema for unqualified names, if sessions look those up only in the system catalog."""

    def is_statement_error(self, error: BaseException, sql: str) -> bool:
        """Return whether a driver's error only concerns the names or the syntax of a statement.

        False if that is uncertain: for errors from rows, and for databases that do not distinguish them. An error in a
        worker is an `EngineError`.
        """
        return False

    def functions(self) -> frozenset[str]:
        """Return the lower-case names of functions that only compute values or read the catalog.

        They are in `functions.txt` next to the dialect and those it derives from. Without any, statements of users are
        not run.
        """
        packages = (kind.__module__.rpartition(".")[0] for kind in type(self).__mro__ if kind is not Dialect)
        return frozenset().union(*map(_functions_in, dict.fromkeys(filter(None, packages))))

    def server_functions(self, server: str) -> Sequence[str]:
        """Return the additional functions of one of several servers, some only from a version on (`name@8.0.4`)."""
        return ()

    has_several_servers: bool = False
    """Whether several servers use the dialect, each with its own functions.

    A database's own functions are called without a schema there, so the built-in functions of the exact server must be
    known.
    """

    def grammar_words(self) -> frozenset[str]:
        """Return lower-case words that may precede a parenthesis without a call, for dialects of several servers."""
        return frozenset()

    free_places: frozenset[str] = frozenset()
    """Schemas with only built-in objects."""

    folds_function_names: bool = True
    """Whether a quoted upper-case name refers to the lower-case function."""

    combines_aggregates: bool = False
    """Whether aggregate names take suffixes (`sumIf`), which the parser checks."""

    attributes_call: bool = False
    """Whether `x.f` and `(x).f` may call the function `f`."""

    def function_columns(self) -> Mapping[str, tuple[str, ...]]:
        """Return function -> the column names of its result, if attributes can call functions."""
        return {}

    keeps_quoted_case: bool = True
    """Whether a quoted name keeps its capitals, if attributes can call functions."""

    unnests_paths: bool = False
    """Whether the parser treats a path in FROM (`FROM orders AS o, o.lines AS l`) as an UNNEST."""

    positional_columns: bool = False
    """Whether `$1` refers to a column by position."""

    recurses_without_word: bool = False
    """Whether WITH is recursive without the keyword."""

    tables_after_in: frozenset[str] = frozenset()
    """What is a table after IN, so that `x IN t` is `x IN (SELECT * FROM t)`: `t`, `(t)`, `'t'`."""

    format_has_widths: bool = True
    """Whether templates for `format` have widths."""

    has_sequence_tables: bool = False
    """Whether `seq_1_to_9` is a table."""

    padded_types: frozenset[str] = frozenset()
    """Types that pad values to the type's length."""

    own_types_are_harmless: bool = False
    """Whether the database's types contain no code: they are affinities, enumerations or aliases of built-in types."""

    type_schema: str = ""
    """The schema of built-in types, with a trailing dot."""

    def built_in_types(self) -> frozenset[str]:
        """Return the built-in types that the parser does not know."""
        return frozenset()

    files_are_tables: bool = False
    """Whether a file name can be used as a table."""

    file_formats: frozenset[str] = frozenset()
    """Names that are interpreted as a file format or another source rather than a schema."""

    def rendered(self, tree: exp.Expr, *, copy: bool = True) -> str:
        """Return the SQL of a checked statement without comments, and with function names as originally written.

        `copy`: keep the tree unchanged; without it, the tree must not be used any more.
        """
        return tree.sql(dialect=self.name, comments=False, normalize_functions=False, copy=copy)

    # Query history

    history: Literal["pg_stat_statements", "account_usage", "jobs", ""] = ""
    """The query history that the database keeps, if ktx can read it."""

    # Rights

    has_grants: bool = False
    """Whether GRANT SELECT is enough for a role to read a table."""

    all_tables_form: str = "ALL TABLES IN SCHEMA {}"
    """All tables in the schema {} in a GRANT."""

    grants_usage: bool = True
    """Whether a role also needs USAGE on a schema."""

    hides_closed_tables: bool = False
    """Whether the catalog hides tables that a role may not read."""

    def reader_role(self, name: str, database: str | None, schemas: Sequence[str]) -> str | None:
        """Return the statements that create a SELECT-only role, or None if they are unknown.

        `schemas`: those that it may read, or all if there are none.
        """
        return None

    def role(self, user: str) -> str:
        """Return the SQL for a role's name in a GRANT."""
        return self.quote(user)

    # Other formats

    osi_name: str = ""
    """The name of the dialect in Open Semantic Interchange."""


DIALECTS: tuple[str, ...]
"""The built-in dialects, by sqlglot's names."""


def __getattr__(name: str) -> tuple[str, ...]:
    """Return `DIALECTS` on demand, because it requires importing all built-in warehouses."""
    if name != "DIALECTS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tuple(dict.fromkeys(kind.dialect for kind in _built_in()))


@functools.cache
def dialect_named(name: str) -> Dialect:
    """Return the dialect with sqlglot's name, which is built in, from a plug-in, or uses the defaults."""
    for find_kinds in (lambda: _built_in(name), WAREHOUSES.all) if name else ():
        for kind in find_kinds():
            if kind.dialect == name and kind.dialect_object:
                return cast(Dialect, WAREHOUSES.refer(kind.driver, "dialect_object"))
    return Dialect(name)


def _built_in(first: str = "") -> Iterator[Any]:
    """Return the built-in warehouses, beginning with the one named `first`: most dialects are named after drivers."""
    return map(WAREHOUSES.find, sorted(WAREHOUSES.built_in, key=lambda driver: driver != first))


def words_in(package: str, name: str) -> list[str]:
    """Return the words in a text file next to a module; lines that begin with `#` are comments."""
    lines = resources.files(package).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


@functools.cache
def lower_words_in(package: str, name: str) -> frozenset[str]:
    """Return the words in a text file next to a module, in lower case."""
    return frozenset(word.lower() for word in words_in(package, name))


def _functions_in(package: str) -> frozenset[str]:
    has_list = resources.files(package).joinpath("functions.txt").is_file()
    return lower_words_in(package, "functions.txt") if has_list else frozenset()


def quote(name: str, dialect: str) -> str:
    """Return a name in the dialect's quotes, whatever characters the name has."""
    return dialect_named(dialect).quote(name)


def table_path(ref: TableRef, dialect: str) -> str:
    """Return the table's name with its schema, each part quoted."""
    return dialect_named(dialect).path(ref)


def column_list(names: Iterable[str], dialect: str, *, of: str | None = None) -> str:
    """Return the names joined by commas. `of`: their relation's alias."""
    prefix = "" if of is None else f"{of}."
    return ", ".join(prefix + quote(name, dialect) for name in names)


def value_list(values: Iterable[Any], dialect: str) -> str:
    """Return values as SQL literals joined by commas. Raises `ValueError` for a type without literals."""
    return ", ".join(map(dialect_named(dialect).value, values))


READER = "ktx_reader"
"""The name of a role that is created for ktx."""

NAMED_TABLES = 10
"""The maximum number of tables in a GRANT; beyond it, the GRANT lists their schemas."""


@dataclass(frozen=True, slots=True)
class AccessGap:
    """The unreadable tables. `nothing`: no table can be read. `hint` contains the statement that fixes this."""

    message: str
    hint: str
    nothing: bool


def access_gap(connection: str, entry: Database, test: ConnectionTest) -> AccessGap | None:
    """Return the missing privileges if no table can be read, or one in `enabled_tables` cannot, else None."""
    if not test.tables:
        return AccessGap("there are no tables to read", _hint_for_none(connection, entry, test), nothing=True)
    closed = test.closed
    if not closed or (len(closed) < test.tables and not entry.enabled_tables):
        return None
    role = f"`{test.user}`" if test.user else "the role"
    nothing = len(closed) == test.tables
    what = ("any table in scope: " if nothing else "") + listing(f"`{ref}`" for ref in closed)
    hint = f"run as the owner of the tables: {_grant(entry, test, closed)}"
    return AccessGap(f"{role} may not SELECT from {what}", hint, nothing)


def reader_role(entry: Database, test: ConnectionTest) -> str | None:
    """Return the statements that create a SELECT-only role, or None for an unsupported driver."""
    return _syntax(entry).reader_role(READER, test.database, getattr(entry, "schemas", None) or ())


def _hint_for_none(connection: str, entry: Database, test: ConnectionTest) -> str:
    scope = [f"`{key}`" for key in ("schemas", "enabled_tables", "include", "exclude") if getattr(entry, key, None)]
    place = SettingPath(f"connections.{connection}")
    check = Hint("check {} of {} in ktx.yaml", listing(scope), place) if scope else Hint()
    syntax = _syntax(entry)
    if syntax.hides_closed_tables and test.database:
        places = syntax.all_tables_form.format(syntax.quote(test.database))
        grant = f"as an administrator: GRANT SELECT ON {places} TO {syntax.role(test.user or '')}"
        return Hint("{}, or {}", check, grant) if check else grant
    return check or Hint("create a table, or point {} to another database", place)


def _grant(entry: Database, test: ConnectionTest, closed: Sequence[TableRef]) -> str:
    """Return the statements that let the role SELECT from the tables in `enabled_tables`, or from all if empty."""
    syntax = _syntax(entry)
    role = syntax.role(test.user or "")
    schemas = list(dict.fromkeys(syntax.quote(ref.schema) for ref in closed if ref.schema is not None))
    by_name = bool(entry.enabled_tables) and len(closed) <= NAMED_TABLES
    tables = [syntax.path(ref) for ref in closed]
    if not syntax.grants_usage:
        places = tables if by_name else [syntax.all_tables_form.format(schema) for schema in schemas]
        return "; ".join(f"GRANT SELECT ON {place} TO {role}" for place in places)
    within = ", ".join(schemas)
    what = ", ".join(tables) if by_name else syntax.all_tables_form.format(within)
    return f"GRANT USAGE ON SCHEMA {within} TO {role}; GRANT SELECT ON {what} TO {role}"


def _syntax(entry: Database) -> Dialect:
    return dialect_named(dialect_of(entry.driver) or entry.driver)
