"""The status of definitions: determined from git after each run, and included in each answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ktx_cli.core import Command, KtxError, ResultWarning
from ktx_cli.faces import exp
from ktx_cli.project import (
    DATABASE_SOURCE,
    RAW_NAME,
    SCHEMA_NAME,
    KtxConfig,
    Layout,
    StateDatabase,
    open_local,
    transaction,
    translated,
)
from ktx_cli.semantic import (
    Definition,
    DefinitionKind,
    Status,
    Statuses,
    items_in,
    layer_ids,
    load_layer,
    record_acceptances,
    require_status,
    status_of,
    used_definitions,
)
from ktx_cli.warehouses import TableRef, dialect_of

if TYPE_CHECKING:
    from ktx_cli.project import Repository, TreeView
    from ktx_cli.semantic import CompiledQuery, Model, Source


def answer_status(
    layout: Layout, config: KtxConfig, model: Model, asked: CompiledQuery, least: str | None
) -> dict[str, Any]:
    """Return the status of an answer for its receipt: the weakest status of its definitions.

    Raises `SemanticError` (`status`) if it is below `least`, which defaults to `semantic.min_status`.
    """
    statuses = Statuses(layout, model.connection, model.dialect)
    used = used_definitions(asked)
    found = status_of(used, statuses.of)
    require_status(found, Status(least or config.semantic.min_status), used, statuses.of, is_asked=least is not None)
    return found


def keep_statuses(layout: Layout, config: KtxConfig) -> None:
    """Determine from git who accepted the definitions of the semantic layers, and store it for receipts.

    Raises `GitError`, `StorageError`, and `ConfigError` for an invalid `owners.yaml`.
    """
    from ktx_cli.project import Repository

    repository = Repository.discover(layout.root)
    if repository is None:
        return
    databases = config.databases()
    dialects = {each: dialect_of(databases[each].driver) or "" for each in layer_ids(layout) if each in databases}
    with open_local(layout) as database, translated(layout.state):
        record_acceptances(layout, database, repository, dialects)
        for connection in dialects:
            _keep_joins_of_tools(database, repository, connection)
            _keep_drift(database, repository, connection, functools.partial(load_layer, layout, config, connection))


def refresh_statuses(layout: Layout, config: KtxConfig) -> list[ResultWarning]:
    """Update the statuses after a commit of decisions. A failure is a warning, because the commit stays."""
    try:
        keep_statuses(layout, config)
    except KtxError as error:
        message = f"ktx could not update the statuses of definitions: {error.message}"
        return [ResultWarning("statuses_outdated", message, hint=error.hint or Command("index"))]
    return []


def _keep_joins_of_tools(database: StateDatabase, repository: Repository, connection: str) -> None:
    """Mark joins of the manifest as accepted if another tool, such as dbt, defines them."""
    rows = database.execute(
        "SELECT rowid, path, source, name FROM statuses"
        " WHERE connection = ? AND kind = ? AND status = ? AND path LIKE ?",
        (connection, DefinitionKind.JOIN, Status.PROPOSED, f"%/{SCHEMA_NAME}/%"),
    ).fetchall()
    if not rows:
        return
    from ktx_cli.sources import of_manifest, written_items, wrote_join

    tree = repository.tree(repository.head().commit)
    written = of_manifest(written_items(tree.blobs(RAW_NAME), tree.read), connection)
    joins: dict[tuple[str, str, str], Mapping[Any, Any]] = {}
    for path in {path for _, path, _, _ in rows} if written else ():
        for definition, _, item in items_in(tree.read(path) or b"", path):
            joins[path, definition.source, definition.name] = item
    found = [
        (Status.ACCEPTED, "another tool, such as dbt, defines it", rowid)
        for rowid, path, source, name in rows
        if (join := joins.get((path, source, name))) is not None and wrote_join(written, source, join)
    ]
    with transaction(database):
        database.executemany("UPDATE statuses SET status = ?, why = ? WHERE rowid = ?", found)


def _keep_drift(database: StateDatabase, repository: Repository, connection: str, load: Callable[[], Model]) -> None:
    """Record which accepted definitions read columns that have since changed type or been removed.

    If the scan at the time of the acceptance saw the same tables, nothing has changed.
    """
    head = repository.tree(repository.head().commit)
    scanned = Layout.raw_path(connection, DATABASE_SOURCE)
    query = "SELECT DISTINCT commit_id FROM statuses WHERE connection = ? AND commit_id IS NOT NULL ORDER BY commit_id"
    found: list[tuple[str | None, int]] = []
    model: Model | None = None
    for (commit,) in database.execute(query, (connection,)).fetchall():
        then = repository.tree(commit)
        if then.id_of(scanned) == head.id_of(scanned):
            query = "SELECT rowid FROM statuses WHERE connection = ? AND commit_id = ? AND drift IS NOT NULL"
            found += [(None, rowid) for (rowid,) in database.execute(query, (connection, commit))]
            continue
        model = model or load()
        query = "SELECT rowid, kind, source, name, drift FROM statuses WHERE connection = ? AND commit_id = ?"
        for rowid, kind, owner, name, known in database.execute(query, (connection, commit)).fetchall():
            drift = drift_of(model, Definition(DefinitionKind(kind), owner, name), then, head)
            found += [(drift, rowid)] if drift != known else []
    if found:
        with transaction(database):
            database.executemany("UPDATE statuses SET drift = ? WHERE rowid = ?", found)


def drift_of(model: Model, definition: Definition, then: TreeView, today: TreeView) -> str | None:
    """Return a sentence about a column of a definition that has changed since a commit, or None."""
    source = model.sources.get(definition.source)
    if source is None or source.table is None:
        return None
    path = _scanned_path(model.connection, source.table)
    if then.id_of(path) == today.id_of(path):
        return None
    read = {column.casefold() for column in _columns(model, source, definition.kind, definition.name)}
    before, after = (_types(view, path) for view in (then, today))
    return _change(before, after, read, source.name)


def _change(then: Mapping[str, str], today: Mapping[str, str], read: set[str], source: str) -> str | None:
    """Return a sentence about the first changed column, or None."""
    for column in sorted(read & then.keys()):
        if column not in today:
            return f"{source}.{column} was removed after it was accepted"
        if then[column] != today[column]:
            return f"{source}.{column} changed from {then[column]} to {today[column]} after it was accepted"
    return None


def _columns(model: Model, source: Source, kind: DefinitionKind, name: str) -> Iterator[str]:
    """Yield the columns of a source that one of its definitions reads."""
    import sqlglot

    for text in _expressions(source, kind, name):
        try:
            tree = sqlglot.parse_one(text, read=model.dialect)
        except (sqlglot.errors.SqlglotError, RecursionError):  # a template, which the validation of the layer checks
            continue
        yield from (column.name for column in tree.find_all(exp.Column) if column.table in ("", source.name))


def _expressions(source: Source, kind: DefinitionKind, name: str) -> Iterator[str]:
    measure = source.measures.get(name) if kind is DefinitionKind.MEASURE else None
    segments = [name] if kind is DefinitionKind.SEGMENT else () if measure is None else measure.segments
    if measure is not None:
        yield measure.expr
        yield measure.filter or "TRUE"
    yield from (source.segments[each].expr for each in segments if each in source.segments)
    column = source.columns.get(name) if kind is DefinitionKind.COLUMN else None
    yield (column and column.expr) or "TRUE"


def _scanned_path(connection: str, table: tuple[str, ...]) -> str:
    """Return a table's path in the last scan."""
    from ktx_cli.scan import table_path

    schema = table[-2] if len(table) > 1 else None
    return Layout.raw_path(connection, DATABASE_SOURCE, table_path(TableRef(schema, table[-1])))


def _types(tree: TreeView, path: str) -> Mapping[str, str]:
    """Return a table's column types in a commit, by lower-case column name."""
    from ktx_cli.scan import read_table

    content = tree.read(path)
    try:
        columns = () if content is None else read_table(content, path).columns
    except KtxError:  # an old commit in another format
        return {}
    return {each.name.casefold(): each.native_type for each in columns}
