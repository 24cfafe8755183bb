"""Runs one SQL statement on tables of several databases, each read through its own guard and joined in DuckDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Hint, SourceError, UsageError, did_you_mean, listing
from ktx_cli.faces import exp
from ktx_cli.project import DATABASE_SOURCE, KtxConfig, Layout, WorkingTree
from ktx_cli.semantic import ConnectionGuard, load_manifest
from ktx_cli.warehouses import (
    ConnectionSpec,
    Opener,
    QueryResult,
    SemanticType,
    StatementPolicy,
    TableRef,
    dialect_named,
    open_connection,
    parse_name,
    row_memory,
)

if TYPE_CHECKING:
    from ktx_cli.warehouses import CheckedStatement, LoadedTable

FEDERATED: Final = "_ktx_federated"
"""The connection id with which a statement reads tables of several databases."""

DIALECT: Final = "duckdb"
MOST_TABLE_ROWS: Final = 1_000_000
"""The maximum number of rows that a statement may read from all its tables together."""

MOST_TABLES: Final = 32
MOST_BYTES: Final = 512 * 1024 * 1024
"""The maximum approximate size of all rows in memory."""

_SAMPLED: Final = 1000

_PADDED: Final = re.compile(r"(?:national )?(?:n?char|character|bpchar)\b(?! *(?:varying|large))", re.IGNORECASE)
_RESERVED: Final = frozenset({"main", "memory", "system", "temp"})
_OUTER: Final = frozenset({"LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "ASOF", "POSITIONAL", "NATURAL"})


Check = Callable[[str, str], None]
"""Called with a connection and the statement for it before it runs; raises an error to refuse it."""


def check_nothing(connection: str, sql: str) -> None:
    """Refuse no statement."""


@dataclass(frozen=True, slots=True)
class MemberTable:
    """A table that a statement reads.

    `written`: its name in the statement, the connection first. `also`: other names of it in the statement. `parts`: its
    name in the database. `columns`: those to read. `sql`: the statement that reads it, in the dialect of its database.
    """

    connection: str
    written: tuple[str, ...]
    parts: tuple[str, ...]
    columns: tuple[tuple[str, SemanticType], ...]
    sql: str
    also: tuple[tuple[str, ...], ...] = ()


def run_federated(
    layout: Layout,
    config: KtxConfig,
    sql: str,
    *,
    environ: Mapping[str, str],
    max_rows: int,
    opener: Opener = open_connection,
    check: Check = check_nothing,
) -> tuple[CheckedStatement, QueryResult]:
    """Run a statement and return it with its rows.

    Every table is named `connection.table` or `connection.schema.table`. It is read completely, with only the needed
    columns and with conditions that compare it with constants; if there are more than `MOST_TABLE_ROWS` such rows, or
    they are larger than `MOST_BYTES`, the statement is refused. Raises the errors of `run_sql`.
    """
    from ktx_cli.warehouses import LoadedTables

    policy = StatementPolicy(FEDERATED)
    checked = policy.check(sql, DIALECT, max_rows=max_rows)
    tables = member_tables(layout, config, checked.sql, suggests=check is check_nothing)
    for each in tables:
        check(each.connection, each.sql)
    loaded: list[LoadedTable] = []
    rows = size = 0
    for each in tables:
        found = _read(layout, config, each, environ=environ, opener=opener, most=MOST_TABLE_ROWS - rows)
        rows, size = rows + len(found.rows), size + _size_of(found)
        if size > MOST_BYTES:
            raise _too_large(each, f"the rows read are larger than {MOST_BYTES // 1024**2} MiB")
        loaded.append(found)
    with closing(LoadedTables(ConnectionSpec(FEDERATED, DIALECT), loaded)) as session:
        return checked, session.query(checked.sql, max_rows=max_rows)


def member_tables(layout: Layout, config: KtxConfig, sql: str, *, suggests: bool = True) -> list[MemberTable]:
    """Return the tables that a statement reads, by name. Raises `UsageError` for an unknown one.

    `suggests`: whether an error may suggest the name of a table, which may be hidden from agents.
    """
    import sqlglot

    tree: Any = sqlglot.parse_one(sql, dialect=DIALECT)
    if not isinstance(tree, exp.Query):
        message = f"the connection `{FEDERATED}` only runs SELECT"
        raise UsageError(message, hint="describe or explain a table on its own connection")
    own = {each.alias_or_name.casefold() for each in tree.find_all(exp.CTE)}
    found: dict[tuple[str, ...], list[Any]] = {}
    for table in tree.find_all(exp.Table):
        parts = tuple(part.name for part in table.parts) if isinstance(table.this, exp.Identifier) else ()
        if parts and not (len(parts) == 1 and parts[0].casefold() in own):
            found.setdefault(parts, []).append(table)
    if not found:
        raise UsageError("the statement reads no table", hint=_how_to_name(config))
    same: dict[tuple[str, tuple[str, ...]], list[tuple[str, ...]]] = {}
    for written in sorted(found):
        connection = _connection_of(config, written)
        same.setdefault((connection, _known(layout, connection, written[1:], suggests)[0]), []).append(written)
    if len(same) > MOST_TABLES:
        raise UsageError(f"the statement reads {len(same)} tables; the most is {MOST_TABLES}", hint="read fewer tables")
    return [_member(layout, config, tree, written, found, suggests) for written in same.values()]


def _connection_of(config: KtxConfig, written: tuple[str, ...]) -> str:
    """Return the connection that the name of a table begins with. Raises `UsageError`."""
    connection = next((each for each in config.databases() if each.casefold() == written[0].casefold()), None)
    if connection is None or len(written) == 1:
        near = did_you_mean(written[0], list(config.databases())) if len(written) > 1 else None
        if written[0].casefold() == "information_schema":
            message = "`information_schema` is of one database"
            raise UsageError(message, hint=Hint("list its tables with {}", Command("sl", "list")))
        problem = f"`{'.'.join(written)}` does not begin with the id of a database"
        raise UsageError(problem, hint=f"did you mean `{near}`?" if near else _how_to_name(config))
    if connection.casefold() in _RESERVED:
        message = f"the connection `{connection}` has a name that DuckDB reserves"
        raise UsageError(message, hint="rename the connection in ktx.yaml to join its tables with others")
    return connection


def _member(
    layout: Layout,
    config: KtxConfig,
    tree: Any,
    names: list[tuple[str, ...]],
    found: Mapping[tuple[str, ...], list[Any]],
    suggests: bool,
) -> MemberTable:
    uses = [use for name in names for use in found[name]]
    connection = _connection_of(config, names[0])
    parts, columns = _known(layout, connection, names[0][1:], suggests)
    _require_columns(tree, uses, connection, parts[-1], columns, suggests)
    needed = _needed(tree, uses, columns)
    dialect = ConnectionGuard.of(layout, config, connection).dialect
    sql = _statement(dialect, parts, needed, tree, uses)
    return MemberTable(connection, names[0], parts, needed, sql, tuple(names[1:]))


def _known(
    layout: Layout, connection: str, named: tuple[str, ...], suggests: bool
) -> tuple[tuple[str, ...], tuple[tuple[str, SemanticType], ...]]:
    """Return the name and the columns of a table that the last scan found. Raises `UsageError`."""
    manifest = load_manifest(layout, connection)
    wanted = [part.casefold() for part in named]
    known = {}
    for name, relation in manifest.relations.items():
        parts = parse_name(relation) if isinstance(relation, str) else ()
        if parts:
            known[parts] = name
    matching = [parts for parts in known if [part.casefold() for part in parts[-len(wanted) :]] == wanted]
    if len(matching) != 1:
        table = ".".join(named)
        if matching:
            message = f"`{connection}` has {len(matching)} tables `{table}`"
            raise UsageError(message, hint=f"include the schema: {connection}.SCHEMA.{table}")
        near = did_you_mean(named[-1], sorted({parts[-1] for parts in known})) if suggests else None
        hint = f"did you mean `{connection}.{near}`?" if near else Hint("read it with {}", Command("scan", connection))
        raise UsageError(f"no scan of `{connection}` found a table `{table}`", hint=hint)
    entry = manifest.tables[known[matching[0]]]
    columns = tuple(
        (str(column["name"]), _semantic(column.get("type")))
        for column in entry.get("columns") or ()
        if isinstance(column, Mapping) and not column.get("expr")
    )
    return matching[0], columns


def _semantic(text: Any) -> SemanticType:
    return SemanticType(text) if text in {each.value for each in SemanticType} else SemanticType.STRING


def _needed(
    tree: Any, uses: Iterable[Any], columns: tuple[tuple[str, SemanticType], ...]
) -> tuple[tuple[str, SemanticType], ...]:
    """Return the columns of a table that a statement may read: all that have the name of any column in it."""
    if any(_renames(use) for use in uses):
        return columns
    named = list(tree.find_all(exp.Column))
    alone = {column.name.casefold() for column in named if not column.table}
    rows = {table.alias_or_name.casefold() for table in uses}
    if alone & rows or _reads_every_column(tree):  # An alias as a value is the whole row.
        return columns
    names = {part.name.casefold() for column in named for part in column.parts}
    names |= {each.name.casefold() for join in tree.find_all(exp.Join) for each in join.args.get("using") or ()}
    return tuple(each for each in columns if each[0].casefold() in names) or columns[:1]


def _renames(use: Any) -> bool:
    """Return whether a use of a table gives its columns other names."""
    alias = use.args.get("alias")
    return bool(alias and alias.args.get("columns")) or bool(use.args.get("pivots"))


def _require_columns(
    tree: Any,
    uses: Iterable[Any],
    connection: str,
    table: str,
    columns: tuple[tuple[str, SemanticType], ...],
    suggests: bool,
) -> None:
    """Raise `UsageError` for a column, named with the table's alias, that the last scan did not find."""
    known = {name.casefold() for name, _ in columns}
    if any(_renames(use) for use in uses):
        return
    aliases = {use.alias_or_name.casefold() for use in uses}
    others = {each.alias_or_name.casefold() for each in tree.find_all(exp.Table, exp.Subquery, exp.CTE)} - aliases
    alone = not others and len(list(tree.find_all(exp.Select))) == 1
    made = {each.alias.casefold() for each in tree.find_all(exp.Alias)}
    for column in tree.find_all(exp.Column):
        name = column.name.casefold()
        own = column.table.casefold() in aliases if column.table else alone and name not in aliases | made
        own = own or (name == "rowid" and not column.table)
        if own and name not in known and not isinstance(column.this, exp.Star):
            near = did_you_mean(column.name, [each for each, _ in columns]) if suggests else None
            hint = (
                f"did you mean `{near}`?"
                if near
                else Hint("a new column is known after {}", Command("scan", connection))
            )
            raise UsageError(f"no scan found a column `{column.name}` of `{connection}.{table}`", hint=hint)


def _reads_every_column(tree: Any) -> bool:
    if tree.find(exp.Columns, exp.Pivot, exp.PositionalColumn):
        return True
    if any(join.method == "NATURAL" for join in tree.find_all(exp.Join)):
        return True
    return any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))


def _statement(
    dialect: str, parts: tuple[str, ...], columns: Iterable[tuple[str, SemanticType]], tree: Any, uses: list[Any]
) -> str:
    """Return the statement that reads the columns of a table, and only rows that can be in the result."""
    quoted = [exp.to_identifier(part, quoted=True) for part in dialect_named(dialect).parts(parts)][-3:]
    table = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(quoted), strict=False)))
    kinds = dict(columns)
    query = exp.select(*(exp.column(exp.to_identifier(name, quoted=True)) for name in kinds)).from_(table)
    if len(uses) == 1:
        spelled = {name.casefold(): name for name in kinds}
        for condition in _own_conditions(uses[0], spelled, kinds):
            query = query.where(condition)
    return query.sql(dialect)


def _own_conditions(table: Any, spelled: Mapping[str, str], kinds: Mapping[str, SemanticType]) -> Iterator[Any]:
    """Yield conditions of the query of a table that compare one of its columns with constants.

    Rows without them cannot be in the result, whatever the other tables contain. They are checked again afterwards, so
    a condition may keep too many rows, but not too few. Comparisons of texts by order depend on the database, so only
    equality counts; those of times depend on the zone, so they do not count.
    """
    select: Any = table.find_ancestor(exp.Select)
    place: Any = table.parent
    stands_alone = isinstance(place, exp.From | exp.Join) and place.parent is select
    if select is None or not stands_alone:
        return
    if _renames(table) or any(table.args.get(each) for each in ("joins", "laterals", "sample", "ordinality")):
        return
    joins = [join for join in select.find_all(exp.Join) if join.find_ancestor(exp.Select) is select]
    if any({join.side, join.kind, join.method} & _OUTER for join in joins) or select.args.get("laterals"):
        return
    where: Any = select.args.get("where")
    for condition in where.this.flatten() if where and isinstance(where.this, exp.And) else [where and where.this]:
        pushed = _pushed(condition, table, spelled, kinds, alone=not joins)
        if pushed is not None:
            yield pushed


def _pushed(
    condition: Any, table: Any, spelled: Mapping[str, str], kinds: Mapping[str, SemanticType], *, alone: bool
) -> Any:
    """Return a condition for the table's own query, or None if it may mean something else there."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if not isinstance(condition, exp.EQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.In | exp.Between):
        return None
    column = condition.this
    if not isinstance(column, exp.Column):
        return None
    own = column.table.casefold() == table.alias_or_name.casefold() if column.table else alone
    name = spelled.get(column.name.casefold())
    constants = [each for key, each in condition.args.items() if key != "this" for each in _flat(each)]
    if name is None or not own or not constants:
        return None
    numeric = all(_is_number(each) for each in constants) and kinds[name] is SemanticType.NUMBER
    texts = all(isinstance(each, exp.Literal) and each.is_string for each in constants)
    equal = isinstance(condition, exp.EQ | exp.In)
    if not (numeric or (texts and equal and kinds[name] is SemanticType.STRING)):
        return None
    found = condition.copy()
    found.set("this", exp.column(exp.to_identifier(name, quoted=True)))
    return found


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [] if value in (None, False) else [value]


def _is_number(node: Any) -> bool:
    inner = node.this if isinstance(node, exp.Neg) else node
    return isinstance(inner, exp.Literal) and not inner.is_string


def _read(
    layout: Layout, config: KtxConfig, table: MemberTable, *, environ: Mapping[str, str], opener: Opener, most: int
) -> LoadedTable:
    from ktx_cli.warehouses import LoadedTable

    guard = ConnectionGuard.of(layout, config, table.connection)
    with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
        found = connector.query(table.sql, max_rows=max(1, most))
    if found.truncated or most < 1:
        raise _too_large(table, f"more than the {len(found.rows):,} that can be read")
    padded = _padded(layout, table)
    rows = [tuple(_trimmed(row, padded)) for row in found.rows] if padded else found.rows
    database, *outer, name = table.written
    schema = outer[0] if outer else "main"
    places = {each[1].casefold() if len(each) > 2 else "main" for each in table.also} - {schema.casefold()}
    return LoadedTable(database, schema, name, table.columns, rows, tuple(sorted(places)))


def _too_large(table: MemberTable, what: str) -> SourceError:
    return SourceError(
        f"`{'.'.join(table.written)}` has too many rows to join here: {what}",
        hint="compare its columns with constants in WHERE, or aggregate it in a statement of its own",
        code="query",
        details={"connection": table.connection, "sql": table.sql},
    )


def _size_of(table: LoadedTable) -> int:
    """Return the approximate memory of a table's rows, from a sample of them."""
    step = max(1, len(table.rows) // _SAMPLED)
    sample = table.rows[::step]
    return sum(map(row_memory, sample)) * len(table.rows) // max(1, len(sample))


def _padded(layout: Layout, table: MemberTable) -> tuple[int, ...]:
    """Return the places of columns whose texts the database pads with blanks that do not count."""
    from ktx_cli.scan import read_table, table_path

    *outer, name = table.parts
    path = layout.raw_path(table.connection, DATABASE_SOURCE, table_path(TableRef(".".join(outer) or None, name)))
    content = WorkingTree(layout.root).read(path)
    if content is None:
        return ()
    natives = {column.name: column.native_type for column in read_table(content, path).columns}
    return tuple(place for place, (name, _) in enumerate(table.columns) if _PADDED.match(natives.get(name, "")))


def _trimmed(row: tuple[Any, ...], places: tuple[int, ...]) -> Iterator[Any]:
    for place, value in enumerate(row):
        yield value.rstrip(" ") if place in places and isinstance(value, str) else value


def _how_to_name(config: KtxConfig) -> str:
    ids = sorted(config.databases())
    return f"write `connection.table` or `connection.schema.table`; connections: {listing(ids)}"
