"""A SQL dialect as an object: everything the rest of the program must know of one.

Each built-in warehouse has a subclass in its folder (`warehouses/<name>/dialect.py`, whose `DIALECT` is the object);
`dialect_named` finds it by sqlglot's name. The values here are the defaults. At the end
are the rights a role lacks, with the GRANT of its dialect, for doctor and ingest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, cast

from ktx_cli.core import Hint, SettingPath, listing
from ktx_cli.faces import exp
from ktx_cli.project import WAREHOUSES, Database
from ktx_cli.warehouses.port import ConnectionTest, SemanticType, Table, TableRef, semantic_type
from ktx_cli.warehouses.registry import dialect_of
from ktx_cli.warehouses.time_arithmetic import TimeArithmetic


@dataclass(frozen=True, slots=True)
class SystemCatalog:
    """One system's own schemas: all relations in them are closed but those in `open`.

    `prefix` marks names that are looked up in them without a schema; where there are no such schemas, names with any.
    `names` are closed wherever they are. `closed_information` are the beginnings of closed names in
    information_schema; where `open_information` has names, all others are closed.
    """

    schemas: frozenset[str] = frozenset()
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


class Dialect(TimeArithmetic):
    """One SQL dialect. Attributes say what it is like; methods return sqlglot trees, or text where they say so.

    A subclass overrides what differs. Objects cannot be changed.
    """

    def __init__(self, name: str | None = None) -> None:
        if name is not None:
            object.__setattr__(self, "name", name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a dialect cannot be changed: {name}")

    title: str = ""
    """The name people know it by."""

    # Names and literals

    name_quotes: tuple[str, str] = ('"', '"')
    """What stands around a name; the closing one is doubled inside of it."""

    escapes_in_names: bool = False
    """Whether a backslash escapes inside a quoted name."""

    escapes_in_texts: bool = False
    """Whether a backslash escapes what follows inside a text."""

    quote_in_texts: str = "''"
    """How a quote is written inside a text."""

    texts_in_double_quotes: bool = False
    """Whether double quotes hold a text, not a name."""

    dotted_names: bool = False
    """Whether one quoted name may hold several parts with dots between them."""

    def quote(self, name: str) -> str:
        """Return the text of a name in quotes, whatever characters it has."""
        opening, closing = self.name_quotes
        if self.escapes_in_names:
            return opening + name.replace("\\", "\\\\").replace(closing, f"\\{closing}") + closing
        return opening + name.replace(closing, closing * 2) + closing

    def path(self, ref: TableRef) -> str:
        """Return the text of a table's name with its schema, each part quoted."""
        return ".".join(map(self.quote, (ref.name,) if ref.schema is None else (ref.schema, ref.name)))

    def value(self, value: Any) -> str:
        """Return the text of a literal; `ValueError` for a value of a type that has none."""
        return exp.convert(value).sql(dialect=self.name)

    # Queries

    requires_typed_nulls: bool = False
    """Whether a column of nothing but NULL has a type of its own, which does not go with others."""

    conditions_are_values: bool = True
    """Whether a condition may stand where a value does."""

    nests_with: bool = True
    """Whether a query inside another may have a WITH of its own."""

    joins_by_any_condition: bool = True
    """Whether a join may do without an equality."""

    correlates_queries: bool = True
    """Whether a query inside a condition may name columns of the query around it."""

    has_grouping_sets: bool = True
    """Whether there is GROUP BY GROUPING SETS."""

    def limited(self, select: str, rows: int) -> str:
        """Return the text of a SELECT that gives at most so many rows."""
        return f"{select} LIMIT {rows}"

    def fenced(self, query: exp.Select) -> exp.Select:
        """Return a query whose conditions the database evaluates before those of a query around it.

        It may otherwise do what looks cheapest first, and `CAST(note AS INT) = 1` fails on a row that is left out.
        """
        return query

    compares_missing_values: bool = True
    """Whether there is IS NOT DISTINCT FROM, or an operator for it."""

    def null_safe(self, one: exp.Expr, two: exp.Expr) -> exp.Expr:
        """Return the condition that two values are equal, or both missing."""
        if not self.compares_missing_values:
            return self._equal_or_both_missing(one, two)
        return exp.NullSafeEQ(this=one, expression=two)

    def _equal_or_both_missing(self, one: exp.Expr, two: exp.Expr) -> exp.Expr:
        both = exp.and_(exp.Is(this=one.copy(), expression=exp.null()), exp.Is(this=two.copy(), expression=exp.null()))
        return exp.paren(exp.or_(exp.EQ(this=one, expression=two), both, copy=False), copy=False)

    def floor(self, value: exp.Expr) -> exp.Expr:
        """Return the largest whole number that is not above a number, which is not negative."""
        return exp.Floor(this=value.copy())

    # Aggregates

    filters_aggregates: bool = False
    """Whether any aggregate takes FILTER (WHERE ...)."""

    has_percentiles: bool = False
    """Whether PERCENTILE_CONT ... WITHIN GROUP is an aggregate."""

    rounds_percentiles: bool = False
    """Whether the percentile of a decimal has the digits of the decimal."""

    rounds_averages: bool = False
    """Whether the average of whole numbers or decimals has a few digits."""

    series_in_one_value: bool = False
    """Whether `generate_series` gives one list, of which another function makes rows."""

    reads_lists_by_path: bool = False
    """Whether a list in a row of a table may stand behind FROM by its path."""

    # Times

    time_difference: str = ""
    """How to subtract times, with places {0} and {1}, where `-` makes numbers of them; else empty."""

    # Values and samples

    folds_texts: bool = False
    """Whether `a`, `A` and `a ` are equal, as servers are installed and unless a column says otherwise."""

    exact_texts: str = ""
    """The condition on information_schema.columns that a column tells such texts apart; empty without one."""

    untyped_columns: bool = False
    """Whether a column may hold values of any type."""

    dates_as_texts: bool = False
    """Whether the driver gives a date that Python has no value for (`0000-00-00`, `44-03-15 (BC)`) as text."""

    exact_row_counts: bool = False
    """Whether the catalog knows how many rows a table has, not only about how many."""

    counts_without_reading: bool = False
    """Whether rows are counted without reading them, so that the catalog need not be believed."""

    samples_single_rows: bool = False
    """Whether `sample_clause` picks single rows, not blocks of them."""

    generated_columns_vary: bool = False
    """Whether a generated column may have another value at another moment."""

    is_local: bool = False
    """Whether the database is a file on this machine, with nobody's rights to run functions with."""

    def semantic_type(self, native_type: str) -> SemanticType:
        """Return the type of a column from its type as the database spells it.

        What is neither number, time nor boolean (text, JSON, arrays, structs, UUIDs, bytes, intervals, geometries, an
        absent type) is a string; a time of day is a time.
        """
        return semantic_type(native_type)

    sample: str = ""
    """The clause for a sample of a table, with places {count} (rows), {percent} and {seed}; empty without one."""

    def sample_clause(self, count: int, percent: str, seed: int) -> str | None:
        """Return the text behind a table's name for about `count` rows, or so many per cent; None without one."""
        return f" {self.sample.format(count=count, percent=percent, seed=seed)}" if self.sample else None

    def row_number(self, table: Table) -> str | None:
        """Return the text of the integer that numbers a table's rows in about the order they are stored, if any."""
        return None

    text_cast: str = "{}"
    """How a value is made a text, with a place {}."""

    def as_text(self, value: str) -> str:
        """Return the text of a value, neither a text nor a number, as a text."""
        return self.text_cast.format(value)

    def beginning(self, value: str, length: int) -> str:
        """Return the text of the first characters of a text."""
        return f"substr({value}, 1, {length})"

    def readable(self, value: str, native_type: str) -> str:
        """Return the text of a value that is no text, NULL where Python has no value for it."""
        return value

    def is_padded(self, native_type: str) -> bool:
        """Whether values of a type end in blanks that are not compared; `beginning` takes them off."""
        return False

    not_summed: frozenset[SemanticType] = frozenset()
    """The types whose values the database never adds up; of others it may add some, or take them for numbers."""

    # Statements of users

    explain_options: str | None = None
    """The options behind EXPLAIN that only show a plan, as a regular expression; None without EXPLAIN."""

    explain_describes: bool = False
    """Whether EXPLAIN with a table's name describes the table."""

    tables_query: str = "SELECT table_schema, table_name FROM information_schema.tables"
    """The query that lists the tables."""

    columns_query: str = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{}'"
    """The query that lists the columns of the table {}."""

    catalog_hint: str = "read information_schema instead"
    """What to read in place of a closed part of the system's catalog."""

    system: SystemCatalog | None = None
    """What is closed of the system's catalog; None: nothing is known of it."""

    has_settings: bool = False
    """Whether `current_setting(name)` tells a setting."""

    headers_from: Literal["text", "call", ""] = ""
    """What a column without an alias is named by: the text of its expression, letter by letter, or the function."""

    pivots_are_statements: bool = False
    """Whether PIVOT and UNPIVOT are statements too."""

    row_ids: frozenset[str] = frozenset()
    """Names of the integer that numbers a table's rows, also where that is the primary key."""

    default_schema: str = ""
    """The schema that names without one get, where sessions look those up in the system's catalog alone."""

    def is_statement_error(self, error: BaseException, sql: str) -> bool:
        """Whether an error of the driver is about the names and the form of a statement alone.

        False where that is not known for sure: for what was found in rows, and for databases that do not say which it
        is. An error in a worker is an `EngineError`.
        """
        return False

    def functions(self) -> frozenset[str]:
        """Return the names, in lower case, of functions that only compute or read the catalog.

        They are in `functions.txt` beside the dialect and those it derives from. Without any, statements of users are
        not run.
        """
        packages = (kind.__module__.rpartition(".")[0] for kind in type(self).__mro__ if kind is not Dialect)
        return frozenset().union(*map(_functions_in, dict.fromkeys(filter(None, packages))))

    def server_functions(self, server: str) -> Sequence[str]:
        """Return the functions that one of several servers has besides, some from a version on (`name@8.0.4`)."""
        return ()

    has_several_servers: bool = False
    """Whether several servers speak it, each with functions of its own.

    A database's own functions are called without a schema there, so what is built in must be known of the very server.
    """

    def grammar_words(self) -> frozenset[str]:
        """Return the words before a bracket that call nothing, in lower case; where there are several servers."""
        return frozenset()

    free_places: frozenset[str] = frozenset()
    """Schemas that hold nothing but what is built in."""

    folds_function_names: bool = True
    """Whether a quoted name in capitals is the function in small letters."""

    combines_aggregates: bool = False
    """Whether names of aggregates take endings (`sumIf`), which the parser checks."""

    attributes_call: bool = False
    """Whether `x.f` and `(x).f` may call the function `f`."""

    def function_columns(self) -> Mapping[str, tuple[str, ...]]:
        """Return the functions whose results have columns with names of their own -> these; where attributes call."""
        return {}

    keeps_quoted_case: bool = True
    """Whether a quoted name keeps its capitals; where attributes call."""

    unnests_paths: bool = False
    """Whether the parser takes a path behind FROM (`FROM orders AS o, o.lines AS l`) for an UNNEST."""

    positional_columns: bool = False
    """Whether `$1` is a column by its position."""

    recurses_without_word: bool = False
    """Whether a WITH is recursive without the word."""

    format_has_widths: bool = True
    """Whether templates of `format` have widths."""

    has_sequence_tables: bool = False
    """Whether `seq_1_to_9` is a table."""

    padded_types: frozenset[str] = frozenset()
    """Types that fill a value up to their length."""

    own_types_are_harmless: bool = False
    """Whether types of the database hold no code: an affinity, an enumeration, another name of a built-in type."""

    type_schema: str = ""
    """The schema of built-in types, with its dot."""

    def built_in_types(self) -> frozenset[str]:
        """Return the built-in types that the parser does not know."""
        return frozenset()

    files_are_tables: bool = False
    """Whether the name of a file may stand for a table."""

    file_formats: frozenset[str] = frozenset()
    """Names taken for the format of a file or of another source where a schema is expected."""

    def rendered(self, tree: exp.Expr, *, copy: bool = True) -> str:
        """Return the text of a checked statement, without comments, names of functions as they were written.

        `copy`: the tree stays as it is; without it nobody may use the tree any more.
        """
        return tree.sql(dialect=self.name, comments=False, normalize_functions=False, copy=copy)

    # Query history

    history: Literal["pg_stat_statements", "account_usage", "jobs", ""] = ""
    """What the database keeps of the statements it was asked, where ktx reads it."""

    # Rights

    has_grants: bool = False
    """Whether GRANT SELECT lets a role read a table."""

    all_tables_form: str = "ALL TABLES IN SCHEMA {}"
    """All tables of the schema {} in a GRANT."""

    grants_usage: bool = True
    """Whether a role needs USAGE of a schema besides."""

    hides_closed_tables: bool = False
    """Whether the catalog hides the tables a role may not read."""

    def reader_role(self, name: str, database: str | None, schemas: Sequence[str]) -> str | None:
        """Return the text of the statements that make a role that may only SELECT, None where they are not known.

        `schemas`: those it may read, all where there are none.
        """
        return None

    def role(self, user: str) -> str:
        """Return the text of a role's name in a GRANT."""
        return self.quote(user)

    # Other formats

    osi_name: str = ""
    """The name of the dialect in Open Semantic Interchange."""


DIALECTS: tuple[str, ...]
"""The built-in dialects, by sqlglot's names."""


def __getattr__(name: str) -> tuple[str, ...]:
    """Return `DIALECTS` when somebody asks: to know them all, every built-in warehouse has to be imported."""
    if name != "DIALECTS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tuple(dict.fromkeys(kind.dialect for kind in _built_in()))


@functools.cache
def dialect_named(name: str) -> Dialect:
    """Return the dialect of sqlglot's name: a built-in one, that of a plug-in, else one without peculiarities."""
    for find_kinds in (lambda: _built_in(name), WAREHOUSES.all):
        for kind in find_kinds():
            if kind.dialect == name and kind.dialect_object:
                return cast(Dialect, WAREHOUSES.refer(kind.driver, "dialect_object"))
    return Dialect(name)


def _built_in(first: str = "") -> Iterator[Any]:
    """Return the built-in warehouses, the one named `first` first: most dialects are named as their driver is."""
    return map(WAREHOUSES.find, sorted(WAREHOUSES.built_in, key=lambda driver: driver != first))


def words_in(package: str, name: str) -> list[str]:
    """Return the words of a text file beside a module; a line that begins with `#` is a remark."""
    lines = resources.files(package).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


@functools.cache
def lower_words_in(package: str, name: str) -> frozenset[str]:
    """Return the words of a text file beside a module in lower case."""
    return frozenset(word.lower() for word in words_in(package, name))


def _functions_in(package: str) -> frozenset[str]:
    has_list = resources.files(package).joinpath("functions.txt").is_file()
    return lower_words_in(package, "functions.txt") if has_list else frozenset()


def quote(name: str, dialect: str) -> str:
    """Return a name in the quotes of the dialect, whatever characters it has."""
    return dialect_named(dialect).quote(name)


def table_path(ref: TableRef, dialect: str) -> str:
    """Return the table's name with its schema, each part quoted."""
    return dialect_named(dialect).path(ref)


def column_list(names: Iterable[str], dialect: str, *, of: str | None = None) -> str:
    """Return the names with commas; `of`: the alias of the relation they belong to."""
    prefix = "" if of is None else f"{of}."
    return ", ".join(prefix + quote(name, dialect) for name in names)


def value_list(values: Iterable[Any], dialect: str) -> str:
    """Return values of rows as SQL literals with commas; `ValueError` for a value of a type that has no literal."""
    return ", ".join(map(dialect_named(dialect).value, values))


READER = "ktx_reader"
"""What a role is called that is made for ktx."""

NAMED_TABLES = 10
"""A GRANT names the tables up to this number, beyond it their schemas."""


@dataclass(frozen=True, slots=True)
class AccessGap:
    """What cannot be read; `nothing`: not one table can. `hint` has the statement that changes it."""

    message: str
    hint: str
    nothing: bool


def access_gap(connection: str, entry: Database, test: ConnectionTest) -> AccessGap | None:
    """Return what is missing when no table can be read, or one that `enabled_tables` names; None when all is well."""
    if not test.tables:
        return AccessGap("there is no table to read", _hint_for_none(connection, entry, test), nothing=True)
    closed = test.closed
    if not closed or (len(closed) < test.tables and not entry.enabled_tables):
        return None
    role = f"`{test.user}`" if test.user else "the role"
    nothing = len(closed) == test.tables
    what = ("any table in scope: " if nothing else "") + listing(f"`{ref}`" for ref in closed)
    hint = f"as the tables' owner: {_grant(entry, test, closed)}"
    return AccessGap(f"{role} may not SELECT from {what}", hint, nothing)


def reader_role(entry: Database, test: ConnectionTest) -> str | None:
    """Return the statements that make a role that may only SELECT, None for a driver whose words are not known here."""
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
    return check or Hint("create a table in it, or point {} at another database", place)


def _grant(entry: Database, test: ConnectionTest, closed: Sequence[TableRef]) -> str:
    """Return the statements that let the role SELECT: from the tables when `enabled_tables` names them, else all."""
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
