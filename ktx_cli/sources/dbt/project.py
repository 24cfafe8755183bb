"""The files of a dbt project: those in the folders named in its `dbt_project.yml`, or in dbt's default folders."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.core import ConfigError, KtxError, yaml
from ktx_cli.documents import RawFile, Snapshot
from ktx_cli.semantic import STEERS, Fidelity, Item, Place, Relation, Report, SourceFile, UnresolvedError
from ktx_cli.sources.dbt.templates import Rendered, Texts, doc_blocks, rendered, variables_of
from ktx_cli.sources.git import MAX_BYTES, Guided, Wanted
from ktx_cli.sources.table_texts import Name

CREDENTIALS: Final = "profiles"
"""The stem of the file that may contain database passwords and is never read."""

YAML: Final = (".yml", ".yaml")
DOCS: Final = ".md"
SQL: Final = ".sql"

PROJECT_FILES: Final = ("dbt_project.yml", "dbt_project.yaml")
"""Files that make a folder a dbt project."""

_README: Final = "README.md"
_DEFINITIONS: Final[Mapping[str, str]] = {
    "model-paths": "models",
    "seed-paths": "seeds",
    "snapshot-paths": "snapshots",
    "macro-paths": "macros",
    "analysis-paths": "analyses",
    "test-paths": "tests",
    "function-paths": "functions",
}
"""Setting -> dbt's default."""

_QUERIES: Final = ("model-paths", "snapshot-paths")
_NO_QUERIES: Final = ("macro-paths", "analysis-paths", "test-paths", "function-paths")
_CODE_FOLDERS: Final = frozenset(_DEFINITIONS[key] for key in _NO_QUERIES)
"""Folders for SQL other than models, by the names of dbt's settings."""

_FORMER: Final[Mapping[str, str]] = {"model-paths": "source-paths", "seed-paths": "data-paths"}
"""Setting -> its name in dbt versions before 1.0."""

_WRITTEN: Final[Mapping[str, str]] = {
    "target-path": "target",
    "packages-install-path": "dbt_packages",
    "log-path": "logs",
}
"""Setting -> default, for the folders that dbt itself writes to."""


@dataclass(frozen=True, slots=True)
class ProjectPaths:
    """The folders of one dbt project. `root`: its own folder in the source; all others are relative to it.

    `definitions`, `docs`: folders with YAML and Markdown; the empty one is the whole project. `written`: folders that
    dbt writes. `queries`: folders of models and snapshots. `code`: folders of other SQL.
    """

    root: str
    definitions: tuple[str, ...] = ("",)
    docs: tuple[str, ...] = ()
    written: tuple[str, ...] = tuple(_WRITTEN.values())
    queries: tuple[str, ...] = ("",)
    code: tuple[str, ...] = tuple(sorted(_CODE_FOLDERS))

    @classmethod
    def of(cls, path: str, content: bytes) -> ProjectPaths:
        """Return the settings of a `dbt_project.yml`. If it cannot be read, the whole folder is the project."""
        root = _folder(path)
        try:
            settings = load_settings(path, content)
        except ConfigError:  # The source raises the error when it has the files.
            return cls(root)
        by_setting = {
            key: _paths(settings.get(key, settings.get(_FORMER.get(key, key))), default)
            for key, default in _DEFINITIONS.items()
        }
        definitions = tuple(each for folders in by_setting.values() for each in folders)
        queries = tuple(each for key in _QUERIES for each in by_setting[key])
        code = tuple(each for key in _NO_QUERIES for each in by_setting[key] if each)
        docs = _paths(settings.get("docs-paths"), None)
        written = tuple(each for key, default in _WRITTEN.items() for each in _paths(settings.get(key), default))
        return cls(root, definitions, docs, tuple(each for each in written if each), queries, code)

    def inner(self, path: str) -> str | None:
        """Return a path relative to the project, or None if it is outside the project."""
        if not self.root:
            return path
        return path.removeprefix(f"{self.root}/") if path.startswith(f"{self.root}/") else None

    def writes(self, inner: str) -> bool:
        """Return whether dbt itself wrote a file."""
        return any(_is_below(inner, folder) for folder in self.written)

    def names(self, inner: str) -> bool:
        """Return whether the settings include a file's folder. The project's README is always included."""
        if inner.endswith(SQL):
            return any(_is_below(inner, each) for each in self.queries) and not any(
                _is_below(inner, each) for each in self.code
            )
        folders = (*self.definitions, *self.docs) if inner.endswith(DOCS) else self.definitions
        return inner in (*PROJECT_FILES, _README) or any(_is_below(inner, folder) for folder in folders)


def load_settings(path: str, content: bytes) -> dict[str, Any]:
    """Return the settings of a `dbt_project.yml`. Raises `ConfigError` if it is not a YAML mapping."""
    settings = yaml.load(content, where=path)
    if not isinstance(settings, dict):
        hint = "add `name: <project>` and the other dbt settings as keys"
        what = "the file is empty" if settings is None else "the settings of the dbt project are not a mapping"
        message = f"{path}:1: {what}"
        raise ConfigError(message, hint=hint, details={"path": path, "line": 1})
    return {str(key): value for key, value in settings.items()}


def project_files(suffixes: tuple[str, ...], limits: Mapping[str, int] | None = None) -> Guided:
    """Return a selector for dbt project files: files with `suffixes`, and `limits` (path -> bytes).

    Hidden files are excluded. A folder without a `dbt_project.yml` is read completely.
    """

    def chosen(guides: Mapping[str, bytes]) -> Wanted:
        projects = _projects(guides)

        def wanted(path: str) -> int:
            if limits is not None and path in limits:
                return limits[path]
            place = PurePosixPath(path)
            if place.suffix not in suffixes or place.stem == CREDENTIALS or place.name.startswith("."):
                return 0
            return MAX_BYTES if _belongs(path, projects) else 0

        return wanted

    return Guided(lambda path: PurePosixPath(path).name in PROJECT_FILES, chosen)


def _projects(guides: Mapping[str, bytes]) -> list[ProjectPaths]:
    """Return the projects, innermost first, without packages that dbt installed."""
    found = [ProjectPaths.of(path, content) for path, content in sorted(guides.items())]
    own = [
        each
        for each in found
        if not any(
            other is not each and (inner := other.inner(f"{each.root}/")) is not None and other.writes(inner)
            for other in found
        )
    ]
    return sorted(own, key=lambda each: (-each.root.count("/"), -len(each.root), each.root))


def _belongs(path: str, projects: list[ProjectPaths]) -> bool:
    if not projects:
        is_code = path.endswith(SQL) and not _CODE_FOLDERS.isdisjoint(PurePosixPath(path).parts)
        return not _is_below(path, "target") and not is_code
    for project in projects:
        inner = project.inner(path)
        if inner is not None:
            return project.names(inner) and not project.writes(inner)
    return False


def _paths(value: Any, default: str | None) -> tuple[str, ...]:
    """Return normalized folders. A path with Jinja, which only dbt can resolve, may be any folder in the project."""
    if value is None:
        return () if default is None else (default,)
    listed = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
    return tuple("" if "{{" in each else _plain(each) for each in listed)


def _plain(path: str) -> str:
    return "/".join([part for part in path.replace("\\", "/").split("/") if part not in ("", ".")])


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


PATH: Final = "target/manifest.json"
"""The path where dbt writes the manifest, relative to the project."""

MOST_BYTES: Final = 300_000_000
_OLDEST: Final = 4
"""The oldest supported schema version (dbt 1.0)."""

_TABLES: Final = ("model", "seed", "snapshot")


@dataclass(frozen=True, slots=True)
class Known:
    """The manifest's facts about a table: its `database`, `schema` and `name` in the database.

    `path`: the YAML file that describes it. `columns`: name -> description. `virtual`: it has no table. `file`: the SQL
    file of a model. `code`: its compiled SQL, and `raw_sha256` the digest of its source. `reads`: the models and
    sources that it depends on.
    """

    kind: str
    name: str
    package: str
    source: str
    database: str
    schema: str
    table: str
    description: str = ""
    path: str = ""
    virtual: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    materialized: str = ""
    file: str = ""
    code: str = ""
    raw_sha256: str = ""
    reads: tuple[Relation, ...] = ()

    def compiled_of(self, text: str) -> str:
        """Return the compiled SQL if it was compiled from this text, else an empty string."""
        return self.code if self.raw_sha256 == code_digest(text) else ""


def code_digest(text: str) -> str:
    """Return the sha256 of a model's SQL as dbt reads it: without leading or trailing blanks."""
    return hashlib.sha256("\n".join(text.strip().splitlines()).encode("utf-8", "replace")).hexdigest()


_MOST_CODE: Final = 100_000
"""The maximum length of the compiled SQL that is kept per model."""

_VOLATILE: Final = re.compile(r"run_started_at|invocation_id|modules\.|env_var|thread_id|flags\.")
"""Functions whose compiled SQL differs from run to run. It is not stored, so that an unchanged project stays unchanged.
"""


def reduced(content: bytes, where: str) -> bytes:
    """Return the kept part of a manifest; equal projects give equal bytes.

    Raises `ConfigError` for an invalid file, or one with an unsupported old version.
    """
    try:
        document = json.loads(content)
        version = int(str(document["metadata"]["dbt_schema_version"]).rpartition("/v")[2].partition(".")[0])
        nodes = [*_tables(document["nodes"].values()), *map(_source, document["sources"].values())]
        project = document["metadata"].get("project_name") or ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{where} is not a dbt manifest", hint="run `dbt parse`, or delete the file") from None
    if version < _OLDEST:
        message = f"{where} has version {version}; ktx reads version {_OLDEST} and newer"
        raise ConfigError(message, hint="run `dbt parse` with dbt 1.0 or newer")
    kept = sorted(nodes, key=lambda node: (node["kind"], node["package"], node["source"], node["name"]))
    return json.dumps({"project": project, "nodes": kept}, sort_keys=True, indent=0).encode()


def read_reduced(file: RawFile | None) -> tuple[str, list[Known]]:
    """Return the project's name and its tables, or nothing if there is no manifest."""
    if file is None:
        return "", []
    document = json.loads(file.read())
    reads = ([*map(tuple, node.get("reads") or ())] for node in document["nodes"])
    return document["project"], [
        Known(**{**node, "reads": tuple(each)}) for node, each in zip(document["nodes"], reads, strict=True)
    ]


def _tables(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_node(node) for node in nodes if node["resource_type"] in _TABLES]


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    materialized = str((node.get("config") or {}).get("materialized") or "")
    raw = str(node.get("raw_code") or node.get("raw_sql") or "")
    code = str(node.get("compiled_code") or node.get("compiled_sql") or "")
    keeps = raw and code and len(code) <= _MOST_CODE and not _VOLATILE.search(raw)
    depends = ((node.get("depends_on") or {}).get("nodes")) or ()
    return {
        **_shared(node), "source": "", "table": node.get("alias") or node["name"],
        "virtual": materialized == "ephemeral", "materialized": materialized,
        "file": str(node.get("original_file_path") or "").replace("\\", "/"),
        "code": code if keeps else "", "raw_sha256": code_digest(raw) if keeps else "",
        "reads": [relation for each in depends if (relation := _relation_of_id(str(each)))],
    }  # fmt: skip


def _relation_of_id(unique_id: str) -> Relation | None:
    """Return the relations that IDs such as `model.shop.orders` and `source.shop.web.orders` refer to."""
    kind, *parts = unique_id.split(".")
    if kind == "source" and len(parts) >= 3:
        return ("source", parts[-2], parts[-1])
    return ("ref", parts[1]) if kind in _TABLES and len(parts) >= 2 else None


def _source(node: Mapping[str, Any]) -> dict[str, Any]:
    table = node.get("identifier") or node["name"]
    return {**_shared(node), "source": node["source_name"], "table": table, "virtual": False}


def _shared(node: Mapping[str, Any]) -> dict[str, Any]:
    columns = (node.get("columns") or {}).values()
    patch = str(node.get("patch_path") or node.get("original_file_path") or "")
    return {
        "kind": node["resource_type"], "name": node["name"], "package": node.get("package_name") or "",
        "database": node.get("database") or "", "schema": node.get("schema") or "",
        "description": node.get("description") or "", "path": patch.rpartition("://")[2],
        "columns": {each["name"]: each["description"] for each in columns if each.get("description")},
    }  # fmt: skip


PROJECT: Final = "dbt_project"
CONFIGURATION: Final = frozenset({PROJECT, "packages", "dependencies", "profiles", "selectors", "package-lock"})
"""Stems of YAML files that configure dbt and do not define anything."""

EPHEMERAL: Final = "it is ephemeral, so it has no table"
DISABLED: Final = "it is disabled"
EXPOSURE: Final = "it lists the users of a model, which belong on a wiki page"
_TOPS: Final = {
    "saved_queries": "ktx does not store queries in the semantic layer",
    "groups": "it lists the owner of a model, which belongs on a wiki page",
    "macros": STEERS,
    "unit_tests": STEERS,
    "data_tests": "singular tests contain nothing that questions can use",
    "analyses": "they are not tables",
}
_KINDS: Final = {"models": "model", "seeds": "seed", "snapshots": "snapshot"}


@dataclass(frozen=True, slots=True)
class QueryFile:
    """The SQL file of a model or a snapshot. `rendered`: the SQL as far as it can be resolved without the dialect."""

    path: str
    name: str
    text: str
    rendered: Rendered

    @property
    def kind(self) -> str:
        """`model` or `snapshot`."""
        return "snapshot" if self.rendered.snapshot else "model"

    @property
    def place(self) -> Place:
        """The line where the entry begins."""
        return Place(self.path)


@dataclass(frozen=True, slots=True)
class OlderVersion:
    """A version of a model other than its latest. `table`: the name of its table. `query`: its SQL file.

    `has_own_columns`: whether it has columns of its own, so that the tests of the model's columns do not apply.
    """

    table: str
    query: QueryFile | None = None
    has_own_columns: bool = False


@dataclass(slots=True)
class Node:
    """A dbt object that can be a table.

    `group`: the source that a source table belongs to. `name`: the name of its table. `virtual`: why it has no table,
    or None if it should have one. `known`: its entry in the compiled manifest. `query`: its SQL file. `is_described`:
    whether it has a YAML description. `materialized`: how dbt materializes it, empty if unknown. `older`: the other
    versions of a versioned model.
    """

    kind: str
    relation: Relation
    item: Item
    name: Name
    group: Item | None = None
    virtual: str | None = None
    known: Known | None = None
    query: QueryFile | None = None
    is_described: bool = True
    materialized: str = ""
    older: tuple[OlderVersion, ...] = ()

    @property
    def shown(self) -> str:
        """The object's name in reports."""
        return ".".join(self.relation[1:])


@dataclass(slots=True)
class Project:
    """`nodes` in file order. `semantic_files`: path -> text of files that may contain semantic models or metrics.

    `unread`: the files that could not be read.
    """

    texts: Texts
    unread: tuple[Fidelity, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    exposures: list[Item] = field(default_factory=list)
    semantic_files: dict[str, str] = field(default_factory=dict)


def read_project(snapshot: Snapshot, report: Report, *, name: str | None = None, target: str | None = None) -> Project:
    """Read a project, and report unreadable parts as dropped.

    `name`: the name of the project if it differs from `dbt_project.yml`. `target`: the name of the profile's target.
    """
    texts = {path: file.text() for path, file in snapshot.files.items() if path != PATH}
    loading = Report()
    documents = {path: found for path, text in texts.items() if is_yaml(path) and (found := _load(path, text, loading))}
    report.items += loading.items
    settings = {**_settings(documents), **({"name": name} if name else {})}
    blocks: dict[str, str] = {}
    for path, text in texts.items():
        if path.endswith(".md"):
            blocks |= doc_blocks(text)
    project = Project(Texts(blocks, variables_of(settings), target), loading.sorted())
    project.semantic_files = {path: texts[path] for path in documents if _may_define(path, texts[path])}
    package, known = read_reduced(snapshot.files.get(PATH))
    queries = _queries(texts, project.texts)
    reader = _Reader(project, settings, {_key(each): each for each in _own_last(known, package)}, queries, report)
    for path, file in documents.items():
        if PurePosixPath(path).stem not in CONFIGURATION:
            reader.read(path, file)
    reader.add_the_rest()
    return project


def _queries(texts: Mapping[str, str], jinja: Texts) -> dict[str, QueryFile]:
    """Return the models and snapshots by name; for duplicate names, which dbt rejects, the first."""
    found: dict[str, QueryFile] = {}
    for path, text in sorted(texts.items()):
        if path.endswith(SQL):
            known = rendered(text, jinja)
            name = known.snapshot or PurePosixPath(path).stem
            found.setdefault(name, QueryFile(path, name, text, known))
    return found


def is_yaml(path: str) -> bool:
    """Return whether a file is YAML, based on its name."""
    return path.endswith((".yml", ".yaml"))


def is_setting(path: str) -> bool:
    """Return whether a file configures dbt or is the compiled manifest."""
    return path == PATH or (is_yaml(path) and PurePosixPath(path).stem in CONFIGURATION)


def _may_define(path: str, text: str) -> bool:
    return PurePosixPath(path).stem == PROJECT or "semantic_model" in text or "metrics" in text


def _load(path: str, text: str, report: Report) -> SourceFile | None:
    content = text.encode("utf-8", "replace")
    try:
        document = yaml.load(content, where=path)
    except KtxError as error:
        place = Place(path, int(error.details.get("line", 1)))
        report.dropped(f"file {path}", f"it is not valid YAML: {error.problem}", place)
        return None
    if document is not None and not isinstance(document, dict):
        report.dropped(f"file {path}", "it is not a mapping", Place(path))
    return SourceFile(path, content, document) if isinstance(document, dict) else None


def _settings(documents: Mapping[str, SourceFile]) -> dict[str, Any]:
    """Return `dbt_project.yml`; if there are several, the outermost."""
    found = [path for path in documents if PurePosixPath(path).stem == PROJECT]
    return documents[min(found, key=lambda path: (path.count("/"), path))].document if found else {}


def _own_last(known: list[Known], package: str) -> Iterator[Known]:
    """Yield the entries of installed packages before those of the project itself, which override them."""
    yield from (each for each in known if each.package != package)
    yield from (each for each in known if each.package == package)


def _key(known: Known) -> Relation:
    return ("source", known.source, known.name) if known.kind == "source" else ("ref", known.name)


class _Reader:
    def __init__(
        self,
        project: Project,
        settings: Mapping[str, Any],
        known: dict[Relation, Known],
        queries: Mapping[str, QueryFile],
        report: Report,
    ) -> None:
        self._project, self._settings, self._known, self._report = project, settings, known, report
        self._queries = queries
        self._seen: set[Relation] = set()

    def read(self, path: str, file: SourceFile) -> None:
        """Read the descriptions in one YAML file."""
        top = Item(file.document, file.place)
        for key, kind in _KINDS.items():
            for item in top.items(key):
                self._add(kind, ("ref", item.text("name") or ""), item, None, path)
        for group in top.items("sources"):
            for item in group.items("tables"):
                self._add("source", ("source", group.text("name") or "", item.text("name") or ""), item, group, path)
        self._project.exposures += top.items("exposures")
        top.skip("version", "models", "sources", "exposures", "semantic_models", "metrics", *_KINDS)
        for key in ("models", "sources", "exposures", *_KINDS):
            if top.has(key) and not isinstance(top.values[key], list):
                self._report.dropped(f"`{key}` of {path}", "it is not a list", top.at(key))
        top.report_rest(self._report, path, _TOPS)

    def _add(self, kind: str, relation: Relation, item: Item, group: Item | None, path: str) -> None:
        what = f"{kind} `{'.'.join(relation[1:])}`"
        if not all(relation[1:]):
            self._report.dropped(what, "it has no `name`", item.place)
        elif relation in self._seen:
            self._report.dropped(what, "another entry has the same name", item.place)
        else:
            self._seen.add(relation)
            query = self._query(relation, item) if group is None else None
            node = self._node(kind, relation, item, group, path, query)
            node.older = tuple(self._older(item)) if kind == "model" else ()
            self._project.nodes.append(node)

    def _node(
        self, kind: str, relation: Relation, item: Item, group: Item | None, path: str, query: QueryFile | None
    ) -> Node:
        known = self._known.get(relation)
        name = self._named(known) if known else self._name(kind, item, group, path, query)
        virtual = self._virtual(kind, item, group, path, known, query)
        made = Node(kind, relation, item, name, group, virtual, known, query)
        if query is not None:
            stated = known.materialized if known else self._config(kind, item, path, "materialized", query)
            made.materialized = "snapshot" if kind == "snapshot" else str(stated or "")
        return made

    def _query(self, relation: Relation, item: Item) -> QueryFile | None:
        """Return the SQL file of a model. A versioned model has the file of its latest version; others have none."""
        self._seen |= {("ref", _file_of(item, version)) for version in _versions(item)}
        return self._queries.get(relation[-1]) or self._queries.get(_latest(item) or "")

    def _older(self, item: Item) -> Iterator[OlderVersion]:
        """Yield the enabled versions of a model other than its latest."""
        latest = _latest_number(item)
        for version in _versions(item):
            if str(version.get("v")) != str(latest) and _config_of(version).get("enabled") is not False:
                query = self._queries.get(_file_of(item, version))
                alias = None if query is None else query.rendered.config.get("alias")
                table = self._rendered(str(alias)) if alias else _table_of(item, version)
                yield OlderVersion(table or _table_of(item, version), query, bool(version.get("columns")))

    def add_the_rest(self) -> None:
        """Add models without a YAML entry, and tables that are only in the compiled manifest of installed packages."""
        for name, query in self._queries.items():
            relation: Relation = ("ref", name)
            if relation not in self._seen:
                self._seen.add(relation)
                item = Item({"name": name}, lambda *_, place=query.place: place)
                node = self._node(query.kind, relation, item, None, query.path, query)
                node.is_described = False
                self._project.nodes.append(node)
        for relation, known in sorted(self._known.items()):
            if relation in self._seen or known.virtual or not (known.description or known.columns):
                continue
            columns = [{"name": name, "description": text} for name, text in known.columns.items()]
            values = {"name": known.name, "description": known.description, "columns": columns}
            item = Item(values, lambda *_: Place(PATH))
            self._project.nodes.append(Node(known.kind, relation, item, self._named(known), known=known))

    @staticmethod
    def _named(known: Known) -> Name:
        return Name(known.table, known.schema, known.database)

    def _name(self, kind: str, item: Item, group: Item | None, path: str, query: QueryFile | None) -> Name:
        """Return the name parts of a table that the YAML specifies."""
        if group is not None:
            schema = self._text(group, "schema") if group.has("schema") else group.text("name")
            name = self._text(item, "identifier") or item.text("name") or ""
            return Name(name, schema or "", self._text(group, "database") or "")
        alias = self._config(kind, item, path, "alias", query)
        schema_end = self._config(kind, item, path, "schema", query) or ""
        return Name(str(alias or _latest(item) or item.text("name")), schema_end=str(schema_end))

    def _virtual(
        self, kind: str, item: Item, group: Item | None, path: str, known: Known | None, query: QueryFile | None
    ) -> str | None:
        if known is not None and known.virtual:
            return EPHEMERAL
        if group is None and str(self._config(kind, item, path, "materialized", query)) == "ephemeral":
            return EPHEMERAL
        enabled = _stated(item, "enabled") if group is not None else self._config(kind, item, path, "enabled", query)
        return DISABLED if enabled is False else None

    def _config(self, kind: str, item: Item, path: str, key: str, query: QueryFile | None) -> Any:
        """Return a setting from the SQL file, else the entry, else the folders in `dbt_project.yml`."""
        own = None if query is None else query.rendered.config.get(key)
        own = _stated(item, key) if own is None else own
        if own is None:
            found = self._settings.get(f"{kind}s")
            folders = PurePosixPath(path if query is None else query.path).parts[:-1]
            own = _folder_setting(found, (str(self._settings.get("name")), *folders), key)
        return self._rendered(own) if isinstance(own, str) else own

    def _text(self, item: Item, key: str) -> str | None:
        return self._rendered(item.text(key))

    def _rendered(self, text: str | None) -> str | None:
        try:
            return self._project.texts.rendered(text) if text else None
        except UnresolvedError:
            return None


def _stated(item: Item, key: str) -> Any:
    config = item.values.get("config")
    return config.get(key) if isinstance(config, Mapping) else None


def _latest(item: Item) -> str | None:
    """Return the table name of a model's latest version, or None for a model without versions."""
    wanted = _latest_number(item)
    latest = (each for each in _versions(item) if str(each.get("v")) == str(wanted))
    return _table_of(item, next(latest, {"v": wanted})) if _versions(item) else None


def _versions(item: Item) -> list[Mapping[str, Any]]:
    """Return the versions of a model."""
    return [each for each in item.values.get("versions") or () if isinstance(each, Mapping)]


def _latest_number(item: Item) -> Any:
    """Return the number or name of a model's latest version, or None for a model without versions."""
    versions = _versions(item)
    return item.values.get("latest_version", versions[-1].get("v")) if versions else None


def _file_of(item: Item, version: Mapping[str, Any]) -> str:
    """Return the name of the SQL file of a version, without its suffix."""
    return str(version.get("defined_in") or f"{item.text('name')}_v{version.get('v')}").removesuffix(SQL)


def _table_of(item: Item, version: Mapping[str, Any]) -> str:
    """Return the name of the table of a version as its entry states it."""
    return str(_config_of(version).get("alias") or f"{item.text('name')}_v{version.get('v')}")


def _config_of(version: Mapping[str, Any]) -> Mapping[str, Any]:
    config = version.get("config")
    return config if isinstance(config, Mapping) else {}


def _folder_setting(settings: Any, folders: tuple[str, ...], key: str) -> Any:
    """Return a setting of the innermost folder that sets it, skipping parent folders above those in the settings."""
    found = None
    for index in range(-1, len(folders)):
        if index >= 0 and isinstance(settings, Mapping) and folders[index] in settings:
            settings = settings[folders[index]]
        if isinstance(settings, Mapping):
            own = settings.get(f"+{key}", settings.get(key))
            found = found if own is None or isinstance(own, Mapping) else own
    return found
