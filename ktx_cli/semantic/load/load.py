"""Read a connection's semantic layer from a tree of files into a model, without writing or running git.

A file that cannot be read or parsed is a single diagnostic."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from ktx_cli.core import ConfigError, Diagnostic, KtxError, Severity, StorageError, listing, yaml
from ktx_cli.project import SCHEMA_NAME, SEMANTIC_NAME, Layout, Tree, WorkingTree
from ktx_cli.semantic.load.entries import Entry, SourceFile, may_protect, text_may_protect
from ktx_cli.semantic.load.joins import Meaning, join_key, meaning, mirrored, table_parts
from ktx_cli.semantic.load.sources import SourceDraft, apply_overlay, inherit, read_source_entry
from ktx_cli.semantic.manifest import Shard, is_shard_path, is_table_file, is_yaml, own_files, parse_shard, stray_paths
from ktx_cli.semantic.model import (
    Barred,
    CalendarSettings,
    Join,
    Model,
    Place,
    Source,
    layer_diagnostic,
    name_hint,
    spelled,
)

ParseShard = Callable[[bytes, str], Shard]
"""Parses a shard from its bytes and path. Raises `ConfigError`."""

_KEY_LINE = re.compile(
    r"^(?P<mark>[\"']?)(?P<key>name|table|sql)(?P=mark)[ \t]*:"
    r"(?:[ \t]+|[ \t]*$)(?:\"([^\"\r\n]*)\"|'([^'\r\n]*)'|([^\r\n#]*))",
    re.MULTILINE,
)
"""A line that states the subject of a file whose text cannot be parsed."""


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A user's file that cannot be read or parsed, and what its lines that begin with a key seem to state.

    `names`: none without such a line, several if the text has merge markers. `tables`: the values of `table`. `own`:
    whether a line states that it is a source of its own. `protects`: whether it seems to restrict access.
    """

    problem: Diagnostic
    names: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    own: bool = False
    protects: bool = True


@dataclass(slots=True)
class Files:
    """The files of a connection: the `shards` of its manifest, and the user's `own` files, which have a `name`.

    `broken`: the user's files that cannot be read, by path. `nameless`: documents that do not state their subject, with
    the problem. `unlisted`: why some files were not found at all.
    """

    shards: list[SourceFile] = field(default_factory=list)
    own: list[SourceFile] = field(default_factory=list)
    broken: dict[str, BrokenFile] = field(default_factory=dict)
    nameless: list[tuple[Any, Diagnostic]] = field(default_factory=list)
    unlisted: Diagnostic | None = None
    problems: list[Diagnostic] = field(default_factory=list)


def read_files(tree: Tree, connection: str, parse: ParseShard = parse_shard) -> Files:
    """Read all files in a connection's folder. `parse` parses shards."""
    files = Files()
    schema = f"{Layout.schema_path(connection)}/"
    try:
        shards, own = sorted(tree.paths(schema)), own_files(tree, connection)
    except KtxError as error:
        files.unlisted = _problem("broken_source", error, Layout.context_paths(connection)[0])
        files.problems.append(files.unlisted)
        return files
    folder = Layout.context_paths(connection)[0]
    if not shards and not own and folder in tree.paths(folder):
        what = f"{folder} is a file or a broken link, but must be a folder"
        files.unlisted = layer_diagnostic(
            Severity.ERROR, "broken_source", what, Place(folder), f"fix or remove {folder}"
        )
        files.problems.append(files.unlisted)
    for path in [*shards, *own]:
        read_file(tree, path, connection, files, parse)
    return files


def read_file(tree: Tree, path: str, connection: str, files: Files, parse: ParseShard = parse_shard) -> None:
    """Read one file of a connection, which is a shard or one of the user's own files. Other files are skipped."""
    if not path.startswith(f"{Layout.schema_path(connection)}/"):
        _read_own(tree, path, files)
    elif is_yaml(path) and is_shard_path(path):
        _read_shard(tree, path, parse, files)


def text_of(content: bytes) -> str:
    """Decode a file's text without its byte order mark. Invalid bytes become U+FFFD."""
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return content.decode(encoding, "replace")


def _read_shard(tree: Tree, where: str, parse: ParseShard, files: Files) -> None:
    try:
        content = _content(tree, where)
        files.shards.append(SourceFile(where, content, parse(content, where).document))
    except KtxError as error:
        files.problems.append(_problem("broken_shard", error, where))


def _read_own(tree: Tree, where: str, files: Files) -> None:
    content = b""
    try:
        content = _content(tree, where)
        document = yaml.load(content, where=where)
    except KtxError as error:
        text = text_of(content)
        lines_by_key, (names, own) = _lines(text), subject_of_text(text)
        shown = lines_by_key["name"][0] if lines_by_key["name"] else PurePosixPath(where).stem
        problem = _problem("broken_source", error, where, shown)
        files.broken[where] = BrokenFile(problem, names, tuple(lines_by_key["table"]), own, text_may_protect(text))
        files.problems.append(problem)
        return
    name = document.get("name") if isinstance(document, dict) else None
    if isinstance(name, str) and name.strip():
        files.own.append(SourceFile(where, content, document))
        return
    what, hint = ("has no `name`", "add `name:` with the name of the source") if name is None else (
        "has a `name` that is not a string", 'put it in quotes: name: "..."'
    )  # fmt: skip
    problem = layer_diagnostic(Severity.ERROR, "no_name", f"{where} {what}", Place(where), hint)
    files.nameless.append((document, problem))
    files.problems.append(problem)


def _content(tree: Tree, where: str) -> bytes:
    """Return the content of a listed file; raises `StorageError` for a broken link."""
    content = tree.read(where)
    if content is None:
        raise StorageError(f"{where} is a broken link", hint=f"fix or remove {where}")
    return content


def subject_of_text(text: str) -> tuple[tuple[str, ...], bool]:
    """Return the apparent subject of unparsable text: names, and whether it defines a source of its own."""
    lines_by_key = _lines(text)
    return tuple(filter(None, lines_by_key["name"])), bool(lines_by_key["table"] or lines_by_key["sql"])


def _lines(text: str) -> dict[str, list[str]]:
    """Return the name, table and SQL that an unparsable text seems to state."""
    lines_by_key: dict[str, list[str]] = {"name": [], "table": [], "sql": []}
    for found in _KEY_LINE.finditer(text):
        lines_by_key[found["key"]].append(next(filter(None, found.groups()[2:]), "").strip())
    return lines_by_key


def _problem(code: str, error: KtxError, where: str, source: str | None = None) -> Diagnostic:
    """Return the diagnostic for a file that cannot be read, at the line that its error names."""
    place = Place(where, error.details.get("line", 1))
    return layer_diagnostic(Severity.ERROR, code, error.problem, place, error.hint, source)


NO_CONNECTION = "no_connection"
"""The code of diagnostics about files outside all connections."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A file that belongs to no connection and may protect something.

    `names`: the sources it is about; none if unknown. `own`: it defines them instead of changing others.
    """

    problem: Diagnostic
    names: tuple[str, ...] = ()
    own: bool = False


def read_strays(tree: Tree, connections: Collection[str]) -> list[Stray]:
    """Return the files in a tree outside the folders of `connections` that may protect something, sorted by path.

    `connections`: the ids of all in `ktx.yaml`, including disabled ones. A file or folder that cannot be read may
    protect anything.
    """
    try:
        paths = stray_paths(tree, connections)
    except KtxError as error:
        place = Place(SEMANTIC_NAME)
        return [Stray(layer_diagnostic(Severity.ERROR, "broken_source", error.message, place, error.hint))]
    return [stray for path in paths if (stray := _read_stray(tree, path, connections)) is not None]


def _read_stray(tree: Tree, path: str, connections: Collection[str]) -> Stray | None:
    try:
        content = tree.read(path)
        if content is None:
            raise StorageError(f"{path} is a broken link")
        subject = _protected(content)
    except KtxError:
        subject = (), False
    if subject is None:
        return None
    folder = path.split("/")[1] if path.count("/") > 1 else None
    where = "is not in the folder of a connection" if folder is None else f"is in the folder of `{folder}`"
    what = f"this file may hide columns or rows, but {where}"
    what = what if folder is None else f"{what}, which is not a connection in ktx.yaml"
    return Stray(
        layer_diagnostic(Severity.ERROR, NO_CONNECTION, what, Place(path), _way_out(folder, connections)), *subject
    )


def _way_out(folder: str | None, connections: Collection[str]) -> str:
    alike = sorted(
        connection for connection in connections if folder is not None and connection.casefold() == folder.casefold()
    )
    if alike or len(connections) == 1:
        target = Layout.context_paths((alike or list(connections))[0])[0]
        return f"move it to {target}/, or remove it"
    return f"move it to the folder of its connection in {SEMANTIC_NAME}/, or remove it"


@functools.lru_cache(maxsize=256)
def _protected(content: bytes) -> tuple[tuple[str, ...], bool] | None:
    """Return the `names` and `own` of a file that may protect something, or None for any other file."""
    try:
        document = yaml.load(content, where="")
    except KtxError:
        text = text_of(content)
        return subject_of_text(text) if text_may_protect(text) else None
    if not may_protect(document):
        return None
    tables: Any = document.get("tables") if isinstance(document, dict) else None
    if isinstance(tables, dict):
        rest = {key: value for key, value in document.items() if key != "tables"}
        names = () if may_protect(rest) else tuple(str(name) for name, table in tables.items() if may_protect(table))
        return names, False
    if not isinstance(document, dict):
        return (), False
    name = document.get("name")
    names = (name,) if isinstance(name, str) and name.strip() else ()
    return names, "table" in document or "sql" in document


def load_model(
    layout: Layout,
    connection: str,
    dialect: str,
    calendar: CalendarSettings | None = None,
    *,
    configured: Collection[str] | None = None,
) -> Model:
    """Return a connection's semantic layer from its current files on disk; see `load_tree`."""
    return load_tree(WorkingTree(layout.root), connection, dialect, calendar, configured=configured)


def load_tree(
    tree: Tree,
    connection: str,
    dialect: str,
    calendar: CalendarSettings | None = None,
    *,
    parse: ParseShard = parse_shard,
    configured: Collection[str] | None = None,
) -> Model:
    """Return a connection's semantic layer from the files in a tree; `parse` reads a shard.

    `dialect` is sqlglot's name for the connection's SQL. `configured`: the ids of all connections in `ktx.yaml`;
    protecting files outside their folders may be about this connection. If None, only its own folder is read.

    Every error in a file becomes a problem of the model, with its line. It excludes the part that contains it, or the
    whole source if excluding only that part could show too much (an unusable policy, two files for one name, a broken
    overlay). A source is barred if a file that may restrict access to it has an error; all sources in the manifest are
    barred if it is unknown which one such a file is about. The content of a file never raises an error.
    """
    strays = [] if configured is None else read_strays(tree, {*configured, connection})
    return model_of(read_files(tree, connection, parse), connection, dialect, calendar, strays)


def model_of(
    files: Files, connection: str, dialect: str, calendar: CalendarSettings | None = None, strays: Sequence[Stray] = ()
) -> Model:
    """Return the semantic layer that files define; see `load_tree`."""
    loader = _Loader(files, dialect, strays)
    sources = loader.sources()
    problems = sorted(loader.problems, key=lambda each: (each.path, each.line, each.code, each.message))
    found = (sources, tuple(problems), calendar or CalendarSettings(), loader.barred, loader.sealed)
    return Model(connection, dialect, *found)


class _Loader:
    """Builds a model from the files of one connection.

    `barred`, `sealed`: as in the model.
    """

    def __init__(self, files: Files, dialect: str, strays: Sequence[Stray] = ()) -> None:
        self.files, self.dialect, self.strays = files, dialect, strays
        self.problems: list[Diagnostic] = [*files.problems, *(stray.problem for stray in strays)]
        self.drafts: dict[str, SourceDraft] = {}
        self.manifest: dict[str, SourceDraft] = {}
        self.barred: dict[str, Barred] = {}
        self.sealed: Diagnostic | None = None
        self._blind: Diagnostic | None = None

    def sources(self) -> dict[str, Source]:
        """Return the sources, sorted by name, and record errors in `problems`, `barred` and `sealed`."""
        for shard in self.files.shards:
            self._read_shard(shard)
        self._mirror_joins()
        self.drafts = dict(self.manifest)
        found = self._by_name()
        self._read_unread()
        for name, entry in found.items():
            if _is_overlay(entry):
                self._read_overlay(name, entry)
        self._disable_both_ways()
        self._settle(self.manifest.values())
        for name, entry in found.items():  # a source of its own inherits what overlays made of the manifest
            if not _is_overlay(entry):
                self._read_standalone(name, entry)
        self._settle([draft for draft in self.drafts.values() if not draft.generated])
        for broken in self.files.broken.values():
            for name in broken.names:
                self._drop(name)
        kept = {name: draft for name, draft in sorted(self.drafts.items()) if not draft.lost}
        for draft in kept.values():
            self._check_complete(draft)
            draft.joins = {key: _spelled(join, draft, kept) for key, join in draft.joins.items()}
            draft.adopt_proposals()
        return {name: draft.finish() for name, draft in kept.items()}

    def _by_name(self) -> dict[str, Entry]:
        """Return the single user file for each name; a name with several files loses its source."""
        files: dict[str, list[SourceFile]] = {}
        for file in self.files.own:
            files.setdefault(file.document["name"], []).append(file)
        for name, several in files.items():
            if len(several) > 1:
                self._refuse_several(name, several)
        return {
            name: Entry(found[0].document, found[0], (), self.problems, f"source `{name}`", name)
            for name, found in sorted(files.items())
            if len(found) == 1
        }

    def _refuse_several(self, name: str, files: Sequence[SourceFile]) -> None:
        """Use none of the files about a name, and bar their source if one of them restricts access."""
        problem = self._note_twice(name, [file.place("name") for file in files])
        self._drop(name)
        if not any(may_protect(file.document) for file in files):
            return
        draft = self._find(name)
        if draft is not None:
            draft.bar(problem)
        for file in files:
            if _has_origin(file.document):
                self._bar_table(name, file.document.get("table"), problem)
            elif draft is None:
                self._seal(problem, blind=True)

    def _read_unread(self) -> None:
        """Bar the sources that files may protect if they are unreadable or have no recognizable subject."""
        if self.files.unlisted is not None:
            self._seal(self.files.unlisted, blind=True)
        for problem in self.problems:
            if problem.code == "broken_shard":
                self._seal(problem)
        for document, problem in self.files.nameless:
            if not may_protect(document) and not isinstance(document, str):
                continue
            if isinstance(document, dict) and _has_origin(document):
                self._bar_table(problem.path, document.get("table"), problem)
            else:
                self._seal(problem, blind=True)
        for broken in self.files.broken.values():
            self._bar_broken(broken)
        for stray in self.strays:
            self._bar_stray(stray)

    def _bar_stray(self, stray: Stray) -> None:
        """Bar raw SQL for the whole connection, and the source that the file would be about inside its folder."""
        drafts = [self._find(name) for name in stray.names]
        self._seal(stray.problem, blind=not drafts or (None in drafts and not stray.own))
        for draft in drafts:
            if draft is not None:
                draft.bar(stray.problem)

    def _bar_broken(self, broken: BrokenFile) -> None:
        if not broken.names:
            self._seal(broken.problem, blind=True)
        for name in broken.names:
            draft = self._find(name)
            if draft is not None:
                draft.bar(broken.problem)
            elif not broken.own:  # of no source there is: what it says would be an error too where it could be read
                if broken.protects:
                    self._seal(broken.problem, blind=True)
            elif not broken.tables:
                self._seal(broken.problem)
            for table in broken.tables:
                self._bar_table(name, table, broken.problem)

    def _bar_table(self, name: str, table: Any, problem: Diagnostic) -> None:
        """Bar raw SQL for the table that a file seems to be about, or for all if it is unreadable; None: no table."""
        if table is None:
            return
        try:
            parts = table_parts(table) if isinstance(table, str) else None
        except ConfigError:
            parts = None
        if parts is None:
            self._seal(problem)
        else:
            known = self.barred[name].tables if name in self.barred else ()
            self.barred[name] = Barred(problem, (*known, parts))

    def _seal(self, problem: Diagnostic, *, blind: bool = False) -> None:
        """Bar raw SQL for the whole connection; `blind`: also bar every source in the manifest."""
        self.sealed = self.sealed or problem
        if blind:
            self._blind = self._blind or problem

    def _settle(self, drafts: Iterable[SourceDraft]) -> None:
        """Bar the drafts whose access restrictions are unknown."""
        for draft in drafts:
            if draft.generated and self._blind is not None:
                draft.bar(self._blind)
            draft.settle()
            if draft.barred is None:
                continue
            known = self.barred[draft.name].tables if draft.name in self.barred else ()
            self.barred[draft.name] = Barred(draft.barred, known if draft.table is None else (*known, draft.table))
            if draft.table is None and (draft.sql is None or draft.has_table):
                self._seal(draft.barred)

    def _read_shard(self, file: SourceFile) -> None:
        top = Entry(file.document, file, (), self.problems, "a manifest shard")
        rest = Entry({k: v for k, v in top.values.items() if k != "tables"}, file, (), self.problems, top.what)
        rest.check_keys(("tables",))
        if rest.trouble is not None:
            self._seal(rest.trouble, blind=True)  # an overlay that was moved here, of which source nobody can tell
        tables = top.mapping("tables")
        if tables is None and top.trouble is not None and may_protect(top.values):
            self._seal(top.trouble, blind=True)
        for key in tables.values if tables else ():
            name = str(key)
            what = f"source `{name}`"
            entry = tables.mapping(key, what) if tables else None
            if entry is None:
                if tables is not None and may_protect(tables.values[key]):
                    self._seal(self.problems[-1])
                continue
            draft = read_source_entry(entry.begin(name), name, self.dialect, generated=True)
            if name in self.manifest:
                problem = self._note_twice(name, (self.manifest[name].place, entry.place))
                if draft.protects or self.manifest[name].protects:
                    self.manifest[name].bar(problem)
                    self._bar_table(name, entry.values.get("table"), problem)
                self.manifest[name].lost = draft.lost = True
            self.manifest.setdefault(name, draft)

    def _mirror_joins(self) -> None:
        """Add the joins in single-table files to the other table as well, because such files contain each join once."""
        if not any(is_table_file(file.path) for file in self.files.shards):
            return
        known: dict[str, set[Meaning]] = {}
        declared = [(draft, join) for draft in self.manifest.values() for join in draft.joins.values()]
        for draft, join in declared:
            target = None if join.alias else self._find(join.to)
            if target is None or target is draft:
                continue
            if not (is_table_file(draft.place.path) or is_table_file(target.place.path)):
                continue
            has = known.get(target.name)
            if has is None:
                has = known[target.name] = {meaning(each) for each in target.joins.values()}
            back = mirrored(join, draft.name)
            if meaning(back) not in has:
                target.joins.setdefault(join_key(back), back)

    def _read_standalone(self, name: str, entry: Entry) -> None:
        if name in self.manifest:
            what = f"`{name}` is defined as a new source here, which replaces the one at {self.manifest[name].place}"
            hint = "remove `table` and `sql` to make this an overlay of that source, or rename this source"
            entry.warn("shadows_manifest", what, "name", hint=hint)
        draft = read_source_entry(entry, name, self.dialect, generated=False)
        inherit(entry, draft, self.manifest)
        for stray in self.strays:
            if name.casefold() in map(str.casefold, stray.names):
                draft.bar(stray.problem)
        self.drafts[name] = draft

    def _read_overlay(self, name: str, entry: Entry) -> None:
        draft = self._find(name)
        if draft is None:
            what = f"`{name}` has neither `table` nor `sql`, and the manifest has no source with that name to overlay"
            entry.error("unknown_source", what, "name", hint=name_hint(name, self.manifest))
            if entry.protects:
                self._seal(self.problems[-1], blind=True)
            return
        if draft.overlay is not None:  # named alike but for the case of letters
            problem = self._note_twice(draft.name, (draft.overlay, entry.at("name")))
            draft.lost = True
            if entry.protects or draft.protects:
                draft.bar(problem)
            return
        draft.overlay = entry.at("name")
        draft.entries.append(entry)
        apply_overlay(entry, draft, self.dialect)

    def _disable_both_ways(self) -> None:
        """Also remove a disabled join from the other source in the manifest, which declares the same join."""
        for draft in self.manifest.values():
            for join in draft.disabled:
                other = self._find(join.to)
                if other is not None:
                    other.joins = {
                        key: each for key, each in other.joins.items() if not _is_back(each, join, draft.name)
                    }

    def _find(self, name: str) -> SourceDraft | None:
        """Return the manifest's source with that name, or the only one that differs in case."""
        return spelled(self.manifest, name)

    def _drop(self, name: str) -> None:
        """Exclude a source from the model, because the content of a file about it is unknown."""
        draft = self._find(name)
        if draft is not None:
            draft.lost = True
        self.drafts.pop(name, None)

    def _note_twice(self, name: str, places: Iterable[Place]) -> Diagnostic:
        shown = listing(map(str, places))
        what = f"several files define `{name}`, so ktx uses none of them: {shown}"
        problem = layer_diagnostic(
            Severity.ERROR, "duplicate", what, next(iter(places)), "keep one of them, or rename the others", name
        )
        self.problems.append(problem)
        return problem

    def _check_complete(self, draft: SourceDraft) -> None:
        """Warn about a missing grain and missing column types of a source."""
        if not draft.grain and not draft.key:
            what = f"source `{draft.name}` has no grain: ktx does not know which columns make its rows unique"
            hint = (
                "add grain: [column, ...]"
                if not draft.generated
                else f"add grain: [column, ...] in an overlay named {draft.name}"
            )
            self.problems.append(layer_diagnostic(Severity.WARNING, "no_grain", what, draft.place, hint, draft.name))
        for column in draft.columns.values():
            if column.type is None:
                what = f"column `{column.name}` of `{draft.name}` has no type; ktx treats it as a string"
                hint = "add type: string|number|time|boolean"
                self.problems.append(
                    layer_diagnostic(Severity.WARNING, "no_type", what, column.place, hint, draft.name)
                )


def _is_overlay(entry: Entry) -> bool:
    return not _has_origin(entry.values)


def _has_origin(document: Mapping[Any, Any]) -> bool:
    return "table" in document or "sql" in document


def _is_back(join: Join, disabled: Join, source: str) -> bool:
    """Return whether a join in the manifest is a disabled one of another source, seen from the other side."""
    generated = join.alias is None and join.place is not None and f"/{SCHEMA_NAME}/" in join.place.path
    return generated and meaning(join) == meaning(mirrored(disabled, source))


def _spelled(join: Join, draft: SourceDraft, drafts: Mapping[str, SourceDraft]) -> Join:
    """Return the join with its names as spelled in the two sources, if they differ only in case."""
    target = spelled(drafts, join.to)
    if target is None:
        return join
    pairs = tuple((draft.spelled(own), target.spelled(other)) for own, other in join.pairs)
    conditions = tuple(
        replace(condition, column=(draft if condition.own else target).spelled(condition.column))
        for condition in join.conditions
    )
    if (target.name, pairs, conditions) == (join.to, join.pairs, join.conditions):
        return join
    return replace(join, to=target.name, pairs=pairs, conditions=conditions)


def read_source(tree: Tree, connection: str, name: str) -> list[tuple[str, str]]:
    """Return (path, text) of a source's definitions: its manifest entry, then user files, including broken ones.

    Only the source's entry of a shard is returned, unchanged. Empty if nothing has that name. Raises
    `StorageError` for a file that cannot be read.
    """
    files = read_files(tree, connection)
    result = [(file.path, text) for file in files.shards if (text := _entry_text(file, name)) is not None]
    result += [(file.path, text_of(file.content)) for file in files.own if file.document["name"] == name]
    broken = sorted(path for path, each in files.broken.items() if name in (*each.names, each.problem.location.object))
    contents = ((path, tree.read(path)) for path in broken)
    return result + [(path, text_of(content)) for path, content in contents if content is not None]


def _entry_text(file: SourceFile, name: str) -> str | None:
    """Return the lines of one source in a shard."""
    tables = file.document.get("tables")
    if not isinstance(tables, dict) or name not in tables:
        return None
    part = file.part("tables", name)
    if part is None:
        return None
    key, value = part
    return text_of(file.content)[key.start - key.column : max(value.end, key.end)].rstrip() + "\n"
