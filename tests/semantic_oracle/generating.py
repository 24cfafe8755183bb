"""Random worlds and random questions, from a seed: snowflakes of 2 to 6 sources over dirty data."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from tests.semantic_oracle.cases.base import Definition, Table, World, many, measure, source

WORDS = ("x", "y", "z", None)
SHARE_OF_NULL_KEYS = 0.15
SHARE_OF_DANGLING_KEYS = 0.15


class Dice(random.Random):
    """Random choices with the odds worlds and questions need."""

    def often(self, share: float) -> bool:
        """Return True for that share of calls."""
        return self.random() < share

    def some(self, items: list[str], most: int, least: int = 0) -> list[str]:
        """Return between `least` and `most` different items."""
        return self.sample(items, min(len(items), self.randint(least, most)))


class Maker:
    """Makes one world: every source joins one or two of those before it, sometimes twice under an alias."""

    def __init__(self, seed: int):
        self.dice = Dice(seed)
        self.name = f"random{seed}"
        self.keys: dict[str, list[tuple[int, ...]]] = {}
        self.tables: dict[str, Table] = {}
        self.sources: list[Definition] = []

    def world(self) -> World:
        """Return the world."""
        for number in range(self.dice.randint(2, 6)):
            self._add(f"t{number}")
        return World(self.name, self.tables, self.sources)

    def _add(self, name: str) -> None:
        parts = [f"{name}_k{at}" for at in range(2 if self.dice.often(0.25) else 1)]
        joins, keys = self._joins(name)
        columns = [*parts, *(column for key in keys for column in key[0])]
        rows = self._rows(name, parts, keys)
        kinds = [(column, "INTEGER") for column in columns]
        kinds += [("n", "INTEGER"), ("w", "VARCHAR"), ("flag", "BOOLEAN"), ("day", "DATE")]
        self.tables[name] = Table(tuple(kinds), tuple(rows))
        numbers = ", ".join(f"{column} number" for column in [*columns, "n"])
        self.sources.append(
            source(name, f"{numbers}, w string, flag boolean", parts, joins=joins, m=_measures(name))
            | {"default_time_dimension": "day"}
        )
        self.sources[-1]["columns"].append({"name": "day", "type": "time", "natural_granularity": "day"})
        self.sources[-1]["columns"].append({"name": "half", "type": "number", "expr": "n / 2.0"})

    def _joins(self, name: str) -> tuple[list[Definition], list[tuple[list[str], str]]]:
        joins, keys = [], []
        for target in self.dice.some(list(self.keys), 2, least=1):
            for alias in [None, f"{name}_{target}_role"][: 2 if self.dice.often(0.2) else 1]:
                columns = [f"{alias or target}_{at}" for at in range(len(self.keys[target][0]))]
                pairs = zip(columns, [f"{target}_k{at}" for at in range(len(columns))], strict=True)
                joins.append(many(target, " AND ".join(f"{a} = {alias or target}.{b}" for a, b in pairs), alias))
                keys.append((columns, target))
        return joins, keys

    def _rows(self, name: str, parts: list[str], keys: list[tuple[list[str], str]]) -> list[tuple[Any, ...]]:
        count = self.dice.choice((0, 1, 3, 5, 8, 12)) if self.keys else self.dice.choice((1, 3, 4))
        own: list[tuple[int, ...]] = [(at,) if len(parts) == 1 else (at // 3, at % 3) for at in range(count)]
        self.keys[name] = own or [(0,) * len(parts)]
        return [key + self._references(keys) + self._values() for key in own]

    def _references(self, keys: list[tuple[list[str], str]]) -> tuple[Any, ...]:
        found: list[Any] = []
        for columns, target in keys:
            key: list[Any] = list(self.dice.choice(self.keys[target]))
            if self.dice.often(SHARE_OF_NULL_KEYS):
                key[self.dice.randrange(len(columns))] = None
            elif self.dice.often(SHARE_OF_DANGLING_KEYS):
                key[0] = 99
            found += key
        return tuple(found)

    def _values(self) -> tuple[Any, ...]:
        day = date(2024, 1, 1) + timedelta(self.dice.randint(-40, 60))
        return (
            self.dice.choice((None, -3, 0, 1, 2, 5, 10)),
            self.dice.choice(WORDS),
            self.dice.choice((True, False, None)),
            day if self.dice.often(0.85) else None,
        )


def _measures(name: str) -> list[Any]:
    return [
        f"{name}_sum = sum(n)",
        f"{name}_count = count(*)",
        f"{name}_mean = avg(n)",
        f"{name}_top = max(n)",
        f"{name}_words = count(distinct w)",
        f"{name}_x = sum(n) WHERE w = 'x'",
        f"{name}_half = sum(half)",
        f"{name}_ratio = {name}_sum / {name}_count",
        f"{name}_less = {name}_sum - {name}_x",
        f"{name}_deep = {name}_less / {name}_ratio",
        measure(f"{name}_ever = sum(n)", cumulative={}),
        measure(f"{name}_month_to_date = count(*)", cumulative={"to_date": "month"}),
        measure(f"{name}_pct = count(*)", percent_of="total"),
        measure(f"{name}_per_word = avg({name}_count)", per=["w"]),
    ]


class Asker:
    """Asks random questions of a world."""

    def __init__(self, world: World, seed: int):
        self.dice = Dice(seed)
        self.names = [each["name"] for each in world.sources]
        self.aliases = [join["alias"] for each in world.sources for join in each.get("joins", ()) if "alias" in join]
        self.timed = False

    def query(self) -> dict[str, Any]:
        """Return a question; not every one has an answer."""
        finest = self.names[len(self.names) // 2 :]
        facts = self.dice.some(finest if self.dice.often(0.7) else self.names, 2, least=1)
        dimensions = self.dimensions(facts)
        query: dict[str, Any] = {"measures": self._measures(facts), "dimensions": dimensions}
        parts: list[tuple[str, float, Callable[[], Any]]] = [
            ("filters", 0.6, lambda: [self.condition() for _ in range(self.dice.randint(1, 2))]),
            ("include_empty", 0.4, lambda: self.dice.often(0.3)),
            ("having", 0.15, lambda: [f"{self.dice.choice(facts)}_count >= {self.dice.randint(0, 3)}"]),
            ("totals", 0.2, lambda: True),
            ("limit", 0.2, lambda: self.dice.randint(0, 5)),
            ("order_by", 0.3, lambda: [query["measures"][0] + self.dice.choice((" desc", " asc"))]),
            ("fill", 0.3 if self.timed else 0, lambda: True),
            ("time_range", 0.15, lambda: {"start": "2023-12-01", "end": "2024-03-01"}),
        ]
        return query | {name: made() for name, odds, made in parts if self.dice.often(odds)}

    def dimensions(self, facts: list[str]) -> list[Any]:
        """Return up to two columns, and sometimes the facts' time."""
        found: list[Any] = [
            {"field": f"{name}.{self.dice.choice(('w', 'flag', 'w'))}", "name": f"d{at}"}
            for at, name in enumerate(self.dice.some(self.names + self.aliases, 2))
        ]
        self.timed = self.dice.often(0.35)
        if self.timed:
            grain = self.dice.choice(("week", "month", "quarter", "year"))
            found.append({"field": "metric_time", "granularity": grain, "name": "period"})
        return found

    def _measures(self, facts: list[str]) -> list[str]:
        plain = ["sum", "count", "mean", "top", "words", "x", "half", "ratio", "less", "deep", "pct", "per_word"]
        running = ["ever", "month_to_date"] if self.timed else ["ever"]
        kinds = plain if self.dice.often(0.8) else plain[:4] + running
        return [f"{each}.{each}_{kind}" for each in facts for kind in self.dice.some(kinds, 2, least=1)]

    def condition(self) -> str:
        """Return a row condition over one source, or two joined by OR."""
        name = self.dice.choice(self.names + self.aliases)
        forms = (
            f"{name}.n > {self.dice.randint(-2, 4)}",
            f"{name}.w = '{self.dice.choice(('x', 'y'))}'",
            f"{name}.w IS NULL",
            f"{name}.w <> 'x' OR {name}.n IS NULL",
            f"{name}.flag",
            f"NOT ({name}.flag AND {name}.n < 5)",
            f"{name}.n BETWEEN 0 AND 5 OR {name}.w IN ('y', 'z')",
            f"{name}.half >= 1",
            f"{name}.n >= 1 OR {self.dice.choice(self.names)}.w = 'y'",
        )
        return self.dice.choice(forms)
