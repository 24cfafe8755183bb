"""Write a shared index, and choose its tree for the files of a working tree.

A tree is one state of the files of a project: the units with the digests of their contents. Documents belong to parts
of units, which are stored once for all trees that have them. A working tree with a known state needs no writing.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Emit, KtxError, StepProgress, StorageError, monotonic
from ktx_cli.project import Tree, write_atomic
from ktx_cli.search.base import Base, Identity, Refreshed
from ktx_cli.search.corpus import NOT_HERE, Contents
from ktx_cli.search.explanations import explaining
from ktx_cli.search.location import SharedIndex
from ktx_cli.search.shared_session import (
    PREFIX,
    SearchSession,
    compares_vectors,
    has_tables,
    reader_of,
    table_statements,
    vector_schema,
)
from ktx_cli.search.shared_store import SharedStore, parts_of
from ktx_cli.search.shared_writer import (
    KEPT_DAYS,
    Digests,
    TreeWriter,
    digest_of_tree,
    drop_old,
    move_to_new_roots,
    nearest_tree,
    revived_tree,
    units_of,
)

if TYPE_CHECKING:
    from ktx_cli.llm import Embedder

MOST_HOLDERS: Final = 100
"""Number of working trees that a tree names, the last ones."""
_MANY: Final = 1_000
"""Number of new documents after which the statistics of Postgres are updated at once."""


class SharedTrees:
    """The tree that a process searches. It is chosen again when files change or another tree is stored."""

    def __init__(self, index: SharedIndex) -> None:
        self.index = index
        self._lock = threading.Lock()
        self._memo: dict[str, tuple[str, str]] = {}
        self._recorded: Digests | None = None
        self._chosen: tuple[Any, Base | None] | None = None
        self._looked_at = self._took = 0.0

    def base(self, contents: Contents, signatures: Mapping[str, str], tree: Tree) -> Base | None:
        """Return the stored tree that is nearest to the files, or None if the index has no tree.

        Raises `StorageError`.
        """
        with self._lock:
            started = monotonic()
            self._choose(contents, signatures, tree)
            self._looked_at = monotonic()
            self._took = self._looked_at - started
            assert self._chosen is not None
            return self._chosen[1]

    def recent(self, seconds: float) -> Base | None:
        """Return the tree chosen within the last `seconds`, or somewhat longer ago if choosing took long."""
        kept = max(seconds, 50 * self._took) if seconds else 0.0
        with self._lock:
            is_recent = self._chosen is not None and monotonic() < self._looked_at + kept
            return self._chosen[1] if is_recent and self._chosen is not None else None

    def _choose(self, contents: Contents, signatures: Mapping[str, str], tree: Tree) -> None:
        session = reader_of(self.index.database)
        chosen = None if self._chosen is None else self._chosen[1]
        newest = _newest(session, None if chosen is None else chosen.identity)
        key = (newest, signatures)
        if self._chosen is not None and self._chosen[0] == key and (newest is None or newest[1]):
            return
        if newest is None or newest[0] is None:
            self._chosen = (key, None)
            return
        digests = self._digests(signatures, contents, tree)
        found = nearest_tree(session, {unit: digest for unit, (_, digest) in digests.items()})
        base = None if found is None else self._opened(session, found, digests)
        kept = chosen is not None and base is not None and chosen.identity == base.identity
        now = _newest(session, None if base is None else base.identity)
        self._chosen = ((now, signatures), chosen if kept and chosen is not None else base)
        if kept and chosen is not None and base is not None:
            chosen.units = base.units

    def _digests(self, signatures: Mapping[str, str], contents: Contents, tree: Tree) -> Digests:
        if self._recorded is None:
            self._recorded = read_memo(self.index)
            self._memo.update(self._recorded)
        found = digests_of(signatures, contents, tree, self._memo)
        self._memo = dict(found)
        return found

    def _opened(self, session: SearchSession, number: int, digests: Digests) -> Base:
        """Return a tree. Units with the content of this working tree have its signatures."""
        units: dict[str, tuple[str, str]] = {}
        for unit, digest in units_of(session, number).items():
            known = [each for each in (digests.get(unit), (self._recorded or {}).get(unit)) if each is not None]
            units[unit] = (next((signature for signature, own in known if own == digest), ""), digest)
        root = parts_of(session, number).root
        return Base((number, root, 0), SharedStore(session, number), units)


def digests_of(
    signatures: Mapping[str, str], contents: Contents, tree: Tree, known: Digests
) -> dict[str, tuple[str, str]]:
    """Return the units with their signatures and digests. Contents whose signature is known are not read again."""
    found = {}
    for unit, signature in signatures.items():
        before = known.get(unit)
        same = before is not None and before[0] == signature and signature != ""
        found[unit] = before if same and before is not None else (signature, contents.digest(unit, tree))
    return found


def read_memo(index: SharedIndex) -> dict[str, tuple[str, str]]:
    """Return the units that the last run of this working tree recorded, or none without a valid file."""
    try:
        stored = json.loads(index.memo.read_text("utf-8"))
        units = stored["units"] if stored["database"] == str(index.database) else {}
        return {unit: (signature, digest) for unit, (signature, digest) in units.items()}
    except (OSError, ValueError, KeyError, TypeError):  # it only saves reading files again
        return {}


def holder_of(index: SharedIndex) -> str:
    """Return the name of this working tree in the index, a new one without a valid file."""
    try:
        return str(json.loads(index.memo.read_text("utf-8"))["holder"])
    except (OSError, ValueError, KeyError, TypeError):
        return secrets.token_hex(8)


def write_memo(index: SharedIndex, tree: int, units: Digests, holder: str) -> None:
    """Record the units of this working tree, so that searches need not read files; raises `StorageError`."""
    text = json.dumps({"database": str(index.database), "holder": holder, "tree": tree, "units": units})
    try:
        if index.memo.read_text("utf-8") == text:
            return
    except (OSError, ValueError):
        pass
    write_atomic(index.memo, text.encode(), mode=0o600)


def recorded_tree(index: SharedIndex) -> int | None:
    """Return the tree that the last run of this working tree stored, or the newest one, or None without a tree."""
    session = reader_of(index.database)
    if not has_tables(session):
        return None
    try:
        stored = json.loads(index.memo.read_text("utf-8"))
        number = int(stored["tree"]) if stored["database"] == str(index.database) else -1
    except (OSError, ValueError, KeyError, TypeError):
        number = -1
    query = "SELECT id FROM {p}trees WHERE dropped IS NULL ORDER BY id = %s DESC, id DESC LIMIT 1"
    rows = session.ask(query, (number,))
    return int(rows[0][0]) if rows else None


def explaining_in_tree(index: SharedIndex, connection: str, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return name -> keys of the shared pages that mention it. See `explaining_in`."""
    try:
        tree = recorded_tree(index)
        store = None if tree is None else SharedStore(reader_of(index.database), tree)
        found = {} if store is None else explaining([store], [(connection, name) for name in names])
    except StorageError:  # as for a file
        return {}
    return {name: pages for (_, name), pages in found.items()}


def where_compared(index: SharedIndex) -> str:
    """Return the database of an index, and what compares the vectors if it has any."""
    session = reader_of(index.database)
    if not has_tables(session) or not session.ask("SELECT EXISTS (SELECT FROM {p}vectors)")[0][0]:
        return str(index.database)
    compared = "pgvector compares vectors" if compares_vectors(session) else "ktx compares vectors"
    return f"{index.database}; {compared}"


def _newest(session: SearchSession, chosen: Identity | None) -> tuple[int | None, bool] | None:
    """Return the newest tree, and whether the chosen one still exists, with its root. None without tables."""
    if not has_tables(session):
        return None
    tree, root, _ = chosen or (None, None, None)
    query = "SELECT max(id), coalesce(bool_or(id = %s AND root = %s), false) FROM {p}trees WHERE dropped IS NULL"
    newest, is_there = session.ask(query, (tree, root))[0]
    return newest, is_there or chosen is None


def refresh_shared(
    index: SharedIndex,
    contents: Contents,
    tree: Tree,
    embedder: Callable[[], Embedder | None],
    emit: Emit,
    *,
    check_length: bool,
) -> Refreshed:
    """Store the tree of the files, unless it is known, and the vectors that are missing. See `refresh`."""
    session = SearchSession(index.database, read_only=False)
    try:
        signatures = contents.signatures()
        known = {unit: each for unit, each in read_memo(index).items() if each[1] != NOT_HERE}
        units: Digests = digests_of(signatures, contents, tree, known)
        digest = digest_of_tree(units)
        done = Refreshed(rebuilt=not has_tables(session))
        number = None if done.rebuilt else _known_tree(session, digest)
        if number is None:
            with session.transaction():
                indexes = _create(session)
                number = revived_tree(session, digest)
                writer = TreeWriter(session, contents, tree, done, emit)
                if number is None:
                    number, units = writer.store(units)
                for statement in indexes:
                    session.execute(statement)
            if writer.wrote_root:  # otherwise Postgres expects that the root has no parts
                session.execute(f"ANALYZE {', '.join(PREFIX + each for each in _OF_ROOTS)}")
            if done.added >= _MANY:
                session.execute(f"ANALYZE {', '.join(PREFIX + each for each in _OF_PARTS)}")
                session.execute(f"VACUUM {PREFIX}postings")  # so that queries read only its index
        holder = holder_of(index)
        _hold(session, number, holder)
        done.documents = int(session.ask("SELECT documents FROM {p}trees WHERE id = %s", (number,))[0][0])
        try:
            done.vectors = _embed(session, number, embedder(), emit, check_length=check_length)
        except KtxError as error:
            done.error = error
        _drop_former_models(session)
        drop_old(session)
        write_memo(index, number, units, holder)
        return done
    finally:
        session.close()


_OF_ROOTS: Final = ("terms", "words", "root_parts", "units")
_OF_PARTS: Final = ("docs", "postings", "parts")


def _known_tree(session: SearchSession, digest: str) -> int | None:
    """Return the tree with a digest."""
    rows = session.ask("SELECT id FROM {p}trees WHERE digest = %s AND dropped IS NULL", (digest,))
    return int(rows[0][0]) if rows else None


def _hold(session: SearchSession, number: int, holder: str) -> None:
    """Record that a working tree uses a tree, in place of its former one.

    The time is recorded at most once a day, so that unchanged files write nothing. A tree that another host has dropped
    since it was found is there again.
    """
    is_old = "dropped IS NOT NULL OR used < now() - interval '1 day' OR %s <> ALL(holders)"
    if not session.ask(f"SELECT {is_old} FROM {{p}}trees WHERE id = %s", (holder, number))[0][0]:
        return
    others = "WHERE %(holder)s = ANY(holders) AND id <> %(tree)s"
    values = {"holder": holder, "tree": number, "more": MOST_HOLDERS - 2}
    left = f"UPDATE {{p}}trees SET holders = array_remove(holders, %(holder)s), used = now() {others}"
    held = (
        "UPDATE {p}trees SET used = now(), dropped = NULL, holders = (array_remove(holders, %(holder)s) ||"
        " %(holder)s::text)[greatest(1, cardinality(holders) - %(more)s):] WHERE id = %(tree)s"
    )
    with session.transaction():
        session.execute(left, values)
        session.execute(held, values)
        move_to_new_roots(session)


def _create(session: SearchSession) -> list[str]:
    """Create the schema and the tables if they are missing, and return the statements that create their indexes."""
    if has_tables(session):
        return []
    name = session.database.schema
    if not session.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)):
        session.execute(f'CREATE SCHEMA "{name}"')
    schema = vector_schema(session) or _created_extension(session)
    tables, indexes = table_statements("bytea" if schema is None else f'"{schema}".vector')
    for statement in tables:
        session.execute(statement)
    return indexes


def _created_extension(session: SearchSession) -> str | None:
    """Create the extension pgvector if the server has it and the role may, and return its schema."""
    if not session.ask("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        return None
    for schema in ("public", session.database.schema):
        session.execute("SAVEPOINT extension")
        try:
            session.execute(f'CREATE EXTENSION vector SCHEMA "{schema}"')
        except KtxError:  # the role may not: vectors are then compared by this program
            session.execute("ROLLBACK TO extension")
        else:
            return schema
    return None


def _embed(
    session: SearchSession, tree: int, embedder: Embedder | None, emit: Emit, *, check_length: bool = False
) -> int:
    """Store the missing vectors of a tree, and return their number. Finished batches are kept."""
    if embedder is None:
        return 0
    from ktx_cli.search.vectors import EMBEDDED, embedded_text, length_of, model_name, packed, unpack

    model = model_name(embedder)
    known = session.ask("SELECT dimensions FROM {p}models WHERE tree = %s AND model = %s", (tree, model))
    if known:
        dimensions = known[0][0]
        length = length_of(embedder, dimensions) if check_length and dimensions else dimensions
        if length == dimensions or not _drop_other_lengths(session, model, length):
            return 0
    parts = parts_of(session, tree)
    missing = session.ask(
        "SELECT DISTINCT ON (d.digest) d.digest, d.name, d.summary, d.fields FROM {p}docs AS d"
        f" WHERE {parts.contain('d.part')} AND d.kind = ANY(%(kinds)s) AND NOT EXISTS (SELECT FROM {{p}}vectors AS v"
        " WHERE v.model = %(model)s AND v.digest = d.digest) ORDER BY d.digest, d.id",
        {**parts.values, "kinds": list(EMBEDDED), "model": model},
    )
    schema = vector_schema(session) if compares_vectors(session) else None
    if missing:
        insert = "INSERT INTO {p}vector_models VALUES (%s, now()) ON CONFLICT (model) DO UPDATE SET added = now()"
        session.execute(insert, (model,))
    kind, given_as = (f'"{schema}".vector', "text") if schema else ("bytea", "bytea")
    for start in range(0, len(missing), embedder.batch_size):
        batch = missing[start : start + embedder.batch_size]
        texts = [embedded_text(name, summary, bytes(fields)) for _, name, summary, fields in batch]
        vectors = list(map(packed, embedder.embed(texts)))
        if start == 0 and _drop_other_lengths(session, model, len(vectors[0]) // 4):
            return _embed(session, tree, embedder, emit)
        given = [f"[{','.join(map(repr, unpack(each)))}]" for each in vectors] if schema else vectors
        session.execute(
            f"INSERT INTO {{p}}vectors SELECT %s, d, v::{kind} FROM unnest(%s::bytea[], %s::{given_as}[]) AS own (d, v)"
            " ON CONFLICT DO NOTHING",
            (model, [bytes(digest) for digest, *_ in batch], given),
        )
        emit(StepProgress("vectors", start + len(batch), len(missing)))
    with session.transaction():
        _record_model(session, tree, model)
    return len(missing)


def _length(session: SearchSession) -> str:
    """Return the SQL for the number of dimensions of a vector."""
    if compares_vectors(session):
        return f'"{vector_schema(session)}".vector_dims(v.vector)'
    return "length(v.vector) / 4"


def _drop_other_lengths(session: SearchSession, model: str, dimensions: int) -> bool:
    """Delete the vectors of a model that now returns vectors of another length, and return whether there were any.

    A tree without vectors gets new ones when its next run refreshes the index.
    """
    with session.transaction():
        of_model = f"FROM {{p}}vectors AS v WHERE v.model = %s AND {_length(session)} <> %s"
        if not session.execute(f"DELETE {of_model}", (model, dimensions)):
            return False
        session.execute("DELETE FROM {p}models WHERE model = %s", (model,))
    return True


def _record_model(session: SearchSession, tree: int, model: str) -> None:
    """Record that a tree has the vectors of a model."""
    session.execute(
        f"INSERT INTO {{p}}models (tree, model, dimensions) SELECT %s, %s, coalesce((SELECT {_length(session)}"
        " FROM {p}vectors AS v WHERE v.model = %s LIMIT 1), 0) ON CONFLICT DO NOTHING",
        (tree, model, model),
    )
    if not session.ask("SELECT 1 FROM {p}vectors WHERE model = %s OFFSET 1000 LIMIT 1", (model,)):
        return
    session.execute("ANALYZE {p}vectors")


def _drop_former_models(session: SearchSession) -> None:
    """Delete the vectors of models that no stored tree has, if no run added one within the time that trees are kept.

    A run that was interrupted leaves vectors of a model that no tree has yet, and the next run adds the others.
    """
    former = (
        "SELECT model FROM {p}vector_models WHERE model NOT IN (SELECT m.model FROM {p}models AS m"
        f" JOIN {{p}}trees AS t ON t.id = m.tree) AND added < now() - interval '{KEPT_DAYS} days'"
    )
    if session.ask(f"{former} LIMIT 1"):
        with session.transaction():
            session.execute(f"DELETE FROM {{p}}vectors WHERE model IN ({former})")
            session.execute(f"DELETE FROM {{p}}vector_models WHERE model IN ({former})")
