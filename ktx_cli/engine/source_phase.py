"""The sources of a run: fetches each, compares it with its last delivery, projects it without a model, and divides the

rest into units.

A source that fails in any of these steps affects only itself. After the agents, `conclude` lets each source write what
follows from its units; the delivery files then record which of its files were processed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from ktx_cli import sources
from ktx_cli.agent_tools import Layers
from ktx_cli.core import (
    CancelledError,
    Command,
    ConfigError,
    Emit,
    KtxError,
    ResultWarning,
    StepFinished,
    StepStarted,
    internal_error,
    isoformat,
    listing,
    monotonic,
    now,
    plural,
)
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.plan import RunPlan, Target
from ktx_cli.engine.provenance import rewrite_deliveries
from ktx_cli.engine.work import Conclusions, SourceWork, UnitOutcome, UnitStatus, evidence_of
from ktx_cli.privacy import secrets
from ktx_cli.project import (
    CONTRADICTIONS_NAME,
    RAW_NAME,
    SCHEMA_NAME,
    SEMANTIC_NAME,
    KtxConfig,
    Layout,
    Repository,
    StateDatabase,
    Tree,
    Workspace,
    transaction,
)
from ktx_cli.protection import has_protected
from ktx_cli.scan import DECISIONS, DECLARATIONS, read_points
from ktx_cli.semantic import Model
from ktx_cli.telemetry import in_this_operation
from ktx_cli.wiki import Contradiction, hidden_characters, with_contradictions

if TYPE_CHECKING:
    from ktx_cli.engine.gates import Gates

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Number of sources that are fetched at the same time; each waits for its own server."""

FORMAT: Final = "7"
"""Increased when projections or declarations of the same input change."""

_GRACE_SECONDS: Final = 1.0
"""How long an interrupted run waits for fetches to end; a fetch may hang on a response that never comes."""

_IGNORED_HINT: Final = (
    f"add the lines `!/{RAW_NAME}/` and `!/{RAW_NAME}/**` to the end of .gitignore in the project folder"
)


def fetch_declaring(
    plan: RunPlan,
    base: Tree,
    last: sources.FetchStates,
    *,
    scanned: Workspace | None = None,
    scratch: Path | None = None,
) -> list[SourceWork]:
    """Fetch the sources whose declarations the scans of a run use.

    `scanned`: the overlay with the results of the scans, for the sources whose fetch needs a semantic layer; None for
    the others. The other arguments are those of `read_sources`.
    """
    works = choose_sources(plan.config, plan.targets, base, model=plan.asks_model)
    if scanned is None:
        return _fetch([work for work in works if work.source.declares_first], plan, base, {}, last, scratch)
    later = [work for work in works if work.source.declares_later]
    return _fetch(later, plan, base, plan.layers.models(scanned), last, scratch) if later else []


def declarations(works: Iterable[SourceWork]) -> dict[str, bytes]:
    """Return path -> file with what each source that could be fetched declares about tables.

    A source whose projection failed counts, because the scans of the run have used its declarations.
    """
    read = ((work, work.declared) for work in works)
    return {_declarations_path(work): content for work, content in read if content is not None}


def _declarations_path(work: SourceWork) -> str:
    return Layout.raw_path(work.connection, work.kind, DECLARATIONS)


def _declarations(work: SourceWork, base: Tree) -> bytes | None:
    """Return the file with a source's declarations. One that was made from the same input is kept.

    If the definitions cannot be read for an unexpected reason, the projection reports it.
    """
    from ktx_cli.scan import declarations_text, read_declarations

    made_from, path = _input_digest(work), _declarations_path(work)
    committed = base.read(path)
    with contextlib.suppress(KtxError):  # A damaged file is written again.
        if committed is not None and read_declarations(committed, path).made_from == made_from:
            return committed
    try:
        declared = work.source.declarations(work.entry, work.snapshot)
    except Exception as problem:
        log.debug("%s declares nothing", work.name, exc_info=problem)
        return committed
    return None if declared is None else declarations_text(replace(declared, made_from=made_from))


def _input_digest(work: SourceWork) -> str:
    """Return a digest of a source's settings and raw files."""
    settings = None if work.entry is None else work.entry.model_dump_json()
    found = hashlib.sha256(f"{FORMAT}\n{work.kind}\n{settings}\n".encode())
    found.update("".join(f"{path}\0{file.sha256}\n" for path, file in work.snapshot.files.items()).encode())
    return found.hexdigest()


def read_sources(
    plan: RunPlan,
    workspace: Workspace,
    base: Tree,
    last: sources.FetchStates,
    *,
    fetched: Sequence[SourceWork] = (),
    scratch: Path | None = None,
) -> list[SourceWork]:
    """Return the sources of a run with their changes and units; what needs no model is in the run's overlay.

    `last`: the state that earlier runs stored for each source. `fetched`: the sources that this run already fetched.
    `scratch`: a folder for fetched files, if nothing in the project may change.
    """
    done = {work.key: work for work in fetched}
    works = choose_sources(plan.config, plan.targets, base, model=plan.asks_model)
    models = plan.layers.models(workspace)
    rest = _fetch([work for work in works if work.key not in done], plan, base, models, last, scratch)
    done |= {work.key: work for work in rest}
    read = [
        work if work.error is not None else _projected(plan, workspace, work, last.get(work.key, sources.FetchState()))
        for work in (done[work.key] for work in works)
    ]
    for path, content in declarations(read).items():
        if workspace.read(path) != content:
            workspace.write(path, content)
    return read


def _fetch(
    works: Sequence[SourceWork],
    plan: RunPlan,
    base: Tree,
    models: Mapping[str, Model],
    last: sources.FetchStates,
    scratch: Path | None,
) -> list[SourceWork]:
    raw, cache = sources.RawStore(scratch or plan.layout.raw_store), None if scratch is None else scratch / "cache"

    def fetch(work: SourceWork, stopped: Callable[[], bool]) -> SourceWork:
        known = last.get(work.key, sources.FetchState())
        files = known.files or {}
        context = sources.FetchContext(
            work.connection, plan.layout, plan.environ, raw, known.cursor, files, cache, models, plan.emit, stopped
        )
        return _run_step(work, "fetch", plan.emit, lambda: _fetched(work, context, base))

    return _side_by_side(works, fetch)


def source_warnings(works: Iterable[SourceWork]) -> Iterator[ResultWarning]:
    """Yield the warnings from the sources that were read."""
    for work in works:
        yield from work.snapshot.warnings
        yield from () if work.projection is None else work.projection.warnings


def choose_sources(config: KtxConfig, targets: Iterable[Target], base: Tree, *, model: bool) -> list[SourceWork]:
    """Return the sources of the targets with their committed deliveries, by connection; `model`: agents work too."""
    entries = ((target.connection, config.connections[target.connection]) for target in targets)
    works = [
        SourceWork(id_, entry, source, asked=model) for id_, entry in entries for source in sources.sources_of(entry)
    ]
    return [_attempted(work, functools.partial(_with_delivery, work, base)) for work in works]


def _with_delivery(work: SourceWork, base: Tree) -> SourceWork:
    return replace(work, delivered=sources.parse_delivery(base.read(work.delivery_path), work.delivery_path))


def as_error(work: SourceWork, problem: Exception) -> KtxError:
    """Return an exception as the error of a source."""
    if isinstance(problem, KtxError):
        return problem
    log.debug("%s failed", work.name, exc_info=problem)
    where, hint = f"connection `{work.connection}`", Command("ingest", work.connection, "--debug")
    return internal_error(problem, where=where, hint=hint)


def _attempted(work: SourceWork, action: Callable[[], SourceWork]) -> SourceWork:
    """Return a source after an action; an exception becomes the error of this source, so that the others continue."""
    try:
        return action()
    except Exception as problem:  # noqa: BLE001 - it is reported at the source
        return replace(work, error=as_error(work, problem))


def _run_step(work: SourceWork, step: str, emit: Emit, action: Callable[[], SourceWork]) -> SourceWork:
    """Return a source after a step announced by events, with the duration of its fetch."""
    name = f"{step} {work.kind}"
    emit(StepStarted(name, work.connection))
    started = monotonic()
    after = _attempted(work, action)
    seconds = monotonic() - started
    if after.error is None:
        summary = plural(len(after.snapshot.files if after.projection is None else after.projection.artifacts), "file")
    else:
        summary = "stopped" if isinstance(after.error, CancelledError) else "failed"
    emit(StepFinished(name, summary, seconds, work.connection))
    return replace(after, seconds=work.seconds or seconds)


def _side_by_side(
    works: Sequence[SourceWork], fetch: Callable[[SourceWork, Callable[[], bool]], SourceWork]
) -> list[SourceWork]:
    """Fetch every source without an error, several at a time; an interrupt stops all. No thread outlives the run."""
    halt, results = threading.Event(), list(works)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    readable = [number for number, work in enumerate(works) if work.error is None]
    for number in readable:
        waiting.put(number)

    def run() -> None:
        with contextlib.suppress(queue.Empty):
            while not halt.is_set():
                number = waiting.get_nowait()
                try:
                    results[number] = fetch(works[number], halt.is_set)
                finally:
                    ended.put(number)

    threads = [
        threading.Thread(target=in_this_operation(run), name=f"ktx-fetch-{number}", daemon=True)
        for number in range(min(AT_ONCE, len(readable)))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in readable:
            ended.get()
    except BaseException:
        halt.set()
        deadline = monotonic() + _GRACE_SECONDS
        while any(thread.is_alive() for thread in threads) and monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                ended.get(timeout=0.05)
        raise
    return results


def _fetched(work: SourceWork, context: sources.FetchContext, base: Tree) -> SourceWork:
    snapshot = work.source.fetch(work.entry, context)
    work = replace(work, snapshot=snapshot, changes=sources.compare(work.delivered, snapshot, model=work.asked))
    return replace(work, declared=_declarations(work, base))


def _projected(plan: RunPlan, workspace: Workspace, work: SourceWork, last: sources.FetchState) -> SourceWork:
    """Return a source projected onto the output of earlier sources, with the rest divided into units.

    A source whose files, settings and tables are those of its last projection is not projected again, unless agents
    have files to read, because the projection provides the context for them, or one of its queries may read protected
    data.
    """
    is_needed = (work.asked and bool(work.changes.touched)) or may_be_protected(work, plan.layers.models(workspace))
    found = digest(work, workspace)
    is_done = found == work.delivered.projected or _landed_digest(found, work, workspace) == last.projected
    if is_done and not is_needed:
        return _attempted(work, lambda: replace(work, units=_units(work, sources.Projection())))

    def project() -> SourceWork:
        from ktx_cli.engine.gates import Gates

        trial, models = workspace.child(), plan.layers.models(workspace)
        owned = sources.where_now(work.delivered.owned, models)
        context = sources.ProjectContext(work.connection, trial, models, owned)
        projection = work.source.project(work.entry, work.snapshot, context)
        units = _units(work, projection)
        _check(work, Gates(workspace, plan.layers), trial)
        suspicious = suspicious_texts(work.name, work.connection, workspace, trial)
        conflicts = workspace.absorb(trial)
        if conflicts:  # nothing else writes to the overlay meanwhile
            raise KtxError(
                f"the projection of {work.name} conflicts with existing files: {conflicts[0]}", code="internal"
            )
        return replace(work, projection=replace(projection, warnings=(*projection.warnings, *suspicious)), units=units)

    return _run_step(work, "project", plan.emit, project)


def may_be_protected(work: SourceWork, models: Mapping[str, Model]) -> bool:
    """Return whether a source owns queries that may read hidden data in a semantic layer."""
    owners = {path.split("/")[1] for path, items in work.delivered.owned.items() if "sql" in items}
    return any(has_protected(models[each]) for each in owners if each in models)


def _units(work: SourceWork, projection: sources.Projection) -> tuple[WorkUnit, ...]:
    return work.source.units(work.entry, work.snapshot, work.changes, projection) if work.asked else ()


def _check(work: SourceWork, gates: Gates, trial: Workspace) -> None:
    wrong = gates.definitions(trial, trial.changes())
    if wrong:
        message = f"the definitions of {work.name} cannot be used: {wrong[0]}"
        hint = wrong[0].hint or "correct them in the source, then run the command again"
        details = {"findings": [str(each) for each in wrong]}
        raise KtxError(message, code="wrong_definitions", hint=hint, details=details)


def digest(work: SourceWork, workspace: Workspace) -> str:
    """Return a digest of everything that a projection reads: settings, raw files and whether they are
    complete, tables.
    """
    settings = None if work.entry is None else work.entry.model_dump_json()
    found = hashlib.sha256(f"{FORMAT}\n{work.kind}\n{settings}\n{work.snapshot.complete}\n".encode())
    found.update("".join(f"{path}\0{file.sha256}\n" for path, file in work.snapshot.files.items()).encode())
    found.update(tables(workspace))
    found.update(decision_points(workspace))
    return found.hexdigest()


def _landed_digest(found: str, work: SourceWork, workspace: Workspace) -> str:
    """Return a digest that includes the delivery, because a branch without it does not have the last projection."""
    delivered = workspace.read(work.delivery_path) or b""
    return hashlib.sha256(found.encode() + delivered).hexdigest()


def decision_points(workspace: Workspace) -> bytes:
    """Return a line for each decision point for which a projection looks up statements."""
    paths = sorted(path for path in workspace.paths(f"{RAW_NAME}/") if path.endswith(f"/{DECISIONS}"))
    lines = []
    for path in paths:
        try:
            points = read_points(workspace.read(path) or b"", path)
        except KtxError:  # the scan of its connection warns about a broken record
            continue
        lines += [f"{path}\0{each.table}\0{each.kind}\0{','.join(each.columns)}\n" for each in points]
    return "".join(lines).encode("utf-8", "surrogatepass")


_State = Mapping[str, bytes | None]
_MADE: Final[WeakKeyDictionary[Tree, tuple[_State, bytes]]] = WeakKeyDictionary()
"""The tree at the bottom of overlays -> what was above it when the bytes were computed, and the bytes."""


def tables(workspace: Workspace) -> bytes:
    """Return a line for each manifest file in an overlay, with its sha256."""
    state = {path: content for path, content in workspace.overlaid().items() if _is_table(path)}
    made = _MADE.get(workspace.origin)
    if made is None or made[0] != state:
        paths = filter(_is_table, workspace.paths(f"{SEMANTIC_NAME}/"))
        contents = ((path, workspace.read(path) or b"") for path in paths)
        lines = (f"{path}\0{hashlib.sha256(content).hexdigest()}\n" for path, content in contents)
        made = _MADE[workspace.origin] = state, "".join(lines).encode()
    return made[1]


def _is_table(path: str) -> bool:
    return path.startswith(f"{SEMANTIC_NAME}/") and f"/{SCHEMA_NAME}/" in path


def suspicious_texts(name: str, connection: str, before: Tree, after: Workspace) -> tuple[ResultWarning, ...]:
    """Return a warning if a projection contains secrets or invisible characters; `name`: the source's display name."""
    places = [place for path in sorted(after.changes()) for place in _places(path, before.read(path), after.read(path))]
    if not places:
        return ()
    return (
        ResultWarning(
            "source_texts",
            f"{name}: texts contain what looks like a secret, or invisible characters: {listing(places)}",
            hint="correct them in the source, and rotate any secret, because it has been read",
            connection=connection,
            places=places,
        ),
    )


def _places(path: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    known = set((old or b"").decode(errors="replace").splitlines())
    for number, line in enumerate((new or b"").decode(errors="replace").splitlines(), start=1):
        if line not in known and (any(secrets(line)) or any(hidden_characters(line))):
            yield f"{path}:{number}"


def ignored_deliveries(root: Path, works: Sequence[SourceWork]) -> Iterator[ResultWarning]:
    """Warn about every source with units whose delivery file is not committed and will not be.

    `root`: the project folder.
    """
    new = [work for work in works if work.error is None and work.units and not work.delivered.files]
    repository = Repository.discover(root) if new else None
    ignored = () if repository is None else repository.ignored([work.delivery_path for work in new])
    for work in new:
        if work.delivery_path in ignored:
            message = (
                f"git ignores {work.delivery_path}, the record of what was read of {work.name}, so every run "
                f"processes everything again: now {plural(len(work.units), 'unit')}"
            )
            yield ResultWarning("manifest_ignored", message, hint=_IGNORED_HINT, path=work.delivery_path)


def conclude(
    works: Iterable[SourceWork], workspace: Workspace, layers: Layers, outcomes: Sequence[UnitOutcome] = ()
) -> Conclusions:
    """Let every readable source write what follows from its units into an overlay.

    A source whose step fails changes nothing, and the next run collects the evidence of its units again.
    """
    return {work.key: _conclusion(work, workspace, layers, outcomes) for work in works if work.error is None}


def _conclusion(
    work: SourceWork, workspace: Workspace, layers: Layers, outcomes: Sequence[UnitOutcome]
) -> sources.Conclusion:
    landed = (each for each in outcomes if each.source == work.key and each.status is UnitStatus.DONE)
    evidence = [piece for outcome in landed for piece in evidence_of(outcome)]
    owned = work.delivered.owned if work.projection is None else work.projection.owned
    trial, models = workspace.child(), layers.models(workspace)
    context = sources.ProjectContext(work.connection, trial, models, sources.where_now(owned, models))
    try:
        conclusion = work.source.after_units(work.entry, work.snapshot, context, evidence)
    except Exception as problem:  # noqa: BLE001 - it is reported at the source
        error = as_error(work, problem)
        message = f"{work.name}: {error.message}"
        warning = ResultWarning("source_incomplete", message, hint=error.hint, connection=work.connection)
        return sources.Conclusion(warnings=(warning,), error=error)
    workspace.absorb(trial)
    return conclusion


def next_delivery(work: SourceWork, workspace: Workspace) -> sources.Delivery:
    """Return the delivery after this run.

    That is the committed delivery if files and owned items are the same, whatever else a projection read.
    """
    made = _delivery(work)
    return work.delivered if made == work.delivered else replace(made, projected=digest(work, workspace))


def _delivery(work: SourceWork, failed: Collection[str] = ()) -> sources.Delivery:
    """Return the current delivery; `failed`: raw files whose work was not committed, so that they count as new.

    A deleted file keeps the artifacts for which no decision has been made.
    """
    came, unfinished = _artifacts(work), work.unfinished()
    kept = dict(work.delivered.files)
    for path in work.changes.deleted:
        decided = work.evicted.get(path, frozenset())
        left = work.became.of(name for name in kept[path].artifacts if name not in decided) - decided
        if left:
            kept[path] = replace(kept[path], artifacts=tuple(sorted(left)))
        else:
            del kept[path]
    files = {
        path: sources.FileState(
            file.sha256,
            sources.FileStatus.FAILED if path in failed or path in unfinished else _status(work, path),
            tuple(sorted(came.get(path, ()))),
        )
        for path, file in work.snapshot.files.items()
    }
    projected = work.delivered.owned if work.projection is None else work.projection.owned
    owned = projected if work.conclusion.owned is None else work.conclusion.owned
    declared = work.delivered.declared if work.projection is None else work.projection.declared
    return sources.Delivery({**kept, **files}, owned, work.delivered.projected, declared)


def _status(work: SourceWork, path: str) -> sources.FileStatus:
    state = work.delivered.files.get(path)
    if state is not None and path not in work.changes.touched:
        return state.status
    if path in work.skipped_files:
        return sources.FileStatus.SKIPPED
    handled = work.projection is not None and path in work.projection.handled
    return sources.FileStatus.DONE if work.asked or handled else sources.FileStatus.WAITING


def _artifacts(work: SourceWork) -> Mapping[str, set[str]]:
    """Return raw file -> the artifacts that came from it, in this run and in earlier runs.

    Includes files that changed: their pages stay whether or not a model has read them again. Only artifacts that this
    run removed are dropped, and a merged artifact counts as its target.
    """
    found = {path: work.became.of(state.artifacts) for path, state in work.delivered.files.items()}
    for artifact, paths in work.produced().items():
        for path in paths:
            found.setdefault(path, set()).add(artifact)
    return found


def write_deliveries(works: Iterable[SourceWork], workspace: Workspace) -> None:
    """Write the delivery files to the overlay: for all sources that were read, and for others that
    name what changed.
    """
    read = [work for work in works if work.error is None]
    for work in read:
        made = next_delivery(work, workspace)
        if made != work.delivered:
            workspace.write(work.delivery_path, sources.render_delivery(made))
    if read:
        rewrite_deliveries(workspace, read[0].became, {work.delivery_path for work in read})


def deliveries_without(works: Iterable[SourceWork], held: frozenset[str]) -> dict[str, bytes]:
    """Return the delivery files as path -> text, for the case that the held paths keep their old content.

    Ownership in them stays the same, files whose artifacts they are count as new, and the source is projected again.
    """
    found: dict[str, bytes] = {}
    for work in works:
        if work.error is not None or not work.touched_paths().intersection(held):
            continue
        work = replace(work, became=work.became.without(held))
        failed = {path for each in work.landed() if held.intersection(each.paths) for path in each.unit.files}
        made = _delivery(work, failed)
        owned = {path: items for path, items in made.owned.items() if path not in held}
        owned |= {path: items for path, items in work.delivered.owned.items() if path in held}
        found[work.delivery_path] = sources.render_delivery(replace(made, owned=owned, projected=""))
    return found


def keep_contradictions(
    works: Iterable[SourceWork], workspace: Workspace, found: Sequence[Contradiction]
) -> ResultWarning | None:
    """Write the contradictions of a run to their file, and drop the statements of deleted raw files.

    Returns a warning if the file cannot be changed: the contradictions are then only in the report of the run.
    """
    gone = {f"{work.connection}/{path}" for work in works if work.error is None for path in work.changes.deleted}
    before = workspace.read(CONTRADICTIONS_NAME)
    if not found and (before is None or not gone):
        return None
    try:
        after = with_contradictions(before, found, gone)
    except ConfigError as error:
        message = f"contradictions of this run are only in its report: {error.message}"
        return ResultWarning("contradictions_not_kept", message, hint=error.hint, path=CONTRADICTIONS_NAME)
    if after is None:
        workspace.delete(CONTRADICTIONS_NAME)
    elif after != before:
        workspace.write(CONTRADICTIONS_NAME, after)
    return None


def save_fetches(database: StateDatabase, works: Iterable[SourceWork], workspace: Workspace) -> None:
    """Store where the next fetches may continue; called only after the run is committed."""
    with transaction(database):
        for work in works:
            if work.error is None:
                files = {path: file.sha256 for path, file in work.snapshot.files.items()}
                values = (*work.key, isoformat(now()), work.snapshot.cursor, json.dumps(files))
                projected = _landed_digest(digest(work, workspace), work, workspace)
                delivery = sources.delivery_digest(workspace.read(work.delivery_path))
                database.execute(
                    "INSERT OR REPLACE INTO fetches (connection, kind, finished, cursor, files, projected, delivery)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (*values, projected, delivery),
                )
