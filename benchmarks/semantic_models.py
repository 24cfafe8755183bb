"""Semantic layers of any size, as companies have them: dimensions in chains, facts with roles, overlays of measures."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.core import yaml

CONNECTION = "warehouse"
AREAS = ("crm", "billing", "product", "support", "marketing", "finance", "people", "partners")
NOUNS = (
    *("accounts", "contacts", "plans", "invoices", "payments", "subscriptions", "sessions", "events", "tickets"),
    *("campaigns", "leads", "contracts", "quotes", "usage", "refunds", "seats", "credits", "surveys", "regions"),
)
TEXTS = ("name", "status", "kind", "channel", "currency", "country", "owner", "source")
NUMBERS = ("amount", "quantity", "discount", "tax", "score", "duration", "cost")
_DIMENSIONS = 0.4
"""The part of the sources that are dimensions."""


@dataclass
class Made:
    """One source of a generated layer; `joins`: (own column, target, alias)."""

    name: str
    area: str
    is_fact: bool
    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    joins: list[tuple[str, str, str | None]] = field(default_factory=list)
    measures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns as a manifest has them."""
        keys = [{"name": column, "type": "number"} for column, _, _ in self.joins]
        texts = [{"name": name, "type": "string", "descriptions": {"db": f"the {name}"}} for name in self.texts]
        numbers = [{"name": name, "type": "number"} for name in self.numbers]
        times = [{"name": name, "type": "time"} for name in ("created_at", "updated_at")]
        return [{"name": "id", "type": "number", "pk": True}, *keys, *texts, *numbers, *times]


def layer(count: int) -> list[Made]:
    """Return the sources of a layer: dimensions first, each in a chain to a coarser one, then facts."""
    dice = random.Random(count)
    dimensions = [_source(number, dice, is_fact=False) for number in range(round(count * _DIMENSIONS))]
    facts = [_source(number, dice, is_fact=True) for number in range(len(dimensions), count)]
    for number, each in enumerate(dimensions[1:], 1):
        _join(each, dimensions[number // 3])
    for number, fact in enumerate(facts):
        _join(fact, dimensions[number % len(dimensions)])
        other = dimensions[(5 * number + 2) % len(dimensions)]
        if number % 3 == 0:
            _join(fact, other, f"buyer_{other.name}")
            _join(fact, other, f"payer_{other.name}")
        elif number % 3 == 1:
            _join(fact, other)
        fact.measures = _measures(fact)
    return [*dimensions, *facts]


def _source(number: int, dice: random.Random, *, is_fact: bool) -> Made:
    area, noun = AREAS[number % len(AREAS)], NOUNS[number // len(AREAS) % len(NOUNS)]
    again = number // (len(AREAS) * len(NOUNS))
    texts = tuple(dice.sample(TEXTS, 5 if is_fact else 6))
    numbers = tuple(dice.sample(NUMBERS, 4 if is_fact else 3))
    return Made(f"{area}_{noun}{again or ''}", area, is_fact, texts, numbers)


def _join(source: Made, target: Made, alias: str | None = None) -> None:
    column = f"{alias or target.name}_id"
    if target is not source and column not in {own for own, _, _ in source.joins}:
        source.joins.append((column, target.name, alias))


def _measures(fact: Made) -> list[dict[str, Any]]:
    first, second = fact.numbers[:2]
    status = f"{fact.texts[0]} = 'active'"
    return [
        {"name": f"{fact.name}_count", "expr": "count(*)"},
        {"name": f"total_{first}", "expr": f"sum({first})", "description": f"All {first} of {fact.name}."},
        {"name": f"active_{first}", "expr": f"sum({first})", "filter": status},
        {"name": f"mean_{second}", "expr": f"avg({second})"},
        {"name": f"{first}_each", "expr": f"total_{first} / {fact.name}_count"},
        {"name": f"{first}_to_date", "expr": f"total_{first}", "cumulative": {"to_date": "year"}},
    ]


def write_layer(folder: Path, sources: list[Made], schema: str = "main") -> None:
    """Write a layer as ktx does: a manifest shard an area, an overlay a fact."""
    place = folder / "semantic-layer" / CONNECTION
    (place / "_schema").mkdir(parents=True)
    for area in AREAS:
        tables = {each.name: _entry(each, schema) for each in sources if each.area == area}
        if tables:
            (place / "_schema" / f"{area}.yaml").write_text(yaml.dump({"tables": tables}), encoding="utf-8")
    for each in sources:
        if each.is_fact:
            (place / f"{each.name}.yaml").write_text(yaml.dump(_overlay(each)), encoding="utf-8")


def _entry(source: Made, schema: str) -> dict[str, Any]:
    joins = [
        {"to": target, "on": f"{column} = {target}.id", "relationship": "many_to_one"}
        | ({"alias": alias} if alias else {})
        for column, target, alias in source.joins
    ]
    return {"table": f"{schema}.{source.name}", "columns": source.columns, "joins": joins}


def _overlay(fact: Made) -> dict[str, Any]:
    return {
        "name": fact.name,
        "default_time_dimension": {"dbt": "created_at"},
        "columns": [{"name": "is_large", "type": "boolean", "expr": f"{fact.numbers[0]} > 100"}],
        "segments": [{"name": "active", "expr": f"{fact.texts[0]} = 'active'"}],
        "measures": fact.measures,
    }


def questions(sources: list[Made], count: int) -> Iterator[dict[str, Any]]:
    """Yield questions of all kinds: one fact or two, near and far dimensions, grains, filters, shares, running sums."""
    dice = random.Random(count)
    by_name = {each.name: each for each in sources}
    facts = [each for each in sources if each.is_fact]
    for number in range(count):
        fact = facts[number % len(facts)]
        target, hop = _reached(fact, by_name, dice)
        query: dict[str, Any] = {
            "measures": [f"{fact.name}.{each['name']}" for each in dice.sample(fact.measures[:5], 1 + number % 3)],
            "dimensions": [f"{hop}.{target.texts[0]}", f"{fact.name}.{fact.texts[1]}"][: number % 3],
        }
        yield query | _more(number, fact, hop, target, query["dimensions"])


def _reached(fact: Made, by_name: dict[str, Made], dice: random.Random) -> tuple[Made, str]:
    """Return a dimension and the hops that lead to it."""
    _, name, alias = dice.choice(fact.joins)
    target, hop = by_name[name], alias or name
    if target.joins and dice.random() < 0.4:
        return by_name[target.joins[0][1]], f"{hop}.{target.joins[0][1]}"
    return target, hop


def _more(number: int, fact: Made, hop: str, target: Made, dimensions: list[Any]) -> dict[str, Any]:
    month = {"field": f"{fact.name}.created_at", "granularity": ("day", "week", "month", "quarter")[number % 4]}
    kinds: list[dict[str, Any]] = [
        {},
        {"filters": [f"{hop}.{target.texts[1]} IN ('a', 'b')", f"{fact.name}.{fact.numbers[1]} > 10"]},
        {"dimensions": [*dimensions, month], "time_range": {"start": "2024-01-01", "end": "2025-01-01"}},
        {"segments": [f"{fact.name}.active"]},
        {"measures": [f"{fact.name}.{fact.measures[5]['name']}"], "dimensions": [month]},
        {"having": [f"{fact.name}.{fact.measures[0]['name']} > 5"], "limit": 50},
        {"dimensions": [*dimensions, month], "comparison": {"offset": "1 year"}},
        {"filters": [f"{fact.name}.is_large = TRUE"], "totals": True},
    ]
    return kinds[number % len(kinds)]
