"""Keeps statements away from hidden data: rows behind a policy, hidden sources, hidden columns.

Raw SQL has no place for user attributes, so policies and hidden columns hold for every caller. A column with a mask is
hidden, except from callers who see its values. A statement is refused unless it is known to leave hidden data alone:
the tree of the exact text is checked, without regard to scopes, because a statement can have more scopes than can be
distinguished.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Diagnostic, KtxError
from ktx_cli.faces import exp
from ktx_cli.protection.relations import Refused, Relations, Table, parts_of, sources_of
from ktx_cli.semantic import (
    NOBODY,
    Barred,
    Caller,
    Column,
    Model,
    Source,
    Visibility,
    has_masks,
    lookup_of,
    masked_for,
    masks_in,
    masks_of,
    same_table,
    with_inputs,
)
from ktx_cli.warehouses import TableKind, comparable_name, dialect_named, table_after_in

if TYPE_CHECKING:
    from ktx_cli.project import Tree
    from ktx_cli.protection.relations import Judge
    from ktx_cli.warehouses import CollectionPaths

_STORAGE: Final = ("duckdb_", "pragma_")
_STATISTICS: Final = frozenset({"histogram", "histogram_values"})
"""Functions whose names DuckDB treats as table names if used as tables; in other databases, they compute values."""

_SEPARATOR: Final = re.compile(r"\.|_{2,}")
"""Separates keys in the name of a column, or of a table of an array."""
_ID: Final = ("_id",)
_PARENT_ID: Final = ("parent_id",)
"""The components of two columns; see `_components`."""


def check_protected(model: Model, sql: str, relations: Relations | None = None, caller: Caller = NOBODY) -> None:
    """Refuse a statement that would bypass a policy, show hidden data, or turn values into names.

    `relations`: what the last scan found, requested only if something is hidden: views are followed, and what is
    unknown is refused. None: views are not followed, so they may show hidden columns. `caller`: for masks.
    """
    trees = _trees(sql, model.dialect)
    if any(True for tree in trees or () for _ in _pivots(tree)):
        raise Refused(
            "PIVOT and UNPIVOT are not allowed, because they turn values into names: count with FILTER instead"
        )
    if model.sealed is not None:
        raise Refused(_definition_error(model.sealed, "tables of this connection cannot be read"))
    if not has_protected(model, caller):
        return
    if trees is None or not all(map(_is_query, trees)):
        raise Refused("only a SELECT is allowed, because part of this connection is hidden")
    _require_no_storage(trees)
    for table, name in _barred_in(model, trees):
        problem = model.barred[name].problem
        raise Refused(_definition_error(problem, f"`{'.'.join(table)}` cannot be read here"))
    for table, source in _protected_in(model, trees):
        if source.policies:
            raise Refused(f"`{source.name}` has row policies, so its rows cannot be read here; see its definition")
        if source.visibility is Visibility.HIDDEN or _reads_hidden(trees, table, source, model, caller):
            raise Refused(
                f"`{source.name}` or one of its columns is hidden: select the columns that you need by name, without "
                "`*` or entire rows; hidden columns, and columns of other tables with the same names, are not allowed"
            )
    if relations is not None:
        from ktx_cli.protection.relations import Views

        if relations.of_documents:
            _require_shown_columns(model, trees, relations, caller)
        Views(relations, model.dialect, lambda text: _trees(text, model.dialect), _judge_of(model, caller)).check(trees)


def _require_shown_columns(model: Model, trees: list[Any], relations: Relations, caller: Caller) -> None:
    """Refuse columns of collections that may contain a hidden one, or that the last scan did not find.

    Who writes a document decides what its columns are: a single text at `address` turns the columns below it into one
    column `address`, and a number in the array `items` turns its table into a column `items`.
    """
    tables = tables_of(trees)
    concealed = {table: paths for table in tables if (paths := _concealed(model, table, caller))}
    if not concealed:
        return
    named = [_components(name) for tree in trees for name in _column_names(tree)]
    for table, paths in concealed.items():
        shows = any(one[: len(other)] == other[: len(one)] for one in named for other in paths)
        if shows or any(_reads(tree, table, set()) for tree in trees):
            raise Refused(
                f"a part of the documents of `{'.'.join(table)}` is hidden: select the columns that you need by name, "
                "without `*`, entire rows, or columns that contain hidden ones"
            )
    known = {comparable_name(each.name) for table in tables for one in relations.find(table) for each in one.columns}
    known |= {comparable_name(each) for table in tables for one in sources_of(model, table) for each in one.columns}
    unknown = sorted(each for tree in trees for each in _table_columns(tree) if comparable_name(each) not in known)
    if unknown:
        raise Refused(
            f"the last scan did not find the column `{unknown[0][:60]}`, so it may contain data that is hidden in this "
            "connection: select columns that the scan found"
        )


def _concealed(model: Model, table: Table, caller: Caller) -> set[tuple[str, ...]]:
    """Return the hidden paths of a table's documents, including those of its arrays and of the array that it is."""
    found: set[tuple[str, ...]] = set()
    protected = model.remembered.get("protected")
    if protected is None:
        protected = [each for each in model.sources.values() if each.table is not None and _may_hide(model, each)]
        model.remembered["protected"] = protected
    for source in protected:
        hidden = {_components(each) for each in _hidden(model, source, caller)}
        below, above = _is_of_collection(source.table, table), _is_of_collection(table, source.table)
        if below is not None:
            inside = _components(below) if below else ()
            found |= {_ID if each == _PARENT_ID and inside else (*inside, *each) for each in hidden}
            found |= {inside} if inside and (source.policies or source.visibility is Visibility.HIDDEN) else set()
        elif above is not None:
            array = _components(above)
            found |= {_PARENT_ID} if _ID in hidden else set()
            found |= {each[len(array) :] for each in hidden if each[: len(array)] == array[: len(each)]}
    return found


def _column_names(tree: Any) -> Iterator[str]:
    """Yield the names in a tree that may be columns, or the aliases of some."""
    aliases = {node.name.casefold() for node in tree.find_all(exp.TableAlias) if node.name}
    for node in tree.find_all(exp.Identifier):
        names_table = isinstance(node.parent, exp.Table | exp.TableAlias) and node.arg_key != "columns"
        qualifies = isinstance(node.parent, exp.Column) and node.arg_key in ("table", "db", "catalog")
        if not names_table and not (qualifies and node.name.casefold() in aliases):
            yield node.name


def _table_columns(tree: Any) -> Iterator[str]:
    """Yield the names of columns in a tree that no query in it computes."""
    made = {
        comparable_name(alias.alias)
        for alias in tree.find_all(exp.Alias)
        if all(comparable_name(each.name) != comparable_name(alias.alias) for each in alias.this.find_all(exp.Column))
    }
    made |= {comparable_name(each.name) for alias in tree.find_all(exp.TableAlias) for each in alias.columns}
    yield from (node.name for node in tree.find_all(exp.Column) if comparable_name(node.name) not in made)


def check_collections(
    model: Model,
    collection: str,
    reads: Iterable[CollectionPaths],
    relations: Relations | None = None,
    caller: Caller = NOBODY,
) -> None:
    """Refuse a pipeline that would bypass a policy or show hidden data. `reads`: what it may show of collections.

    `collection`: the one that the pipeline runs on. `relations` and `caller`: as for `check_protected`. A collection
    also contains the data of the tables of its arrays, which are named after it.
    """
    if model.sealed is not None:
        raise Refused(_definition_error(model.sealed, "collections of this connection cannot be read"))
    if not has_protected(model, caller):
        return
    for each in reads:
        name = each.collection or collection
        for parts in {(name,), tuple(name.split(".", 1))}:
            for barred_name, barred in model.barred.items():
                if any(_is_of_collection(table, parts) is not None for table in barred.tables):
                    raise Refused(_definition_error(model.barred[barred_name].problem, f"`{name}` cannot be read"))
            for source in model.sources.values():
                below = None if source.table is None else _is_of_collection(source.table, parts)
                if below is not None and _may_hide(model, source):
                    _require_shown_paths(source, below, each.paths, name, _hidden(model, source, caller))
        if relations is not None:
            found = [one for parts in {(name,), tuple(name.split(".", 1))} for one in relations.find(parts)]
            if not found or any(one.kind is not TableKind.TABLE for one in found):
                raise Refused(
                    f"the last scan did not find `{name}` as a collection, so it may be a view of data that is hidden "
                    "in this connection: read collections that the scan found"
                )


def _is_of_collection(table: Table, parts: Table) -> str | None:
    """Return the path of a collection's array whose table this is, empty for the collection itself, else None."""
    if same_table(table, parts):
        return ""
    head, last = parts[-1].casefold(), table[-1].casefold()
    inside = same_table((*table[:-1], "x"), (*parts[:-1], "x"))
    return last.removeprefix(f"{head}__").replace("__", ".") if inside and last.startswith(f"{head}__") else None


def _require_shown_paths(
    source: Source, below: str, paths: frozenset[str] | None, name: str, columns: set[str]
) -> None:
    if source.policies:
        raise Refused(f"`{source.name}` has row policies, so `{name}` cannot be read here; see its definition")
    own = {each.removeprefix("_parent") if each == "_parent_id" else each for each in columns}
    hidden = [_components(f"{below}.{each}" if below and each != "_id" else each) for each in own]
    named = None if paths is None else [_components(each) for each in paths]
    shows = named is None or any(
        one[: len(other)] == other[: len(one)] for one in named for other in hidden if one and other
    )
    if source.visibility is Visibility.HIDDEN or (hidden and shows):
        raise Refused(
            f"`{source.name}` or one of its columns is hidden: begin the pipeline on `{name}` with a $project that "
            "lists the fields that you need, or with a $group, and do not name hidden fields, their parts or $$ROOT; "
            "give each $lookup and $unionWith a pipeline that does the same"
        )


def _components(path: str) -> tuple[str, ...]:
    """Return the folded keys of a path, without positions in arrays.

    A name of a table joins keys with `__`, so `__` separates keys, and underscores around a key other than `_id` are
    ignored.
    """
    keys = (each for each in _SEPARATOR.split(path.casefold()) if each and not each.isdigit())
    return tuple(each if each == "_id" else each.strip("_") or each for each in keys)


def check_source(model: Model, source: Source, relations: Relations | None = None, caller: Caller = NOBODY) -> None:
    """Refuse a source whose SQL reads data hidden elsewhere; sources that are hidden or have policies may read it.

    No source may read a column that is masked for the caller, in its SQL or through a view. `relations` and `caller`:
    as for `check_protected`.
    """
    if not has_protected(model, caller):
        return
    is_trusted = bool(source.policies) or source.visibility is Visibility.HIDDEN
    from ktx_cli.semantic import TEMPLATE

    try:
        if source.sql is not None and not is_trusted:
            check_protected(model, TEMPLATE.sub("NULL", source.sql), relations, caller)
        elif masks_for(model, caller):
            _check_masked(model, source, relations, caller)
    except Refused as error:
        what = "SQL" if source.sql is not None else "table"
        raise Refused(f"the {what} of `{source.name}` reads data that is hidden elsewhere: {error.message}") from None


def _check_masked(model: Model, source: Source, relations: Relations | None, caller: Caller) -> None:
    """Refuse a source whose SQL, or whose view, may read a column that is masked for a caller."""
    from ktx_cli.protection.relations import Views
    from ktx_cli.semantic import TEMPLATE

    judge = _judge_of(model, caller, masks_only=True)
    views = None
    if relations is not None:
        views = Views(relations, model.dialect, lambda text: _trees(text, model.dialect), judge)
    if source.sql is not None:
        trees = _trees(TEMPLATE.sub("NULL", source.sql), model.dialect)
        if trees is None or not all(map(_is_query, trees)):
            raise Refused("only a SELECT is allowed, because columns are masked")
        judge(trees, source.name)
        if views is not None:
            views.check(trees)
    elif views is not None and relations is not None and source.table is not None:
        kinds = {each.kind for each in relations.find(source.table)}
        if kinds & {TableKind.VIEW, TableKind.MATERIALIZED_VIEW}:
            views.follow(source.table)


def source_guard(model: Model, tree: Tree, caller: Caller = NOBODY) -> Callable[[Iterable[str]], None] | None:
    """Return a check that refuses named sources whose SQL reads data hidden elsewhere, or None if there are none.

    It raises `KtxError` (`hidden`). `tree`: the files of the project, with the results of the last scan. `caller`: for
    masks.
    """
    if not has_protected(model, caller):
        return None
    if not masks_for(model, caller) and not any(source.sql for source in model.sources.values()):
        return None
    from ktx_cli.protection.relations import read_relations
    from ktx_cli.scan import snapshot_path

    is_scanned = tree.read(snapshot_path(model.connection)) is not None  # without a scan, nobody knows what views read
    relations = read_relations(tree, model.connection) if is_scanned else None

    def guard(names: Iterable[str]) -> None:
        for name in names:
            try:
                check_source(model, model.sources[name], relations, caller)
            except Refused as error:
                hint = "remove the hidden data from the SQL, hide the source, or give it its own `policies`"
                details = {"connection": model.connection, "source": name}
                raise KtxError(error.message, hint=hint, code="hidden", details=details) from None

    return guard


def rows_countable(model: Model, tree: Tree, caller: Caller) -> Callable[[Source, Iterable[str]], bool]:
    """Return a check of whether a caller may learn counts over all rows of a source by these of its columns.

    That is not so if row policies limit the source, if it or a column is hidden, if a column is masked for the caller,
    or if its SQL reads such data.
    """
    guard = source_guard(model, tree, caller)

    @functools.cache
    def readable(name: str) -> bool:
        try:
            if guard is not None:
                guard([name])
        except KtxError:
            return False
        return True

    def countable(source: Source, names: Iterable[str]) -> bool:
        if source.policies or source.visibility is Visibility.HIDDEN:
            return False
        hidden = _hidden(model, source, caller)
        return hidden.isdisjoint(each for name in names for each in with_inputs(source, name)) and readable(source.name)

    return countable


def has_protected(model: Model, caller: Caller = NOBODY) -> bool:
    """Return whether anything in a connection is hidden, or may be because a file about it may have an error.

    Masks count unless the caller sees the values behind all of them.
    """
    if model.barred or model.sealed is not None:
        return True
    if not has_masks(model) or not lookup_of(model).protects:
        return lookup_of(model).protects
    hides = (_hides(model.sources[each]) for each in lookup_of(model).protected())
    return masks_for(model, caller) or any(hides)


def masks_for(model: Model, caller: Caller) -> bool:
    """Return whether any column is masked for a caller."""
    return any(not caller.sees(mask) for mask in masks_in(model))


def _hides(source: Source) -> bool:
    """Return whether a source hides anything from every caller."""
    hidden = any(column.visibility is Visibility.HIDDEN for column in source.columns.values())
    return bool(source.policies) or source.visibility is Visibility.HIDDEN or hidden


def _may_hide(model: Model, source: Source) -> bool:
    """Return whether a source hides anything from some callers."""
    return source.is_protected or bool(masks_of(model, source))


def _definition_error(problem: Diagnostic, what: str) -> str:
    return (
        f"the semantic layer has errors, so ktx cannot determine what is hidden, and {what}. The first one is "
        f"at {problem.location}: {problem.message}"
    )


def values_shown(
    model: Model, source: Source, relations: Callable[[], Relations], caller: Caller = NOBODY
) -> Callable[[Column], bool]:
    """Return a check of whether a source column's values may be listed, which is so if a statement may select them.

    No values of a source with policies, or of a view that may read hidden data, may be listed; `relations` is only
    requested if something is hidden. `caller`: for masks.
    """
    if source.table is None or source.policies or not _table_shown(model, source.table, relations, caller):
        return lambda column: False
    hidden = {name for each in sources_of(model, source.table) for name in _hidden(model, each, caller)}
    concealed = (
        _concealed(model, source.table, caller) if has_protected(model, caller) and relations().of_documents else set()
    )

    def shown(column: Column) -> bool:
        path = _components(column.name)
        contains = any(path[: len(each)] == each[: len(path)] for each in concealed)
        return column.expr is None and column.name.casefold() not in hidden and not contains

    return shown


def _table_shown(model: Model, table: Table, relations: Callable[[], Relations], caller: Caller) -> bool:
    if not has_protected(model, caller):
        return True
    if model.sealed is not None or any(reads_table(each, table) for each in model.barred.values()):
        return False
    owners = sources_of(model, table)
    if any(owner.policies or owner.visibility is Visibility.HIDDEN for owner in owners):
        return False
    known = relations()
    from ktx_cli.protection.relations import Views

    views = Views(known, model.dialect, lambda text: _trees(text, model.dialect), _judge_of(model, caller))
    try:
        views.follow(table)
    except Refused:
        return False
    return bool(known.find(table))


def _judge_of(model: Model, caller: Caller, *, masks_only: bool = False) -> Judge:
    """Return the check of a view's query. With `masks_only`, only masked columns count as hidden."""

    def judge(trees: list[Any], view: str) -> None:
        _require_no_storage(trees)
        for _, name in _barred_in(model, trees):
            problem = model.barred[name].problem
            what = f"`{view}`, a view that reads `{name}`, cannot be read here"
            raise Refused(_definition_error(problem, what))
        for table, source in _protected_in(model, trees):
            hidden = set(masked_for(model, source, caller)) if masks_only else None
            policies = source.policies and not masks_only
            hides = "has row policies" if policies else "is hidden or has a hidden column that the view may read"
            may_show = source.visibility is Visibility.HIDDEN and not masks_only
            if policies or may_show or _reads_hidden(trees, table, source, model, caller, hidden):
                raise Refused(
                    f"`{view}` is a view that reads `{source.name}`, which {hides}, so it cannot be read here"
                )

    return judge


def _require_no_storage(trees: Iterable[Any]) -> None:
    """Refuse database functions that take a table as text: some return its rows, or its minimum and maximum values."""
    for each in (node for tree in trees for node in tree.find_all(exp.Anonymous)):
        name = each.name.casefold()
        if name.startswith(_STORAGE) or (name in _STATISTICS and isinstance(each.parent, exp.Table | exp.Lateral)):
            raise Refused(
                f"`{each.name[:60]}` cannot be called, because part of this connection is hidden: use "
                "information_schema for tables and columns"
            )


def _protected_in(model: Model, trees: list[Any]) -> Iterator[tuple[Table, Source]]:
    for table in sorted(tables_of(trees)):
        yield from ((table, source) for source in sources_of(model, table) if _may_hide(model, source))


def _barred_in(model: Model, trees: list[Any]) -> Iterator[tuple[Table, str]]:
    """Yield the tables in trees that a source with undeterminable visibility reads, with the name of the source."""
    for table in sorted(tables_of(trees)) if model.barred else ():
        yield from ((table, name) for name, each in model.barred.items() if reads_table(each, table))


def reads_table(barred: Barred, table: Table) -> bool:
    """Return whether any hidden source reads a table."""
    return any(same_table(each, table) for each in barred.tables)


def tables_read(sql: str, dialect: str) -> frozenset[Table] | None:
    """Return every table that SQL text may read, even if named like one of its queries, or None for invalid SQL."""
    trees = _trees(sql, dialect)
    return None if trees is None else tables_of(trees)


@dataclass(frozen=True, slots=True)
class ViewReads:
    """What a view's query reads: its tables, and the folded names of the columns that its conditions depend on."""

    tables: frozenset[Table]
    conditions: frozenset[str]


def view_reads(sql: str, dialect: str) -> ViewReads:
    """Return what a view reads according to the text of its query, or nothing if the text cannot be parsed."""
    trees = _trees(sql, dialect) or []
    bodies = [tree.expression if isinstance(tree, exp.Create) else tree for tree in trees]
    conditions = (node for tree in bodies for node in tree.find_all(exp.Where, exp.Having, exp.Case, exp.If))
    named = (column.name.casefold() for node in conditions for column in node.find_all(exp.Column))
    return ViewReads(tables_of(bodies), frozenset(named))


def condition_columns(sql: str, dialect: str) -> frozenset[str]:
    """Return the folded names of the columns that a statement's conditions and groups depend on."""
    kinds = (exp.Where, exp.Having, exp.Qualify, exp.Case, exp.If, exp.CountIf, exp.Filter, exp.Group, exp.Join)
    nodes = (node for tree in _trees(sql, dialect) or () for node in tree.find_all(*kinds))
    parts = (node.args.get("on") if isinstance(node, exp.Join) else node for node in nodes)
    return frozenset(
        column.name.casefold() for part in parts if part is not None for column in part.find_all(exp.Column)
    )


def tables_of(trees: Iterable[Any]) -> frozenset[Table]:
    """Return every table that trees name, even if something else has the same name."""
    return frozenset(parts for tree in trees for node in tree.find_all(exp.Table) if (parts := parts_of(node)))


def _trees(sql: str, dialect: str) -> list[Any] | None:
    import sqlglot
    from sqlglot.errors import SqlglotError

    from ktx_cli.warehouses import silence_parser

    silence_parser()
    try:
        trees = [tree for tree in sqlglot.parse(sql, read=dialect or None) if tree is not None]
        return [_with_tables_after_in(tree, dialect) for tree in trees]
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError, AssertionError):
        return None


def _with_tables_after_in(tree: Any, dialect: str) -> Any:
    """Return a tree in which `x IN t` is `x IN (SELECT * FROM t)`, if the database reads a table there."""
    syntax = dialect_named(dialect) if dialect else None
    if syntax is None or not syntax.tables_after_in:
        return tree
    for node in list(tree.find_all(exp.In)):
        parts = table_after_in(node, syntax)
        if parts:
            table = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))
            node.set("field", None)
            node.set("expressions", [])
            node.set("query", exp.select("*").from_(table).subquery())
    return tree


def _is_query(tree: Any) -> bool:
    return isinstance(tree, exp.Query)


def _pivots(tree: Any) -> Iterator[Any]:
    return tree.find_all(exp.Pivot)  # type: ignore[no-any-return]


def _hidden(model: Model, source: Source, caller: Caller) -> set[str]:
    """Return the folded names of the columns that are hidden, or masked for a caller."""
    hidden = {column.name.casefold() for column in source.columns.values() if column.visibility is Visibility.HIDDEN}
    return hidden | set(masked_for(model, source, caller))


def _reads_hidden(
    trees: Iterable[Any], table: Table, source: Source, model: Model, caller: Caller, hidden: set[str] | None = None
) -> bool:
    """Return whether trees may read hidden columns; `hidden`: their names, by default all of the source."""
    hidden = _hidden(model, source, caller) if hidden is None else hidden
    dialect = model.dialect
    if not hidden:
        return False
    stored = {comparable_name(column.name) for column in source.columns.values() if column.expr is None}
    hidden |= dialect_named(dialect).row_ids - stored
    return any(_reads(tree, table, hidden) or _calls(tree, table, stored, dialect) for tree in trees)


def _reads(tree: Any, table: Table, hidden: set[str]) -> bool:
    """Return whether a tree that reads a table names one of its hidden columns, all columns, or columns
    without names.
    """
    concealed = set(map(comparable_name, hidden))
    if any(comparable_name(node.name) in concealed for node in tree.find_all(exp.Identifier)):
        return True
    if any(not isinstance(node.parent, exp.Count) for node in tree.find_all(exp.Star)):
        return True
    if tree.find(exp.Columns, exp.PositionalColumn) or any(
        str(node.args.get("method") or "").upper() == "NATURAL" for node in tree.find_all(exp.Join)
    ):
        return True
    items = list(_items_with(tree, table))
    if any(alias is not None and alias.args.get("columns") for alias in (item.args.get("alias") for item in items)):
        return True
    rows = _row_names(items, table)
    return any(comparable_name(node.name) in rows for node in tree.find_all(exp.Column))


def _calls(tree: Any, table: Table, stored: set[str], dialect: str) -> bool:
    """Return whether a tree may pass a row to a function in Postgres syntax, as `people.to_jsonb` does."""
    if not dialect_named(dialect).attributes_call:
        return False
    rows = _row_names(_items_with(tree, table), table)
    columns = (node for node in tree.find_all(exp.Column) if node.table and comparable_name(node.table) in rows)
    return any(comparable_name(column.name) not in stored for column in columns)


def _items_with(tree: Any, table: Table) -> Iterator[Any]:
    """Yield the items after FROM with a table's columns: the table itself, and parenthesized joins that contain it."""
    for node in tree.find_all(exp.Table):
        if parts_of(node)[-1:] and comparable_name(parts_of(node)[-1]) == comparable_name(table[-1]):
            yield node
            above = node.parent
            while above is not None and not isinstance(above, exp.Select | exp.SetOperation):
                if isinstance(above, exp.Subquery):
                    yield above
                above = above.parent


def _row_names(items: Iterable[Any], table: Table) -> set[str]:
    """Return the names by which a statement may use an entire row of an item as one value."""
    return {comparable_name(table[-1])} | {comparable_name(item.alias_or_name) for item in items if item.alias_or_name}
