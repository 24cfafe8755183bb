"""Read Apache Iceberg tables of a catalog or a folder: pyiceberg reads the metadata, and DuckDB the files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from ktx_cli.core import Command, ConfigError, SourceError, one_line
from ktx_cli.warehouses.base import reason, require_file, source_path
from ktx_cli.warehouses.iceberg.schema import Projection, duckdb_type, file_trees, literal
from ktx_cli.warehouses.lake import storage
from ktx_cli.warehouses.lake.folders import find_tables, require_folder, require_tables
from ktx_cli.warehouses.lake.session import LakeConnector, library_message
from ktx_cli.warehouses.lake.settings import secret_values, texts, without_code
from ktx_cli.warehouses.lake.tables import (
    MOST_DELETED,
    MOST_GROUPS,
    Deletions,
    FileGroup,
    LakeTable,
    ReadColumn,
    UnreadableTableError,
    column,
    require_distinct,
)
from ktx_cli.warehouses.port import ConnectionSpec, ObjectProblem, TableRef
from ktx_cli.warehouses.worker.session import Session

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

_NAME_MAPPING: Final = "schema.name-mapping.default"
_FOOTERS: Final = "SELECT file_name, name, repetition_type, num_children, field_id, duckdb_type FROM parquet_schema(?)"


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is needed to map the columns of each file. `constants`: by path, then by field id, as SQL."""

    projection: Projection
    constants: Mapping[str, Mapping[int, str]]


class IcebergConnector(LakeConnector):
    """Iceberg tables in a catalog or in a folder; a namespace is a schema."""

    def __init__(self, spec: ConnectionSpec) -> None:
        self.library = f"pyiceberg {version('pyiceberg')}"
        self._metadata: dict[TableRef, Table] = {}
        self._plans: dict[TableRef, _Plan] = {}
        self._reading = threading.Lock()
        self._root: Path | None = None
        self._folders: dict[TableRef, Path] = {}
        self._names: dict[TableRef, tuple[str, ...]] = {}
        self._spec = spec
        self._catalog: Catalog | None = None
        kind = spec.options.get("catalog")
        if bool(kind) == bool(spec.options.get("path")):
            hint = Command("config", "set", f"connections.{spec.id}.path", "FOLDER")
            raise ConfigError(f"connection `{spec.id}` needs either `path` or `catalog`", hint=hint)
        if kind:
            place = str(spec.options.get("warehouse") or spec.options.get("uri") or kind)
        else:
            self._root = source_path(spec)
            require_folder(spec, self._root)
            place = str(self._root)
        super().__init__(spec, place, secret_values(spec, "credential", "token", "secrets"))

    @property
    def is_remote(self) -> bool:
        """See `LakeConnector`."""
        return self._root is None

    def _list(self) -> tuple[list[TableRef], list[ObjectProblem]]:
        if self._root is not None:
            from ktx_cli.warehouses.iceberg.folder import metadata_files

            self._folders, problems = find_tables(self._root, lambda folder: bool(metadata_files(folder)))
            return list(self._folders), problems
        problems = []
        wanted = self._own_scope.schemas
        try:
            catalog = self._opened_catalog()
            namespaces = list(_namespaces(catalog))
        except SourceError:
            raise
        except Exception as error:  # noqa: BLE001 (the libraries of catalogs raise whatever they meet)
            text = self.clean(library_message(error))
            raise self.failure(f"cannot list the tables of the catalog: {text}") from None
        self._names = {}
        for namespace in namespaces:
            name = ".".join(namespace)
            if wanted is not None and name not in wanted:
                continue
            try:
                self._names |= {TableRef(name, each[-1]): each for each in catalog.list_tables(namespace)}
            except Exception as error:  # noqa: BLE001 (as above; it costs only this namespace)
                text = self.clean(f"cannot list the tables of the namespace {name}: {library_message(error)}")
                problems.append(ObjectProblem(None, "schema", reason(text)))
        return list(self._names), problems

    def _require_tables(self) -> None:
        if self._root is not None:
            require_tables(self._spec, self._root, "iceberg")
        if self._spec.options["catalog"] == "sql" and not self._own_scope.schemas:
            name = str(self._spec.options.get("catalog_name") or "default")
            hint = Command("config", "set", f"connections.{self.id}.catalog_name", "NAME")
            raise self.failure(f"the SQL catalog has no tables under the name `{one_line(name, 60)}`", hint=hint)

    def _opened_catalog(self) -> Catalog:
        """Return the catalog, opened with the settings of this connection and no other configuration of pyiceberg."""
        if self._catalog is None:
            from pyiceberg.catalog import AVAILABLE_CATALOGS, CatalogType
            from pyiceberg.io import PY_IO_IMPL
            from pyiceberg.typedef import EMPTY_DICT

            from ktx_cli.warehouses.iceberg.folder import LOCAL_ROOT, StoreIO

            options = self._spec.options
            kind = CatalogType(options["catalog"])
            own = {**texts(self._spec, "properties"), **texts(self._spec, "secrets")}
            own |= {key: str(options[key]) for key in ("uri", "warehouse", "credential", "token") if options.get(key)}
            if kind is CatalogType.SQL:
                own |= {"init_catalog_tables": "false", "uri": self._sql_address(own.get("uri", ""))}
            if kind is CatalogType.REST and "credential" in own:
                own.setdefault("oauth2-server-uri", f"{own.get('uri', '').rstrip('/')}/v1/oauth/tokens")
            # Tables are always opened with these two, whatever their metadata or the server says.
            guard = {PY_IO_IMPL: f"{StoreIO.__module__}.{StoreIO.__name__}", LOCAL_ROOT: self._local_root()}
            catalog = AVAILABLE_CATALOGS[kind](str(options.get("catalog_name") or "default"), own | guard)
            load: Callable[..., FileIO] = catalog._load_file_io
            catalog._load_file_io = (  # type: ignore[method-assign]
                lambda properties=EMPTY_DICT, location=None: load({**properties, **guard}, location)
            )
            self._catalog = catalog
        return self._catalog

    def _local_root(self) -> str:
        """Return the folder below which tables of the catalog may be local files, or an empty text if none may."""
        given = str(self._spec.options.get("warehouse") or "")
        is_name = "/" not in given and self._spec.options["catalog"] != "sql"
        if not given or is_name or urlsplit(given).scheme not in ("", "file"):
            return ""
        return str(source_path(replace(self._spec, options={**self._spec.options, "path": given, "url": ""})).resolve())

    def _sql_address(self, uri: str) -> str:
        """Return the address of an SQL catalog; SQLite would create a missing file, and write to an existing one."""
        scheme, _, rest = uri.partition(":///")
        if not scheme.startswith("sqlite"):
            return uri
        path = source_path(
            replace(self._spec, options={**self._spec.options, "path": rest.partition("?")[0], "url": ""})
        )
        require_file(self._spec, path, "SQLite catalog")
        return f"{scheme}:///file:{quote(str(path))}?mode=ro&uri=true"

    def _table(self, ref: TableRef) -> Table:
        """Return a table as it was when this connection first needed it."""
        with self._reading:
            found = self._metadata.get(ref)
        if found is None:
            found = (
                self._in_folder(ref) if self._root is not None else self._opened_catalog().load_table(self._names[ref])
            )
            with self._reading:
                found = self._metadata.setdefault(ref, found)
        return found

    def _in_folder(self, ref: TableRef) -> Table:
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.table import Table
        from pyiceberg.table.metadata import TableMetadataUtil

        from ktx_cli.warehouses.iceberg.folder import FolderIO, current_metadata, read_metadata

        folder = self._folders[ref]
        path = current_metadata(folder)
        metadata = TableMetadataUtil.parse_raw(read_metadata(FolderIO(folder), str(path)))
        io = FolderIO(folder, metadata.location)
        return Table((ref.schema or "", ref.name), metadata, str(path), io, NoopCatalog("folder"))

    def _state(self, ref: TableRef) -> str:
        table = self._table(ref)
        snapshot = table.current_snapshot()
        facts = (table.metadata.table_uuid, table.schema().schema_id, snapshot and snapshot.snapshot_id)
        return repr((*facts, Path(table.metadata_location).name, table.metadata.last_updated_ms))

    def _load(self, ref: TableRef) -> LakeTable:
        table = self._table(ref)
        schema = table.schema()
        require_distinct(field.name for field in schema.fields)
        columns = tuple(
            column(field.name, duckdb_type(field.field_type), nullable=not field.required, comment=field.doc)
            for field in schema.fields
        )
        files = _Files(table, ref, self._local_path(table))
        files.read()
        own = {name for name in schema.identifier_field_names() if name in {each.name for each in schema.fields}}
        key = tuple(field.name for field in schema.fields if field.name in own)
        self._plans[ref] = _Plan(Projection(schema.fields, table.properties.get(_NAME_MAPPING)), files.constants)
        return LakeTable(
            ref,
            columns,
            comment=table.properties.get("comment") or None,
            primary_key=key,
            rows=files.rows,
            partitions=_partition_columns(table),
            groups=(FileGroup(tuple(files.paths), ()),) if files.paths else (),
            deletions=files.deletions,
            remote=files.remote,
            storage={"iceberg": _store_properties(table)} if files.remote else {},
        )

    def _completed(self, table: LakeTable, session: Session) -> LakeTable:
        """Return the table with its files grouped by how their columns are read, from the structure of each file."""
        from ktx_cli.warehouses.lake.tables import pattern

        plan = self._plans[table.ref]
        paths = [path for group in table.groups for path in group.paths]
        if not paths or table.groups[0].columns:
            return table
        rows = session.execute(_FOOTERS, [list(map(pattern, paths))], seconds=self.statement_seconds).rows
        trees = file_trees(rows)
        groups: dict[tuple[ReadColumn, ...], list[str]] = {}
        for path in paths:
            if path not in trees:
                raise UnreadableTableError(f"has a data file whose structure cannot be read: {one_line(path, 80)}")
            groups.setdefault(plan.projection.columns(trees[path], plan.constants.get(path, {})), []).append(path)
        if len(groups) > MOST_GROUPS:
            raise UnreadableTableError(f"has data files with {len(groups)} different structures or partitions")
        return replace(table, groups=tuple(FileGroup(tuple(own), columns) for columns, own in groups.items()))

    def _local_path(self, table: Table) -> Callable[[str], str | None]:
        """Return what maps a location to a local path, or to None if it is in the store of the catalog."""
        if self._root is not None:
            io: Any = table.io
            return lambda location: str(io.path_of(location))
        from ktx_cli.warehouses.iceberg.folder import is_local

        store: Any = table.io
        data = table.properties.get("write.data.path")
        places = [table.location(), *([data] if data else [])]
        folders = [store.path_of(place) for place in places if is_local(place)]

        def local(location: str) -> str | None:
            inside = any(location.startswith(f"{place.rstrip('/')}/") for place in places)
            path = store.path_of(location) if inside and is_local(location) else None
            if not inside or (
                ".." in location.split("/") if path is None else not any(map(path.is_relative_to, folders))
            ):
                raise UnreadableTableError(f"refers to a file outside its location: {one_line(location, 80)}")
            return None if path is None else str(path)

        return local


class _Files:
    """The live files of a table's current snapshot, and their deleted rows."""

    def __init__(self, table: Table, ref: TableRef, local: Callable[[str], str | None]) -> None:
        self._table = table
        self._local = local
        self._name = f"{table.metadata.table_uuid}"
        self._known: dict[str, str] = {}
        self._positions: dict[str, set[int]] = {}
        self._pairs: list[tuple[str, str, str]] = []
        self._vectors: dict[str, dict[str, list[int]]] = {}
        self.paths: list[str] = []
        self.remote: dict[str, tuple[str, int]] = {}
        self.constants: dict[str, dict[int, str]] = {}
        self.rows: int | None = 0

    @property
    def deletions(self) -> Deletions:
        """The deleted rows."""
        return Deletions({path: sorted(found) for path, found in self._positions.items()}, tuple(self._pairs))

    def read(self) -> None:
        """Plan the files. Raises `UnreadableTableError` for what cannot be read exactly."""
        _require_no_equality_deletes(self._table)
        tasks = sorted(self._table.scan().plan_files(), key=lambda task: task.file.file_path)
        types = {field.field_id: field.field_type for field in self._table.schema().fields}
        counted: int | None = 0
        for task in tasks:
            _require_parquet(task.file)
            path = self._path(task.file)
            self.paths.append(path)
            self.constants[path] = _identity_values(self._table, task.file, types)
            counted = self._deletes(task, path, counted)
        if sum(map(len, self._positions.values())) > MOST_DELETED:
            raise UnreadableTableError(f"has more than {MOST_DELETED:,} deleted rows; compact it to read it")
        self.rows = counted

    def _deletes(self, task: FileScanTask, path: str, counted: int | None) -> int | None:
        """Record the deleted rows of a file, and return the number of rows so far."""
        from pyiceberg.manifest import FileFormat

        for deletes in sorted(task.delete_files, key=lambda each: each.file_path):
            if deletes.file_format == FileFormat.PUFFIN:
                found = self._vector(deletes).get(task.file.file_path, [])
                self._positions.setdefault(path, set()).update(found)
            else:
                _require_parquet(deletes)
                self._pairs.append((self._path(deletes), task.file.file_path, path))
                counted = None
        if counted is None:
            return None
        return counted + int(task.file.record_count) - len(self._positions.get(path, ()))

    def _path(self, file: DataFile) -> str:
        """Return the name of a file for DuckDB."""
        location = file.file_path
        if location not in self._known:
            local = self._local(location)
            if local is None:
                local = f"{storage.PROTOCOL}://{self._name}/{len(self._known)}.parquet"
                self.remote[local] = (location, int(file.file_size_in_bytes))
            self._known[location] = local
        return self._known[location]

    def _vector(self, file: DataFile) -> dict[str, list[int]]:
        """Return the deleted positions by data file of a file of deletion vectors."""
        if file.file_path not in self._vectors:
            try:
                from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
                from pyiceberg.table.puffin import PuffinFile
            except ImportError as error:
                text = "has deletion vectors, which this version of pyiceberg cannot read; upgrade pyiceberg"
                raise UnreadableTableError(text) from error
            self._local(file.file_path)
            with self._table.io.new_input(file.file_path).open() as stream:
                vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
            self._vectors[file.file_path] = {
                each.referenced_data_file: each.to_vector().to_pylist() for each in vectors
            }
        return self._vectors[file.file_path]


def _store_properties(table: Table) -> dict[str, str]:
    """Return the properties with which a worker opens files: those of the store, and none of the catalog.

    A catalog that signs requests for files needs its own, too.
    """
    found = {key: value for key, value in without_code(table.io.properties).items() if isinstance(value, str)}
    return {key: value for key, value in found.items() if "." in key or "s3.signer" in found}


def _namespaces(catalog: Catalog) -> Iterator[tuple[str, ...]]:
    """Yield all namespaces, nested ones after the one that contains them."""
    from pyiceberg.exceptions import BadRequestError, NoSuchNamespaceError

    waiting = sorted(catalog.list_namespaces())
    seen = set()
    while waiting:
        namespace = waiting.pop(0)
        if namespace in seen:
            continue
        seen.add(namespace)
        yield namespace
        try:
            below = catalog.list_namespaces(namespace)
        except (BadRequestError, NoSuchNamespaceError):
            continue  # So a catalog answers that has no nested namespaces.
        waiting += sorted(each for each in below if len(each) > len(namespace))


def _require_no_equality_deletes(table: Table) -> None:
    from pyiceberg.manifest import DataFileContent, ManifestContent

    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot is not None else ():
        if manifest.content != ManifestContent.DELETES:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                raise UnreadableTableError("has equality deletes, which pyiceberg cannot apply; compact it to read it")


def _require_parquet(file: DataFile) -> None:
    from pyiceberg.manifest import FileFormat

    if file.file_format != FileFormat.PARQUET:
        name = getattr(file.file_format, "name", file.file_format)
        raise UnreadableTableError(f"has files in the format {name}; ktx only reads Parquet")
    if file.key_metadata is not None:
        raise UnreadableTableError("has encrypted files, which ktx cannot read")


def _identity_values(table: Table, file: DataFile, types: Mapping[int, Any]) -> dict[int, str]:
    """Return the partition's values that are values of a column, as SQL by field id; a file may lack such a column."""
    from pyiceberg.transforms import IdentityTransform

    found = {}
    for place, own in enumerate(table.specs()[file.spec_id].fields):
        if isinstance(own.transform, IdentityTransform) and own.source_id in types:
            found[own.source_id] = literal(file.partition[place], duckdb_type(types[own.source_id]))
    return found


def _partition_columns(table: Table) -> tuple[str, ...]:
    """Return the columns of the current partition spec, in its order."""
    names = {field.field_id: field.name for field in table.schema().fields}
    sources = dict.fromkeys(own.source_id for own in table.spec().fields)
    return tuple(names[each] for each in sources if each in names)
