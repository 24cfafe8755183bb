"""Draws a sub-schema: some entities of a domain that hang together, some of their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.relationship_fixtures.concepts import Attribute, Entity, Form
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.domains import all_domains, application_domains
from benchmarks.relationship_fixtures.knobs import Knobs

STRAY = "stray"
"""The kind of an attribute that is named like a reference and refers to nothing in the database."""

_TWO_DOMAINS = 0.15
_STRAYS_KEPT = 0.25


def sample_entities(dice: Dice, knobs: Knobs) -> tuple[tuple[str, ...], list[Entity]]:
    """Return the names of the domains drawn from and the entities, every reference of theirs among them."""
    known = application_domains() if knobs.applications else all_domains()
    least, most = knobs.domain_count
    domains = dice.sample(known, dice.between(least, most) if most > 1 else 2 if dice.chance(_TWO_DOMAINS) else 1)
    wanted = dice.around(*knobs.entities)
    entities: dict[str, Entity] = {}
    for domain in domains:
        pool = {entity.name: entity for entity in domain.entities if entity.name not in entities}
        chosen = _grow(dice, pool, max(3, wanted // len(domains)))
        entities |= {name: pool[name] for name in pool if name in chosen}
    return tuple(domain.name for domain in domains), [_cut(dice, entity, entities) for entity in entities.values()]


def _grow(dice: Dice, pool: Mapping[str, Entity], wanted: int) -> set[str]:
    """Return names grown from one entity along references in both directions, with all that identify them."""
    chosen = _with_parents(dice.pick(list(pool)), pool)
    while len(chosen) < min(wanted, len(pool)):
        near = sorted(name for name in pool if name not in chosen and _touches(pool[name], chosen, pool))
        rest = near or sorted(set(pool) - chosen)
        chosen |= _with_parents(dice.pick(rest), pool)
    return chosen


def _touches(entity: Entity, chosen: set[str], pool: Mapping[str, Entity]) -> bool:
    return any(name in chosen for name in entity.neighbours) or any(
        entity.name in pool[name].neighbours for name in chosen
    )


def _with_parents(name: str, pool: Mapping[str, Entity]) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        entity = left.pop()
        if entity in pool and entity not in found:
            found.add(entity)
            left += [parent.target for parent in pool[entity].parents]
    return found


def _cut(dice: Dice, entity: Entity, chosen: Mapping[str, Entity]) -> Entity:
    """Return the entity without references that lead out; some stay as columns that refer to nothing."""
    kept = tuple(reference for reference in entity.references if reference.target in chosen)
    out = [reference.role for reference in entity.references if reference.target not in chosen]
    strays = tuple(Attribute(role, STRAY, True) for role in out if dice.chance(_STRAYS_KEPT))
    parents = tuple(parent for parent in entity.parents if parent.target in chosen)
    form = entity.form if len(parents) == len(entity.parents) else Form.MASTER
    share = dice.pick((1.0, 1.0, 0.8, 0.6))
    attributes = entity.attributes[:1] + tuple(a for a in entity.attributes[1:] if dice.chance(share))
    return replace(entity, form=form, parents=parents, references=kept, attributes=attributes + strays)
