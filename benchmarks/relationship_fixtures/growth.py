"""What applications add to a model as it grows: kinds as tables, free attributes, extensions, who made every row."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.relationship_fixtures.concepts import Attribute, Entity, Form, Reference
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs

_KINDS = ("type", "kind", "category", "class", "status")
_EXTENSIONS = ("detail", "profile", "setting", "meta", "extension", "data", "info", "statistic")
_PEOPLE = ("account_user", "system_user", "site_user", "editor", "app_user", "employee", "contact", "member")
_WHO = (
    ("creator", "changed_by", "voided_by"),
    ("creator", "changed_by", "retired_by"),
    ("author", "modifier"),
    ("user_author", "user_modif"),
    ("created_by", "modified_by", "deleted_by"),
    ("create_user", "write_user"),
    ("insert_user", "update_user"),
    ("owner", "last_modified_by"),
)
AUTHORS = frozenset(role for roles in _WHO for role in roles)
"""The roles in which a user made or changed a row."""
_WHEN = (
    ("date_created", "date_changed", "date_voided"),
    ("created_at", "updated_at"),
    ("date_creation", "tms"),
    ("create_date", "write_date"),
    ("inserted", "changed"),
)
_STATES = ("voided:flag retired:flag uuid:guid", "active:flag", "entity_version:small active:flag", "import_key:docno")
_REASONS = ("void_reason", "retire_reason", "note_private", "note_public", "delete_reason")


def with_kinds(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Give some masters a table of their kinds, referred to by the table's words or by `type` alone."""
    if not knobs.type_share:
        return entities
    taken, added, out = {entity.name for entity in entities}, [], []
    word, bare = dice.pick(_KINDS), dice.chance(0.5)
    for entity in entities:
        name = f"{entity.name}_{word}"
        kinds: list[object] = [reference for reference in entity.references if reference.target == name]
        kinds += [attribute for attribute in entity.attributes if attribute.name == word]
        free = entity.form in (Form.MASTER, Form.DOC) and not kinds and name not in taken
        if free and dice.chance(knobs.type_share):
            own = (Reference("parent", name, True),) if dice.chance(0.3) else ()
            added.append(Entity(name, Form.LOOKUP, (Attribute("name", "label"),), own))
            role = word if bare else name
            entity = replace(entity, references=(*entity.references, Reference(role, name, dice.chance(0.5))))
            taken.add(name)
        out.append(entity)
    return [*out, *added]


def with_free_attributes(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Give some masters a table of free attributes and one of their types."""
    taken, added = {entity.name for entity in entities}, []
    for entity in entities:
        attribute, kind = f"{entity.name}_attribute", f"{entity.name}_attribute_type"
        if entity.form is Form.MASTER and not {attribute, kind} & taken and dice.chance(knobs.free_attribute_share):
            role = dice.pick(("attribute_type", kind))
            references = (Reference(entity.name, entity.name), Reference(role, kind))
            added.append(Entity(kind, Form.LOOKUP, (Attribute("name", "label"), Attribute("datatype", "status", True))))
            added.append(Entity(attribute, Form.DOC, (Attribute("value", "label"),), references))
            taken |= {attribute, kind}
    return [*entities, *added]


def with_extensions(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Put 1:1 tables beside some masters, which share their key; nothing refers to them."""
    taken, added = {entity.name for entity in entities}, []
    for entity in entities:
        name = f"{entity.name}_{dice.pick(_EXTENSIONS)}"
        if entity.form is Form.MASTER and name not in taken and dice.chance(knobs.extension_share):
            attributes = (Attribute("note", "text", True), Attribute("weight", "small"), Attribute("enabled", "flag"))
            parents = (Reference(entity.name, entity.name),)
            added.append(Entity(name, Form.SUB, attributes[: dice.between(1, 3)], (), parents))
            taken.add(name)
    return [*entities, *added]


def with_authors(dice: Dice, knobs: Knobs, entities: list[Entity]) -> list[Entity]:
    """Note on nearly every table who made and changed a row, when, and why it was removed."""
    person = next((name for name in _PEOPLE if any(entity.name == name for entity in entities)), None)
    if person is None or not dice.chance(knobs.everywhere_share):
        return entities
    who, when, share = dice.pick(_WHO), dice.pick(_WHEN), dice.uniform(0.6, 1.0)
    states = tuple(Attribute(*word.split(":")) for word in dice.pick(_STATES).split())
    reason = Attribute(dice.pick(_REASONS), "text", True)
    out = []
    for entity in entities:
        if entity.form is Form.LINK or not dice.chance(share):
            out.append(entity)
            continue
        used = {r.role for r in entity.references} | {a.name for a in entity.attributes}
        references = tuple(
            Reference(role, person, place > 0) for place, role in enumerate(who) if role not in used and role != person
        )
        times = tuple(Attribute(name, "timestamp", place > 0) for place, name in enumerate(when) if name not in used)
        more = tuple(a for a in (*states, reason) if a.name not in used and dice.chance(0.7))
        attributes = (*entity.attributes, *times, *more)
        out.append(replace(entity, attributes=attributes, references=(*entity.references, *references)))
    return out
