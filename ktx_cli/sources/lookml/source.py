"""LookML as a context source: fetch, projection through the importer, and units for the rest."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import ConfigError, Hint, ResultWarning, SettingPath, listing, one_line, plural
from ktx_cli.documents import Changes, Snapshot, WorkUnit
from ktx_cli.semantic import (
    IRRELEVANT,
    UNKNOWN_TABLE,
    Block,
    Fidelity,
    Kind,
    Place,
    Report,
    import_lookml,
    parse_lookml,
    read_project,
    table_parts,
)
from ktx_cli.sources.git import MAX_BYTES, Origin, check_files, fetch_files
from ktx_cli.sources.port import FetchContext, ProjectContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder, topmost
from ktx_cli.sources.table_texts import (
    Name,
    Tables,
    Wanted,
    best_of,
    leave_broken,
    manifest_models,
    model_without_ours,
    want_files,
    write,
)

if TYPE_CHECKING:
    from ktx_cli.scan import Declarations

TOOL: Final = "lookml"
_ROOTS: Final = ("manifest.lkml", "manifest.lookml")


@dataclass(slots=True)
class _Groups:
    """Each Looker connection's files by name, and path -> reason for models with an unexpected connection."""

    files: dict[str, set[str]] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)


def _lack(origin: Origin, place: str, paths: Iterable[str]) -> ConfigError | None:
    """Return the problem if there is no LookML among the files."""
    if any(map(is_lookml, paths)):
        return None
    message = f"no LookML at {place}: it contains no .lkml file"
    return ConfigError(message, hint=Hint("set {} to the folder of the models", SettingPath(f"{origin.where}.path")))


class LookMlSource(Source):
    """A git repository with LookML."""

    kind: ClassVar[str] = "lookml"
    declares_first: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("lookml_ingest",)

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read all LookML files. Raises the errors of `fetch_files`, and `ConfigError` if there is none."""
        origin = _origin(entry, context)
        snapshot = fetch_files(origin, context, lambda path: MAX_BYTES if is_lookml(path) else 0)
        lack = _lack(origin, snapshot.origin, snapshot.files)
        if lack is not None:
            raise lack
        return snapshot

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        origin = _origin(entry, context)
        return check_files(origin, context, functools.partial(_lack, origin))

    def declarations(self, entry: Any, snapshot: Snapshot) -> Declarations:
        """Return the primary keys of views, and the joins of explores."""
        from ktx_cli.sources.lookml.declarations import declarations_of

        return declarations_of(snapshot)

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write views and explores to the files of the ktx connection that has a Looker connection's tables."""
        texts = {path: file.text() for path, file in snapshot.files.items()}
        files = project_files(texts)
        groups = _groups(files, entry)
        wanted, tables = Wanted(), Tables(manifest_models(context))
        warnings: list[ResultWarning] = []
        reports: list[tuple[Fidelity, ...]] = []
        for looker, paths in sorted(groups.files.items()):
            chosen = {path: texts[path] for path in sorted(paths)}
            found = _connections(chosen, tables)
            broken = leave_broken(context, found[0], wanted) if len(found) == 1 else None
            if broken is not None:
                reports.append(tuple(Fidelity(Kind.DROPPED, f"file {p}", broken.message, Place(p)) for p in chosen))
                warnings.append(broken)
            elif len(found) == 1:
                reports.append(_want(chosen, found[0], context, wanted))
            else:
                reports.append(_not_placed(chosen, found))
                warnings.append(_no_connection(looker, found, files))
        reports.append(tuple(_left_out(files, groups)))
        written = write(wanted, context, TOOL)
        report = tuple(sorted(best_of(reports), key=lambda each: (each.place.path, each.place.line, each.what)))
        open_files = losses(report)
        done = frozenset(path for path in texts if path not in open_files)
        warnings += _unknown(report)
        return Projection(
            written.artifacts, written.owned, report, done, tuple(_left(open_files)), (*warnings, *written.warnings)
        )

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return the units for content that rules could not place; those for another database may only write pages."""
        files = project_files({path: file.text() for path, file in snapshot.files.items()})
        return units(files, changes, projection.handled, projection.report, _groups(files, entry).foreign)


def _origin(entry: Any, context: FetchContext) -> Origin:
    """Return the location of the LookML."""
    return Origin(
        f"connections.{context.connection}", url=entry.repo_url, branch=entry.branch, path=entry.path,
        token=entry.auth_token_ref, url_key="repoUrl",
    )  # fmt: skip


def _groups(files: ProjectFiles, entry: Any) -> _Groups:
    """Return the files by Looker connection. Files outside all models belong to the single connection, if any."""
    expected = entry.mappings.expected_looker_connection_name
    groups = _Groups()
    for model in files.models:
        if expected and model.connection != expected:
            groups.foreign[model.path] = (
                f"its Looker connection is `{model.connection}` instead of the expected `{expected}`"
            )
        else:
            groups.files.setdefault(model.connection, set()).update(model.files)
    if len(groups.files) == 1 or not files.models:
        alone = next(iter(groups.files), expected or "")
        groups.files.setdefault(alone, set()).update(files.orphans)
    return groups


def _connections(texts: Mapping[str, str], tables: Tables) -> list[str]:
    """Return the connections with tables for the views, and each view's table if it is in exactly one connection."""
    found: set[str] = set()
    for name, block in read_project(texts, Report()).views.items():
        if block.below("derived_table"):
            continue
        try:
            parts = table_parts(str(block.values.get("sql_table_name") or name))
        except ConfigError:
            continue
        several = tables.find(Name(*reversed(parts[-3:])))
        if len({each.connection for each in several}) == 1:
            found.add(several[0].connection)
    return sorted(found)


def _want(texts: Mapping[str, str], connection: str, context: ProjectContext, wanted: Wanted) -> tuple[Fidelity, ...]:
    imported = import_lookml(texts, model_without_ours(context, connection), known_only=True)
    want_files(imported.files, imported.report, connection, context.workspace, TOOL, wanted)
    return imported.report


def _not_placed(texts: Mapping[str, str], found: list[str]) -> tuple[Fidelity, ...]:
    why = f"its views have tables in several connections: {listing(found)}" if found else UNKNOWN_TABLE
    return tuple(Fidelity(Kind.DROPPED, f"file {path}", why, Place(path)) for path in texts)


def _no_connection(looker: str, found: list[str], files: ProjectFiles) -> ResultWarning:
    models = [model.path for model in files.models if model.connection == looker]
    place = Place(models[0]) if models else Place(next(iter(files.orphans), ""))
    named = f"the Looker connection `{looker}`" if looker else "the LookML project"
    why = f"has tables in several connections: {listing(found)}" if found else "has no scanned table"
    hint = "scan its database first" if not found else "give each database its own Looker connection"
    return ResultWarning("no_table", f"{place}: {named} {why}", hint=hint, path=place.path, line=place.line)


def _left_out(files: ProjectFiles, groups: _Groups) -> Iterator[Fidelity]:
    """Yield content that was not imported: models for another database, unreferenced files, dashboards."""
    read = {path for paths in groups.files.values() for path in paths}
    for model in files.models:
        if model.path in groups.foreign:
            for path in files.owned[model.path]:
                if path not in read:
                    yield Fidelity(Kind.DROPPED, f"file {path}", groups.foreign[model.path], Place(path))
    for path in files.orphans:
        if path not in read:
            yield Fidelity(
                Kind.DROPPED, f"file {path}", "no model includes it, and it could belong to several", Place(path)
            )
    for path in files.dashboards:
        if path not in read:
            yield Fidelity(Kind.DROPPED, f"file {path}", "dashboards are not definitions", Place(path))


def _unknown(report: Iterable[Fidelity]) -> Iterator[ResultWarning]:
    for each in report:
        if each.why == UNKNOWN_TABLE and each.what.startswith("view "):
            what, hint = f"{each.place}: {each.what}: {each.why}", "scan its database, or correct its sql_table_name"
            yield ResultWarning("no_table", what, hint=hint, path=each.place.path, line=each.place.line)


def _left(open_files: Mapping[str, list[Fidelity]]) -> Iterator[str]:
    for path, lost in sorted(open_files.items()):
        yield f"{path}: {plural(len(lost), 'statement')} that rules could not place"


_MOST_NOTES: Final = 40
INERT: Final = IRRELEVANT | {UNKNOWN_TABLE}
"""Reasons for dropping a part that agents cannot do anything about."""


def losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return the parts that rules could not use but agents may, by file."""
    found: dict[str, list[Fidelity]] = {}
    for each in report:
        if each.kind is not Kind.KEPT and each.why not in INERT:
            found.setdefault(each.place.path, []).append(each)
    return found


def units(
    files: ProjectFiles, changes: Changes, done: frozenset[str], report: Iterable[Fidelity], foreign: Mapping[str, str]
) -> tuple[WorkUnit, ...]:
    """Return the units for the changes. `foreign`: model for another database -> why it may not define anything."""
    notes = losses(report)
    made: list[WorkUnit] = []

    def add(key: str, label: str, own: Iterable[str], others: Iterable[str], why: str = "") -> None:
        open_files = tuple(path for path in own if path in changes.touched and path not in done)
        if open_files:
            rest = tuple(sorted({*own, *others} - {*open_files}))
            text = _notes({path: notes[path] for path in open_files if path in notes})
            made.append(WorkUnit(key, label, open_files, rest, notes=text, semantic=not why, why_not=why))

    for model in files.models:
        why = foreign.get(model.path, "")
        add(f"lookml-{model.path}", f"model {model.path}", files.owned[model.path], model.files, why)
    add("lookml-orphans", f"{plural(len(files.orphans), 'file')} that no model includes", files.orphans, ())
    for path in files.dashboards:
        add(f"lookml-{path}", f"dashboard {path}", (path,), ())
    return tuple(made)


def _notes(lost: Mapping[str, list[Fidelity]]) -> str:
    lines = [f"- {each.place}: {each.what}: {one_line(each.why, 160)}" for several in lost.values() for each in several]
    if not lines:
        return ""
    rest = [f"- and {len(lines) - _MOST_NOTES} more"] if len(lines) > _MOST_NOTES else []
    return "\n".join(["Rules have already written everything except:", *lines[:_MOST_NOTES], *rest])


SUFFIXES: Final = (".lkml", ".lookml")
_DASHBOARDS: Final = (".dashboard.lookml", ".dashboard.lkml")
_MODELS: Final = (".model.lkml", ".model.lookml")


@dataclass(frozen=True, slots=True)
class LookModel:
    """A model file: its Looker connection, and all files that it includes, including itself, sorted."""

    path: str
    connection: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """Models sorted by path. `owned`: model path -> its own files: itself, and files that no earlier model includes.

    `orphans`: files that no model includes. `dashboards`: files with only dashboards.
    """

    models: tuple[LookModel, ...]
    owned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    orphans: tuple[str, ...] = ()
    dashboards: tuple[str, ...] = ()


def is_lookml(path: str) -> bool:
    """Return whether a file is LookML."""
    return path.endswith(SUFFIXES)


def project_files(texts: Mapping[str, str]) -> ProjectFiles:
    """Return the files grouped by model. An unreadable file includes nothing."""
    blocks = {path: block for path, text in texts.items() if (block := _parsed(path, text)) is not None}
    dashboards = tuple(sorted(path for path in texts if path.endswith(_DASHBOARDS)))
    included = {path: _included(path, block, texts) for path, block in blocks.items()}
    models = tuple(
        LookModel(path, str(blocks[path].values.get("connection") or ""), _reached(path, included))
        for path in sorted(blocks)
        if path.endswith(_MODELS)
    )
    taken: set[str] = set(dashboards)
    owned: dict[str, tuple[str, ...]] = {}
    others = {model.path for model in models}
    for model in models:
        own = [path for path in model.files if path == model.path or path not in taken | others]
        taken.update(own)
        owned[model.path] = tuple(own)
    return ProjectFiles(models, owned, tuple(sorted(set(texts) - taken)), dashboards)


def _parsed(path: str, text: str) -> Block | None:
    if path.endswith(_DASHBOARDS):
        return None
    try:
        return parse_lookml(text, path)
    except ConfigError:  # The importer reports it.
        return None


def _included(path: str, block: Block, texts: Iterable[str]) -> frozenset[str]:
    value = block.values.get("include")
    patterns = [value] if isinstance(value, str) else [each for each in value or () if isinstance(each, str)]
    return frozenset(found for pattern in patterns for found in _matching(pattern, path, texts))


def _matching(pattern: str, path: str, texts: Iterable[str]) -> list[str]:
    """Return the files that a pattern matches: relative to the root if it begins with `/`, else to its own folder or
    the root.

    `//` refers to another project, which is not available. The extension may be omitted. A pattern without a folder
    that matches nothing there applies to every folder.
    """
    if pattern.startswith("//"):
        return []
    plain = pattern.lstrip("/")
    starts = [plain] if pattern.startswith("/") else [posixpath.join(posixpath.dirname(path), plain), plain]
    for start in starts:
        wanted = _expression(posixpath.normpath(start))
        found = [each for each in texts if wanted.fullmatch(each)]
        if found:
            return found
    if "/" in pattern:
        return []
    wanted = _expression(plain)
    return [each for each in texts if wanted.fullmatch(posixpath.basename(each))]


def _expression(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/|\*\*|\*)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return re.compile("".join(meaning.get(piece, re.escape(piece)) for piece in pieces) + r"(?:\.lkml|\.lookml)?")


def _reached(path: str, included: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    found = {path}
    todo = [path]
    while todo:
        new = included.get(todo.pop(), frozenset()) - found
        found |= new
        todo += new
    return tuple(sorted(found))


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield the LookML projects among the folders: those with a manifest, else the common folder of all LookML."""
    counts = {folder.path: sum(map(is_lookml, folder.files)) for folder in folders}
    having = [path for path, count in counts.items() if count]
    if not having:
        return
    roots = [folder.path for folder in folders if any(name in folder.files for name in _ROOTS)]
    for path in topmost(roots) or [_common(having)]:
        count = sum(count for inner, count in counts.items() if inner.is_relative_to(path))
        yield Detected(path, plural(count, "file"), {"repoUrl": str(path)})


def _common(paths: Sequence[PurePosixPath]) -> PurePosixPath:
    """Return the folder that contains all the paths."""
    parents = (paths[0], *paths[0].parents)
    return next(parent for parent in parents if all(path.is_relative_to(parent) for path in paths))
