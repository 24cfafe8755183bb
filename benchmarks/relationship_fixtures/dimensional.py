"""Turns a model of transactions into a warehouse: facts with all their dimensions, date keys in several roles."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.relationship_fixtures.concepts import Attribute, Entity, Form, Reference
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.features import attributes_of

DATE_DIMENSION = "calendar_date"
"""The entity every date of a fact refers to."""

_DATE = Entity(
    DATE_DIMENSION,
    Form.MASTER,
    attributes_of("day:date year:year month:month quarter:small weekday:small is_weekend:flag"),
)
_FACTS = (Form.DOC, Form.LOG, Form.LINE, Form.LINK, Form.SLOT)


def dimensional(dice: Dice, entities: list[Entity]) -> list[Entity]:
    """Return facts and dimensions; headers are folded into their lines, their references too."""
    by_name = {entity.name: entity for entity in entities}
    headers = {
        p.target for e in entities if e.form is Form.LINE for p in e.parents if by_name[p.target].form is Form.DOC
    }
    kept = [entity for entity in entities if entity.name not in headers]
    facts = {entity.name for entity in kept if entity.form in _FACTS}
    made = [_fact(dice, entity, by_name, facts | headers) if entity.name in facts else entity for entity in kept]
    dimensions = {entity.name for entity in made} - facts
    return [_DATE, *(_known(entity, dimensions | {DATE_DIMENSION}) for entity in made)]


def _fact(dice: Dice, entity: Entity, by_name: dict[str, Entity], facts: set[str]) -> Entity:
    """Return the fact: its references, those of the headers above it, its dates as date keys, wider by measures."""
    references: dict[str, Reference] = {}
    attributes: dict[str, Attribute] = {}
    left, seen = [entity], {entity.name}
    while left:
        current = left.pop(0)
        attributes = {attribute.name: attribute for attribute in current.attributes} | attributes
        for reference in (*current.parents, *current.references):
            if reference.target in facts and reference.target not in seen:
                seen.add(reference.target)
                left.append(by_name[reference.target])
            references.setdefault(reference.role, reference)
    dates = [a for a in attributes.values() if a.kind == "date" or (a.kind == "timestamp" and dice.chance(0.5))]
    roles = tuple(Reference(a.name, DATE_DIMENSION, a.optional) for a in dates[: dice.between(1, 5)])
    moved = {role.role for role in roles}
    rest = tuple(attribute for attribute in attributes.values() if attribute.name not in moved)
    wide = attributes_of(" ".join(f"measure_{i}:money" for i in range(1, dice.pick((0, 0, 3, 25)))))
    return replace(entity, form=Form.LOG, parents=(), attributes=rest + wide, references=(*references.values(), *roles))


def _known(entity: Entity, dimensions: set[str]) -> Entity:
    references = tuple(reference for reference in entity.references if reference.target in dimensions)
    parents = tuple(parent for parent in entity.parents if parent.target in dimensions)
    form = entity.form if len(parents) == len(entity.parents) else Form.MASTER
    return replace(entity, form=form, parents=parents, references=references)
