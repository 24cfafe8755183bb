"""The semantic layers of earlier commits, as far as some names need them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import KtxError, yaml
from ktx_cli.project import SEMANTIC_NAME, KtxConfig, Repository, TreeView
from ktx_cli.protection import sources_of
from ktx_cli.semantic import KEY as INHERITS
from ktx_cli.semantic import (
    Column,
    Measure,
    Model,
    Segment,
    Shard,
    Source,
    calendar_of,
    load_tree,
    own_files,
    parse_shard,
)
from ktx_cli.warehouses import dialect_of
from ktx_cli.wiki import Kind, Reference

_NO_DIALECT: Final = ""


@dataclass(slots=True)
class EarlierLayers:
    """Reads layers of commits; a file is parsed once, however many commits have it.

    Only the sources that are named are made of the shards: they may hold thousands of columns in hundreds of commits.
    """

    repository: Repository
    config: KtxConfig
    _shards: dict[bytes, Shard] = field(default_factory=dict)
    _own: dict[bytes, frozenset[str] | None] = field(default_factory=dict)

    def models(self, commit: str, names: Collection[str]) -> dict[str, Model]:
        """Return the layers of a commit by connection.

        In them are the sources that have one of these names (folded) or read a table of one, and what those inherit.
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
        """Return the names of a file of people's: its source's, its table's, those it inherits; None: not readable."""
        if content not in self._own:
            try:
                document = yaml.load(content, where="")
            except KtxError:
                document = None
            self._own[content] = _names_in(document) if isinstance(document, dict) else None
        return self._own[content]


@dataclass(frozen=True, slots=True)
class _Files:
    """A commit in the shape of a tree of files, some of them left out."""

    view: TreeView
    left_out: frozenset[str] = frozenset()

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none."""
        return self.view.read(path)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths that begin with a prefix."""
        blobs = self.view.blobs(prefix.rpartition("/")[0])
        return [path for path in blobs if path.startswith(prefix) and path not in self.left_out]


def _names_in(fields: Mapping[str, Any]) -> frozenset[str]:
    texts = [str(fields[key]) for key in ("name", "table", INHERITS) if fields.get(key) is not None]
    return frozenset(name for text in texts for name in (text.casefold(), _last(text)))


def _last(name: str) -> str:
    """Return the last part of a table's name, folded; what is in quotes may hold dots, and is looked at whole."""
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
    """A source, or a column, measure or segment of one (`member`)."""

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
    """Return what a reference leads to; several where it names no connection, none where nothing has that name.

    As `ktx_cli.wiki.reference` decides whether it leads anywhere.
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
    if reference.kind is not Kind.ENTITY and name in model.sources:
        yield Target(model.connection, name)
        return
    members = [target for source, member in _cuts(name) if (target := _member(model, source, member))]
    tables = sources_of(model, tuple(part.strip('"') for part in name.split(".")))
    if reference.kind is Kind.TABLE and tables:
        yield from (Target(model.connection, table.name) for table in tables)
    elif members:
        yield members[0]
    elif reference.kind is not Kind.SOURCE:
        yield from (Target(model.connection, table.name) for table in tables)


def _cuts(name: str) -> Iterator[tuple[str, str]]:
    """Yield every way to read a dotted name as a source and something of it, the longest source first."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        yield ".".join(parts[:count]), ".".join(parts[count:])


def _member(model: Model, source: str, member: str) -> Target | None:
    part = part_of(model, Target(model.connection, source, member))
    return None if part is None or isinstance(part, Source) else Target(model.connection, source, part.name)


def part_of(model: Model, target: Target) -> Part | None:
    """Return what a target is in a model, None where it is not there."""
    source = model.sources.get(target.source)
    if source is None or target.member is None:
        return source
    part: Part | None = source.measures.get(target.member) or source.segments.get(target.member)
    return part or source.column(target.member)


def changes(then: Part, now: Part) -> Iterator[str]:
    """Yield what is another in a definition now, in words; descriptions, formats and visibility are no definition.

    A source changes with its table or SQL, its grain, its policies, and the columns it had: one that is gone or of
    another type. A new column changes nothing of what was written before.
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
            yield f"column {name} is gone"
        elif other.type is not column.type:
            yield f"column {name} was {column.type}, is {other.type}"


def _facts(part: Part) -> dict[str, Any]:
    if isinstance(part, Column):
        values = ", ".join(part.values) or None
        return {"type": part.type and str(part.type), "expr": part.expr, "unit": part.unit, "values": values}
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
