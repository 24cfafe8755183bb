"""The status of definitions according to git, which records who accepted a definition's current form.

A file claims a status, and a person's commit confirms it. Definitions that a ktx run wrote are proposed, whatever the
file claims. The state database caches the result for queries.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import ConfigError, is_utf8, now, yaml
from ktx_cli.project import OWNERS_NAME, Layout, StateDatabase, WorkingTree, read_local, read_state, transaction
from ktx_cli.semantic.manifest import is_shard_path, is_yaml
from ktx_cli.semantic.model import Status
from ktx_cli.semantic.status import Claim, Definition, DefinitionKind, DefinitionStatus, Used, claims_in, lowest

if TYPE_CHECKING:
    from ktx_cli.project import FileCommit, History, Repository, TreeView

MOST_COMMITS: Final = 500
"""Maximum number of commits to search in a file's history for the acceptance of a definition."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A person who may accept and certify definitions. `sources` are name patterns; empty means all sources."""

    email: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Owners:
    """The owners of a project. If `stated` is false, there is no owners file, and everybody may accept."""

    people: tuple[Owner, ...] = ()
    stated: bool = False

    def has(self, email: str, source: str) -> bool:
        """Whether a person owns a source."""
        wanted = email.casefold()
        return any(
            each.email.casefold() == wanted
            and (not each.sources or any(fnmatchcase(source, pattern) for pattern in each.sources))
            for each in self.people
        )


def owners_in(content: bytes | None) -> Owners:
    """Parse `owners.yaml`. Raises `ConfigError` for an invalid file."""
    if content is None:
        return Owners()
    document = yaml.load(content, where=OWNERS_NAME)
    people = document.get("owners") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(people, list) or document.keys() != {"owners"}:
        raise _wrong("the file must have a single key, `owners`, with a list")
    return Owners(tuple(_owner(each, number) for number, each in enumerate(people, 1)), True)


def _owner(value: Any, number: int) -> Owner:
    if isinstance(value, str):
        value = {"email": value}
    if not isinstance(value, dict) or not isinstance(value.get("email"), str) or "@" not in value["email"]:
        raise _wrong(f"owner {number} has no `email`")
    if unknown := value.keys() - {"email", "sources"}:
        raise _wrong(f"owner {number} has the unknown key `{min(map(str, unknown))}`")
    sources = value.get("sources", [])
    if not isinstance(sources, list) or not all(isinstance(each, str) for each in sources):
        raise _wrong(f"`sources` of owner {number} must be a list of names")
    return Owner(value["email"], tuple(sources))


def _wrong(what: str) -> ConfigError:
    hint = 'for example `owners: [{email: ada@example.com, sources: ["orders*"]}]`'
    return ConfigError(f"{OWNERS_NAME} is invalid: {what}", hint=hint)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The status of a definition's current form according to its file's history."""

    claim: Claim
    status: Status
    why: str
    commit: str | None = None
    """The commit that accepted the definition."""

    @property
    def row(self) -> tuple[str, Status, str, str | None, str | None]:
        """The stored values besides the definition's name."""
        until = self.claim.review_by
        return self.claim.fingerprint, self.status, self.why, None if until is None else until.isoformat(), self.commit


class Moves:
    """The previous locations of definitions in the manifest: a layout change does not change who accepted what."""

    def __init__(self, history: History, dialect: str) -> None:
        self._history, self.dialect = history, dialect
        self._before: dict[tuple[str, str], tuple[History, dict[Definition, str]]] = {}
        self._commits: dict[tuple[str, str], Sequence[FileCommit]] = {}
        self._claims: dict[bytes, dict[Definition, Claim]] = {}

    def span(
        self, commits: Sequence[FileCommit], path: str, definition: Definition, fingerprint: str
    ) -> list[tuple[FileCommit, Claim]]:
        """Return the commits (newest first) that contain a definition's current form, in its file or other shards."""
        found: list[tuple[FileCommit, Claim]] = []
        for commit in commits:
            claim = self._claims_in(commit.content, path).get(definition)
            if claim is None or claim.fingerprint != fingerprint:
                if commit.content is not None:
                    return found
                break  # a run of another layout had taken the file away
            found.append((commit, claim))
        return [*found, *self._earlier(path, definition, fingerprint, found)]

    def _claims_in(self, content: bytes | None, path: str) -> dict[Definition, Claim]:
        if content is None:
            return {}
        if content not in self._claims:
            self._claims[content] = claims_in(content, path, self.dialect, both_sides=is_shard_path(path))
        return self._claims[content]

    def _earlier(
        self, path: str, definition: Definition, fingerprint: str, found: Sequence[tuple[FileCommit, Claim]]
    ) -> list[tuple[FileCommit, Claim]]:
        """Return the commits before the one that created a shard, if that commit was made by a run."""
        if not found or found[-1][0].run is None or len(found) >= MOST_COMMITS or not is_shard_path(path):
            return []
        made, connection = found[-1][0].commit, path.split("/")[1]
        if (made, connection) not in self._before:
            self._before[made, connection] = self._shards_before(made, connection)
        history, places = self._before[made, connection]
        shard = places.get(definition)
        if shard is None or shard == path:
            return []
        if (made, shard) not in self._commits:
            self._commits[made, shard] = history.of_file(shard, MOST_COMMITS)
        return self.span(self._commits[made, shard], shard, definition, fingerprint)

    def _shards_before(self, commit: str, connection: str) -> tuple[History, dict[Definition, str]]:
        """Return the history before a commit, and the shards that contained definitions at that time."""
        history = self._history.before(commit)
        tree = history.tree()
        shards = [path for path in tree.blobs(Layout.schema_path(connection)) if is_yaml(path) and is_utf8(path)]
        contents = ((path, tree.read(path) or b"") for path in shards)
        claimed = [(path, content) for path, content in contents if _CLAIMED.search(content)]
        return history, {each: path for path, content in claimed for each in self._claims_in(content, path)}


def accepted_in(
    commits: Sequence[FileCommit], path: str, owners: Owners, history: History, moves: Moves
) -> dict[Definition, Accepted]:
    """Return the definitions in a file with their status according to its commits (newest first)."""
    if not commits or commits[0].content is None:
        return {}
    found = {}
    for definition, claim in claims_in(commits[0].content, path, moves.dialect).items():
        span = moves.span(commits, path, definition, claim.fingerprint)
        whole = len(span) < MOST_COMMITS
        found[definition] = Accepted(claim, *_granted(span, definition, owners, history, whole=whole))
    return found


def last_accepted(
    commits: Sequence[FileCommit], path: str, dialect: str, owners: Owners, history: History, definition: Definition
) -> FileCommit | None:
    """Return the newest commit that accepted a different form of a definition, or None.

    The commits of the file are ordered newest first.
    """
    claims = (
        None if each.content is None else claims_in(each.content, path, dialect).get(definition) for each in commits
    )
    forms = groupby(zip(commits, claims, strict=True), key=lambda pair: pair[1] and pair[1].fingerprint)
    for number, (fingerprint, pairs) in enumerate(forms):
        span = [(commit, claim) for commit, claim in pairs if claim is not None]
        if number == 0 or fingerprint is None:
            continue
        if _granted(span, definition, owners, history, whole=True)[0] is not Status.PROPOSED:
            return span[0][0]
    return None


def _granted(
    span: Sequence[tuple[FileCommit, Claim]], definition: Definition, owners: Owners, history: History, *, whole: bool
) -> tuple[Status, str, str | None]:
    """Return the status of a definition's current form from the commits that contain it (newest first).

    Commits that change neither the definition nor its claim do not count.
    """
    status, why = Status.PROPOSED, f"more than {MOST_COMMITS} commits have changed its file since it was written"
    by: str | None = None
    before: Claim | None = None
    for commit, claim in reversed(span):
        if claim == before:
            continue
        if before is not None or whole:
            granted, reason = _of_commit(commit, claim.level, definition, owners, history)
            is_person = commit.run is None or commit.merged
            if is_person or before is None:
                status, why, by = granted, reason, commit.commit if is_person else None
            else:  # a run may lower the status of an unchanged definition, but never raise it
                status = lowest((status, claim.level)) or status
        before = claim
    return status, why, by


def _of_commit(
    commit: FileCommit, level: Status, definition: Definition, owners: Owners, history: History
) -> tuple[Status, str]:
    """Return the status that a commit can give, with a sentence about it."""
    short = commit.commit[:10]
    if commit.run is not None and not commit.merged:
        return Status.PROPOSED, f"ktx run {commit.run} wrote it ({short}), and it has not been accepted"
    if level is Status.PROPOSED:
        return level, f"its file says `status: proposed` ({commit.author} in {short})"
    if owners.has(commit.email, definition.source) or history.has_good_signature(commit.commit):
        done = "certified" if level is Status.CERTIFIED else "accepted"
        return level, f"{commit.author} {done} it on {commit.day} ({short})"
    if owners.stated:
        return Status.PROPOSED, f"{commit.author} wrote it ({short}) and is not its owner in {OWNERS_NAME}"
    if level is Status.CERTIFIED:
        return (
            Status.ACCEPTED,
            f"{commit.author} committed it ({short}); only an owner or a signed commit can certify it",
        )
    return Status.ACCEPTED, f"{commit.author} committed it on {commit.day} ({short})"


def record_acceptances(
    layout: Layout, database: StateDatabase, repository: Repository, dialects: Mapping[str, str]
) -> None:
    """Update the statuses in the state database to the current commit, for connections and their dialects.

    Unchanged files and folders are skipped. Raises `GitError`, `StorageError`, and `ConfigError` for an invalid owners
    file.
    """
    tree = repository.tree(repository.head().commit)
    content = tree.read(OWNERS_NAME)
    owners = owners_in(content)
    stamp = hashlib.sha256(_FORMAT + (content or b"")).hexdigest()
    history = repository.history()
    for connection, dialect in dialects.items():
        folder = Layout.context_paths(connection)[0]
        known = {
            path: (sha256, of)
            for path, sha256, of in database.execute(
                "SELECT path, sha256, stamp FROM accepted_files WHERE connection = ?", (connection,)
            )
        }
        whole = (tree.id_of(folder) or "", stamp)
        if known.pop(folder, None) == whole:
            continue
        paths = defining_files(tree, connection)
        hashes = {path: hashlib.sha256(tree.read(path) or b"").hexdigest() for path in paths}
        changed = {}
        moves = Moves(history, dialect)
        others = [path for path, sha256 in hashes.items() if known.get(path) != (sha256, stamp)]
        for path, commits in history.of_files(folder, others, MOST_COMMITS):
            changed[path] = (hashes[path], accepted_in(commits, path, owners, history, moves))
        with transaction(database):
            for path in [*changed, *(known.keys() - set(paths))]:
                database.execute("DELETE FROM accepted_files WHERE connection = ? AND path = ?", (connection, path))
                database.execute("DELETE FROM statuses WHERE connection = ? AND path = ?", (connection, path))
            for path, (sha256, found) in changed.items():
                database.execute("INSERT INTO accepted_files VALUES (?, ?, ?, ?)", (connection, path, sha256, stamp))
                database.executemany(
                    "INSERT INTO statuses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                    [(*(connection, path, each.kind, each.source, each.name), *of.row) for each, of in found.items()],
                )
            database.execute("INSERT OR REPLACE INTO accepted_files VALUES (?, ?, ?, ?)", (connection, folder, *whole))


_FORMAT: Final = b"2"
"""Version of the records. Files with records of an earlier version are processed again."""


def defining_files(tree: TreeView, connection: str) -> list[str]:
    """Return a connection's files with definitions, or with accepted proposals or joins.

    Files with names that are not valid Unicode are skipped.
    """
    own, shards = Layout.context_paths(connection)[0], Layout.schema_path(connection)
    found = [path for path in tree.blobs(own) if is_yaml(path) and not path.startswith(f"{shards}/")]
    generated = [path for path in tree.blobs(shards) if is_yaml(path)]
    found += [path for path in generated if _CLAIMED.search(tree.read(path) or b"")]
    return [path for path in found if is_utf8(path)]


_CLAIMED: Final = re.compile(rb"\b(?:status: *[\"']?(?:accepted|certified)|source: *[\"']?manual)\b")


@dataclass(frozen=True, slots=True)
class _Row:
    """The record of a definition in the state database. `is_unread`: see `DefinitionStatus`."""

    fingerprint: str
    status: Status
    why: str
    review_by: date | None = None
    is_unread: bool = False


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The record of a file in the state database. `sha256` is None without a record."""

    sha256: str | None = None
    rows: Mapping[Definition, _Row] = field(default_factory=dict)


class Statuses:
    """The statuses of one connection's current definitions, without running git.

    Definitions that are new or have changed since the last run or `ktx index` count as proposed.
    """

    def __init__(self, layout: Layout, connection: str, dialect: str) -> None:
        self._layout, self._connection, self._dialect = layout, connection, dialect
        self._files: dict[str, dict[Definition, _Row] | None] = {}
        self._failing: Mapping[str, str] | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether a run or `ktx index` has recorded statuses for the connection."""

        def ask(database: StateDatabase) -> bool:
            query = "SELECT 1 FROM accepted_files WHERE connection = ? LIMIT 1"
            return database.execute(query, (self._connection,)).fetchone() is not None

        return bool(_asked(self._layout, ask))

    def of(self, used: Used) -> DefinitionStatus:
        """Return the status of a definition behind an answer."""
        found = self._found(used)
        if found.status is not Status.PROPOSED and used.definition.kind is DefinitionKind.MEASURE:
            test = self._failures().get(str(used.definition))
            if test is not None:
                return replace(found, status=Status.PROPOSED, why=f"its test `{test}` failed in the last run")
        return found

    def _found(self, used: Used) -> DefinitionStatus:
        definition = used.definition
        if used.claimed is not None:
            return DefinitionStatus(definition, used.claimed, used.why)
        if used.path is None:
            return DefinitionStatus(definition, Status.ACCEPTED, "it comes from the scan of the database")
        if used.path not in self._files:
            self._files[used.path] = self._current(used.path)
        rows = self._files[used.path]
        if rows is None:
            why = "`ktx index` has not read its history yet"
            return DefinitionStatus(definition, Status.PROPOSED, why, is_unread=True)
        row = rows.get(definition)
        if row is None:
            return DefinitionStatus(definition, Status.PROPOSED, f"it is not a definition in {used.path}")
        if row.status is Status.CERTIFIED and row.review_by is not None and row.review_by < now().date():
            return DefinitionStatus(definition, Status.ACCEPTED, f"its review was due on {row.review_by.isoformat()}")
        return DefinitionStatus(definition, row.status, row.why, row.is_unread)

    def _current(self, path: str) -> dict[Definition, _Row] | None:
        """Return the current definitions in a file, or None without a record."""
        recorded = self._read(path)
        content = WorkingTree(self._layout.root).read(path) or b""
        if recorded.sha256 is None:
            return None
        if hashlib.sha256(content).hexdigest() == recorded.sha256:
            return dict(recorded.rows)
        found = {}
        for definition, claim in claims_in(content, path, self._dialect).items():
            row = recorded.rows.get(definition)
            if row is None or row.fingerprint != claim.fingerprint:
                why = "it has changed since `ktx index` last read its history"
                found[definition] = _Row(claim.fingerprint, Status.PROPOSED, why, is_unread=True)
            else:
                status = lowest((row.status, claim.level)) or row.status
                why = row.why if status is row.status else f"its file sets `status: {status.value}`"
                found[definition] = _Row(claim.fingerprint, status, why, claim.review_by)
        return found

    def _read(self, path: str) -> _Recorded:
        if not is_utf8(path):
            return _Recorded()
        where = (self._connection, path)

        def ask(database: StateDatabase) -> _Recorded:
            query = "SELECT sha256 FROM accepted_files WHERE connection = ? AND path = ?"
            row = database.execute(query, where).fetchone()
            query = (
                "SELECT kind, source, name, fingerprint, status, why, review_by, drift FROM statuses"
                " WHERE connection = ? AND path = ?"
            )
            found = {
                Definition(DefinitionKind(kind), source, name): _Row(
                    fingerprint,
                    Status(status) if drift is None else Status.PROPOSED,
                    drift or why,
                    None if until is None else date.fromisoformat(until),
                )
                for kind, source, name, fingerprint, status, why, until, drift in database.execute(query, where)
            }
            return _Recorded(None if row is None else row[0], found)

        return _asked(self._layout, ask) or _Recorded()

    def _failures(self) -> Mapping[str, str]:
        if self._failing is None:
            found = recorded_tests(self._layout, self._connection)
            failed = {measure: [each.name for each in tests if not each.passed] for measure, tests in found.items()}
            self._failing = {measure: names[0] for measure, names in failed.items() if names}
        return self._failing


def _asked(layout: Layout, ask: Any) -> Any:
    """Query the state of this working tree. A missing database or one of an earlier version has no records."""
    try:
        return read_local(layout, ask)
    except sqlite3.OperationalError:
        return None


@dataclass(frozen=True, slots=True)
class RecordedTest:
    """The last result of a measure's test, with its date."""

    name: str
    passed: bool
    day: str


def recorded_tests(layout: Layout, connection: str) -> dict[str, list[RecordedTest]]:
    """Return the recorded tests for each measure."""

    def ask(database: StateDatabase) -> dict[str, list[RecordedTest]]:
        rows = database.execute(
            "SELECT measures, source, name, passed, finished FROM metric_tests"
            " WHERE connection = ? ORDER BY source, name",
            (connection,),
        )
        found: dict[str, list[RecordedTest]] = {}
        for measures, source, name, passed, day in rows:
            for measure in measures.split("\n"):
                found.setdefault(measure, []).append(RecordedTest(f"{source}.{name}", bool(passed), day))
        return found

    try:
        return read_state(layout, ask) or {}
    except sqlite3.OperationalError:
        return {}


def record_tests(
    database: StateDatabase,
    connection: str,
    results: Iterable[tuple[str, str, Sequence[str], bool]],
    day: str,
    defined: Collection[tuple[str, str]] | None = None,
) -> None:
    """Store test results: (source, test, the test's measures, whether it passed).

    `defined` are all tests (source, test) of the connection; results of other tests are deleted. None keeps all
    results.
    """
    with transaction(database):
        if defined is not None:
            query = "SELECT source, name FROM metric_tests WHERE connection = ?"
            gone = set(database.execute(query, (connection,))) - set(defined)
            database.executemany(
                "DELETE FROM metric_tests WHERE connection = ? AND source = ? AND name = ?",
                [(connection, source, name) for source, name in sorted(gone)],
            )
        database.executemany(
            "INSERT OR REPLACE INTO metric_tests VALUES (?, ?, ?, ?, ?, ?)",
            [
                (connection, source, name, "\n".join(measures), passed, day)
                for source, name, measures, passed in results
            ],
        )
