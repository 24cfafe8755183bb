"""The contract of a context source: the requirements for every source, as tests for its author to run.

Subclass `SourceContract` in a test module and add a fixture `case`: a source with some content, and what a test may do
to it.

    class TestDictionary(SourceContract):
        @pytest.fixture
        def case(self, tmp_path):
            folder = tmp_path / "dictionary"
            folder.mkdir()
            (folder / "orders.csv").write_text("column,description\nid,Number of the order\n")
            return SourceCase(
                {"driver": "dictionary", "path": str(folder)},
                change=lambda: (folder / "orders.csv").write_text("column,description\nid,Order number\n"),
                remove=(folder / "orders.csv").unlink,
                breaks=lambda: folder.rename(tmp_path / "gone"),
            )
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest

from ktx_cli.core import CancelledError, KtxError
from ktx_cli.documents import Changes, Snapshot
from ktx_cli.project import SOURCES, Connection, Database, Layout, SourceConnection, Workspace, parse_connection
from ktx_cli.prompts import load_skills
from ktx_cli.semantic import Model, check_model, load_tree
from ktx_cli.sources import (
    Delivery,
    FetchContext,
    FileState,
    ProjectContext,
    Projection,
    RawStore,
    Source,
    compare,
    parse_delivery,
    render_delivery,
    source_for,
    sources_of,
)

CONNECTION: Final = "warehouse"
"""The database of the contract's project, with the tables `customers` and `orders`."""

SHARD: Final = f"semantic-layer/{CONNECTION}/_schema/shop.yaml"
TABLES: Final = """\
tables:
  customers:
    table: shop.customers
    columns:
      - {name: id, type: number, pk: true}
      - {name: name, type: string}
      - {name: country, type: string}
  orders:
    table: shop.orders
    descriptions: {user: What people bought}
    columns:
      - {name: id, type: number, pk: true}
      - {name: customer_id, type: number}
      - {name: status, type: string}
      - {name: ordered_at, type: time}
      - {name: amount, type: number}
"""


@dataclass(frozen=True)
class SourceCase:
    """A source under test, with content for at least two files.

    `settings`: its connection, as in `ktx.yaml`. `change`: changes something in it. `remove`: removes something, so
    that a raw file disappears. `breaks`: makes the whole source unreadable. `damage`: makes one part of it unreadable,
    if that can happen. `source`: the source itself, if a test needs a client of its own; else that of the driver.
    `environ`: environment variables. `secrets`: texts that must not be in any raw file or message. `connection`: the id
    of the connection.
    """

    settings: Mapping[str, Any]
    change: Callable[[], object]
    remove: Callable[[], object]
    breaks: Callable[[], object]
    damage: Callable[[], object] | None = None
    source: Source | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    connection: str = "notes"


class _Files(dict[str, bytes]):
    """A tree in memory."""

    def read(self, path: str) -> bytes | None:
        return self.get(path)

    def paths(self, prefix: str) -> list[str]:
        return [path for path in sorted(self) if path.startswith(prefix)]


class Subject:
    """A case in its own project: fetches, projections and units as in a run."""

    def __init__(self, case: SourceCase, root: Path) -> None:
        self.case = case
        self.root = root
        self.layout = Layout(root)
        self.raw = RawStore(self.layout.raw_store)
        self.entry: Connection = parse_connection(dict(case.settings))
        self.entry._id = case.connection
        self.source = case.source or sources_of(self.entry)[0]
        self.files = _Files({SHARD: TABLES.encode()})

    def context(self, last: Snapshot | None = None, **fields: Any) -> FetchContext:
        """Return the context for a fetch. `last`: the result of the previous fetch."""
        context = FetchContext(self.case.connection, self.layout, self.case.environ, self.raw, models=self.models())
        if last is not None:
            previous = {path: file.sha256 for path, file in last.files.items()}
            context = replace(context, cursor=last.cursor, previous=previous)
        return replace(context, **fields)

    def fetch(self, last: Snapshot | None = None, **fields: Any) -> Snapshot:
        """Return the content that the source provides."""
        return self.source.fetch(self.entry, self.context(last, **fields))

    def models(self, tree: Any = None) -> dict[str, Model]:
        """Return the semantic layer of the project's database."""
        connection = self.case.connection if isinstance(self.entry, Database) else CONNECTION
        return {connection: load_tree(self.files if tree is None else tree, connection, "duckdb")}

    def project(self, snapshot: Snapshot, workspace: Workspace, owned: Mapping[str, Any] | None = None) -> Projection:
        """Return the changes that the source wrote to an overlay without a model."""
        context = ProjectContext(self.case.connection, workspace, self.models(workspace), owned or {})
        return self.source.project(self.entry, snapshot, context)

    def on_disk(self) -> dict[str, bytes]:
        """Return the project's files on disk, without the cache."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in found if ".ktx" not in path.parts}


class SourceContract:
    """The tests. A subclass has a fixture `case` that returns a `SourceCase`, the source under test."""

    @pytest.fixture
    def subject(self, case: SourceCase, tmp_path: Path) -> Iterator[Subject]:
        """The case in an empty project."""
        root = tmp_path / "project"
        root.mkdir(exist_ok=True)
        yield Subject(case, root)

    def test_it_is_a_source_of_its_driver(self, subject: Subject) -> None:
        """`ktx.yaml` accepts its settings, and the registry maps its driver to its class."""
        entry = subject.entry
        assert isinstance(subject.source, Source)
        if isinstance(entry, Database):
            return
        kind = SOURCES.find(entry.driver)
        assert kind is not None and kind.driver == entry.driver
        assert isinstance(entry, SourceConnection)
        assert type(entry) is SOURCES.refer(entry.driver, "settings")
        assert type(entry).__doc__, "the docstring of the settings model must describe the source"
        assert isinstance(subject.source, type(source_for(entry.driver)))

    def test_it_names_its_kind_and_skills_that_exist(self, subject: Subject) -> None:
        """Its kind is a valid folder name, and its agents can load its skills."""
        source = subject.source
        assert source.kind and PurePosixPath(source.kind).name == source.kind, "the kind must be a valid folder name"
        assert set(source.skills) <= set(load_skills(subject.root))

    def test_a_check_says_what_is_there_in_one_line(self, subject: Subject, case: SourceCase) -> None:
        """`ktx connection test` prints one line without secrets."""
        line = subject.source.check(subject.entry, subject.context())
        assert line and "\n" not in line
        assert not [secret for secret in case.secrets if secret in line]

    def test_a_fetch_is_complete_and_hashed(self, subject: Subject) -> None:
        """A fetch returns everything, sorted, under relative paths, with correct hashes and sizes."""
        found = subject.fetch()
        assert found.complete, f"nothing is wrong with the source, but these files were skipped: {found.skipped}"
        assert found.files and list(found.files) == sorted(found.files)
        assert "\n" not in found.origin
        for path, file in found.files.items():
            content = file.read()
            assert file.path == path == PurePosixPath(path).as_posix()
            assert not path.startswith("/") and ".." not in PurePosixPath(path).parts
            assert (file.sha256, file.size) == (hashlib.sha256(content).hexdigest(), len(content))

    def test_a_fetch_of_the_same_is_the_same(self, subject: Subject) -> None:
        """Two fetches of the same source are equal: raw files contain no request order, time or id."""
        first, second = subject.fetch(), subject.fetch()
        assert first.files == second.files
        assert (first.origin, first.cursor) == (second.origin, second.cursor)

    def test_a_manifest_keeps_what_was_fetched(self, subject: Subject) -> None:
        """Paths round-trip through the manifest, so that the next run sees no changes."""
        found = subject.fetch()
        text = render_delivery(_manifest(found))
        assert compare(parse_delivery(text, "manifest.yaml"), found, model=True).touched == frozenset()

    def test_the_next_fetch_reads_only_what_changed(self, subject: Subject, case: SourceCase) -> None:
        """With `previous` and `cursor`, a fetch reads only changes, but still returns everything that a full fetch
        returns.
        """
        first = subject.fetch()
        again = subject.fetch(first)
        assert again.files == first.files and again.complete
        assert again.fetched < first.fetched or again.fetched == 0
        case.change()
        second = subject.fetch(again)
        assert second.files == subject.fetch().files, "must equal the result of a full fetch"
        changes = compare(_manifest(first), second, model=True)
        assert changes.touched, "`change` must change a raw file"
        assert 0 < second.fetched <= len(second.files)

    def test_what_is_removed_is_deleted(self, subject: Subject, case: SourceCase) -> None:
        """Content removed from the source is missing from a complete snapshot."""
        first = subject.fetch()
        case.remove()
        try:
            second = subject.fetch(first)
        except KtxError as error:  # An empty source may count as one that cannot be read.
            assert error.hint
            return
        assert second.complete
        assert compare(_manifest(first), second, model=True).deleted

    def test_a_source_that_cannot_be_read_fails(self, subject: Subject, case: SourceCase) -> None:
        """A source that cannot be read is an error with a hint, never an empty snapshot."""
        first = subject.fetch()
        case.breaks()
        for context in (subject.context(), subject.context(first)):
            with pytest.raises(KtxError) as failed:
                subject.source.fetch(subject.entry, context)
            assert failed.value.message and failed.value.hint, "an error must have a hint"
            assert not [secret for secret in case.secrets if secret in f"{failed.value.message} {failed.value.hint}"]

    def test_a_part_that_cannot_be_read_deletes_nothing(self, subject: Subject, case: SourceCase) -> None:
        """A part that fails is reported, and nothing counts as deleted."""
        if case.damage is None:
            pytest.skip("the source has no parts that can fail separately")
        first = subject.fetch()
        case.damage()
        try:
            second = subject.fetch(first)
        except KtxError as error:
            assert error.hint
            return
        assert second.skipped, "what could not be read must be reported"
        assert not compare(_manifest(first), second, model=True).deleted

    def test_a_fetch_that_is_asked_to_end_ends(self, subject: Subject) -> None:
        """A fetch checks `stopped` and raises `CancelledError`."""
        with pytest.raises(CancelledError):
            subject.fetch(stopped=lambda: True)

    def test_no_secret_is_kept(self, subject: Subject, case: SourceCase) -> None:
        """Neither raw files nor the cursor contain a secret of the connection."""
        found = subject.fetch()
        kept = [found.origin.encode(), str(found.cursor).encode(), *(file.read() for file in found.files.values())]
        assert not [secret for secret in case.secrets if any(secret.encode() in content for content in kept)]

    def test_a_fetch_writes_nothing_into_the_project(self, subject: Subject, tmp_path: Path) -> None:
        """A fetch writes only to the given raw store and cache."""
        before = subject.on_disk()
        subject.fetch()
        assert subject.on_disk() == before
        scratch = tmp_path / "scratch"
        state = sorted(subject.layout.cache.rglob("*"))
        subject.fetch(raw=RawStore(scratch), cache=scratch / "cache")
        assert sorted(subject.layout.cache.rglob("*")) == state, "a dry run has its own cache"

    def test_a_projection_writes_to_its_overlay_alone(self, subject: Subject) -> None:
        """A projection changes the overlay, and lists each file it wrote with the raw files it comes from."""
        found = subject.fetch()
        before = subject.on_disk()
        workspace = Workspace(subject.files)
        projection = subject.project(found, workspace)
        assert subject.on_disk() == before and subject.files == {SHARD: TABLES.encode()}
        written = {path for path, content in workspace.changes().items() if content is not None}
        assert written <= set(projection.artifacts), "every file that is written must be an artifact"
        assert all(path.startswith(("semantic-layer/", "wiki/")) for path in written)
        assert all(workspace.exists(path) for path in projection.artifacts)
        assert {raw for paths in projection.artifacts.values() for raw in paths} <= set(found.files)
        assert projection.handled <= set(found.files)

    def test_a_projection_is_the_same_for_the_same_input(self, subject: Subject) -> None:
        """The same input gives the same output, and repeating a projection on its own output changes nothing."""
        found = subject.fetch()
        once, twice = Workspace(subject.files), Workspace(subject.files)
        first, second = subject.project(found, once), subject.project(found, twice)
        assert first == second and once.changes() == twice.changes()
        child = once.child()
        again = subject.project(found, child, first.owned)
        assert child.changes() == {}, "unchanged content must not be written again"
        assert again.owned == first.owned

    def test_a_projection_breaks_no_definition(self, subject: Subject) -> None:
        """The semantic layer still loads without errors."""
        workspace = Workspace(subject.files)
        subject.project(subject.fetch(), workspace)
        for model in subject.models(workspace).values():
            wrong = [each for each in (*model.problems, *check_model(model)) if each.severity == "error"]
            assert wrong == []

    def test_what_people_wrote_stays(self, subject: Subject) -> None:
        """Texts that people wrote in the files are kept."""
        workspace = Workspace(subject.files)
        subject.project(subject.fetch(), workspace)
        assert "What people bought" in (workspace.read_text(SHARD) or "")

    def test_units_are_the_work_of_what_changed(self, subject: Subject) -> None:
        """Units have stable keys and an order, contain files of the snapshot, and only arise from changes."""
        found = subject.fetch()
        projection = subject.project(found, Workspace(subject.files))
        changes = Changes(added=tuple(found.files))
        units = subject.source.units(subject.entry, found, changes, projection)
        assert units == subject.source.units(subject.entry, found, changes, projection)
        keys = [unit.key for unit in units]
        assert len(set(keys)) == len(keys), "keys must be unique"
        assert all(unit.files and unit.label for unit in units)
        assert {path for unit in units for path in unit.readable} <= set(found.files)
        if subject.source.documents:
            assert {path for unit in units for path in unit.files} == set(found.files), (
                "every document must be in a unit"
            )
        nothing = Changes(unchanged=tuple(found.files))
        assert subject.source.units(subject.entry, found, nothing, projection) == ()

    def test_nothing_follows_from_no_evidence(self, subject: Subject) -> None:
        """Without evidence from units, the source writes nothing after them."""
        found = subject.fetch()
        workspace = Workspace(subject.files)
        projection = subject.project(found, workspace)
        child = workspace.child()
        models = subject.models(workspace)
        context = ProjectContext(subject.case.connection, child, models, projection.owned)
        conclusion = subject.source.after_units(subject.entry, found, context, ())
        assert child.changes() == {} and not conclusion.pages and not conclusion.artifacts
        assert conclusion.error is None and not conclusion.warnings


def _manifest(snapshot: Snapshot) -> Delivery:
    """Return the manifest of a run in which the whole snapshot was processed."""
    return Delivery({path: FileState(file.sha256) for path, file in snapshot.files.items()})
