"""Finds definitions of semantic layers that do not compile, and those among them that a change broke.

Results are cached in `.ktx/cache` with the sizes and times of their files, so that `ktx status` and runs without
changes need not read a layer again.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli import __version__
from ktx_cli.core import Command, Diagnostic, Hint, KtxError, Record, ResultWarning, escaped, listing, plural
from ktx_cli.project import SEMANTIC_NAME, WorkingTree, hash_of, read_bytes, signatures_below, write_atomic
from ktx_cli.scan import ends_more, unexpected
from ktx_cli.semantic import SUFFIXES, Place, calendar_of
from ktx_cli.warehouses import dialect_of

if TYPE_CHECKING:
    from ktx_cli.agent_tools import Layers
    from ktx_cli.engine.plan import RunPlan
    from ktx_cli.project import KtxConfig, Layout, Tree, Workspace
    from ktx_cli.semantic import Join, Model, Source

log = logging.getLogger(__name__)

FORMAT: Final = 1
_ORDER: Final = ("measure", "segment", "column", "policy", "join", "source")


@dataclass(frozen=True, slots=True)
class BrokenDefinition(Record):
    """A definition that no query can use. `kind`: measure, segment, column, policy, join or source."""

    connection: str
    kind: str
    name: str
    path: str
    line: int

    def __str__(self) -> str:
        name = self.name if self.kind == "measure" else f"{self.kind} {self.name}"
        return f"{name} ({escaped(self.path)}:{self.line})"

    @property
    def identity(self) -> tuple[str, str, str]:
        """The identity of the definition, which does not change when lines move."""
        return self.connection, self.kind, self.name


def counted(broken: Sequence[BrokenDefinition]) -> str:
    """Return the number of definitions of each kind, such as `4 measures and 1 segment`."""
    counts = Counter(each.kind for each in broken)
    kinds = {"policy": "policies"}
    found = [plural(counts[kind], kind, kinds.get(kind)) for kind in _ORDER if counts[kind]]
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def broken_sentence(broken: Sequence[BrokenDefinition], verb: str) -> str:
    """Return one sentence that lists the definitions; `verb` is `no longer compile` or `do not compile`."""
    singular = {"do not compile": "does not compile", "no longer compile": "no longer compiles"}
    verb = singular[verb] if len(broken) == 1 else verb
    return f"{counted(broken)} {verb}: {listing(map(str, broken))}"


def way_out(broken: Sequence[BrokenDefinition]) -> Hint:
    """Return the files to edit, and the command that reports the errors in them."""
    paths = listing(dict.fromkeys(each.path for each in broken), 3)
    connections = {each.connection for each in broken}
    named = ("-c", *connections) if len(connections) == 1 else ()
    return Hint("edit {}; to see the errors, run: {}", paths, Command("sl", "validate", "--no-data", *named))


def broken_definitions(model: Model, problems: Iterable[Diagnostic]) -> tuple[BrokenDefinition, ...]:
    """Return the definitions with an error and those computed from them, with measures first, then by location."""
    from ktx_cli.semantic import NO_CONNECTION

    errors = [each for each in problems if each.severity == "error" and each.code != NO_CONNECTION]
    if not errors:
        return ()
    from ktx_cli.protection import LayerUses, Uses

    uses = Uses()
    layer = LayerUses(model, uses)
    places = {place: (source, kind, name) for source, kind, name, place in _members(model)}
    found: dict[tuple[str, str], BrokenDefinition] = {}
    for error in errors:
        place = Place(error.path, error.line or 1)
        member = places.get(place)
        if member is None:
            _add(found, model, "source", error.location.object or error.path, place)
            continue
        source, kind, name = member
        _add(found, model, kind, f"{source.name}.{name}", place)
        part = layer.member(source, name) if kind in ("measure", "segment", "column") else None
        for use in uses.of([part]) if part is not None else ():
            if use.part.place is not None and use.part.kind in _ORDER:
                _add(found, model, use.part.kind, use.part.name, use.part.place)
    return _sorted(found.values())


def newly_broken(layers: Layers, before: Tree, after: Tree, connection: str) -> tuple[BrokenDefinition, ...]:
    """Return the definitions of a connection that compile in the tree `before` but not in `after`."""
    wrong = broken_definitions(layers.model(after, connection), layers.problems(after, connection))
    if not wrong:
        return ()
    old = layers.model(before, connection)
    broken = {each.identity for each in broken_definitions(old, layers.problems(before, connection))}
    known = {(connection, kind, f"{source.name}.{name}") for source, kind, name, _ in _members(old)}
    known |= {(connection, "source", name) for name in old.sources}
    found: dict[tuple[str, str], BrokenDefinition] = {}
    for each in wrong:
        lost = old.sources.get(each.name) if each.kind == "source" else None
        members = list(_members_of(lost)) if lost is not None else []
        for kind, name, place in members:  # the whole source is gone, and no query can use it
            if (connection, kind, f"{each.name}.{name}") not in broken:
                _add(found, old, kind, f"{each.name}.{name}", place)
        if not members and each.identity in known - broken:
            _add(found, old, each.kind, each.name, Place(each.path, each.line))
    return _sorted(found.values())


def broken_now(layout: Layout, config: KtxConfig) -> tuple[BrokenDefinition, ...]:
    """Return the definitions of all databases that do not compile in the current files; writes nothing.

    Raises `KtxError` for files that cannot be read.
    """
    kept = _kept(layout)
    return tuple(each for id_ in config.databases() for each in _known_or_checked(layout, config, id_, kept)[1])


def keep_broken(
    layout: Layout, config: KtxConfig, layers: Callable[[], Layers] | None = None
) -> tuple[BrokenDefinition, ...]:
    """Return the definitions of all databases that do not compile, and cache them; only for runs, which hold the lock.

    `layers`: returns the layers of a run that has already read mostly the same files; None: they are read from their
    stores.
    """
    kept = _kept(layout)
    found = {id_: _known_or_checked(layout, config, id_, kept, layers) for id_ in config.databases()}
    if found != kept:
        connections = {
            id_: {"signature": signature, "broken": [each.to_json() for each in broken]}
            for id_, (signature, broken) in found.items()
        }
        write_atomic(_path(layout), json.dumps({"format": FORMAT, "connections": connections}).encode())
    return tuple(each for _, broken in found.values() for each in broken)


_Checked = tuple[str, tuple[BrokenDefinition, ...]]
"""The signature of a connection's files, and those of its definitions that do not compile."""


def _known_or_checked(
    layout: Layout,
    config: KtxConfig,
    connection: str,
    kept: Mapping[str, _Checked],
    layers: Callable[[], Layers] | None = None,
) -> _Checked:
    signature = _signature(layout, config, connection)
    known = kept.get(connection)
    if known is not None and known[0] == signature:
        return known
    if layers is not None:
        tree = WorkingTree(layout.root)
        own = layers()
        return signature, broken_definitions(own.model(tree, connection), own.problems(tree, connection))
    from ktx_cli.semantic import check_model, load_layer

    model = load_layer(layout, config, connection)
    return signature, broken_definitions(model, (*model.problems, *check_model(model, errors_only=True)))


def _signature(layout: Layout, config: KtxConfig, connection: str) -> str:
    files = signatures_below(layout.root, layout.context_paths(connection)[0], SUFFIXES)
    settings = (__version__, dialect_of(config.connections[connection].driver) or "", repr(calendar_of(config)))
    return hash_of((*settings, *(f"{path} {files[path]}" for path in sorted(files))))


def _kept(layout: Layout) -> dict[str, _Checked]:
    """Return the cached result of the last run; it can be recomputed at any time."""
    try:
        stored = json.loads(read_bytes(_path(layout)) or b"{}")
        kept = stored["connections"].items() if stored.get("format") == FORMAT else ()
        return {
            id_: (each["signature"], tuple(BrokenDefinition(**fields) for fields in each["broken"]))
            for id_, each in kept
        }
    except (ValueError, TypeError, KeyError, AttributeError, KtxError):
        return {}


def _path(layout: Layout) -> Path:
    return layout.cache / "definitions.json"


def _members(model: Model) -> Iterator[tuple[Source, str, str, Place]]:
    """Yield the source, kind, name and location of everything that can fail on its own."""
    for source in model.sources.values():
        for kind, name, place in _members_of(source):
            yield source, kind, name, place


def _members_of(source: Source) -> Iterator[tuple[str, str, Place]]:
    """Yield the kind, name and location of a source's definitions, except those that ktx proposes from its columns."""
    computed = (column for column in source.columns.values() if column.expr is not None)
    members = [
        *(("measure", each.name, each.place) for each in source.measures.values() if not each.is_proposed),
        *(("segment", each.name, each.place) for each in source.segments.values() if not each.is_proposed),
        *(("column", each.name, each.place) for each in computed),
        *(("policy", each.name, each.place) for each in source.policies),
        *(("join", each.alias or each.to, each.place) for each in source.joins if _is_written(each)),
    ]
    yield from ((kind, name, place) for kind, name, place in members if place is not None)


def _is_written(join: Join) -> bool:
    """Return whether a join is defined here rather than by a scan."""
    return join.provenance not in _SCANNED and not join.mirrored


_SCANNED: Final = ("formal", "inferred")
"""The origin of joins that scans write."""


def _add(found: dict[tuple[str, str], BrokenDefinition], model: Model, kind: str, name: str, place: Place) -> None:
    found.setdefault((kind, name), BrokenDefinition(model.connection, kind, name, place.path, place.line))


def _sorted(broken: Iterable[BrokenDefinition]) -> tuple[BrokenDefinition, ...]:
    return tuple(sorted(broken, key=lambda each: (_ORDER.index(each.kind), each.path, each.line, each.name)))


def check_definitions(
    plan: RunPlan, base: Tree, workspace: Workspace, *, write: bool = True
) -> tuple[BrokenDefinition, ...]:
    """Return the definitions that a run broke, and warn about older errors; without `write`, warn about both.

    Definitions with uncommitted edits count, too. Databases whose definitions did not change are not read. A check that
    fails is a warning.
    """
    layout, config = plan.layout, plan.config
    try:
        changed = workspace.changes()
        folders = ((each, f"{SEMANTIC_NAME}/{each}/") for each in config.databases())
        touched = [each for each, folder in folders if any(path.startswith(folder) for path in changed)]
        fresh = tuple(broken for each in touched for broken in newly_broken(plan.layers, base, workspace, each))
        now = keep_broken(layout, config, lambda: plan.layers) if write else broken_now(layout, config)
        doubtful = touched if not write else {each.connection for each in _others(now, fresh)}.intersection(touched)
        edited = _broken_working_files(plan, base, workspace, sorted(doubtful))
        fresh = _sorted((*fresh, *_others(edited, fresh)))
    except Exception as error:
        if ends_more(error) and not isinstance(error, KtxError):
            raise
        log.debug("could not check the definitions", exc_info=error)
        why = error.message if isinstance(error, KtxError) else unexpected(type(error).__name__)
        hint = error.hint if isinstance(error, KtxError) else Command("sl", "validate", "--no-data", "--debug")
        plan.warn(ResultWarning("definitions_not_checked", f"definitions were not checked: {why}", hint=hint))
        return ()
    if not write:
        _warn(plan, fresh, "no longer compile")
    _warn(plan, _others(now, fresh), "do not compile")
    return fresh if write else ()


def _broken_working_files(
    plan: RunPlan, base: Tree, workspace: Workspace, connections: Sequence[str]
) -> tuple[BrokenDefinition, ...]:
    """Return the definitions, including uncommitted ones, that compile in the working files without a run's changes."""
    if not connections:
        return ()
    from ktx_cli.project import Workspace

    before, after = (Workspace(WorkingTree(plan.layout.root)) for _ in range(2))
    for path in workspace.changes():
        old, new = base.read(path), workspace.read(path)
        if before.read(path) in (old, new):  # otherwise the run skipped the file
            before.apply({path: old})
            after.apply({path: new})
    return tuple(broken for each in connections for broken in newly_broken(plan.layers, before, after, each))


def _others(broken: Iterable[BrokenDefinition], known: Iterable[BrokenDefinition]) -> list[BrokenDefinition]:
    """Return the definitions that are not among the known ones."""
    identities = {each.identity for each in known}
    return [each for each in broken if each.identity not in identities]


def _warn(plan: RunPlan, broken: Sequence[BrokenDefinition], verb: str) -> None:
    if broken:
        definitions = [each.to_json() for each in broken]
        message, hint = broken_sentence(broken, verb), way_out(broken)
        plan.warn(ResultWarning("broken_definitions", message, hint=hint, definitions=definitions))
