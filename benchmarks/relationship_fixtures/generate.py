"""Makes one fixture of a kind from a seed: `generate(folder, kind, seed)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.relationship_fixtures.building import build
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.dimensional import dimensional
from benchmarks.relationship_fixtures.extras import add_extras
from benchmarks.relationship_fixtures.features import with_features
from benchmarks.relationship_fixtures.filling import fill
from benchmarks.relationship_fixtures.knobs import KINDS, Knobs, mixture
from benchmarks.relationship_fixtures.naming import name_database
from benchmarks.relationship_fixtures.sampling import sample_entities
from benchmarks.relationship_fixtures.sizes import set_sizes
from benchmarks.relationship_fixtures.sql_types import set_types
from benchmarks.relationship_fixtures.structure import with_tenant
from benchmarks.relationship_fixtures.tables import Database
from benchmarks.relationship_fixtures.truth import Truth
from benchmarks.relationship_fixtures.writing import write_fixture
from ktx_cli.core.errors import UsageError

ALL_KINDS = (*KINDS, "scale")
"""Every kind `generate` knows."""

CORPUS_WEIGHTS = (
    {"general": 10.0}
    | {kind: 1.0 for kind in KINDS if kind != "general"}
    | {"tiny": 2.0, "application": 3.0, "few_rows": 4.0, "application_few_rows": 3.0}
)
"""How often each kind is in a corpus."""


@dataclass(frozen=True, slots=True)
class Fixture:
    """A fixture that was written: where, its answer, facts about how it was made."""

    folder: Path
    kind: str
    truth: Truth
    notes: dict[str, Any] = field(default_factory=dict)


def generate(folder: Path, kind: str, seed: int) -> Fixture:
    """Write a fixture into `folder`; the same kind and seed give the same answer and rows.

    Raises `UsageError` for a kind there is none of.
    """
    if kind == "scale":
        from benchmarks.relationship_fixtures.scale import write_scale

        return Fixture(folder, kind, write_scale(folder, seed), {"language": "english", "layout": "scale"})
    if kind not in KINDS:
        raise UsageError(f"there are no fixtures of kind `{kind}`", hint=f"kinds: {', '.join(ALL_KINDS)}")
    database = make_database(kind, seed)
    declared = Dice(seed, f"{kind}/declared").chance(0.5)
    truth = write_fixture(folder, Dice(seed, f"{kind}/writing"), database, declared=declared)
    return Fixture(folder, kind, truth, database.notes)


def make_database(kind: str, seed: int) -> Database:
    """Return a database, named and filled, that is not written yet."""
    knobs = _knobs(kind, seed)
    dice = Dice(seed, f"{kind}/model")
    domains, entities = sample_entities(dice, knobs)
    layout = dice.weighted(knobs.layouts)
    entities = with_features(dice, knobs, entities)
    if layout == "dimensional":
        entities = dimensional(dice, entities)
    if layout == "flat_tenant":
        entities = with_tenant(dice, entities)
    if layout == "tenant":
        knobs = replace(knobs, keys={"serial": 1.0})
    database = build(dice, knobs, entities, layout)
    set_sizes(dice, knobs, database)
    fill(Dice(seed, f"{kind}/rows"), knobs, database)
    name_database(Dice(seed, f"{kind}/names"), knobs, database, layout)
    set_types(Dice(seed, f"{kind}/types"), database)
    add_extras(Dice(seed, f"{kind}/extras"), knobs, database)
    database.notes |= {"domains": domains, "kind": kind}
    return database


def _knobs(kind: str, seed: int) -> Knobs:
    knobs = KINDS[kind]
    return mixture(Dice(seed, "knobs")) if kind == "general" else knobs


def generate_corpus(folder: Path, count: int, seed: int, kinds: Sequence[str] | None = None) -> list[Fixture]:
    """Write `count` fixtures into folders of `folder`, named by number and kind: of some kinds, or all but `scale`."""
    dice = Dice(seed, "corpus")
    out = []
    for number in range(count):
        kind = kinds[number % len(kinds)] if kinds else dice.weighted(CORPUS_WEIGHTS)
        out.append(generate(folder / f"{number:04d}-{kind}", kind, seed * 100_003 + number))
    return out
