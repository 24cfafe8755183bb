"""The files of a dbt project: those in the folders that its `dbt_project.yml` names, with dbt's defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.core import ConfigError, KtxError, yaml
from ktx_cli.documents import RawFile, Snapshot
from ktx_cli.semantic import TARGET_NAME, Call, Item, Place, Relation, Report, SourceFile, UnresolvedError, render
from ktx_cli.sources.git import MAX_BYTES, Guided, Wanted
from ktx_cli.sources.table_texts import Name

CREDENTIALS: Final = "profiles"
"""Stem of the file that may hold passwords of databases: it is never read."""

YAML: Final = (".yml", ".yaml")
DOCS: Final = ".md"

PROJECT_FILES: Final = ("dbt_project.yml", "dbt_project.yaml")
"""One of these makes a folder a dbt project."""

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

_FORMER: Final[Mapping[str, str]] = {"model-paths": "source-paths", "seed-paths": "data-paths"}
"""Setting -> its name before dbt 1.0."""

_WRITTEN: Final[Mapping[str, str]] = {
    "target-path": "target",
    "packages-install-path": "dbt_packages",
    "log-path": "logs",
}
"""Setting -> default, of the folders dbt itself writes to."""


@dataclass(frozen=True, slots=True)
class ProjectPaths:
    """The folders of one dbt project. `root`: its own, in the source; all others are relative to it.

    `definitions`, `docs`: folders that hold YAML and Markdown; the empty one is the whole project. `written`: folders
    that dbt writes.
    """

    root: str
    definitions: tuple[str, ...] = ("",)
    docs: tuple[str, ...] = ()
    written: tuple[str, ...] = tuple(_WRITTEN.values())

    @classmethod
    def of(cls, path: str, content: bytes) -> ProjectPaths:
        """Return what a `dbt_project.yml` says; of one that cannot be read, the whole folder is the project."""
        root = _folder(path)
        try:
            settings = yaml.load(content, where=path)
        except ConfigError:  # reading the project reports it
            return cls(root)
        if not isinstance(settings, dict):
            return cls(root)
        definitions = tuple(
            each
            for key, default in _DEFINITIONS.items()
            for each in _paths(settings.get(key, settings.get(_FORMER.get(key, key))), default)
        )
        docs = _paths(settings.get("docs-paths"), None)
        written = tuple(each for key, default in _WRITTEN.items() for each in _paths(settings.get(key), default))
        return cls(root, definitions, docs, tuple(each for each in written if each))

    def inner(self, path: str) -> str | None:
        """Return a path as the project has it, None where it is not in the project."""
        if not self.root:
            return path
        return path.removeprefix(f"{self.root}/") if path.startswith(f"{self.root}/") else None

    def writes(self, inner: str) -> bool:
        """Whether dbt itself wrote a file."""
        return any(_is_below(inner, folder) for folder in self.written)

    def names(self, inner: str) -> bool:
        """Whether the settings name the folder of a file; the project's README explains it and belongs to it too."""
        folders = (*self.definitions, *self.docs) if inner.endswith(DOCS) else self.definitions
        return inner in (*PROJECT_FILES, _README) or any(_is_below(inner, folder) for folder in folders)


def project_files(suffixes: tuple[str, ...], limits: Mapping[str, int] | None = None) -> Guided:
    """Return how to choose the files of dbt projects: those of `suffixes`, and `limits` (path -> bytes).

    Hidden files are left out. A folder without a `dbt_project.yml` is taken whole.
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
    """Return the projects, the innermost first, without those of packages that dbt installed."""
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
        return not _is_below(path, "target")
    for project in projects:
        inner = project.inner(path)
        if inner is not None:
            return project.names(inner) and not project.writes(inner)
    return False


def _paths(value: Any, default: str | None) -> tuple[str, ...]:
    """Return folders in one form; what only dbt can work out (Jinja) may be any folder of the project."""
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
"""Where dbt writes it, below the project."""

MOST_BYTES: Final = 300_000_000
_OLDEST: Final = 4
"""The oldest schema version that is read (dbt 1.0)."""

_TABLES: Final = ("model", "seed", "snapshot")


@dataclass(frozen=True, slots=True)
class Known:
    """What the manifest knows of a table: `database`, `schema`, `name` of it in the database.

    `path`: the YAML file that describes it. `columns`: name -> description. `virtual`: there is no table for it.
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


def reduced(content: bytes, where: str) -> bytes:
    """Return what is kept of a manifest, the same bytes for the same project.

    Raises `ConfigError` for a file that is none, or of a version that is too old.
    """
    try:
        document = json.loads(content)
        version = int(str(document["metadata"]["dbt_schema_version"]).rpartition("/v")[2].partition(".")[0])
        nodes = [*_tables(document["nodes"].values()), *map(_source, document["sources"].values())]
        project = document["metadata"].get("project_name") or ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{where} is no manifest of dbt", hint="run `dbt parse`, or delete the file") from None
    if version < _OLDEST:
        message = f"{where} has version {version}, and {_OLDEST} or newer is read"
        raise ConfigError(message, hint="run `dbt parse` with dbt 1.0 or newer")
    kept = sorted(nodes, key=lambda node: (node["kind"], node["package"], node["source"], node["name"]))
    return json.dumps({"project": project, "nodes": kept}, sort_keys=True, indent=0).encode()


def read_reduced(file: RawFile | None) -> tuple[str, list[Known]]:
    """Return the project's name and its tables; nothing where there is no manifest."""
    if file is None:
        return "", []
    document = json.loads(file.read())
    return document["project"], [Known(**node) for node in document["nodes"]]


def _tables(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_node(node) for node in nodes if node["resource_type"] in _TABLES]


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    virtual = (node.get("config") or {}).get("materialized") == "ephemeral"
    return {**_shared(node), "source": "", "table": node.get("alias") or node["name"], "virtual": virtual}


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


_BLOCK: Final = re.compile(r"\{%-?\s*docs\s+(?P<name>\w+)\s*-?%\}(?P<text>.*?)\{%-?\s*enddocs\s*-?%\}", re.DOTALL)
_JINJA: Final = ("{{", "{%", "{#")


class Texts:
    """Renders texts; `docs`: doc block by name, `variables`: what `var()` gives, `target`: what `target.name` is."""

    def __init__(self, docs: Mapping[str, str], variables: Mapping[str, Any], target: str | None = None) -> None:
        self._docs, self._variables, self._target = docs, variables, target

    def rendered(self, text: str) -> str:
        """Return the text; raises `UnresolvedError` for Jinja whose outcome is not known here."""
        if not any(mark in text for mark in _JINJA):
            return text.strip()
        return render(text, self._resolve)

    def _resolve(self, call: Call) -> str:
        names = [each for each in call.arguments if isinstance(each, str)]
        if call.name == "doc" and names:
            if names[-1] not in self._docs:
                raise UnresolvedError(f"there is no doc block `{names[-1]}`")
            return self._docs[names[-1]]
        if call.name == "var" and names:
            value = self._variables.get(names[0], call.argument(1, "default"))
            if isinstance(value, str | int | float):
                return str(value)
            raise UnresolvedError(f"the variable `{names[0]}` has no value")
        if call.name == TARGET_NAME and self._target:
            return self._target
        raise UnresolvedError(f"`{call.shown}` has an outcome only dbt knows")


def doc_blocks(text: str) -> dict[str, str]:
    """Return the doc blocks of a Markdown file by name."""
    return {found["name"]: found["text"].strip() for found in _BLOCK.finditer(text)}


def variables_of(project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of `dbt_project.yml`: its own, and those it sets for its own package."""
    found = project.get("vars")
    if not isinstance(found, dict):
        return {}
    own = found.get(str(project.get("name")))
    return {**found, **(own if isinstance(own, dict) else {})}


PROJECT: Final = "dbt_project"
CONFIGURATION: Final = frozenset({PROJECT, "packages", "dependencies", "profiles", "selectors", "package-lock"})
"""Stems of YAML files that say how dbt runs, not what anything means."""

STEERS: Final = "it steers dbt, and means nothing for questions"
EPHEMERAL: Final = "it is ephemeral: there is no table for it"
DISABLED: Final = "it is disabled"
EXPOSURE: Final = "it says who reads a model, which is for a page of the wiki"
_TOPS: Final = {
    "saved_queries": "a saved question is no definition; keep it where questions are kept",
    "groups": "they say who owns a model, which is for a page of the wiki",
    "macros": STEERS,
    "unit_tests": STEERS,
    "data_tests": "a test of its own says nothing a question can use",
    "analyses": "they are no tables",
}
_KINDS: Final = {"models": "model", "seeds": "seed", "snapshots": "snapshot"}


@dataclass(slots=True)
class Node:
    """Something dbt describes that can be a table.

    `group`: the source it belongs to, of tables of sources. `name`: what its table is called. `virtual`: why there is
    no table for it, None where there should be one. `known`: what the compiled manifest says of it.
    """

    kind: str
    relation: Relation
    item: Item
    name: Name
    group: Item | None = None
    virtual: str | None = None
    known: Known | None = None

    @property
    def shown(self) -> str:
        """What it is called in reports."""
        return ".".join(self.relation[1:])


@dataclass(slots=True)
class Project:
    """`nodes` in the order of the files. `semantic_files`: path -> text of what may hold semantic models or metrics."""

    texts: Texts
    nodes: list[Node] = field(default_factory=list)
    exposures: list[Item] = field(default_factory=list)
    semantic_files: dict[str, str] = field(default_factory=dict)


def read_project(snapshot: Snapshot, report: Report, *, name: str | None = None, target: str | None = None) -> Project:
    """Read a project; what cannot be read is reported as dropped.

    `name`: of the project, where it is not the one in `dbt_project.yml`. `target`: the name of the profile's target.
    """
    texts = {path: file.text() for path, file in snapshot.files.items() if path != PATH}
    documents = {path: found for path, text in texts.items() if _is_yaml(path) and (found := _load(path, text, report))}
    settings = {**_settings(documents), **({"name": name} if name else {})}
    blocks: dict[str, str] = {}
    for path, text in texts.items():
        if path.endswith(".md"):
            blocks |= doc_blocks(text)
    project = Project(Texts(blocks, variables_of(settings), target))
    project.semantic_files = {path: texts[path] for path in documents if _may_define(path, texts[path])}
    package, known = read_reduced(snapshot.files.get(PATH))
    reader = _Reader(project, settings, {_key(each): each for each in _own_last(known, package)}, report)
    for path, file in documents.items():
        if PurePosixPath(path).stem not in CONFIGURATION:
            reader.read(path, file)
    reader.add_the_rest()
    return project


def _is_yaml(path: str) -> bool:
    return path.endswith((".yml", ".yaml"))


def _may_define(path: str, text: str) -> bool:
    return PurePosixPath(path).stem == PROJECT or "semantic_model" in text or "metrics" in text


def _load(path: str, text: str, report: Report) -> SourceFile | None:
    content = text.encode("utf-8", "replace")
    try:
        document = yaml.load(content, where=path)
    except KtxError as error:
        place = Place(path, int(error.details.get("line", 1)))
        report.dropped(f"file {path}", f"it is no valid YAML: {error.message}", place)
        return None
    if document is not None and not isinstance(document, dict):
        report.dropped(f"file {path}", "it is no mapping", Place(path))
    return SourceFile(path, content, document) if isinstance(document, dict) else None


def _settings(documents: Mapping[str, SourceFile]) -> dict[str, Any]:
    """Return `dbt_project.yml`, the outermost of several."""
    found = [path for path in documents if PurePosixPath(path).stem == PROJECT]
    return documents[min(found, key=lambda path: (path.count("/"), path))].document if found else {}


def _own_last(known: list[Known], package: str) -> Iterator[Known]:
    """Yield what installed packages have before what the project itself has, which counts."""
    yield from (each for each in known if each.package != package)
    yield from (each for each in known if each.package == package)


def _key(known: Known) -> Relation:
    return ("source", known.source, known.name) if known.kind == "source" else ("ref", known.name)


class _Reader:
    def __init__(
        self, project: Project, settings: Mapping[str, Any], known: dict[Relation, Known], report: Report
    ) -> None:
        self._project, self._settings, self._known, self._report = project, settings, known, report
        self._seen: set[Relation] = set()

    def read(self, path: str, file: SourceFile) -> None:
        """Read what one YAML file describes."""
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
                self._report.dropped(f"`{key}` of {path}", "it is no list", top.at(key))
        top.report_rest(self._report, path, _TOPS)

    def _add(self, kind: str, relation: Relation, item: Item, group: Item | None, path: str) -> None:
        what = f"{kind} `{'.'.join(relation[1:])}`"
        if not all(relation[1:]):
            self._report.dropped(what, "it has no `name`", item.place)
        elif relation in self._seen:
            self._report.dropped(what, "another one has the name", item.place)
        else:
            self._seen.add(relation)
            known = self._known.get(relation)
            name = self._named(known) if known else self._name(kind, item, group, path)
            virtual = self._virtual(kind, item, group, path, known)
            self._project.nodes.append(Node(kind, relation, item, name, group, virtual, known))

    def add_the_rest(self) -> None:
        """Add what only the compiled manifest describes: tables of installed packages."""
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

    def _name(self, kind: str, item: Item, group: Item | None, path: str) -> Name:
        """Return what a table is called as far as the YAML says it."""
        if group is not None:
            schema = self._text(group, "schema") if group.has("schema") else group.text("name")
            name = self._text(item, "identifier") or item.text("name") or ""
            return Name(name, schema or "", self._text(group, "database") or "")
        alias = self._config(kind, item, path, "alias")
        schema_end = self._config(kind, item, path, "schema") or ""
        return Name(str(alias or _latest(item) or item.text("name")), schema_end=str(schema_end))

    def _virtual(self, kind: str, item: Item, group: Item | None, path: str, known: Known | None) -> str | None:
        if known is not None and known.virtual:
            return EPHEMERAL
        if group is None and str(self._config(kind, item, path, "materialized")) == "ephemeral":
            return EPHEMERAL
        enabled = _stated(item, "enabled") if group is not None else self._config(kind, item, path, "enabled")
        return DISABLED if enabled is False else None

    def _config(self, kind: str, item: Item, path: str, key: str) -> Any:
        """Return a setting: of the entry itself, else of `dbt_project.yml` for the folders its file is in."""
        own = _stated(item, key)
        if own is None:
            found = self._settings.get(f"{kind}s")
            folders = PurePosixPath(path).parts[:-1]
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
    """Return what the table of the latest version of a model is called, None of a model without versions."""
    versions = [each for each in item.values.get("versions") or () if isinstance(each, Mapping)]
    if not versions:
        return None
    wanted = item.values.get("latest_version", versions[-1].get("v"))
    config = next((each for each in versions if each.get("v") == wanted), {}).get("config")
    alias = config.get("alias") if isinstance(config, Mapping) else None
    return str(alias or f"{item.text('name')}_v{wanted}")


def _folder_setting(settings: Any, folders: tuple[str, ...], key: str) -> Any:
    """Return a setting of the innermost folder that has it; folders above those it names are passed over."""
    found = None
    for index in range(-1, len(folders)):
        if index >= 0 and isinstance(settings, Mapping) and folders[index] in settings:
            settings = settings[folders[index]]
        if isinstance(settings, Mapping):
            own = settings.get(f"+{key}", settings.get(key))
            found = found if own is None or isinstance(own, Mapping) else own
    return found
