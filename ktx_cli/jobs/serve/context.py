"""The context for agents: sources and pages with their references, and the columns that contain a value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ktx_cli.agent_tools import missing_name, passage_of, resolved, visible
from ktx_cli.core import Command, Hint, KtxError, UsageError, did_you_mean, listing, one_line, plural, yaml
from ktx_cli.jobs.semantic.layers import (
    DefinitionStatuses,
    Layers,
    choose_layer,
    describe_source,
    find_source,
    read_layers,
    shown_problem,
    source_files,
)
from ktx_cli.jobs.semantic.validate import Validation, validate_layers
from ktx_cli.jobs.serve.ask import Watch, may_quote_rows
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.jobs.wiki import find_page, read_wiki, scope_of
from ktx_cli.project import KtxConfig, Layout, WorkingTree, read_state
from ktx_cli.protection import read_relations
from ktx_cli.scan import SearchedLists, ValueMatch, ValueMatches, find_values
from ktx_cli.search import Passage, listed_columns
from ktx_cli.semantic import (
    NOT_SHOWN,
    ColumnValues,
    SemanticError,
    Source,
    VisibleModel,
    database_of,
    layer_ids,
    load_lists,
    masks_of,
)
from ktx_cli.wiki import Kind, Page, backlinks, is_about, references, scopes_seen_from

if TYPE_CHECKING:
    from ktx_cli.core import Diagnostic, ResultWarning
    from ktx_cli.project import Mount
    from ktx_cli.semantic import Caller

ShowNote = Callable[[str], str]
"""Returns a note as the caller may see it."""

Form = Literal["composed", "files"]

MOST_NAMES: Final = 40
"""Maximum number of measures, segments and columns that a list names for each source."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A source as text. `paths`: the files that define it."""

    connection: str
    source: str
    yaml: str
    paths: tuple[str, ...]


def listed(project: ServedProject, connection: str | None) -> tuple[list[dict[str, Any]], list[ResultWarning]]:
    """Return the sources of a connection, or of all, with the names of their contents; errors as in `read_layers`."""
    from ktx_cli.semantic import time_of

    layers = read_layers(project.layout, project.config(), connection, load=project.load_layer)
    rows = []
    for each in layers.sources():
        shown = next(one for one in layers.shown if one.model.connection == each.connection)
        names = {
            "measures": [one.name for one in shown.measures(each.source)],
            "segments": list(each.source.segments),
            "columns": [one.name for one in shown.columns(each.source)],
        }
        facts, time = each.to_json(), time_of(each.source, None)
        rows.append(
            {key: facts[key] for key in ("connection", "name", "kind")}
            | {"grain": [one for one in facts["grain"] if one in names["columns"]]}
            | {"description": one_line(visible(facts["description"] or ""), 300)}
            | {"time": time.column if time is not None and time.column in names["columns"] else None}
            | {key: found[:MOST_NAMES] for key, found in names.items()}
            | {f"more_{key}": max(0, len(found) - MOST_NAMES) for key, found in names.items()}
        )
    return rows, layers.warnings(private=True)


def read_definition(
    project: ServedProject,
    name: str,
    connection: str | None,
    form: Form,
    *,
    privacy: bool,
    mount: Mount | None = None,
    shown_note: ShowNote = str,
) -> Definition:
    """Return a source as text; raises the errors of `find_source`. `mount`: the project, if a root mounts it.

    Files of a source with hidden parts are not shown, nor any with `privacy`, because they may contain row values:
    `KtxError` (`hidden`).
    """
    layers = read_layers(project.layout, project.config(), connection, load=project.load_layer)
    try:
        shown, source = find_source(layers, name)
    except SemanticError as error:
        if error.code == "hidden":
            error.hint = "it is hidden; look for another source with discover_data"
        raise
    of, files = source_files(project.layout, Layers((shown,)), source.name)
    files = files if mount is None else [(mount.shown_path(path), text) for path, text in files]
    paths = tuple(path for path, _ in files)
    if form == "composed":
        pages = _pages_about(project, project.config(), shown, source.name)
        private = privacy or project.config().scan.privacy == "strict"
        notes = [shown_note(each) for each in _open_notes(project, shown, source.name, private=private)]
        statuses = _statuses(project, shown)
        text = definition(shown, source, privacy=privacy, pages=pages, notes=notes, statuses=statuses, mount=mount)
        return Definition(of, source.name, text, paths)
    if privacy or source.is_protected or masks_of(shown.model, source) or not _is_whole(shown, source):
        why = (
            "this server was started with --privacy" if privacy else "part of it is hidden, or limited by a row policy"
        )
        raise KtxError(f"the files of `{source.name}` are hidden: {why}", hint="use form: composed", code="hidden")
    return Definition(of, source.name, "\n".join(f"# {path}\n{visible(text)}" for path, text in files), paths)


def _is_whole(shown: VisibleModel, source: Source) -> bool:
    """Return whether nothing in a source is hidden, so that its files name nothing hidden."""
    facts = describe_source(shown, source)
    parts = (("joins", source.joins), ("lineage", source.lineage))
    tests = repr([(each.name, each.query, each.invariant) for each in source.tests])
    is_cut = any(facts["not_shown"].values()) or any(len(facts[key]) < len(whole) for key, whole in parts)
    return not is_cut and NOT_SHOWN not in repr(facts) and not shown.hides(tests)


AT_ONCE: Final = 40
"""Maximum number of columns (or measures, joins, segments) in one part of a source, which may have several."""

MOST_VALUES: Final = 10
_LONGEST: Final = 400
_DEFAULTS: Final = (("visibility", "public"), ("nullable", True), ("role", "default"))
_PARTS: Final = ("columns", "measures", "joins", "segments", "policies", "parameters")


@dataclass(frozen=True, slots=True)
class Entities:
    """The definitions that names refer to: parts of sources in order, and a line for each unknown name."""

    connection: str
    pieces: tuple[dict[str, Any], ...]
    missed: tuple[tuple[str, str], ...]


def entities(
    project: ServedProject, connection: str | None, targets: Sequence[str], *, privacy: bool, shown_note: ShowNote = str
) -> Entities:
    """Return the sources, tables, columns, measures and segments with these names; errors as in `choose_layer`."""
    config = project.config()
    chosen = choose_layer(project.layout, config, connection)
    shown = VisibleModel(project.load_layer(project.layout, config, chosen))
    wanted, missed = resolved(shown, targets)
    redacted = privacy or config.scan.privacy == "strict"
    values_of = None if redacted else project.layout
    pieces = [
        piece
        for name, only in wanted.items()
        for piece in _pieces(shown, _facts_of(project, shown, name, redacted, shown_note), only, values_of)
    ]
    return Entities(chosen, tuple(pieces), tuple((each, visible(missing_name(shown, each))) for each in missed))


def _facts_of(
    project: ServedProject, shown: VisibleModel, name: str, redacted: bool, shown_note: ShowNote
) -> dict[str, Any]:
    """Return what may be shown of a source, with the pages that explain it and notes about open decisions."""
    pages, statuses = _pages_about(project, project.config(), shown, name), _statuses(project, shown)
    facts = _open_facts(shown, shown.model.sources[name], redacted, pages, statuses)
    return facts | {"open": [shown_note(each) for each in _open_notes(project, shown, name, private=redacted)]}


@dataclass(frozen=True, slots=True)
class ReadDefinition:
    """A source, or one of its columns, measures or segments, as YAML."""

    connection: str
    id: str
    yaml: str


def definition_of(
    project: ServedProject,
    name: str,
    connection: str | None,
    *,
    privacy: bool,
    mount: Mount | None = None,
    shown_note: ShowNote = str,
) -> tuple[ReadDefinition | None, list[str]]:
    """Return the definition with a name in the semantic layer of a connection, or of any; None if there is none.

    Also returns the names that may have been meant. `mount`: the project, if a root mounts it. Raises `UsageError` if
    several connections have the name.
    """
    config = project.config()
    layers = read_layers(project.layout, config, connection, load=project.load_layer)
    found = {each.model.connection: (each, wanted) for each in layers.shown if (wanted := resolved(each, [name])[0])}
    if len(found) > 1:
        message = f"several connections have `{one_line(name, 200)}`: {listing(found)}"
        raise UsageError(message, hint="pass the connection")
    if not found:
        return None, [visible(missing_name(each, name)) for each in layers.shown]
    ((of, (shown, wanted)),) = found.items()
    redacted = privacy or config.scan.privacy == "strict"
    values_of = None if redacted else project.layout
    texts = [
        yaml.dump(_plain(_chosen(shown, _plain(facts), only, values_of)))
        for source, only in wanted.items()
        for facts in [_of_mount(mount, _facts_of(project, shown, source, redacted, shown_note))]
    ]
    return ReadDefinition(of if mount is None else mount.qualified(of), name, visible("---\n".join(texts))), []


def closest_name(project: ServedProject, name: str, connection: str | None, others: Iterable[str]) -> str | None:
    """Return the source, or one of other names, that a name without a definition probably means."""
    layers = read_layers(project.layout, project.config(), connection, load=project.load_layer)
    sources = (source.name for shown in layers.shown for source in shown.sources())
    return did_you_mean(name[:100], [*others, *sources])


def _of_mount(mount: Mount | None, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about a source with its connection, its pages and its commands as the root names them."""
    if mount is None:
        return facts
    for each in (facts, *facts["measures"], *facts["segments"]):
        each["explained_by"] = list(map(mount.qualified, each["explained_by"]))
    notes = [mount.placed(each) for each in facts.get("open", ())]
    return {**facts, "connection": mount.qualified(facts["connection"])} | ({"open": notes} if notes else {})


def definition(
    shown: VisibleModel,
    source: Source,
    *,
    privacy: bool,
    pages: Pages | None = None,
    notes: Sequence[str] = (),
    statuses: DefinitionStatuses | None = None,
    mount: Mount | None = None,
) -> str:
    """Return a source as YAML: its files merged with the scan, without hidden parts.

    `pages`: those that explain the source and its parts. `notes`: about open decisions.
    """
    facts = _open_facts(shown, source, privacy, pages or {}, statuses) | {"open": list(notes)}
    return visible(yaml.dump(_plain(_of_mount(mount, facts))))


Pages = Mapping[str, tuple[str, ...]]
"""Name of a source, or of one of its measures or segments (`orders.revenue`) -> keys of the pages that name it."""


def _pages_about(project: ServedProject, config: KtxConfig, shown: VisibleModel, name: str) -> Pages:
    """Return the pages that name a source, or one of its measures or segments."""
    source = shown.model.sources[name]
    members = [*(each.name for each in shown.measures(source)), *source.segments]
    names = [name, *(f"{name}.{each}" for each in members)]
    return project.searcher(config).explaining(shown.model.connection, names)


def _open_notes(project: ServedProject, shown: VisibleModel, name: str, *, private: bool) -> list[str]:
    """Return the notes about open decisions that a source depends on."""
    from ktx_cli.jobs.decide.notes import DefinitionNotes

    notes = DefinitionNotes(project.layout, lambda connection: shown.model, private=private)
    return notes.of(shown.model.connection, name)


def _statuses(project: ServedProject, shown: VisibleModel) -> DefinitionStatuses:
    return DefinitionStatuses(project.layout, lambda connection: shown.model)


def _pieces(
    shown: VisibleModel, open_facts: dict[str, Any], only: Sequence[str] | None, values_of: Layout | None
) -> Iterator[dict[str, Any]]:
    """Yield a source in parts of limited size, the first with all facts about the source as a whole."""
    facts = _chosen(shown, _plain(open_facts), only, values_of)
    head = {key: _short(value) for key, value in facts.items() if key not in _PARTS}
    left = [(part, _short(item)) for part in _PARTS for item in facts.get(part) or ()]
    for begun in range(0, max(len(left), 1), AT_ONCE):
        piece: dict[str, Any] = dict(head) if begun == 0 else {"connection": head["connection"], "name": head["name"]}
        for part, item in left[begun : begun + AT_ONCE]:
            piece.setdefault(part, []).append(item)
        yield {**piece, "continues": begun + AT_ONCE < len(left)}


def _chosen(
    shown: VisibleModel, facts: dict[str, Any], only: Sequence[str] | None, values_of: Layout | None
) -> dict[str, Any]:
    """Return facts about a source, limited to the parts in `only` (None: all), with the values from a scan."""
    if only is not None:
        kept = ("connection", "name", "kind", "table", "open", "columns", "measures", "segments")
        facts = {key: facts[key] for key in kept if key in facts}
        for part in ("columns", "measures", "segments"):
            facts[part] = [each for each in facts.get(part, ()) if each["name"] in only]
    if values_of is not None:
        _add_values(facts.get("columns", []), shown, shown.model.sources[facts["name"]], values_of)
    return facts


def _open_facts(
    shown: VisibleModel, source: Source, privacy: bool, pages: Pages, statuses: DefinitionStatuses | None = None
) -> dict[str, Any]:
    """Return what may be shown of a source: no expressions with hidden names, no values with `privacy`."""
    known = {} if statuses is None else statuses.of(shown.model.connection, source.name)
    facts = describe_source(shown, source, known)
    for each in (*facts["columns"], *facts["measures"], *facts["joins"], *facts["segments"]):
        each.pop("status_why")
    facts["explained_by"] = list(pages.get(source.name, ()))
    for each in (*facts["measures"], *facts["segments"]):
        each["explained_by"] = list(pages.get(f"{source.name}.{each['name']}", ()))
    if privacy:
        for each in facts["columns"]:
            each["values"] = []
    for key in ("problems", "tests"):
        facts.pop(key)
    facts["not_shown"] = {key: count for key, count in facts["not_shown"].items() if count}
    return facts


def _plain(value: Any) -> Any:
    """Return facts without empty or default values: None, empty, public."""
    if isinstance(value, Mapping):
        kept = {key: _plain(each) for key, each in value.items()}
        return {
            key: each
            for key, each in kept.items()
            if not (each is None or each in ([], {}, "") or (key, each) in _DEFAULTS)
        }
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value) if len(value) <= _LONGEST else one_line(visible(value), _LONGEST)
    if isinstance(value, Mapping):
        return {key: _short(each) for key, each in value.items()}
    return [_short(each) for each in value[:50]] if isinstance(value, list) else value


def _add_values(columns: list[dict[str, Any]], shown: VisibleModel, source: Source, layout: Layout) -> None:
    """Give columns without declared values the values from a scan, if they may be shown."""
    if not source.table:
        return
    read = functools.partial(load_lists, connection=shown.model.connection, table=source.table[-1])
    lists: tuple[ColumnValues, ...] = read_state(layout, read) or ()
    relations = functools.partial(read_relations, WorkingTree(layout.root), shown.model.connection)
    listed = listed_columns(shown, source, relations) if lists else ()
    seen = {
        each.column.casefold(): each for each in lists if source.is_of(each.ref) and each.column.casefold() in listed
    }
    for column in columns:
        found = seen.get(column["name"].casefold())
        if found is not None and not column.get("values") and not column.get("expr"):
            column["values"] = [value for value, _ in found.values[:MOST_VALUES]]
            column["more_values"] = len(found.values) > MOST_VALUES or not found.complete


_OF_THE_DATABASE: Final = frozenset({"not_readable", "refused"})
"""Codes of problems that repeat a database message."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result. `unread`: why the data of a connection could not be checked, by its id."""

    found: Validation
    problems: tuple[tuple[str, Diagnostic], ...]
    unread: Mapping[str, KtxError]


def validate_served(
    project: ServedProject,
    names: Sequence[str],
    connection: str | None,
    *,
    data: bool,
    seconds: float,
    privacy: bool,
    watch: Watch,
    caller: Caller,
) -> Checked:
    """Return the problems in the named sources, or in all; raises the errors of `validate_layers`.

    Data that is partly hidden from the caller is not checked.
    """
    watch.report(0.0, "reading the definitions")
    config = project.config()
    found = validate_layers(
        project.layout,
        config,
        names,
        environ=project.environ,
        connection=connection,
        data=data,
        seconds=seconds,
        load=project.load_layer,
        opener=watch.opener(project.pool.open),
        caller=caller,
    )
    watch.check()
    watch.report(1.0, "checked")
    ids = {each for each, _ in found.sources} | set(found.unread)
    careful = {
        each for each in ids if not may_quote_rows(project.load_layer(project.layout, config, each), privacy=privacy)
    }
    shown = {each: VisibleModel(project.load_layer(project.layout, config, each)) for each in ids}
    problems = tuple(
        (of, shown_problem(shown[of], _without_words(each) if of in careful else each)) for of, each in found.problems
    )
    unread = {
        of: KtxError(f"the database could not be queried ({error.code})") if of in careful else error
        for of, error in found.unread.items()
    }
    return Checked(found, problems, unread)


def _without_words(problem: Diagnostic) -> Diagnostic:
    """Return the problem without the database message, which may quote rows."""
    if problem.code not in _OF_THE_DATABASE:
        return problem
    refusal = (
        f"`{problem.location.object}` cannot be read: the database rejected it (its message may contain row values)"
    )
    return replace(problem, message=refusal, hint=Hint("check its table, columns and expressions"))


_Listed = Callable[[VisibleModel, Source], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Match:
    """A column that contains a value; `count`: the number of rows with the value, None if they were not counted."""

    connection: str
    source: str
    column: str
    value: str | int | float | bool | None
    count: int | None
    match: str


@dataclass(frozen=True, slots=True)
class Miss:
    """Why nothing was found in a database. `reason` is a word for programs, `message` explains it."""

    connection: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ValueFound:
    """The results for one value; `more`: there are further matches."""

    value: str
    matches: tuple[Match, ...]
    misses: tuple[Miss, ...]
    more: bool = False


def look_up(
    project: ServedProject, values: Sequence[str], connection: str | None, *, limit: int, privacy: bool
) -> tuple[ValueFound, ...]:
    """Return where each value occurs; raises `UsageError` for a connection that is not a database."""
    config = project.config()
    if connection is not None:
        database_of(config, connection)
    asked = [connection] if connection is not None else sorted(config.databases())
    if privacy or config.scan.privacy == "strict":
        reason, why = "strict", "scan.privacy is strict: no values are stored"
        if privacy:
            reason, why = "withheld", "this server was started with --privacy: row values stay on its machine"
        hidden = tuple(Miss(each, reason, why) for each in asked)
        return tuple(ValueFound(each, (), hidden) for each in values)
    known = set(layer_ids(project.layout)).intersection(asked)
    shown = {each: VisibleModel(project.load_layer(project.layout, config, each)) for each in known}
    listed = _listed(project)
    return tuple(_found(project, listed, each, connection, shown, asked, limit) for each in values)


def _listed(project: ServedProject) -> _Listed:
    """Return a function that looks up the columns of a source whose values may be listed, once for each source."""
    tree = WorkingTree(project.layout.root)
    scanned = functools.cache(functools.partial(read_relations, tree))
    found: dict[tuple[str, str], frozenset[str]] = {}

    def listed(layer: VisibleModel, source: Source) -> frozenset[str]:
        key = (layer.model.connection, source.name)
        if key not in found:
            found[key] = listed_columns(layer, source, lambda: scanned(layer.model.connection))
        return found[key]

    return listed


def _found(
    project: ServedProject,
    listed: _Listed,
    value: str,
    connection: str | None,
    shown: dict[str, VisibleModel],
    asked: Sequence[str],
    limit: int,
) -> ValueFound:
    def keep(match: ValueMatch) -> bool:
        return match.connection in shown and any(_matches(listed, shown, match))

    ask = functools.partial(find_values, text=value, connection=connection, limit=limit, keep=keep)
    found = read_state(project.layout, ask) or ValueMatches((), ())
    matches = [match for each in found.matches for match in _matches(listed, shown, each)]
    having = {each.connection for each in matches}
    searched = {each.connection: each for each in found.searched}
    misses = tuple(_miss(each, searched.get(each)) for each in asked if each not in having)
    return ValueFound(value, tuple(matches[:limit]), misses, found.more or len(matches) > limit)


def _matches(listed: _Listed, shown: dict[str, VisibleModel], match: ValueMatch) -> Iterator[Match]:
    """Yield the columns of the semantic layer that a match belongs to, if they are visible."""
    layer = shown[match.connection]
    for source in layer.sources():
        name = _column(listed, layer, source, match)
        if name is not None:
            yield Match(match.connection, source.name, name, match.value, match.count, match.kind.value)


def _column(listed: _Listed, layer: VisibleModel, source: Source, match: ValueMatch) -> str | None:
    if not source.table or source.table[-1].casefold() != match.ref.name.casefold() or not source.is_of(match.ref):
        return None
    folded = match.column.casefold()
    if folded not in listed(layer, source):
        return None
    return next(each.name for each in layer.columns(source) if each.name.casefold() == folded)


def _miss(connection: str, searched: SearchedLists | None) -> Miss:
    if searched is None:
        return Miss(connection, "no_scan", "its values were never listed: no scan has read its rows yet")
    if searched.privacy == "strict":
        return Miss(connection, "strict", "it was scanned with scan.privacy strict: no values were stored")
    partly = f", {searched.incomplete} of them in part" if searched.incomplete else ""
    hidden = f"; {plural(searched.hidden, 'column')} hidden (possible personal data)" if searched.hidden else ""
    message = (
        f"not in the lists of {plural(searched.columns, 'column')}{partly}, as of {searched.finished}{hidden}; "
        "columns with many distinct values have no list"
    )
    return Miss(connection, "not_listed", message)


_SHOWN_FIELDS: Final = frozenset({"summary", "tags", "refs", "sl_refs"})
"""Front matter fields that an answer returns separately."""

_LOOK: Final = "find keys of pages and ids of passages with discover_data"


@dataclass(frozen=True, slots=True)
class PageFacts:
    """A page with its references: page keys, semantic layer names, and the pages that refer to it."""

    page: Page
    refs: tuple[str, ...]
    sl_refs: tuple[str, ...]
    backlinks: tuple[str, ...]

    @property
    def content(self) -> str:
        """The page text, preceded by the rest of its front matter; hidden characters are made visible."""
        more = {name: each for name, each in self.page.fields.items() if name not in _SHOWN_FIELDS}
        head = f"---\n{yaml.dump(more)}---\n\n" if more else ""
        return visible(head + self.page.body)


def page_facts(layout: Layout, key: str, user: str | None = None) -> PageFacts:
    """Return the page that `user` (None: anybody) sees under a key; raises the errors of `find_page`."""
    page = _pages_found(layout, key, user)
    found = references(page)
    refs = dict.fromkeys(each.name for each in found if each.kind is Kind.PAGE)
    names = [
        f"{each.connection}/{each.name}" if each.connection else each.name
        for each in found
        if each.field is None and each.kind in (Kind.SOURCE, Kind.TABLE)
    ]
    seen = scopes_seen_from(scope_of(user))
    readers = {each.key: each for each in backlinks(WorkingTree(layout.root), page) if each.scope in seen}
    known = layout.connections
    layer_refs = list(dict.fromkeys(map(visible, (*page.sl_refs, *names))))
    if known is not None:
        shared = {each.key for each in read_wiki(layout).seen_from(scope_of(user))}
        refs = {key: None for key in refs if key in shared}
        readers = {key: each for key, each in readers.items() if is_about(each, known)}
        layer_refs = [each for each in layer_refs if "/" not in each or each.partition("/")[0] in known]
    return PageFacts(page, tuple(refs), tuple(layer_refs), tuple(sorted(readers)))


def passage_facts(layout: Layout, config: KtxConfig, key: str) -> Passage:
    """Return the document passage for an id from discover_data; raises `UsageError` if it no longer exists."""
    found = passage_of(layout, config, key)
    if found is None:
        hint = Hint(
            "copy the id from discover_data; if the document has changed since, read it again with {}",
            Command("ingest"),
        )
        raise UsageError(f"there is no passage `{one_line(key, 200)}`", hint=hint)
    return found


def _pages_found(layout: Layout, key: str, user: str | None) -> Page:
    """Return a page; if there is none, the hint says what an agent can do."""
    try:
        return find_page(layout, key, scope_of(user))
    except UsageError as error:
        known = error.details.get("candidates")
        if known is not None:
            near = did_you_mean(key[:100], known[:1])
            error.hint = f"did you mean `{near}`?" if near else _LOOK
        raise
