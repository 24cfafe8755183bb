"""Finds references in pages to definitions that have changed since the pages were committed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Hint, KtxError, ResultWarning, plural, yaml
from ktx_cli.project import SEMANTIC_NAME, WIKI_NAME, History, KtxConfig, LastChange, Layout, Repository, TreeView
from ktx_cli.semantic import KEY as INHERITS
from ktx_cli.semantic import Column, Measure, Segment, Shard, Source, calendar_of, load_tree, own_files, parse_shard
from ktx_cli.warehouses import dialect_of
from ktx_cli.wiki import Graph, Kind, Page, Reference, Resolver, line_of

if TYPE_CHECKING:
    from ktx_cli.semantic import Model

_NO_DIALECT: Final = ""


@dataclass(slots=True)
class EarlierLayers:
    """Reads semantic layers from commits; a file is parsed once, regardless of how many commits contain it.

    Only the named sources are built from the shards, which may contain thousands of columns in hundreds of commits.
    """

    repository: Repository
    config: KtxConfig
    _shards: dict[bytes, Shard] = field(default_factory=dict)
    _own: dict[bytes, frozenset[str] | None] = field(default_factory=dict)

    def models(self, commit: str, names: Collection[str]) -> dict[str, Model]:
        """Return the layers in a commit by connection.

        The layers contain the sources that have one of these names (folded) or read a table with one, and what these
        inherit.
        """
        view = self.repository.tree(commit)
        ids = dict.fromkeys(path.split("/")[1] for path in view.blobs(SEMANTIC_NAME) if path.count("/") > 1)
        return {name: self._model(view, name, frozenset(names)) for name in ids}

    def _model(self, view: TreeView, connection: str, names: frozenset[str]) -> Model:
        entry = self.config.connections.get(connection)
        dialect = None if entry is None else dialect_of(entry.driver)
        own = {path: self._named(view.read(path) or b"") for path in own_files(_Files(view), connection)}
        left_out = frozenset(path for path, named in own.items() if named is not None and not named & names)
        wanted = names.union(*(named for path, named in own.items() if named and path not in left_out))

        def parsed(content: bytes, where: str) -> Shard:
            if content not in self._shards:
                self._shards[content] = parse_shard(content, where)
            return _part_of(self._shards[content], wanted)

        tree = _Files(view, left_out)
        return load_tree(tree, connection, dialect or _NO_DIALECT, calendar_of(self.config), parse=parsed)

    def _named(self, content: bytes) -> frozenset[str] | None:
        """Return the names in a user-written file: its source's, its table's, those it inherits; None: unreadable."""
        if content not in self._own:
            try:
                document = yaml.load(content, where="")
            except KtxError:
                document = None
            self._own[content] = _names_in(document) if isinstance(document, dict) else None
        return self._own[content]


@dataclass(frozen=True, slots=True)
class _Files:
    """A commit as a tree of files, without some of them."""

    view: TreeView
    left_out: frozenset[str] = frozenset()

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""
        return self.view.read(path)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths that begin with a prefix."""
        blobs = self.view.blobs(prefix.rpartition("/")[0])
        return [path for path in blobs if path.startswith(prefix) and path not in self.left_out]


def _names_in(fields: Mapping[str, Any]) -> frozenset[str]:
    texts = [str(fields[key]) for key in ("name", "table", INHERITS) if fields.get(key) is not None]
    return frozenset(name for text in texts for name in (text.casefold(), _last(text)))


def _last(name: str) -> str:
    """Return the last part of a table's name, folded; a quoted part may contain dots, and is kept whole."""
    return (name.rpartition(".")[2] if not name.endswith('"') else name.split('"')[-2]).casefold()


def _part_of(shard: Shard, names: frozenset[str]) -> Shard:
    kept = {
        name: entry
        for name, entry in shard.tables.items()
        if name.casefold() in names or _last(str(entry.get("table"))) in names
    }
    return Shard({**shard.document, "tables": kept}, shard.sha256)


@dataclass(frozen=True, slots=True)
class Target:
    """A source, or one of its columns, measures or segments (`member`)."""

    connection: str
    source: str
    member: str | None = None

    @property
    def name(self) -> str:
        """`orders` or `orders.revenue`."""
        return self.source if self.member is None else f"{self.source}.{self.member}"


_OF_MEASURES: Final = ("expr", "filter", "segments", "time", "semi_additive", "cumulative", "offset", "per", "unit")

Part = Source | Column | Measure | Segment


def targets_of(models: Mapping[str, Model], reference: Reference) -> list[Target]:
    """Return the targets of a reference: several if it names no connection, none if nothing has that name.

    Follows the rules by which `ktx_cli.wiki.reference` finds dangling references.
    """
    if reference.kind is Kind.PAGE:
        return []
    targets = dict.fromkeys(
        target
        for model in models.values()
        if reference.connection in (None, model.connection)
        for target in _in_model(model, reference)
    )
    return list(targets)


def _in_model(model: Model, reference: Reference) -> Iterator[Target]:
    name = reference.name
    if reference.kind in (Kind.SOURCE, Kind.TABLE) and name in model.sources:
        yield Target(model.connection, name)
        return
    members = [target for source, member in _cuts(name) if (target := _member(model, source, member))]
    from ktx_cli.protection import sources_of

    tables = sources_of(model, tuple(part.strip('"') for part in name.split(".")))
    if reference.kind is Kind.TABLE and tables:
        yield from (Target(model.connection, table.name) for table in tables)
    elif members:
        yield members[0]
    elif reference.kind is Kind.TABLE or (reference.kind is Kind.ENTITY and name.count(".") == 1):
        yield from (Target(model.connection, table.name) for table in tables)


def _cuts(name: str) -> Iterator[tuple[str, str]]:
    """Yield every way to read a dotted name as a source and a part of it, the longest source first."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        yield ".".join(parts[:count]), ".".join(parts[count:])


def _member(model: Model, source: str, member: str) -> Target | None:
    part = part_of(model, Target(model.connection, source, member))
    return None if part is None or isinstance(part, Source) else Target(model.connection, source, part.name)


def part_of(model: Model, target: Target) -> Part | None:
    """Return the definition of a target in a model, or None if it is not there."""
    source = model.sources.get(target.source)
    if source is None or target.member is None:
        return source
    part: Part | None = source.measures.get(target.member) or source.segments.get(target.member)
    return part or source.column(target.member)


def changes(then: Part, now: Part) -> Iterator[str]:
    """Yield what has changed in a definition, in words; descriptions, formats and visibility do not count.

    A source changes with its table or SQL, its grain, its policies, and its earlier columns if they were removed or
    changed type. A new column does not affect what was written before.
    """
    if isinstance(then, Source) and isinstance(now, Source):
        yield from _changes(_source_facts(then), _source_facts(now))
        yield from _column_changes(then, now)
    else:
        yield from _changes(_facts(then), _facts(now))


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*then, *now)):
        if then.get(name) != now.get(name):
            yield f"{name} was {_shown(then.get(name))}, is {_shown(now.get(name))}"


def _source_facts(source: Source) -> dict[str, Any]:
    return {
        "table": None if source.table is None else ".".join(source.table),
        "sql": source.sql,
        "grain": ", ".join(source.grain) if source.keyed else None,
        "policies": ", ".join(sorted(policy.filter for policy in source.policies)) or None,
    }


def _column_changes(then: Source, now: Source) -> Iterator[str]:
    for name, column in then.columns.items():
        other = now.column(name)
        if other is None:
            yield f"column {name} was removed"
        elif other.type is not column.type:
            yield f"column {name} was {column.type}, is {other.type}"


def _facts(part: Part) -> dict[str, Any]:
    if isinstance(part, Column):
        values = ", ".join(part.values) or None
        type_name, mask = part.type and str(part.type), None if part.mask is None else "masked"
        return {"type": type_name, "expr": part.expr, "unit": part.unit, "values": values, "mask": mask}
    if isinstance(part, Segment):
        return {"expr": part.expr}
    if isinstance(part, Measure):
        whole = "the total" if part.percent_of == () else part.percent_of
        return {name: getattr(part, name) or None for name in _OF_MEASURES} | {"percent_of": whole}
    return {}


def _shown(value: Any) -> str:
    if value is None:
        return "not there"
    return f"`{', '.join(map(str, value)) if isinstance(value, tuple) else value}`"


@dataclass(frozen=True, slots=True)
class ChangedTarget:
    """A part of a semantic layer that has changed since a page that refers to it was committed."""

    page: Page
    reference: Reference
    target: Target
    last: LastChange
    """The commit of the page."""
    changes: tuple[str, ...]
    """A description of the change; empty if the part was removed."""

    @property
    def line(self) -> int:
        """The line of the reference in the page."""
        return line_of(self.page, self.reference)

    @property
    def since(self) -> str:
        """The commit and its day, in words."""
        return f"since the page was committed ({self.last.commit[:10]}, {self.last.day})"

    @property
    def hint(self) -> Hint:
        """The hint, with the command that shows the change."""
        difference = Command(
            "diff", self.last.commit[:10], "--", f"{SEMANTIC_NAME}/{self.target.connection}", program="git"
        )
        return Hint("correct the page and commit it; what changed: {}", difference)


DatedPage = tuple[Page, LastChange]
"""A page with its last change."""


def changed_targets(
    layout: Layout, config: KtxConfig, graph: Graph, models: Mapping[str, Model], pages: Iterable[Page]
) -> tuple[list[ChangedTarget], list[ResultWarning]]:
    """Return the changes that affect pages, and warnings about failed comparisons; `models`: the current layers.

    Pages that are marked as out of date are skipped.
    """
    wanted = [page for page in pages if not page.is_stale and layer_references(graph, page)]
    if not wanted:
        return [], []
    try:
        repository = Repository.discover(layout.root)
        if repository is None:
            return [], [_unknown("the project is not in a git repository", Command("init", program="git"))]
        return _compared(repository, config, graph, models, wanted)
    except KtxError as error:
        return [], [_unknown(error.message, error.hint)]


def layer_references(graph: Graph, page: Page) -> list[Reference]:
    """Return the references in a page to a semantic layer."""
    return [reference for reference in graph.references(page) if reference.kind is not Kind.PAGE]


def _unknown(why: str, hint: str | None) -> ResultWarning:
    return ResultWarning("staleness_unknown", f"ktx did not check whether pages are outdated: {why}", hint=hint)


def _compared(
    repository: Repository, config: KtxConfig, graph: Graph, models: Mapping[str, Model], pages: list[Page]
) -> tuple[list[ChangedTarget], list[ResultWarning]]:
    history = repository.history()
    committed = repository.tree(history.commit)
    last_changes = history.last_changes(WIKI_NAME)
    dated = [(page, last_changes[page.path]) for page in pages if page.path in last_changes and _same(committed, page)]
    known = [(page, last) for page, last in dated if not last.cut_off]
    layers = EarlierLayers(repository, config)
    changed: list[ChangedTarget] = []
    for group in _by_state(history, known):
        names = {name for page, _ in group for reference in layer_references(graph, page) for name in _names(reference)}
        then = layers.models(group[0][1].commit, names)
        for page, last in group:
            changed += _changed_of_page(graph, page, last, then, models)
    if len(known) == len(dated):
        return changed, []
    why = f"the history of {plural(len(dated) - len(known), 'page')} is truncated in this shallow clone"
    return changed, [_unknown(why, Command("fetch", "--unshallow", program="git"))]


def _by_state(history: History, dated: list[DatedPage]) -> Iterable[list[DatedPage]]:
    """Return pages in groups for which the semantic layer was the same when they were committed."""
    states = history.states({last.commit for _, last in dated}, SEMANTIC_NAME)
    groups: dict[str, list[DatedPage]] = defaultdict(list)
    for page, last in dated:
        if last.commit in states:
            groups[states[last.commit]].append((page, last))
    return groups.values()


def _names(reference: Reference) -> list[str]:
    """Return every name, folded, by which a reference may refer to a source or a table."""
    parts = [part.strip('"').casefold() for part in reference.name.split(".")]
    return [*parts, *(".".join(parts[:count]) for count in range(2, len(parts) + 1))]


def _same(committed: TreeView, page: Page) -> bool:
    """Return whether a page is unchanged since its commit, except for line endings."""
    content = committed.read(page.path)
    return content is not None and content.replace(b"\r\n", b"\n") == page.text.encode().replace(b"\r\n", b"\n")


def _changed_of_page(
    graph: Graph, page: Page, last: LastChange, then: Mapping[str, Model], now: Mapping[str, Model]
) -> Iterator[ChangedTarget]:
    """Yield the changes that affect a page, each target once; the check of references reports dangling references."""
    resolver, references = Resolver(now), layer_references(graph, page)
    dangling = [reference for reference in references if resolver.missing(reference) is not None]
    seen = {target for reference in dangling for target in targets_of(then, reference)}
    for reference in references:
        for target in targets_of(then, reference):
            differences = None if target in seen else _differences(target, then, now)
            seen.add(target)
            if differences is not None:
                yield ChangedTarget(page, reference, target, last, differences)


def _differences(target: Target, then: Mapping[str, Model], now: Mapping[str, Model]) -> tuple[str, ...] | None:
    """Return the change to a target: nothing if it was removed, None if it is unchanged."""
    before = part_of(then[target.connection], target)
    model = now.get(target.connection)
    after = None if model is None else part_of(model, target)
    if before is None or (model is not None and after is None and _is_broken(model, target)):
        return None
    if after is None:
        return ()
    return tuple(changes(before, after)) or None


def _is_broken(model: Model, target: Target) -> bool:
    """Whether a source is missing because its file has an error, which is reported for the file."""
    return any(problem.location.object == target.source and problem.severity == "error" for problem in model.problems)
