"""Which context sources a run works on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from ktx_cli.agent_tools import Layers, Records
from ktx_cli.core import KtxError, Notice, ResultWarning, listing, plural
from ktx_cli.engine.base import Run
from ktx_cli.engine.plan import Target
from ktx_cli.engine.work import SourceWork, Tellings, Told, UnitOutcome, UnitStatus
from ktx_cli.privacy import secrets
from ktx_cli.project import (
    RAW_NAME,
    SCHEMA_NAME,
    SEMANTIC_NAME,
    ConnectionContext,
    Database,
    KtxConfig,
    Repository,
    Tree,
    Workspace,
)
from ktx_cli.sources import (
    PREFIX,
    QUERY_HISTORY,
    PageChange,
    ProjectContext,
    QueryHistorySource,
    QueryPattern,
    Source,
    TableUsage,
    UsageWritten,
    manifest_path,
    parse_manifest,
    source_for,
)
from ktx_cli.wiki import FOLDER, GLOBAL, Page, Wiki, hidden_characters, render


def choose_sources(config: KtxConfig, targets: Sequence[Target], base: Tree, *, model: bool) -> list[SourceWork]:
    """Return the sources of the targets with their committed manifests, by connection; `model`: agents work too."""
    return [
        _work(connection, entry, source, base, model) for connection, entry, source in sources_to_read(config, targets)
    ]


def sources_to_read(config: KtxConfig, targets: Iterable[Target]) -> Iterator[tuple[str, object, Source]]:
    """Yield connection, settings and source of everything among the targets that is a context source, or has one."""
    for target in targets:
        entry = config.connections[target.connection]
        if not isinstance(entry, Database):
            yield target.connection, entry, source_for(entry.driver)
        elif _has_history(entry):
            yield target.connection, entry, source_for(QUERY_HISTORY)


def _has_history(entry: Database) -> bool:
    context = getattr(entry, "context", None)
    return isinstance(context, ConnectionContext) and context.query_history.enabled


def _work(connection: str, entry: object, source: Source, base: Tree, model: bool) -> SourceWork:
    work = SourceWork(connection, entry, source, asked=model)
    path = manifest_path(connection, source.kind)
    try:
        work.manifest = parse_manifest(base.read(path), path)
    except KtxError as error:
        work.error = error
    return work


_State = Mapping[str, bytes | None]
_MADE: Final[WeakKeyDictionary[Tree, tuple[_State, bytes]]] = WeakKeyDictionary()
"""The tree at the bottom of overlays -> what stood above it when the bytes were made, and the bytes."""


def tables(workspace: Workspace) -> bytes:
    """Return a line for each file of the manifest in an overlay, with its sha256."""
    state = {path: content for path, content in workspace.overlaid().items() if _is_table(path)}
    made = _MADE.get(workspace.origin)
    if made is None or made[0] != state:
        made = _MADE[workspace.origin] = state, _lines(workspace)
    return made[1]


def _lines(workspace: Workspace) -> bytes:
    paths = filter(_is_table, workspace.paths(f"{SEMANTIC_NAME}/"))
    contents = ((path, workspace.read(path) or b"") for path in paths)
    return "".join(f"{path}\0{hashlib.sha256(content).hexdigest()}\n" for path, content in contents).encode()


def _is_table(path: str) -> bool:
    return path.startswith(f"{SEMANTIC_NAME}/") and f"/{SCHEMA_NAME}/" in path


def suspicious_texts(name: str, connection: str, before: Tree, after: Workspace) -> tuple[ResultWarning, ...]:
    """Return a warning where lines that a projection brought hold such texts; `name`: what people call the source."""
    places = [place for path in sorted(after.changes()) for place in _places(path, before.read(path), after.read(path))]
    if not places:
        return ()
    return (
        ResultWarning(
            "source_texts",
            f"{name}: texts hold what looks like a secret, or characters nobody sees: {listing(places)}",
            hint="correct them in the source, and change a secret: it has been read",
            connection=connection,
            places=places,
        ),
    )


def _places(path: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    known = set((old or b"").decode(errors="replace").splitlines())
    for number, line in enumerate((new or b"").decode(errors="replace").splitlines(), start=1):
        if line not in known and (any(secrets(line)) or any(hidden_characters(line))):
            yield f"{path}:{number}"


HINT: Final = f"add the lines `!/{RAW_NAME}/` and `!/{RAW_NAME}/**` to the end of .gitignore in the project's folder"


def warn_of_ignored(run: Run) -> None:
    """Warn of every source with units whose manifest is in no commit and will get into none."""
    works = [work for work in run.works if work.error is None and work.units and not work.manifest.files]
    repository = Repository.discover(run.layout.root) if works else None
    if repository is None:
        return
    ignored = repository.ignored([work.manifest_path for work in works])
    for work in works:
        if work.manifest_path in ignored:
            _warn(run, work)


def _warn(run: Run, work: SourceWork) -> None:
    message = (
        f"git ignores {work.manifest_path}, which says what of {work.name} was read: "
        f"every run pays for all of it again, now for {plural(len(work.units), 'unit')}"
    )
    run.warn(ResultWarning("manifest_ignored", message, hint=HINT, path=work.manifest_path))
    run.request.emit(Notice(message))


def tell(
    works: Iterable[SourceWork], workspace: Workspace, layers: Layers, outcomes: Sequence[UnitOutcome] = ()
) -> Tellings:
    """Write what the units of query histories said into an overlay, and mark the pages of what nobody asks any more.

    A history that could not be read is left as it is.
    """
    found: dict[tuple[str, str], Told] = {}
    for work in works:
        if work.error is None and isinstance(work.source, QueryHistorySource):
            own = [each for each in outcomes if (each.connection, each.kind) == (work.connection, work.kind)]
            found[work.connection, work.kind] = _tell(work, work.source, workspace, layers, own)
    return found


def _tell(
    work: SourceWork,
    source: QueryHistorySource,
    workspace: Workspace,
    layers: Layers,
    outcomes: Sequence[UnitOutcome],
) -> Told:
    heard = _Heard(outcomes)
    owned = work.manifest.owned if work.projection is None else work.projection.owned
    written = UsageWritten(owned=owned)
    if heard.usages:
        models = {work.connection: layers.model(workspace, work.connection)}
        context = ProjectContext(work.connection, workspace, models, owned)
        written = source.narrate(work.snapshot, context, heard.usages)
    pages = _pages(workspace, everything=bool(heard.patterns))
    changes = (
        source.pages(work.entry, work.snapshot, work.connection, pages, heard.patterns)
        if pages or heard.patterns
        else ()
    )
    for change in changes:
        workspace.write(change.page.path, render(change.page))
    return Told(
        written.owned,
        {change.page.key: change.reason for change in changes},
        {f"wiki:{change.page.key}": heard.raw(change) for change in changes},
        {
            **dict.fromkeys(sorted(written.changed), heard.narrators),
            **{change.page.path: heard.units(change) for change in changes},
        },
        written.warnings(work.connection),
    )


def _pages(workspace: Workspace, *, everything: bool) -> list[Page]:
    """Return the pages everybody sees; without `everything` those of query histories alone, by their names."""
    wiki = Wiki()
    wiki.refresh(workspace, workspace.paths(f"{FOLDER}{GLOBAL}/{'' if everything else PREFIX}"))
    return list(wiki.pages.values())


class _Heard:
    """The evidence of the units that landed, with where it was said."""

    def __init__(self, outcomes: Sequence[UnitOutcome]) -> None:
        self.usages: list[TableUsage] = []
        self.patterns: list[QueryPattern] = []
        self.narrators: tuple[str, ...] = ()
        self._said: dict[str, list[tuple[str, str]]] = {}
        for outcome in outcomes:
            if outcome.status is UnitStatus.DONE:
                self._take(outcome)

    def units(self, change: PageChange) -> tuple[str, ...]:
        """Return the units that asked for a page."""
        return tuple(dict.fromkeys(unit for unit, _ in self._places(change)))

    def raw(self, change: PageChange) -> tuple[str, ...]:
        """Return the raw files a page comes from."""
        return tuple(sorted({path for _, path in self._places(change)}))

    def _places(self, change: PageChange) -> list[tuple[str, str]]:
        return [place for each in change.page.texts("fingerprints") for place in self._said.get(each, ())]

    def _take(self, outcome: UnitOutcome) -> None:
        for record in Records.from_json(_records(outcome.session)).evidence:
            if record.evidence["kind"] == "table_usage":
                self.usages.append(TableUsage.model_validate(record.evidence))
                self.narrators = tuple(dict.fromkeys((*self.narrators, outcome.unit.key)))
                continue
            pattern = QueryPattern.model_validate(record.evidence)
            self.patterns.append(pattern)
            for each in pattern.fingerprints:
                self._said.setdefault(each, []).append((outcome.unit.key, record.raw_path))


def _records(session: Mapping[str, Any]) -> Mapping[str, list[dict[str, Any]]]:
    records: Mapping[str, list[dict[str, Any]]] = session.get("records", {})
    return records


def take_told(run: Run, tellings: Tellings) -> None:
    """Let the works of a run know what was written of them."""
    for work in run.works:
        work.told = tellings.get((work.connection, work.kind), Told())
        run.warnings.extend(work.told.warnings)
