"""The connection to a search index in Postgres, and its tables, which belong to one version of the index."""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import StorageError
from ktx_cli.project import connect, database_failure, missing_right_hint
from ktx_cli.search.store import VERSION

if TYPE_CHECKING:
    import psycopg

    from ktx_cli.project import SharedDatabase

SHARED_VERSION: Final = 3
"""Version of the tables in Postgres. Together with `VERSION`, it is part of their names."""
PREFIX: Final = f"search_{VERSION}_{SHARED_VERSION}_"
"""Precedes the names of all tables, so that hosts with another version of ktx have their own."""

_TEXT: Final = 'text COLLATE "C" NOT NULL'
TABLES: Final = (
    "CREATE TABLE {p}trees (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest {text} UNIQUE,"
    " root integer NOT NULL, added integer[] NOT NULL, gone integer[] NOT NULL, units integer NOT NULL,"
    " documents bigint NOT NULL, size bigint NOT NULL, totals jsonb NOT NULL, holders text[] NOT NULL,"
    " used timestamptz NOT NULL, dropped timestamptz)",
    'CREATE TABLE {p}units (tree integer NOT NULL, unit {text}, digest text COLLATE "C", PRIMARY KEY (tree, unit))',
    "CREATE TABLE {p}parts (id integer PRIMARY KEY, unit {text}, name {text}, digest {text},"
    ' words text[] COLLATE "C" NOT NULL, UNIQUE (unit, name, digest))',
    "CREATE TABLE {p}root_parts (root integer NOT NULL, part integer NOT NULL, PRIMARY KEY (root, part))",
    "CREATE INDEX ON {p}root_parts (part)",
    "CREATE TABLE {p}docs (id bigint PRIMARY KEY, part integer NOT NULL, kind {text}, name {text}, connection {text},"
    " owner {text}, internal boolean NOT NULL, tags text[] NOT NULL, place integer NOT NULL, summary {text},"
    " length float8 NOT NULL, worth float8 NOT NULL, size integer NOT NULL, digest bytea NOT NULL,"
    " fields bytea NOT NULL, texts {text})",
    "CREATE INDEX ON {p}docs (part)",
    "CREATE INDEX ON {p}docs (digest)",
    "CREATE INDEX {p}docs_of_owner ON {p}docs (owner) WHERE owner <> ''",
    "CREATE TABLE {p}postings (stem {text}, doc bigint NOT NULL, part integer NOT NULL, amount real NOT NULL,"
    " size integer NOT NULL, flags smallint NOT NULL)",
    "CREATE INDEX {p}postings_of_stem ON {p}postings (stem, doc) INCLUDE (part, amount, size, flags)",
    "CREATE INDEX ON {p}postings (part)",
    "CREATE TABLE {p}terms (root integer NOT NULL, stem {text}, docs integer NOT NULL, found integer NOT NULL,"
    " PRIMARY KEY (root, stem) INCLUDE (docs, found))",
    "CREATE TABLE {p}words (root integer NOT NULL, word {text}, backwards {text}, stem {text},"
    " parts integer NOT NULL, PRIMARY KEY (root, word))",
    "CREATE INDEX ON {p}words (root, backwards)",
    "CREATE TABLE {p}mentions (name {text}, doc bigint NOT NULL, PRIMARY KEY (name, doc))",
    "CREATE INDEX ON {p}mentions (doc)",
    "CREATE TABLE {p}vectors (model {text}, digest bytea NOT NULL, vector {vector} NOT NULL,"
    " PRIMARY KEY (model, digest))",
    "CREATE TABLE {p}vector_models (model {text} PRIMARY KEY, added timestamptz NOT NULL)",
    "CREATE TABLE {p}models (tree integer NOT NULL, model {text}, dimensions integer NOT NULL,"
    " PRIMARY KEY (tree, model))",
)
"""The tables:

* `trees`: one state of the files of a project each. A tree is a root, or differs little from one: `added` and `gone`
  are the parts that its root does not have, and those that only its root has. `holders` are the working trees whose
  last run stored it.
* `units`: the units of roots, and of other trees those that differ from their root, with the digest NULL if they lack
  one.
* `root_parts`, `terms`, `words`: what belongs to a root. `terms` counts the documents with a stem (`docs`), and those
  with it in a column that searches look in (`found`); `words` counts the parts with a word. The counts of other trees
  follow from the content of the parts in which they differ. The rows of a root stay as long as a tree refers to it.
* `parts`, `docs`, `postings`, `mentions`: content by digest, stored once for all trees. `postings` has the weighted
  count of a stem in a document (`amount`), by which documents are found and ranked. A tsvector has four weights instead
  of six and no count above 256, and counting the matches of a query with its GIN index takes ten times as long.
* `vectors`: vectors by content.
* `vector_models`, `models`: when a run last added vectors of each model, and which trees have them.
"""


def table_statements(vector: str) -> tuple[list[str], list[str]]:
    """Return the statements that create the tables, and those that create their indexes, which is faster after a load.

    `vector` is the type of vectors.
    """
    statements = [each.format(p=PREFIX, text=_TEXT, vector=vector) for each in TABLES]
    is_index = [each.startswith("CREATE INDEX") for each in statements]
    tables = [each for each, later in zip(statements, is_index, strict=True) if not later]
    return tables, [each for each, later in zip(statements, is_index, strict=True) if later]


class SearchSession:
    """A connection to the database of an index. Statements run one after the other; safe for several threads.

    `{p}` in a statement stands for the prefix of the tables. If the server was restarted, a statement outside a
    transaction is sent again once. Raises `StorageError`.
    """

    def __init__(self, database: SharedDatabase, *, read_only: bool) -> None:
        self.database = database
        self._read_only = read_only
        self._lock = threading.RLock()
        self._session: psycopg.Connection[Any] | None = None
        self._began = False

    def ask(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Return all rows of a query."""
        cursor = self._run(lambda session: session.execute(_named(sql), parameters or None))
        rows: list[Any] = cursor.fetchall()
        return rows

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Run a statement and return the number of its rows."""
        return int(self._run(lambda session: session.execute(_named(sql), parameters or None)).rowcount)

    def copy(self, sql: str, lines: str) -> None:
        """Run a `COPY ... FROM STDIN` with lines in its text format."""

        def send(session: psycopg.Connection[Any]) -> None:
            with session.cursor() as cursor, cursor.copy(_named(sql)) as copy:
                copy.write(lines)

        self._run(send)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one transaction, one writer of the schema at a time."""
        self.execute("BEGIN")
        self._began = True
        try:
            self.execute("SELECT pg_advisory_xact_lock(%s)", (self.database.lock_key_of("search"),))
            yield
            self.execute("COMMIT")
        except BaseException:
            self._began = False
            with contextlib.suppress(Exception):  # the first error counts; a lost connection has rolled back
                self.execute("ROLLBACK")
            raise
        finally:
            self._began = False

    def close(self) -> None:
        """Close the connection. The next statement opens it again."""
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.close()

    def _run(self, send: Any) -> Any:
        import psycopg

        with self._lock:
            for last in (False, True):
                was_open = self._session is not None
                try:
                    if self._session is None:
                        self._session = self._opened()
                    return send(self._session)
                except psycopg.Error as error:
                    lost = self._session is None or self._session.closed
                    if lost:
                        self._session = None
                    if last or not lost or not was_open or self._began:
                        raise search_failure(self.database, error) from error
        raise AssertionError("unreachable")

    def _opened(self) -> psycopg.Connection[Any]:
        session = connect(self.database, read_only=self._read_only)
        try:
            session.execute("SET jit = off")  # compiling a query takes longer than running it
        except BaseException:
            session.close()
            raise
        return session


@functools.lru_cache(maxsize=256)
def _named(sql: str) -> Any:
    return sql.replace("{p}", PREFIX).encode()


def search_failure(database: SharedDatabase, error: Exception) -> StorageError:
    """Return the error for a failed statement or connection."""
    return database_failure(database, error, "the search database")


_READERS: dict[SharedDatabase, SearchSession] = {}
_READERS_LOCK: Final = threading.Lock()


def reader_of(database: SharedDatabase) -> SearchSession:
    """Return this process's connection for reading, which stays open."""
    with _READERS_LOCK:
        if not _READERS:
            atexit.register(close_search_readers)
        if database not in _READERS:
            _READERS[database] = SearchSession(database, read_only=True)
        return _READERS[database]


def close_search_readers() -> None:
    """Close the connections for reading; reading opens them again."""
    with _READERS_LOCK:
        while _READERS:
            _READERS.popitem()[1].close()


def vector_schema(session: SearchSession) -> str | None:
    """Return the schema of the extension pgvector, or None without it."""
    query = "SELECT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace"
    rows = session.ask(f"{query} WHERE e.extname = 'vector'")
    return str(rows[0][0]) if rows else None


@dataclass(frozen=True, slots=True)
class VectorFacts:
    """What compares the vectors of an index. `in_database`: pgvector does, in the existing tables; None without them.

    `is_installed`, `is_available`: the extension, in the database and on the server; `may_install`: the user may.
    """

    in_database: bool | None
    is_installed: bool
    is_available: bool
    may_install: bool


_AVAILABLE: Final = """
    SELECT bool_or(trusted AND has_database_privilege(current_database(), 'CREATE')
                   OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user))
    FROM pg_available_extension_versions WHERE name = 'vector'
"""


def vector_facts(database: SharedDatabase) -> VectorFacts:
    """Return the facts about the vectors of an index; raises `StorageError`."""
    session = reader_of(database)
    ((may_install,),) = session.ask(_AVAILABLE)
    in_database = compares_vectors(session) if has_tables(session) else None
    return VectorFacts(in_database, vector_schema(session) is not None, may_install is not None, bool(may_install))


def drop_statement(database: SharedDatabase) -> str:
    """Return the statement that deletes an index, which the next `ktx index` builds again."""
    names = (f'"{database.schema}".{each.split()[2]}' for each in table_statements("bytea")[0])
    return f"DROP TABLE {', '.join(names)}"


def has_tables(session: SearchSession) -> bool:
    """Return whether the tables of this version exist; raises `StorageError` if the user may not use their schema."""
    # A query of the catalog, unlike `to_regclass`, sees the tables that another host has just created.
    query = (
        "SELECT has_schema_privilege(n.oid, 'USAGE'), current_user::text "
        "FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    )
    database = session.database
    rows = session.ask(f"{query} WHERE n.nspname = %s AND c.relname = '{{p}}trees'", (database.schema,))
    if rows and not rows[0][0]:
        why = f"the user `{rows[0][1]}` lacks the right USAGE on the schema"
        raise StorageError(f"the search database cannot be used ({database}): {why}", hint=missing_right_hint())
    return bool(rows)


def is_indexed(database: SharedDatabase) -> bool:
    """Return whether an index has the files of any working tree; raises `StorageError`."""
    session = reader_of(database)
    if not has_tables(session):
        return False
    ((found,),) = session.ask("SELECT EXISTS (SELECT FROM {p}trees WHERE dropped IS NULL)")
    return bool(found)


def compares_vectors(session: SearchSession) -> bool:
    """Return whether the vectors of the index are of the type of pgvector, so that the database compares them."""
    query = "SELECT atttypid::regtype::text <> 'bytea' FROM pg_attribute"
    rows = session.ask(f"{query} WHERE attrelid = to_regclass('{{p}}vectors') AND attname = 'vector'")
    return bool(rows and rows[0][0])
