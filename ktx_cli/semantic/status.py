"""The status of definitions: claims in files, definitions behind an answer, and their weakest status."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Argument, Command, Hint, KtxError, Record, yaml
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.model import SemanticError, Status

if TYPE_CHECKING:
    from ktx_cli.semantic.answer import CompiledQuery
    from ktx_cli.semantic.compile.build import Build
    from ktx_cli.semantic.expressions.names import Expression
    from ktx_cli.semantic.graph import Edge
    from ktx_cli.semantic.model import Join, Source

_ORDER: Final = tuple(Status)


def lowest(statuses: Iterable[Status]) -> Status | None:
    """Return the weakest status, or None if there are none."""
    return min(statuses, key=_ORDER.index, default=None)


class DefinitionKind(StrEnum):
    """The kind of a definition."""

    MEASURE = "measure"
    SEGMENT = "segment"
    COLUMN = "column"
    """A computed column."""
    SOURCE = "source"
    """The rows of a source with SQL, row policies or masks."""
    JOIN = "join"
    AGGREGATE = "aggregate"
    """An aggregate in the query itself."""


@dataclass(frozen=True, slots=True, order=True)
class Definition:
    """The name of a definition. `source` is empty for definitions in the query itself."""

    kind: DefinitionKind
    source: str
    name: str

    def __str__(self) -> str:
        if self.kind is DefinitionKind.JOIN:
            return f"{self.source} -> {self.name}"
        return ".".join(filter(None, (self.source, self.name)))


@dataclass(frozen=True, slots=True)
class Claim:
    """A file's claim about a definition.

    `fingerprint` covers everything that can change a number, but not layout, comments, descriptions and the case of SQL
    keywords. Without a `status`, the file claims `accepted`. After the day `review_by`, a certified definition only
    counts as accepted.
    """

    fingerprint: str
    status: Status | None = None
    owner: str | None = None
    review_by: date | None = None

    @property
    def level(self) -> Status:
        """The claimed status."""
        return self.status or Status.ACCEPTED


@dataclass(frozen=True, slots=True)
class DefinitionStatus(Record):
    """The status of a definition, with a sentence that explains why it is not higher.

    `is_unread`: its history has not been read since it was written, so it may have a higher status.
    """

    definition: Definition
    status: Status
    why: str
    is_unread: bool = False

    json_keys = ("definition=name", "kind=definition.kind", "status", "why")

    @property
    def name(self) -> str:
        """The name of the definition in messages."""
        return str(self.definition)


_TEXTS: Final = frozenset(
    (
        *("name", "label", "description", "descriptions", "questions", "synonyms", "reason", "status", "owner"),
        *("review_by", "format"),
    )
)
"""Keys in a definition that do not affect numbers."""

_SQL: Final = frozenset(("expr", "filter", "sql", "on"))
_OF_ROWS: Final = ("sql", "table", "grain", "policies", "parameters")
_LISTS: Final = {
    "measures": DefinitionKind.MEASURE,
    "segments": DefinitionKind.SEGMENT,
    "columns": DefinitionKind.COLUMN,
    "joins": DefinitionKind.JOIN,
}


Steps = tuple[str | int, ...]
"""A definition's path in its document, which is empty for the rows of a source."""


def claims_in(content: bytes, path: str, dialect: str, *, both_sides: bool = False) -> dict[Definition, Claim]:
    """Return the claims in an overlay or manifest file. An unreadable file has none.

    With `both_sides`, joins also count as the other source would define them, whose file may omit them.
    """
    items: dict[Definition, Mapping[Any, Any]] = {each: item for each, _, item in items_in(content, path)}
    if both_sides:
        items = {**_mirrored(items), **items}
    return {each: _claim(_compared(each, item), item, dialect) for each, item in items.items()}


def _mirrored(items: Mapping[Definition, Mapping[Any, Any]]) -> dict[Definition, Mapping[Any, Any]]:
    from ktx_cli.semantic.load.joins import mirrored, read_plain_join, with_sides

    found: dict[Definition, Mapping[Any, Any]] = {}
    for definition, item in items.items():
        join = read_plain_join(item, definition.source, ()) if definition.kind is DefinitionKind.JOIN else None
        if join is not None:
            back = with_sides(item, mirrored(join, definition.source))
            found[Definition(DefinitionKind.JOIN, join.to, definition.source)] = back
    return found


def items_in(content: bytes, path: str) -> Iterator[tuple[Definition, Steps, Mapping[Any, Any]]]:
    """Yield the definitions in a file, with their paths and entries. An unreadable file has none.

    In a manifest file, these are the proposals, and the joins that a person or another tool added.
    """
    try:
        document = yaml.load(content, where=path)
    except KtxError:
        return
    if not isinstance(document, dict):
        return
    if isinstance(document.get("name"), str):
        yield from _of_source(document["name"], document, ())
        return
    tables = document.get("tables")
    for name, entry in tables.items() if isinstance(tables, dict) else ():
        if isinstance(entry, dict):
            yield from _of_table(str(name), entry, ("tables", name))


def _of_source(source: str, document: Mapping[Any, Any], steps: Steps) -> Iterator[tuple[Definition, Steps, Any]]:
    for key, kind in _LISTS.items():
        yield from _of_list(source, document, (*steps, key), kind)
    if "sql" in document or "policies" in document or _masks_in(document):
        yield Definition(DefinitionKind.SOURCE, source, ""), steps, document


def _of_table(source: str, entry: Mapping[Any, Any], steps: Steps) -> Iterator[tuple[Definition, Steps, Any]]:
    for key, kind in (("proposed_measures", DefinitionKind.MEASURE), ("proposed_segments", DefinitionKind.SEGMENT)):
        yield from _of_list(source, entry, (*steps, key), kind)
    for definition, place, join in _of_list(source, entry, (*steps, "joins"), DefinitionKind.JOIN):
        if join.get("source") == "manual":
            yield definition, place, join


def _of_list(
    source: str, document: Mapping[Any, Any], steps: Steps, kind: DefinitionKind
) -> Iterator[tuple[Definition, Steps, Any]]:
    items = document.get(steps[-1])
    for number, item in enumerate(items if isinstance(items, list) else ()):
        name = _name(item, kind)
        if name is not None:
            yield Definition(kind, source, name), (*steps, number), item


def _name(item: Any, kind: DefinitionKind) -> str | None:
    """Return the name of a list item, or None if it defines nothing, like a column without an expression."""
    if not isinstance(item, dict) or (kind is DefinitionKind.COLUMN and "expr" not in item):
        return None
    name = item.get("alias", item.get("to")) if kind is DefinitionKind.JOIN else item.get("name")
    return name if isinstance(name, str) else None


def _masks_in(document: Mapping[Any, Any]) -> list[Any]:
    """Return the masks of a source's columns in a file, as pairs of the column's name and the mask."""
    lists = (document.get(key) for key in ("columns", "column_overrides"))
    columns = (each for found in lists if isinstance(found, list) for each in found if isinstance(each, dict))
    return [[each.get("name"), each["mask"]] for each in columns if "mask" in each]


def _compared(definition: Definition, item: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the parts of a definition that can change a number."""
    if definition.kind is DefinitionKind.SOURCE:
        masks = _masks_in(item)
        return {key: item[key] for key in _OF_ROWS if key in item} | ({"masks": masks} if masks else {})
    return {str(key): value for key, value in item.items() if key not in _TEXTS}


def definition_text(definition: Definition, item: Mapping[Any, Any]) -> str:
    """Return the parts of a definition that can change a number as YAML."""
    return yaml.dump(_compared(definition, item))


def _claim(kept: Mapping[str, Any], item: Mapping[Any, Any], dialect: str) -> Claim:
    compared = {key: _normal_sql(value, dialect) if key in _SQL else value for key, value in kept.items()}
    text = json.dumps(compared, sort_keys=True, default=str, ensure_ascii=False)
    status, owner, until = item.get("status"), item.get("owner"), item.get("review_by")
    return Claim(
        hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        Status(status) if status in tuple(Status) else None,
        owner if isinstance(owner, str) else None,
        _day(until),
    )


def _day(value: Any) -> date | None:
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _normal_sql(value: Any, dialect: str) -> Any:
    """Return normalized SQL without comments. Invalid SQL only loses its whitespace."""
    if not isinstance(value, str):
        return value
    import sqlglot

    try:
        return sqlglot.parse_one(value, read=dialect).sql(dialect, comments=False)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return " ".join(value.split())


@dataclass(frozen=True, slots=True)
class Used:
    """A definition behind an answer. `path` is its file, if any.

    `claimed` is the status that is known without git, for proposals and definitions of other tools, and `why` explains
    it.
    """

    definition: Definition
    path: str | None = None
    claimed: Status | None = None
    why: str = ""

    @property
    def is_own(self) -> bool:
        """Whether a file of the project, not the database or another tool, determines the status."""
        return self.path is not None and self.claimed is not Status.ACCEPTED


def used_definitions(asked: CompiledQuery) -> list[Used]:
    """Return all definitions on which a compiled query's numbers depend, sorted."""
    build = asked.compiled.build
    found: dict[Definition, Used] = {}
    for each in (*_measures(build), *_segments(build), *_joins(build), *_columns(build), *_rows(build)):
        found.setdefault(each.definition, each)
    for text in asked.plan.composed:
        one = Definition(DefinitionKind.AGGREGATE, "", text)
        found.setdefault(one, Used(one, None, Status.PROPOSED, "the query itself defines it"))
    return [found[each] for each in sorted(found)]


def _measures(build: Build) -> Iterator[Used]:
    sources = build.names.model.sources
    refs = dict.fromkeys(ref for chains in build.plan.named_by.values() for chain in chains for ref in chain)
    for ref in refs:
        owner, dot, name = ref.rpartition(".")
        measure = sources[owner].measures.get(name) if dot and owner in sources else None
        if measure is None:
            continue
        yield _declared(Definition(DefinitionKind.MEASURE, owner, name), measure, imported=measure.imported)
        for segment in measure.segments:
            yield _segment(sources[owner], segment)


def _segments(build: Build) -> Iterator[Used]:
    for ref in build.plan.query.segments:
        owner, _, name = ref.rpartition(".")
        for each in lookup_of(build.names.model).with_segment(name):
            if owner in ("", each.name):
                yield _segment(each, name)


def _segment(source: Source, name: str) -> Used:
    return _declared(Definition(DefinitionKind.SEGMENT, source.name, name), source.segments[name])


def _declared(definition: Definition, declared: Any, *, imported: bool = False) -> Used:
    path = None if declared.place is None else declared.place.path
    if declared.is_proposed:
        return Used(definition, path, Status.PROPOSED, "ktx proposed it, and it has not been accepted")
    if imported:
        return Used(definition, path, Status.ACCEPTED, "another tool, such as dbt, defines it")
    return Used(definition, path)


def _joins(build: Build) -> Iterator[Used]:
    for use in build.uses.values():
        for path in use.paths.values():
            yield from (_join(build, edge) for edge in path.edges)


def _join(build: Build, edge: Edge) -> Used:
    owner, target = (edge.target, edge.source) if edge.reverse else (edge.source, edge.target)
    for join in build.names.model.sources[owner].joins:
        if (join.to, join.alias, join.provenance) == (target, edge.alias, edge.provenance):
            return _of_join(owner, join)
    return _of_provenance(Definition(DefinitionKind.JOIN, owner, edge.alias or target), edge.provenance, None)


def _of_join(owner: str, join: Join) -> Used:
    source, name = (join.to, owner) if join.mirrored else (owner, join.alias or join.to)
    definition = Definition(DefinitionKind.JOIN, source, name)
    return _of_provenance(definition, join.provenance, None if join.place is None else join.place.path)


def _of_provenance(definition: Definition, provenance: str | None, path: str | None) -> Used:
    if provenance == "formal":
        return Used(definition, None, Status.ACCEPTED, "the database declares it")
    if provenance == "inferred":
        return Used(definition, None, Status.PROPOSED, "ktx inferred it from the data, and it has not been accepted")
    return Used(definition, path)


def declared_definitions(source: Source) -> list[Used]:
    """Return all definitions in a source, in order."""
    found = [
        _declared(Definition(DefinitionKind.MEASURE, source.name, name), each, imported=each.imported)
        for name, each in source.measures.items()
    ]
    found += [_segment(source, name) for name in source.segments]
    for column in source.columns.values():
        if column.expr is not None:
            definition = Definition(DefinitionKind.COLUMN, source.name, column.name)
            found.append(Used(definition, None if column.place is None else column.place.path))
    joins = (_of_join(source.name, join) for join in source.joins if not join.mirrored)
    return [*found, *joins, *_of_rows(source)]


def mirrored_definitions(source: Source) -> list[Used]:
    """Return a source's joins that the files of other sources define."""
    return [_of_join(source.name, join) for join in source.joins if join.mirrored]


def _columns(build: Build) -> Iterator[Used]:
    for expression, start in _expressions(build):
        yield from _computed(build, expression, start, frozenset())


def _expressions(build: Build) -> Iterator[tuple[Expression, str]]:
    """Yield all expressions in a query, each with the source from which its names are resolved."""
    plan = build.plan
    for leaf in plan.leaves:
        yield leaf.aggregate, leaf.fact
        yield from ((condition, leaf.fact) for condition in leaf.conditions)
    facts = dict.fromkeys(leaf.fact for leaf in plan.leaves) or dict.fromkeys(build.sources)
    asked = [*(each.expression for each in plan.dimensions), *(each.expression for each in plan.filters)]
    yield from ((expression, fact) for expression in asked for fact in facts)


def _computed(build: Build, expression: Expression, start: str, seen: frozenset[Definition]) -> Iterator[Used]:
    sources = build.names.model.sources
    for name in expression.names:
        try:
            path = build.names.graph.path(expression.home or start, name.hops, expression.via_to(name))
        except SemanticError:  # a name of another fact; in a compiled query, one of the facts has a path
            continue
        source = None if path is None else sources.get(path.end)
        column = None if source is None else source.column(name.column)
        if source is None or column is None or column.expr is None:
            continue
        definition = Definition(DefinitionKind.COLUMN, source.name, column.name)
        if definition in seen:
            continue
        yield Used(definition, None if column.place is None else column.place.path)
        yield from _computed(build, build.names.computed(source, column), source.name, seen | {definition})


def _rows(build: Build) -> Iterator[Used]:
    for name in build.sources:
        source = build.names.model.sources.get(name)
        if source is not None:
            yield from _of_rows(source)


def _of_rows(source: Source) -> Iterator[Used]:
    if source.sql is not None or source.policies or source.has_masks:
        yield Used(
            Definition(DefinitionKind.SOURCE, source.name, ""), None if source.place is None else source.place.path
        )


StatusOf = Callable[[Used], DefinitionStatus]
"""Returns the status of a definition."""


def status_of(used: Iterable[Used], status_of_definition: StatusOf) -> dict[str, Any]:
    """Return an answer's status for its receipt.

    `weakest` is the lowest status of its definitions, and `because` lists the definitions with that status and why.
    """
    statuses = [status_of_definition(each) for each in used]
    weakest = lowest(each.status for each in statuses) or Status.ACCEPTED
    because = [each.to_json() for each in statuses if each.status is weakest and weakest is not Status.CERTIFIED]
    return {"weakest": weakest.value, "because": because}


def is_weaker(status: Status, least: Status) -> bool:
    """Whether one status is lower than another."""
    return _ORDER.index(status) < _ORDER.index(least)


def require_status(
    status: Mapping[str, Any],
    least: Status,
    used: Iterable[Used],
    status_of_definition: StatusOf,
    *,
    is_asked: bool = False,
) -> None:
    """Raise `SemanticError` (`status`) if an answer's status is below the required one.

    `used` are the definitions of the answer; `is_asked`: the question requires the status, not `semantic.min_status`.
    """
    weakest = Status(status["weakest"])
    if not is_weaker(weakest, least):
        return
    first = status["because"][0]
    more = len(status["because"]) - 1
    others = f", and {more} more" if more else ""
    message = (
        f"the answer would be `{weakest.value}`, not `{least.value}`: {first['definition']} ({first['why']}){others}"
    )
    weak = next(each for each in used if status_of_definition(each).status is weakest)
    lower = Argument("min_status", weakest.value)
    setting = Command("config", "set", "semantic.min_status", weakest.value)
    hint = Hint(
        "{}; or lower the requirement with `{}`",
        _way_up(weak, status_of_definition(weak), least),
        lower if is_asked else setting,
    )
    raise SemanticError(message, hint=hint, code="status", details={"status": dict(status)})


def _way_up(used: Used, state: DefinitionStatus, least: Status) -> Hint:
    """Return how a definition gets a required status."""
    definition = used.definition
    if definition.kind is DefinitionKind.AGGREGATE:
        return Hint("use a measure of the semantic layer instead")
    if state.is_unread:
        return Hint("commit its file if it has changes, then run {}", Command("index"))
    if used.is_own and least is Status.CERTIFIED:
        certify = Command("sl", "accept", str(definition), "--certify")
        return Hint("an owner listed in owners.yaml can certify it: {}", certify)
    if used.is_own:
        return Hint("to accept it: {}", Command("sl", "accept", str(definition)))
    if used.claimed is Status.PROPOSED:
        return Hint("to accept the join: {}", Command("scan", "relationships", "--table", definition.source))
    return Hint("only a definition in one of your own files can be certified")
