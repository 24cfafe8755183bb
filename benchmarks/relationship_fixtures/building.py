"""Turns entities into tables: which keys they get, which columns their references become, which links are true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.relationship_fixtures.concepts import Attribute, Entity, Form, Reference
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.tables import Column, Database, Link, Table

_BUSINESS_KEYS = ("code", "sku", "isbn", "barcode", "vin", "iban", "key_code", "plate")
_LINE_NUMBERS = ("line_number", "position", "sequence", "item_number", "line", "number")
_SLOT_DATES = ("day", "valid_from", "start_date", "period_date")
_TENANTS = ("company", "client", "tenant", "mandant", "organization", "entity_unit")
_MOST_KEY_COLUMNS = 4


@dataclass(slots=True)
class _Plan:
    """What is decided once for a database."""

    dice: Dice
    knobs: Knobs
    key_kind: str
    tenant: Table | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    tenant_scored: bool = True


def build(dice: Dice, knobs: Knobs, entities: Sequence[Entity], layout: str) -> Database:
    """Return the tables, without rows and names, in an order in which what identifies a row comes first."""
    plan = _Plan(dice, knobs, dice.weighted(knobs.keys))
    if layout == "tenant":
        plan.tenant, plan.tenant_scored = _tenant(plan), dice.chance(0.6)
    ordered = _parents_first(entities)
    for entity in ordered:
        _add_table(plan, entity, layout)
    for entity in ordered:
        _add_references(plan, entity)
        _add_attributes(plan, entity)
    _order_keys(plan)
    tables = [*([plan.tenant] if plan.tenant else []), *plan.tables.values()]
    return Database(tables, plan.links, notes={"key_kind": plan.key_kind, "layout": layout})


def _order_keys(plan: _Plan) -> None:
    """Put the columns of keys, and of the links to them, in the order they have in their tables."""
    for table in plan.tables.values():
        table.key = tuple(sorted(table.key, key=table.columns.index))
    for link in plan.links:
        pairs = sorted(
            zip(link.parent_columns, link.columns, strict=True), key=lambda pair: link.parent.columns.index(pair[0])
        )
        link.parent_columns = tuple(target for target, _ in pairs)
        link.columns = tuple(column for _, column in pairs)


def _parents_first(entities: Sequence[Entity]) -> list[Entity]:
    by_name = {entity.name: entity for entity in entities}
    out: dict[str, Entity] = {}

    def visit(entity: Entity) -> None:
        if entity.name not in out:
            for parent in entity.parents:
                visit(by_name[parent.target])
            out[entity.name] = entity

    for entity in entities:
        visit(entity)
    return list(out.values())


def _tenant(plan: _Plan) -> Table:
    table = Table(
        plan.dice.pick(_TENANTS),
        Form.LOOKUP,
        key_kind="natural" if plan.dice.chance(plan.knobs.natural_share) else "serial",
    )
    table.key = (Column("", "key", table.key_kind) if table.key_kind == "serial" else Column("code", "key", "code"),)
    table.columns = [*table.key, Column("name", "attribute", "label")]
    return table


def _add_table(plan: _Plan, entity: Entity, layout: str) -> None:
    table = Table(entity.name, entity.form)
    plan.tables[entity.name] = table
    if layout == "dimensional":
        table.prefix_words = "fact" if entity.form in (Form.LOG, Form.LINK) else "dim"
    if plan.tenant is not None and (entity.form is not Form.LOOKUP or plan.dice.chance(0.5)):
        _add_tenant_column(plan, table)
    parents = [link for parent in entity.parents if (link := _link(plan, table, parent, identifying=True)) is not None]
    if not parents or len(parents) < len(entity.parents):
        _own_key(plan, table, entity)
    else:
        _parent_key(plan, table, entity, parents)
    table.columns = [*table.key, *(column for column in table.columns if column not in table.key)]


def _add_tenant_column(plan: _Plan, table: Table) -> None:
    assert plan.tenant is not None
    target = plan.tenant.key[0]
    column = Column(plan.tenant.words, "reference", target.kind, target=target, target_table=plan.tenant)
    table.columns.append(column)
    link = Link(table, (column,), plan.tenant, plan.tenant.key, plan.tenant.words, shape="tenant")
    link.scored = plan.tenant_scored
    plan.links.append(link)


def _own_key(plan: _Plan, table: Table, entity: Entity) -> None:
    """Give a key of its own: a surrogate, a code the business knows, or none."""
    dice, knobs = plan.dice, plan.knobs
    keyless = 0.2 if entity.form is Form.LOG else knobs.keyless_share if entity.form is Form.DOC else 0.0
    if dice.chance(keyless):
        table.key_kind = "none"
        return
    business = next((a for a in entity.attributes if a.name in _BUSINESS_KEYS), None)
    share = knobs.natural_share if entity.form is Form.LOOKUP else knobs.natural_share * 0.4
    if (business is not None or entity.form is Form.LOOKUP) and dice.chance(share):
        words = business.name if business is not None else dice.pick(("code", "code", "name", "code"))
        own = Column(words, "key", "label" if words == "name" else "code")
        table.key_kind = "natural"
    else:
        table.key_kind = plan.key_kind if not dice.chance(knobs.other_key_share) else dice.weighted(knobs.keys)
        own = Column("", "key", table.key_kind)
    tenant = tuple(table.columns[:1]) if plan.tenant is not None else ()
    table.key = (*tenant, own)


def _parent_key(plan: _Plan, table: Table, entity: Entity, parents: Sequence[Link]) -> None:
    """Give the key of a line, slot, junction or subtype: composite of the parents', or a surrogate beside it."""
    dice = plan.dice
    columns = tuple(dict.fromkeys(column for link in parents for column in link.columns))
    if entity.form in (Form.LINE, Form.SLOT):
        columns = (*columns, _number(dice, entity.form))
        table.columns.append(columns[-1])
    shared = entity.form is Form.SUB
    if shared or (dice.chance(plan.knobs.composite_share) and len(columns) <= _MOST_KEY_COLUMNS):
        table.key, table.key_kind = columns, "shared" if shared else "composite"
        return
    table.alternates.append(columns)
    if entity.form is Form.LINK and dice.chance(0.05):
        table.key_kind = "none"
        return
    table.key_kind = plan.key_kind
    table.key = (Column("", "key", plan.key_kind),)


def _number(dice: Dice, form: Form) -> Column:
    if form is Form.LINE:
        return Column(dice.pick(_LINE_NUMBERS), "number", "line")
    kind = dice.pick(("slot_date", "slot_date", "slot_date", "slot_year"))
    return Column("year" if kind == "slot_year" else dice.pick(_SLOT_DATES), "number", kind)


def _link(plan: _Plan, table: Table, reference: Reference, *, identifying: bool = False) -> Link | None:
    """Add a link with new columns for the target's key (its tenant column is shared), or nothing where it has none."""
    parent = plan.tables.get(reference.target)
    if parent is None or not parent.key or (parent is table and len(parent.key) > 2):
        return None
    target_columns = parent.key
    other = [c for c in parent.columns if c.part == "attribute" and c.kind == "code" and len(parent.key) == 1]
    if other and not identifying and parent.form is Form.LOOKUP and plan.dice.chance(plan.knobs.natural_share * 0.3):
        target_columns = (other[0],)
    columns = tuple(_reference_column(plan, table, parent, target, reference) for target in target_columns)
    link = Link(table, columns, parent, target_columns, reference.role, reference.optional, identifying)
    plan.links.append(link)
    table.columns += [column for column in columns if column not in table.columns]
    return link


def _reference_column(plan: _Plan, table: Table, parent: Table, target: Column, reference: Reference) -> Column:
    if plan.tenant is not None and target.target_table is plan.tenant:
        mine = next((column for column in table.columns if column.target_table is plan.tenant), None)
        if mine is not None:
            return mine
    return Column(reference.role, "reference", target.kind, reference.optional, target, parent)


def _add_references(plan: _Plan, entity: Entity) -> None:
    table = plan.tables[entity.name]
    for reference in entity.references:
        if reference.targets:
            _add_polymorphic(plan, table, reference)
        elif not any(link.child is table and link.role == reference.role for link in plan.links):
            _link(plan, table, reference)


def _add_polymorphic(plan: _Plan, table: Table, reference: Reference) -> None:
    """Add one column that refers to several tables, told apart by a type column; all keys must be of one kind."""
    tables = [plan.tables[name] for name in reference.targets if name in plan.tables]
    tables = [t for t in tables if len(t.key) == 1 and t.key_kind == plan.key_kind]
    if not tables:
        return
    column = Column(reference.role, "reference", plan.key_kind, reference.optional, tables[0].key[0], None)
    kind = Column(reference.role + "_type", "attribute", "discriminator", reference.optional)
    table.columns += plan.dice.shuffled((column, kind))
    form = plan.dice.pick(("upper", "title", "lower", "short", "number"))
    for number, target in enumerate(tables, start=1):
        link = Link(table, (column,), target, target.key, reference.role, reference.optional)
        link.discriminator = (kind, _discriminator(form, target.words, number))
        plan.links.append(link)


def _discriminator(form: str, words: str, number: int) -> str | int:
    named = {
        "upper": words.upper(),
        "title": words.title().replace("_", ""),
        "lower": words,
        "short": words[:3].upper(),
    }
    return number if form == "number" else named[form]


def _add_attributes(plan: _Plan, entity: Entity) -> None:
    table = plan.tables[entity.name]
    taken = {column.words for column in table.columns if column.part != "reference"}
    roles = {column.words for column in table.columns}
    columns = [_attribute_column(attribute) for attribute in entity.attributes if attribute.name not in taken | roles]
    if plan.dice.chance(0.15):
        table.columns = plan.dice.shuffled(table.columns + columns)
        return
    mixed = plan.dice.chance(0.5)
    keys = [column for column in table.columns if not mixed or column in table.key]
    rest = plan.dice.shuffled([c for c in table.columns if c not in keys]) if mixed else []
    for column in columns:
        keys += [rest.pop()] if rest and plan.dice.chance(0.4) else []
        keys.append(column)
    table.columns = keys + rest


def _attribute_column(attribute: Attribute) -> Column:
    part = "stray" if attribute.kind == "stray" else "attribute"
    return Column(attribute.name, part, attribute.kind, attribute.optional)
