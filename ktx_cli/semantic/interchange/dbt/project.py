"""Read the YAML in a dbt project: semantic models in the older and newer spec, and the Jinja in their texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.core import KtxError, one_line, yaml
from ktx_cli.semantic.interchange.drafts import SourceDraft, all_of, described, quoted, truncated
from ktx_cli.semantic.interchange.report import Item, Report, UnresolvedError
from ktx_cli.semantic.load.columns import NATURAL as NATURAL_GRAINS
from ktx_cli.semantic.load.columns import TO_DATE
from ktx_cli.semantic.load.entries import SourceFile
from ktx_cli.semantic.model import GRAINS, Place

PRIMARY, UNIQUE, FOREIGN, NATURAL = "primary", "unique", "foreign", "natural"
_TIME: Final = "time"
STEERS: Final = "it configures dbt and does not affect queries"
"""The reason for dropping settings that only concern dbt."""


@dataclass(slots=True)
class Entity:
    """An entity. `column` is its column in the source, once it has been imported."""

    name: str
    kind: str
    expr: str
    place: Place
    column: str | None = None
    description: str | None = None
    label: str | None = None

    @property
    def is_key(self) -> bool:
        """Whether the entity's values are unique."""
        return self.kind in (PRIMARY, UNIQUE)


@dataclass(slots=True)
class Dimension:
    """A dimension. `grain` applies to time dimensions; `column` is its column in the source."""

    name: str
    is_time: bool
    expr: str
    place: Place
    grain: str | None = None
    description: str | None = None
    column: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A join to another semantic model on an entity. `hop` is its prefix in expressions."""

    entity: str
    target: Semantic
    hop: str


@dataclass(slots=True)
class Semantic:
    """One semantic model.

    `measures` (older spec) and `metrics` (newer spec) are unprocessed entries. `draft` is its source, once its table is
    known.
    """

    name: str
    relation: str
    place: Place
    description: str | None = None
    time: str | None = None
    primary: str | None = None
    entities: dict[str, Entity] = field(default_factory=dict)
    dimensions: dict[str, Dimension] = field(default_factory=dict)
    measures: list[Item] = field(default_factory=list)
    metrics: list[Item] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    label: str | None = None
    draft: SourceDraft = field(init=False)


def read_older(item: Item, report: Report) -> Semantic | None:
    """Read an entry of `semantic_models:`."""
    name, relation = item.text("name"), item.text("model")
    if not name or not relation:
        report.dropped(f"semantic model `{name or '?'}`", "`name` or `model` is missing", item.place)
        return None
    label = item.text("label")
    found = Semantic(name, relation, item.place, described(item.text("description"), label), label=label)
    found.primary = item.text("primary_entity")
    defaults = item.item("defaults")
    if defaults is not None:
        found.time = defaults.text("agg_time_dimension")
        defaults.report_rest(report, f"semantic model `{name}`")
    for below in item.items("entities"):
        _add_entity(found, below, below.text("name"), report)
    for below in item.items("dimensions"):
        _add_dimension(found, below, below.text("name"), _params_grain(below, report), report)
    found.measures = item.items("measures")
    item.report_rest(report, f"semantic model `{name}`", {"config": STEERS})
    return found


def read_newer(item: Item, report: Report) -> Semantic | None:
    """Read a model with a `semantic_model:` key. Returns None if it is missing or disabled."""
    block = item.item("semantic_model")
    stated = item.flag("semantic_model")
    name = item.text("name")
    if name is None or not (stated or (block is not None and (block.flag("enabled") or not block.has("enabled")))):
        return None
    found = Semantic((block and block.text("name")) or name, f"ref('{name}')", item.place)
    found.time, found.primary = item.text("agg_time_dimension"), item.text("primary_entity")
    found.metrics = item.items("metrics")
    if block is not None:
        found.time = found.time or block.text("agg_time_dimension")
        found.primary = found.primary or block.text("primary_entity")
        found.metrics = [*found.metrics, *block.items("metrics")]
        block.report_rest(report, f"semantic model `{found.name}`")
    for column in item.items("columns"):
        _read_column(found, column, report)
    derived = item.item("derived_semantics")
    if derived is not None:
        for below in derived.items("entities"):
            _add_entity(found, below, below.text("name"), report)
        for below in derived.items("dimensions"):
            _add_dimension(found, below, below.text("name"), below.text("granularity"), report)
        derived.report_rest(report, f"derived semantics of `{found.name}`")
    return found


def _read_column(found: Semantic, column: Item, report: Report) -> None:
    """Read a column's `entity` and `dimension` in the newer spec, which are words or mappings."""
    name = column.text("name")
    if name is None:
        return
    for key in ("entity", "dimension"):
        if not column.has(key):
            continue
        word, below = column.text(key), column.item(key)
        values = {"type": word} if word else dict(below.values if below else {})
        entry = Item({"expr": name, **values}, column.at)
        wanted = entry.text("name") or name
        if key == "entity":
            _add_entity(found, entry, wanted, report)
        else:
            _add_dimension(found, entry, wanted, entry.text("granularity") or column.text("granularity"), report)


def _add_entity(found: Semantic, item: Item, name: str | None, report: Report) -> None:
    kind = (item.text("type") or "").lower()
    if not name or kind not in (PRIMARY, UNIQUE, FOREIGN, NATURAL):
        report.dropped(f"entity `{name or '?'}` of `{found.name}`", f"its type is `{kind}`", item.place)
        return
    expr = item.text("expr") or name
    label = item.text("label")
    description = described(item.text("description"), label)
    found.entities[name] = Entity(name, kind, expr, item.place, description=description, label=label)
    if kind == PRIMARY:
        found.primary = found.primary or name
    item.report_rest(report, f"entity `{name}` of `{found.name}`", _REASONS)


def _add_dimension(found: Semantic, item: Item, name: str | None, grain: str | None, report: Report) -> None:
    kind = (item.text("type") or "").lower()
    if not name or kind not in (_TIME, "categorical"):
        report.dropped(f"dimension `{name or '?'}` of `{found.name}`", f"its type is `{kind}`", item.place)
        return
    expr, is_time = item.text("expr") or name, kind == _TIME
    label = item.text("label")
    description = described(item.text("description"), label)
    grain = (grain or "day").lower() if is_time else None
    found.dimensions[name] = Dimension(name, is_time, expr, item.place, grain, description, label=label)
    item.report_rest(report, f"dimension `{name}` of `{found.name}`", _REASONS)


_REASONS: Final = {
    "validity_params": "ktx only joins on equality; write slowly changing dimensions as a source with `sql:`",
    "is_partition": "it configures how dbt reads the table",
    "config": STEERS,
    "meta": "it does not affect queries",
}


def _params_grain(item: Item, report: Report) -> str | None:
    params = item.item("type_params")
    if params is None:
        return None
    grain = params.text("time_granularity")
    params.report_rest(report, f"dimension `{item.text('name')}`", _REASONS)
    return grain


def paths(start: Semantic, hops: list[str]) -> Iterator[tuple[Semantic, tuple[str, ...]]]:
    """Yield the semantic models reachable over entities, with the hops to them, starting with the model's own key."""
    if not hops:
        yield start, ()
        return
    first = start.entities.get(hops[0])
    if hops[0] == start.primary or (first is not None and first.kind == UNIQUE):
        yield from paths(start, hops[1:])
    for edge in start.edges:
        if edge.entity == hops[0]:
            for end, below in paths(edge.target, hops[1:]):
                yield end, (edge.hop, *below)


_WINDOW: Final = re.compile(rf"(\d{{1,6}})\s*_?({'|'.join(NATURAL_GRAINS)})s?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a metric. `fill` is true if it sets `join_to_timespine` or `fill_nulls_with`."""

    name: str
    alias: str
    filters: tuple[str, ...] = ()
    offset: str | None = None
    offset_to_grain: str | None = None
    fill: bool = False

    def with_filters(self, more: tuple[str, ...]) -> Input:
        """Return a copy with more filters."""
        return replace(self, filters=(*self.filters, *more))

    @property
    def is_plain(self) -> bool:
        """Whether the input uses the metric or measure without changes."""
        return not (self.filters or self.offset or self.offset_to_grain)


def read_input(value: Any, place: Place) -> Input | None:
    """Return the input for a name or a mapping, or None."""
    if isinstance(value, str) and value.strip():
        return Input(value.strip(), value.strip())
    if not isinstance(value, Mapping):
        return None
    item = Item(value, lambda *_: place)
    name = item.text("name")
    if name is None:
        return None
    return Input(
        name, item.text("alias") or name, read_filters(item, "filter"), item.text("offset_window"),
        item.text("offset_to_grain"), item.flag("join_to_timespine") or item.has("fill_nulls_with"),
    )  # fmt: skip


def read_filters(item: Item, key: str) -> tuple[str, ...]:
    """Return the filters of a text, a list of texts, or the compiled form of dbt."""
    value = item.value(key)
    if isinstance(value, Mapping):
        value = value.get("where_filters")
    several = value if isinstance(value, list) else [value]
    texts = (each.get("where_sql_template") if isinstance(each, Mapping) else each for each in several)
    return tuple(str(text).strip() for text in texts if text is not None and str(text).strip())


def window(text: str | None) -> str | None:
    """Return a time span in ktx's format, such as `7 days`, or None if it is invalid."""
    found = _WINDOW.fullmatch(text.strip()) if text else None
    if found is None or not int(found[1]):
        return None
    count, unit = int(found[1]), found[2].lower()
    return f"{count} {unit}{'' if count == 1 else 's'}"


def to_date(text: str | None) -> str | None:
    """Return the unit of a to-date value, or None if ktx does not support it."""
    word = (text or "").lower()
    return word if word in TO_DATE else None


_PROJECT: Final = "dbt_project"
_NO_MODEL: Final = frozenset({_PROJECT, "packages", "dependencies", "profiles", "selectors", "package-lock"})
_KINDS: Final = ("semantic_models", "models", "metrics", "sources")
_SILENT: Final = frozenset({"version"})
_KIND_REASONS: Final = {
    "saved_queries": "ktx does not store queries in the semantic layer",
    "exposures": "they list the users of a model, not its meaning",
    "groups": "they list the owners of a model, not its meaning",
    "macros": "they are dbt code",
    "seeds": "they are tables, which ktx reads in a scan",
    "snapshots": "they are tables, which ktx reads in a scan",
    "unit_tests": "they test dbt models, not measures",
    "data_tests": "they test dbt models, not measures",
}


@dataclass(slots=True)
class Documents:
    """The entries of a project by kind. `variables` come from `dbt_project.yml`."""

    semantic_models: list[Item] = field(default_factory=list)
    models: list[Item] = field(default_factory=list)
    metrics: list[Item] = field(default_factory=list)
    sources: list[Item] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)


def read_documents(files: Mapping[str, str], report: Report, *, rest: bool = True) -> Documents:
    """Read all `.yml` and `.yaml` files. Unreadable files are reported as dropped.

    If `rest` is false, unsupported entries are not reported, because the caller imports them elsewhere.
    """
    found = Documents()
    for path, text in sorted(files.items()):
        where = PurePosixPath(path)
        if where.suffix not in (".yml", ".yaml"):
            continue
        document = _load(path, text, report if rest else Report())
        if where.stem == _PROJECT and isinstance(document, dict):
            variables = document.get("vars")
            found.variables |= variables if isinstance(variables, dict) else {}
        elif where.stem not in _NO_MODEL and document is not None:
            _sort_in(path, text, document, found, report, rest=rest)
    return found


def _load(path: str, text: str, report: Report) -> Any:
    try:
        return yaml.load(text, where=path)
    except KtxError as error:
        line = error.details.get("line", 1)
        report.dropped(f"file {path}", f"invalid YAML: {error.message}", Place(path, line))
        return None


def _sort_in(path: str, text: str, document: Any, found: Documents, report: Report, *, rest: bool) -> None:
    file = SourceFile(path, text.encode("utf-8", "replace"), document)
    if not isinstance(document, dict):
        if rest:
            report.dropped(f"file {path}", "the content is not a mapping", Place(path))
        return
    top = Item(document, file.place)
    top.skip(*_SILENT)
    for kind in _KINDS:
        getattr(found, kind).extend(top.items(kind))
    if rest:
        top.report_rest(report, path, _KIND_REASONS)


_EXPRESSION: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_COMMENT: Final = re.compile(r"\{#.*?#\}", re.DOTALL)
_LONGEST: Final = 1000
_FAULTS: Final = (SyntaxError, ValueError, RecursionError, MemoryError)


TARGET_NAME: Final = "target.name"
"""The variable with the profile's target name, the only variable that can be used without a call."""


@dataclass(frozen=True, slots=True)
class Call:
    """A Jinja call with its arguments and chained calls such as `.grain('month')`, or the variable `TARGET_NAME`."""

    name: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    chained: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @property
    def shown(self) -> str:
        """The name for messages."""
        return self.name if self.name == TARGET_NAME else f"{self.name}()"

    def argument(self, index: int, name: str) -> Any:
        """Return an argument by position or name, or None if it is missing."""
        return self.arguments[index] if index < len(self.arguments) else self.named.get(name)


def render(text: str, resolve: Callable[[Call], str]) -> str:
    """Return the text with every `{{ call }}` replaced by the result of `resolve`. Raises `UnresolvedError`."""
    plain = _COMMENT.sub("", text)
    if "{%" in plain:
        raise UnresolvedError(f"it contains a Jinja statement: {one_line(text, 80)}")
    rendered = _EXPRESSION.sub(lambda found: resolve(parse_call(found[1])), plain)
    if "{{" in rendered or "}}" in rendered:
        raise UnresolvedError(f"its Jinja cannot be parsed: {one_line(text, 80)}")
    return rendered.strip()


def parse_call(text: str) -> Call:
    """Parse the content of a Jinja expression as a call. Raises `UnresolvedError` for anything else."""
    shown = one_line(text.strip(), 60)
    if shown == TARGET_NAME:
        return Call(TARGET_NAME, (), {})
    try:
        return _call(ast.parse(text.strip()[:_LONGEST], mode="eval").body)
    except _FAULTS:
        raise UnresolvedError(f"unknown Jinja expression `{shown}`") from None


def _call(tree: ast.expr) -> Call:
    if not isinstance(tree, ast.Call):
        raise ValueError
    arguments = tuple(map(ast.literal_eval, tree.args))
    if isinstance(tree.func, ast.Attribute):
        inner = _call(tree.func.value)
        return Call(inner.name, inner.arguments, inner.named, (*inner.chained, (tree.func.attr, arguments)))
    if not isinstance(tree.func, ast.Name):
        raise ValueError
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords if keyword.arg}
    return Call(tree.func.id, arguments, named)


METRIC_TIME: Final = "metric_time"


class Scope:
    """Resolves the Jinja calls in a semantic model's texts. `variables` are the values of `var()`."""

    def __init__(self, semantic: Semantic, variables: Mapping[str, Any]) -> None:
        self._semantic, self._variables = semantic, variables

    def render(self, text: str) -> str:
        """Return a text as SQL. Raises `KtxError` if it contains something that ktx cannot resolve."""
        return render(text, self._resolve)

    def condition(self, filters: Iterable[str]) -> str | None:
        """Combine several filters into one condition."""
        return all_of(self.render(condition) for condition in filters)

    def _resolve(self, call: Call) -> str:
        if call.name in ("Dimension", "TimeDimension"):
            return self._dimension(call)
        if call.name == "Entity":
            return self._entity(call)
        if call.name == "var":
            return self._variable(call)
        why = "it filters by a metric" if call.name == "Metric" else f"unknown Jinja call `{call.name}()`"
        raise UnresolvedError(why)

    def _variable(self, call: Call) -> str:
        name = call.argument(0, "name")
        value = self._variables.get(name) if isinstance(name, str) else None
        value = call.argument(1, "default") if value is None else value
        if not isinstance(value, str | int | float):
            raise UnresolvedError(f"the variable `{name}` has no value")
        return str(value)

    def _path(self, call: Call) -> list[str]:
        name = call.argument(0, "name")
        path = call.argument(2 if call.name == "TimeDimension" else 1, "entity_path") or []
        if not isinstance(name, str) or not isinstance(path, list | tuple):
            raise UnresolvedError(f"`{call.name}()` has no argument")
        return [*(str(each) for each in path), *name.split("__")]

    def _dimension(self, call: Call) -> str:
        *hops, name = self._path(call)
        column, natural = self._column(hops, name)
        grain = call.argument(1, "time_granularity_name") if call.name == "TimeDimension" else None
        for method, arguments in call.chained:
            if method == "date_part" and arguments:
                return f"extract({arguments[0]} from {column})"
            if method != "grain" or not arguments:
                raise UnresolvedError(f"`.{method}()` is not a known call")
            grain = arguments[0]
        if grain is None or str(grain).lower() == natural:
            return column
        if str(grain).lower() not in GRAINS:
            raise UnresolvedError(f"`{grain}` is not a grain")
        return truncated(column, str(grain).lower(), self._semantic.draft.dialect)

    def _column(self, hops: list[str], name: str) -> tuple[str, str | None]:
        """Return a dimension's column as expressions name it, and its natural grain."""
        if name == METRIC_TIME and not hops:
            name = self._semantic.time or name
        for end, path in paths(self._semantic, hops):
            found = end.dimensions.get(name)
            if found is not None and found.column is not None:
                return self._named(path, found.column), found.grain
        shown = "__".join((*hops, name))
        raise UnresolvedError(f"`{shown}` is not an imported dimension")

    def _named(self, path: tuple[str, ...], column: str) -> str:
        return ".".join(quoted(each, self._semantic.draft.dialect) for each in (*path, column))

    def _entity(self, call: Call) -> str:
        *hops, name = self._path(call)
        for end, path in paths(self._semantic, hops):
            found = end.entities.get(name)
            if found is not None and found.column is not None:
                return self._named(path, found.column)
        raise UnresolvedError(f"`{'__'.join((*hops, name))}` is not an imported entity")
