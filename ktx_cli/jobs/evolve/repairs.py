"""Repairs without a model: follow renames in the database, restore definitions from git, and add synonyms.

Repairs are computed from the structure of the database, the git history and agents' requests, never from
expected rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.agent_tools import in_memory
from ktx_cli.core import KtxError, Record, listing, yaml
from ktx_cli.jobs.evolve.findings import KnownContext, document_of
from ktx_cli.jobs.evolve.groups import Group, GroupKind
from ktx_cli.project import (
    DATABASE_SOURCE,
    SEMANTIC_NAME,
    WIKI_NAME,
    Edit,
    FileCommit,
    Layout,
    Repository,
    Workspace,
    append_value,
    apply,
)
from ktx_cli.scan import read_table, table_path
from ktx_cli.search import Scope
from ktx_cli.semantic import own_files
from ktx_cli.warehouses import Table, TableRef
from ktx_cli.wiki import GLOBAL, page_path, place_of

MOST_COMMITS: Final = 50
"""Maximum number of a file's commits to search."""

_MOST_RESTORED: Final = 8
"""Number of search hits for a question to match with removed definitions."""

_MOST_SYNONYMS: Final = 8
_NAME: Final = re.compile(r"[^\W\d_]+(?:[ -][^\W\d_]+){0,2}")
"""A possible name: up to three words. Longer search queries are not names."""

_APPROVALS: Final = ("status", "owner", "review_by")
_TEXTS: Final = frozenset(("description", "descriptions", "questions", "synonyms", "label", "summary"))
"""Definition keys with texts for people."""

_LISTS: Final = ("measures", "segments")
_PAGES: Final = f"{WIKI_NAME}/{GLOBAL}/"


@dataclass(frozen=True, slots=True)
class Repair(Record):
    """A repair as an overlay. `kind` is rename, restore or synonym, and `summary` is for the commit subject.

    `proof` checks that the repair fixes something that is provably broken now.
    """

    kind: str
    summary: str
    workspace: Workspace
    evidence: tuple[str, ...] = ()
    proof: Callable[[KnownContext], bool] | None = None

    json_keys = ("kind", "summary", "evidence")


@dataclass
class Repairs:
    """Computes a project's repairs from the committed context (`base`) and the history of the `repository`."""

    base: Workspace
    known: KnownContext
    repository: Repository
    _files: dict[str, list[FileCommit]] = field(default_factory=dict)

    def of(self, group: Group, workspace: Workspace, texts: Sequence[str] = ()) -> list[Repair]:
        """Return the repairs for a group on top of an overlay. `texts` are its drafting questions."""
        match group.kind:
            case GroupKind.BROKEN:
                found = [self._renamed_table(group, workspace) or self._renamed_columns(group, workspace)]
            case GroupKind.MISSING:
                found = [self._restored_definition(group.connection, group.subject, workspace)]
            case GroupKind.REFERENCE:
                found = [self._restored_reference(group, workspace)]
            case GroupKind.WORDS:
                found = [self._synonyms(group, workspace)]
            case GroupKind.SOURCE | GroupKind.QUESTION:
                return self._restored_for(workspace, texts)
            case _:
                found = []
        return [each for each in found if each is not None]

    # Renames.

    def _renamed_columns(self, group: Group, workspace: Workspace) -> Repair | None:
        """Return the repair for a source whose columns were renamed in the database."""
        source = group.subject
        renames, evidence = self._column_renames(group.connection, source, workspace)
        if not renames:
            return None
        child = workspace.child()
        _rename_columns(child, group.connection, source, renames)
        named = listing((f"{source}.{old} to {new}" for old, new in sorted(renames.items())), 3)
        return Repair("rename", f"rename {named}", child, evidence, self._compiles(group, child))

    def _column_renames(
        self, connection: str, source: str, workspace: Workspace
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the renamed columns that definitions and pages use (old name to new name), with evidence."""
        path = self._table_file(connection, source)
        now = None if path is None else _table(self.base.read(path), path)
        if path is None or now is None:
            return {}, ()
        present = {each.name for each in now.columns}
        written = "\n".join(_texts(workspace, connection))
        renames: dict[str, str] = {}
        evidence: list[str] = []
        for then, commit in self._versions(path):
            for column in then.columns:
                if column.name in present or column.name in renames:
                    continue
                name = (
                    _successor(then, now, column.name) if re.search(rf"\b{re.escape(column.name)}\b", written) else None
                )
                if name is not None:
                    renames[column.name] = name
                    what = f"{source}.{column.name} is {source}.{name} since the scan after {commit.day}"
                    evidence.append(f"{what}, of the same type ({column.native_type})")
        if len(set(renames.values())) < len(renames):
            return {}, ()
        return renames, tuple(evidence)

    def _renamed_table(self, group: Group, workspace: Workspace) -> Repair | None:
        """Return the repair for definitions whose table was renamed in the database."""
        source = group.subject
        folder = f"{Layout.raw_path(group.connection, DATABASE_SOURCE)}/tables/"
        present = {path: table for path in self.base.paths(folder) if (table := _table(self.base.read(path), path))}
        if any(table.ref.name == source for table in present.values()):
            return None
        gone = [path for path in self._ever(folder) if path not in present and path.endswith(f"/{source}.json")]
        for path in gone:
            for then, commit in self._versions(path):
                shape = [(each.name, each.native_type) for each in then.columns]
                alike = [
                    one
                    for place, one in present.items()
                    if [(each.name, each.native_type) for each in one.columns] == shape
                    and not self._was_there(place, commit)
                ]
                if len(alike) != 1:
                    return None
                new = alike[0].ref.name
                child = workspace.child()
                rename = functools.partial(_source_renamed, source=source, new=new)
                _rename(child, group.connection, functools.partial(_ignoring_file, rename=rename))
                _rename_in_pages(child, rename)
                evidence = (f"{then.ref} was removed, and {alike[0].ref} has the same columns",)
                return Repair("rename", f"rename {source} to {new}", child, evidence, self._compiles(group, child))
        return None

    def _table_file(self, connection: str, source: str) -> str | None:
        found = self.known.model(connection).sources.get(source)
        folder = Layout.raw_path(connection, DATABASE_SOURCE)
        if found is not None and found.table is not None:
            schema = found.table[-2] if len(found.table) > 1 else None
            path = f"{folder}/{table_path(TableRef(schema, found.table[-1]))}"
            if self.base.exists(path):
                return path
        named = [each for each in self.base.paths(f"{folder}/tables/") if each.endswith(f"/{source}.json")]
        return named[0] if len(named) == 1 else None

    def _versions(self, path: str) -> Iterator[tuple[Table, FileCommit]]:
        for commit in self._history(path):
            table = _table(commit.content, path)
            if table is not None:
                yield table, commit

    def _was_there(self, path: str, commit: FileCommit) -> bool:
        return self.repository.tree(commit.commit).read(path) is not None

    def _compiles(self, group: Group, child: Workspace) -> Callable[[KnownContext], bool]:
        """Return a check that the broken definitions of the group's connection are valid."""

        def proof(known: KnownContext) -> bool:
            before = known.layers.problems(known.tree, group.connection)
            after = known.layers.problems(child, group.connection)
            errors = [sum(each.severity == "error" for each in found) for found in (before, after)]
            return errors[1] < errors[0]

        return proof

    # Restore removed definitions.

    def _restored_definition(self, connection: str, name: str, workspace: Workspace) -> Repair | None:
        """Return the repair that restores a measure, segment or source from an earlier commit."""
        source, _, member = name.partition(".")
        for path in self._ever(f"{SEMANTIC_NAME}/{connection}/"):
            if "/_schema/" in path:
                continue
            for commit in self._history(path):
                document = document_of(commit.content, path)
                if document.get("name") != source:
                    continue
                child = workspace.child()
                if member:
                    found = _member(document, member)
                    if found is None or not _put_back(child, connection, source, *found, path):
                        continue
                elif child.exists(path) or commit.content is None:
                    continue
                else:
                    child.write(path, commit.content)
                renames, _ = self._column_renames(connection, source, child)
                _rename_columns(child, connection, source, renames)
                gone = _remover(commit, self._history(path))
                proof = functools.partial(_is_back, child, connection, name) if gone.run else None
                return Repair("restore", f"restore {name}", child, (_removed(gone),), proof)
        return None

    def _restored_reference(self, group: Group, workspace: Workspace) -> Repair | None:
        """Return the repair that restores a page that others link to, or a definition that pages refer to."""
        subject = group.subject.rpartition("/")[2]
        path = page_path(GLOBAL, subject)
        content = None if workspace.exists(path) else self._last(path)
        if content is None:
            for connection in sorted(self.known.layers.dialects):
                found = self._restored_definition(connection, subject, workspace)
                if found is not None:
                    return found
            return None
        child = workspace.child()
        child.write(path, content)
        gone = self._history(path)[0]
        proof = functools.partial(_has_page, child, path) if gone.run else None
        return Repair("restore", f"restore the page {subject}", child, (_removed(gone),), proof)

    def _restored_for(self, workspace: Workspace, texts: Sequence[str]) -> list[Repair]:
        """Return the repairs that restore removed definitions and pages that match the questions.

        The first repair restores all of them. If there are several, each further repair restores one.
        """
        dropped = self._dropped
        if not dropped or not texts:
            return []
        everything = workspace.child()
        for restore in dropped.values():
            restore(everything)
        find = in_memory(self.known.layers)
        wanted: dict[str, None] = {}
        for text in texts:
            hits = find(everything, text, Scope(("page", "measure", "segment")), 3 * _MOST_RESTORED).hits
            named = [each for each in ((hit.kind, hit.id) for hit in hits) if each in dropped]
            wanted.update((f"{kind} {name}", None) for kind, name in named[:_MOST_RESTORED])
        by_label = {f"{kind} {name}": restore for (kind, name), restore in dropped.items()}
        parts = [self._restoring([label], by_label, workspace) for label in wanted]
        whole = [self._restoring(list(wanted), by_label, workspace)] if len(parts) > 1 else []
        return [each for each in (*whole, *parts) if each is not None]

    def _restoring(
        self, labels: Sequence[str], restores: Mapping[str, Callable[[Workspace], bool]], workspace: Workspace
    ) -> Repair | None:
        child = workspace.child()
        done = [label for label in labels if restores[label](child)]
        if not done:
            return None
        evidence = tuple(f"an earlier commit contains the {label}" for label in done)
        return Repair("restore", f"restore {listing((f'the {label}' for label in done), 3)}", child, evidence)

    @functools.cached_property
    def _dropped(self) -> dict[tuple[str, str], Callable[[Workspace], bool]]:
        """The removed pages and definitions by kind and name, with functions that restore them."""
        found: dict[tuple[str, str], Callable[[Workspace], bool]] = {}
        for path in self._ever(_PAGES):
            place = place_of(path)
            content = None if place is None or self.base.exists(path) else self._last(path)
            if place is not None and content is not None:
                found["page", place[1]] = functools.partial(_write_back, path=path, content=content)
        for connection in sorted(self.known.layers.dialects):
            found |= self._dropped_definitions(connection)
        return found

    def _dropped_definitions(self, connection: str) -> dict[tuple[str, str], Callable[[Workspace], bool]]:
        sources = self.known.model(connection).sources
        found: dict[tuple[str, str], Callable[[Workspace], bool]] = {}
        for path in self._ever(f"{SEMANTIC_NAME}/{connection}/"):
            if "/_schema/" in path:
                continue
            for commit in self._history(path):
                document = document_of(commit.content, path)
                name = document.get("name")
                if not isinstance(name, str) or name not in sources:
                    continue
                there = {*sources[name].measures, *sources[name].segments}
                for key in _LISTS:
                    for item in document.get(key) or ():
                        own = item.get("name") if isinstance(item, Mapping) else None
                        label = (key.removesuffix("s"), f"{name}.{own}")
                        if isinstance(own, str) and own not in there and label not in found:
                            found[label] = functools.partial(
                                _put_back, connection=connection, source=name, key=key, item=item, path=path
                            )
        return found

    def _last(self, path: str) -> bytes | None:
        return next((each.content for each in self._history(path) if each.content is not None), None)

    def _history(self, path: str) -> list[FileCommit]:
        if path not in self._files:
            self._files[path] = self.repository.history().of_file(path, MOST_COMMITS)
        return self._files[path]

    def _ever(self, folder: str) -> list[str]:
        return sorted(self.repository.history().last_changes(folder.rstrip("/")))

    # Words.

    def _synonyms(self, group: Group, workspace: Workspace) -> Repair | None:
        """Return the repair that adds the words agents searched for as synonyms of a measure."""
        means = {each.means for each in group.findings if each.means}
        asked = (each.text for each in group.findings if each.means)
        words = list(dict.fromkeys(each for each in asked if _NAME.fullmatch(each)))
        if len(means) != 1 or not words:
            return None
        name = means.pop()
        source, _, member = name.partition(".")
        child = workspace.child()
        for path in own_files(workspace, group.connection):
            document = document_of(workspace.read(path), path)
            for key in _LISTS if document.get("name") == source else ():
                for place, item in enumerate(document.get(key) or ()):
                    if not isinstance(item, Mapping) or item.get("name") != member:
                        continue
                    known = [str(each) for each in item.get("synonyms") or ()]
                    fresh = [each for each in words if each.casefold() not in {one.casefold() for one in known}]
                    fresh = fresh[: max(0, _MOST_SYNONYMS - len(known))]
                    if not fresh:
                        return None
                    edits = [Edit("set", (key, place, "synonyms"), [*known, *fresh])]
                    child.write(path, apply(workspace.read(path) or b"", edits, where=path))
                    evidence = tuple(f"after a search for “{each}”, the agent used {name}" for each in fresh)
                    found = functools.partial(self._finds, child, fresh, name)
                    return Repair("synonym", f"find {name} by {listing(fresh, 3)}", child, evidence, found)
        return None

    def _finds(self, child: Workspace, words: Sequence[str], name: str, known: KnownContext) -> bool:
        """Whether all words find a definition that they did not find before."""
        find = in_memory(known.layers)
        return all(any(hit.id == name for hit in find(child, each, Scope(), 10).hits) for each in words)


def _successor(then: Table, now: Table, column: str) -> str | None:
    """Return the only new column of the same type that can be the successor of a removed column.

    Among several candidates, the one at the same position wins. A column that matches two removed columns succeeds
    neither.
    """
    old = {each.name: each for each in then.columns}
    gone = [each.name for each in then.columns if each.name not in {one.name for one in now.columns}]
    fresh = [each for each in now.columns if each.name not in old]
    places = {each.name: place for place, each in enumerate(then.columns)}
    now_places = {each.name: place for place, each in enumerate(now.columns)}

    def fits(name: str) -> list[str]:
        alike = [each.name for each in fresh if each.native_type == old[name].native_type]
        same_place = [each for each in alike if now_places[each] == places[name]]
        return same_place if len(alike) > 1 else alike

    found = fits(column)
    if len(found) != 1 or any(found == fits(other) for other in gone if other != column):
        return None
    return found[0]


def _table(content: bytes | None, path: str) -> Table | None:
    try:
        return None if content is None else read_table(content, path)
    except KtxError:  # ignore a damaged file of an earlier commit
        return None


def _rename_columns(workspace: Workspace, connection: str, source: str, renames: Mapping[str, str]) -> None:
    _rename(workspace, connection, lambda own, text: _columns_renamed(text, source, renames, own=own == source))
    _rename_in_pages(workspace, lambda text: _page_columns_renamed(text, source, renames))


def _texts(workspace: Workspace, connection: str) -> Iterator[str]:
    """Yield the texts of a connection's overlay files and of all pages."""
    for path in (*own_files(workspace, connection), *workspace.paths(_PAGES)):
        yield (workspace.read(path) or b"").decode("utf-8", "replace")


def _rename(workspace: Workspace, connection: str, rename: Callable[[str, str], str]) -> None:
    """Rename in all of a connection's definitions. `rename` takes the source of the file and a name or SQL text."""
    for path in own_files(workspace, connection):
        content = workspace.read(path) or b""
        document = document_of(content, path)
        own = str(document.get("name"))
        edits = [Edit("set", place, new) for place, text in _strings(document) if (new := rename(own, text)) != text]
        if edits:
            workspace.write(path, apply(content, edits, where=path))


def _ignoring_file(own: str, text: str, rename: Callable[[str], str]) -> str:
    return rename(text)


def _strings(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the paths in a definition that contain SQL or names, with their texts."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in _TEXTS or (key == "name" and len(path) == 2 and path[0] in (*_LISTS, "tests", "policies")):
                continue
            yield from _strings(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _strings(item, (*path, place))
    elif isinstance(value, str):
        yield path, value


def _outside_literals(text: str, change: Callable[[str], str]) -> str:
    """Apply a change to the parts of an SQL text outside quotes."""
    parts = re.split(r"('(?:[^']|'')*')", text)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def _columns_renamed(text: str, source: str, renames: Mapping[str, str], *, own: bool) -> str:
    def change(part: str) -> str:
        for old, new in renames.items():
            part = re.sub(rf"\b{re.escape(source)}\.{re.escape(old)}\b", f"{source}.{new}", part)
            if own:
                part = re.sub(rf"(?<![\w.]){re.escape(old)}(?![\w.(])", new, part)
        return part

    return _outside_literals(text, change)


def _source_renamed(text: str, source: str, new: str) -> str:
    def change(part: str) -> str:
        if part == source:
            return new
        return re.sub(rf"(?<![\w.]){re.escape(source)}(?=\.\w)", new, part)

    return _outside_literals(text, change)


def _page_columns_renamed(text: str, source: str, renames: Mapping[str, str]) -> str:
    if not re.search(rf"\b{re.escape(source)}\b", text):
        return text
    for old, new in renames.items():
        text = re.sub(rf"\b{re.escape(source)}\.{re.escape(old)}\b", f"{source}.{new}", text)
        text = text.replace(f"`{old}`", f"`{new}`")
    return text


def _rename_in_pages(workspace: Workspace, rename: Callable[[str], str]) -> None:
    for path in workspace.paths(_PAGES):
        content = workspace.read(path) or b""
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:  # lint reports a page that is not UTF-8
            continue
        new = rename(text)
        if new != text:
            workspace.write(path, new)


def _member(document: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the list and entry of a measure or segment in a document."""
    for key in _LISTS:
        for item in document.get(key) or ():
            if isinstance(item, Mapping) and item.get("name") == name:
                return key, item
    return None


def _put_back(workspace: Workspace, connection: str, source: str, key: str, item: Mapping[str, Any], path: str) -> bool:
    """Add a measure or segment to the file of a source, without its status."""
    entry = {name: value for name, value in item.items() if name not in _APPROVALS}
    own = [each for each in own_files(workspace, connection) if _about(workspace, each) == source]
    if len(own) > 1:
        return False
    if not own:
        if workspace.exists(path):
            return False
        workspace.write(path, yaml.dump({"name": source, key: [entry]}))
        return True
    if _member(document_of(workspace.read(own[0]), own[0]), str(item.get("name"))) is not None:
        return False
    workspace.write(own[0], append_value(workspace.read(own[0]) or b"", (key,), entry, where=own[0]))
    return True


def _about(workspace: Workspace, path: str) -> str | None:
    name = document_of(workspace.read(path), path).get("name")
    return name if isinstance(name, str) else None


def _write_back(workspace: Workspace, path: str, content: bytes) -> bool:
    if workspace.exists(path):
        return False
    workspace.write(path, content)
    return True


def _remover(had: FileCommit, history: Iterable[FileCommit]) -> FileCommit:
    """Return the commit that removed something. `history` has the newest commit first."""
    later = had
    for each in history:
        if each.commit == had.commit:
            break
        later = each
    return later


def _removed(gone: FileCommit) -> str:
    """Return a sentence with the date and author of a removal."""
    by = f"run {gone.run}" if gone.run else gone.author
    return f"it was removed on {gone.day} by {by} (commit {gone.commit[:10]})"


def _is_back(child: Workspace, connection: str, name: str, known: KnownContext) -> bool:
    """Whether a definition that a run removed exists again. If a person removed it, a question must need it."""
    return not KnownContext(child, known.layers).missing(connection, [name])


def _has_page(child: Workspace, path: str, known: KnownContext) -> bool:
    return child.exists(path) and not known.tree.paths(path)
