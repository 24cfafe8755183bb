"""Semantic models as both forms of dbt's YAML write them, read into one: entities, dimensions, measures, metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.semantic.interchange.drafts import SourceDraft, described
from ktx_cli.semantic.interchange.report import Item, Report
from ktx_cli.semantic.load.columns import NATURAL as NATURAL_GRAINS
from ktx_cli.semantic.load.measures import TO_DATE
from ktx_cli.semantic.model import Place

PRIMARY, UNIQUE, FOREIGN, NATURAL = "primary", "unique", "foreign", "natural"
_TIME: Final = "time"


@dataclass(slots=True)
class Entity:
    """A key; `column`: what it became in its source, None as long as it did not."""

    name: str
    kind: str
    expr: str
    place: Place
    column: str | None = None
    description: str | None = None

    @property
    def is_key(self) -> bool:
        """Whether a value of it is there once."""
        return self.kind in (PRIMARY, UNIQUE)


@dataclass(slots=True)
class Dimension:
    """A column to group by; `grain` of a time; `column`: what it became."""

    name: str
    is_time: bool
    expr: str
    place: Place
    grain: str | None = None
    description: str | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A join to another semantic model by an entity; `hop`: how expressions name it."""

    entity: str
    target: Semantic
    hop: str


@dataclass(slots=True)
class Semantic:
    """One semantic model. `measures` of the older form, `metrics` of the newer, both as written.

    `draft`: its source, once its table is known.
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
    draft: SourceDraft = field(init=False)


def read_older(item: Item, report: Report) -> Semantic | None:
    """Read an entry of `semantic_models:`."""
    name, relation = item.text("name"), item.text("model")
    if not name or not relation:
        report.dropped(f"semantic model `{name or '?'}`", "it has no `name` or no `model`", item.place)
        return None
    found = Semantic(name, relation, item.place, described(item.text("description"), item.text("label")))
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
    item.report_rest(report, f"semantic model `{name}`", {"config": "it steers dbt, and means nothing for questions"})
    return found


def read_newer(item: Item, report: Report) -> Semantic | None:
    """Read a model with `semantic_model:` in it, None where it has none or it is off."""
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
    """Read what a column of the newer form says it is; each of both may be a word or a mapping."""
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
    description = described(item.text("description"), item.text("label"))
    found.entities[name] = Entity(name, kind, expr, item.place, description=description)
    if kind == PRIMARY:
        found.primary = found.primary or name
    item.report_rest(report, f"entity `{name}` of `{found.name}`", _REASONS)


def _add_dimension(found: Semantic, item: Item, name: str | None, grain: str | None, report: Report) -> None:
    kind = (item.text("type") or "").lower()
    if not name or kind not in (_TIME, "categorical"):
        report.dropped(f"dimension `{name or '?'}` of `{found.name}`", f"its type is `{kind}`", item.place)
        return
    expr, is_time = item.text("expr") or name, kind == _TIME
    description = described(item.text("description"), item.text("label"))
    grain = (grain or "day").lower() if is_time else None
    found.dimensions[name] = Dimension(name, is_time, expr, item.place, grain, description)
    item.report_rest(report, f"dimension `{name}` of `{found.name}`", _REASONS)


_REASONS: Final = {
    "validity_params": "ktx joins on equality alone: a slowly changing dimension is a source with `sql:`",
    "is_partition": "it steers how dbt reads the table",
    "config": "it steers dbt, and means nothing for questions",
    "meta": "it means nothing for questions",
}


def _params_grain(item: Item, report: Report) -> str | None:
    params = item.item("type_params")
    if params is None:
        return None
    grain = params.text("time_granularity")
    params.report_rest(report, f"dimension `{item.text('name')}`", _REASONS)
    return grain


def paths(start: Semantic, hops: list[str]) -> Iterator[tuple[Semantic, tuple[str, ...]]]:
    """Yield every semantic model the entities lead to, with the hops expressions name; the start's own key first."""
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
    """One input of a metric. `fill`: it asked dbt to join the time spine or to fill empty values."""

    name: str
    alias: str
    filters: tuple[str, ...] = ()
    offset: str | None = None
    offset_to_grain: str | None = None
    fill: bool = False

    def with_filters(self, more: tuple[str, ...]) -> Input:
        """Return it with more filters."""
        return replace(self, filters=(*self.filters, *more))

    @property
    def is_plain(self) -> bool:
        """Whether it is the metric or measure as it is."""
        return not (self.filters or self.offset or self.offset_to_grain)


def read_input(value: Any, place: Place) -> Input | None:
    """Return the input a name or a mapping says, None where there is none."""
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
    """Return the filters of a text, a list of texts, or dbt's compiled form of them."""
    value = item.value(key)
    if isinstance(value, Mapping):
        value = value.get("where_filters")
    several = value if isinstance(value, list) else [value]
    texts = (each.get("where_sql_template") if isinstance(each, Mapping) else each for each in several)
    return tuple(str(text).strip() for text in texts if text is not None and str(text).strip())


def window(text: str | None) -> str | None:
    """Return a length of time as ktx writes it, such as `7 days`; None where it is none."""
    found = _WINDOW.fullmatch(text.strip()) if text else None
    if found is None or not int(found[1]):
        return None
    count, unit = int(found[1]), found[2].lower()
    return f"{count} {unit}{'' if count == 1 else 's'}"


def to_date(text: str | None) -> str | None:
    """Return the unit of a value to date, None where ktx has none of that name."""
    word = (text or "").lower()
    return word if word in TO_DATE else None
