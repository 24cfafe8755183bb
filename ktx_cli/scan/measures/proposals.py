"""Propose measures for fact tables: row counts, sums, counts of entities, and rates of booleans and outcomes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.measures.additive import Additive, additive, counted_words, is_currency_column, is_unit, names_money
from ktx_cli.scan.measures.record import ProposedMeasure
from ktx_cli.scan.profile.profiler import ColumnProfile, TableProfile
from ktx_cli.scan.relationships.names import (
    concepts,
    key_base,
    listed,
    own_prefix,
    phrase_alike,
    stem,
    table_words,
    tokens,
    word_set,
)
from ktx_cli.scan.relationships.record import Cardinality, Relationship, RelationshipRecord
from ktx_cli.scan.shards import declared_relationships
from ktx_cli.warehouses import Column, Dialect, SemanticType, Table, TableKind, TableRef, allowed_values

MIN_ROWS = 50
"""The minimum number of rows in a fact table; a smaller table is a lookup table, or too small to judge."""

MIN_ENTITIES = 20
"""The minimum size of a referenced table; a smaller one is a lookup table, and counts of its used rows are useless."""

MOST_SUMS, MOST_ENTITIES, MOST_RATES, MOST_STATUS_RATES = 8, 4, 4, 3
"""The maximum number of proposed measures of one kind per table."""

MOST_WORDS = 4
"""The maximum number of words from a table name in measure names; longer names are shortened to their last words."""

MOST_NULLS = 0.95
"""The maximum share of NULLs in a column that gets a measure."""

_COPIES: Final = word_set("tmp temp stg stage staging raw bak backup old archive archived landing lnd src int ods copy")
_MARTS: Final = word_set("fct fact mart marts rpt report reporting analytics gold dwh dw edw dim")
_NO_FACTS: Final = word_set(
    "history hist snapshot snapshots balance balances inventory stock stocks bestand rate rates price prices kurs kurse"
    " calendar kalender date dates time period periods fiscal setting settings config configuration permission"
    " permissions role roles mapping map migration migrations audit version versions archive lookup parameter"
    " parameters property properties attribute attributes metadata sequence sequences translation translations"
    " currency currencies holiday holidays budget budgets target targets quota quotas forecast forecasts plan summary"
    " totals stats statistics daily monthly weekly yearly chart"
)
"""Words for tables of states, settings or aggregates, whose counts and sums are meaningless."""

_ENTITIES: Final = frozenset(
    {"person", "customer", "supplier", "carrier", "organization", "unit", "place", "region", "store", "product"}
    | {"vehicle", "class", "state", "money", "calendar", "course", "student", "team", "account"}
)
"""Concepts for tables whose numbers describe a thing and are not additive: a product's cost, a car's seats."""

_THINGS: Final = frozenset({"store", "product", "vehicle"})
"""Concepts for tables whose flags describe a thing rather than an event."""

_LOOKUPS: Final = frozenset({"region", "place", "class", "state", "money", "calendar"})
"""Concepts for tables that other tables only refer to."""

_EVENTS: Final = word_set(
    "order orders item items line lines payment payments invoice invoices transaction transactions sale sales event"
    " events entry entries shipment shipments booking bookings purchase purchases return returns refund refunds"
    " movement movements log logs call calls visit visits session sessions ticket tickets subscription subscriptions"
    " detail details note notes delivery deliveries lieferung lieferungen bestellung"
    " bestellungen position positionen rechnung rechnungen zahlung zahlungen"
)
"""Last words of tables whose rows are events, whatever the rest of the name means: `product_sales`."""

_MOVEMENTS: Final = word_set(
    "movement movements transaction transactions entry entries event events adjustment adjustments transfer transfers"
    " order orders shipment shipments return returns"
)
_MOVED: Final = word_set("inventory stock stocks bestand time")
"""Words for state tables that name a moved or recorded thing before such a word: `time_entries`."""

_LINES: Final = word_set("item items line lines detail details position positions positionen")
"""Last words of tables whose rows are parts of something: `order_lines`."""

_COUNTED_EVENTS: Final = word_set(
    "clicks impressions conversions views pageviews visits sessions installs downloads opens signups orders"
)
"""Columns with event counts. A table with two of them has one row per day or campaign, whose rows are not counted."""

_FLAG_PREFIXES: Final = word_set("is has was had did can flag ist hat")
_NO_RATES: Final = word_set(
    "deleted archived test internal hidden current latest default valid dummy visible locked enabled primary"
    " geloescht aktuell sample demo public private system staff superuser admin verified_by active inactive aktiv"
    " inaktiv open closed pending overdue due available unavailable stock published discontinued online offline expired"
    " suspended blocked paused subscribed unsubscribed newsletter opt opted unread"
)
"""Flags that questions filter by, and states that change, whose share of the rows is of no interest.

A state describes the present, so its share of the rows of an earlier month says nothing about that month.
"""

_STATUS: Final = word_set("status state stage outcome result resolution statut zustand estado stato")
"""Words for columns that state a row's progress."""

_OUTCOMES: Final = listed(
    "cancelled canceled returned refunded failed rejected declined lost voided void bounced disqualified abandoned"
    " delayed won converted completed settled succeeded"
)
"""Final values of such columns whose share is of interest, the most important first.

Intermediate steps are not included: an order that was shipped is no longer `paid`. States that change with time, such
as `past_due` and `expired`, are not included either.
"""

_CLOSINGS: Final = (frozenset({"won", "lost"}),)
"""Outcomes that exclude each other: their shares are computed over the closed rows only."""

_HAPPENINGS: Final = word_set(
    "bounce churn return refund conversion cancellation purchase escalation reversal renewal complaint dispute"
    " chargeback redemption default exchange"
)
"""Nouns for events that happen to a row, which follow the row's name in a rate's name: `session_bounce_rate`."""

_AUDIT: Final = word_set(
    "created create creation updated update upd modified modify inserted loaded synced changed change deleted ingested"
    " extracted imported erstellt geaendert angelegt"
)
_NOT_YET: Final = word_set(
    "expires expire expiry expiration expiring ablauf due faellig faelligkeit deadline until renewal renews next end"
    " ends expected estimated promised"
)
"""Words for times that may be later than the event and do not state when it happened: `due_date`."""

_PEOPLE_AT_WORK: Final = word_set("by updated modified editor approver parent")
_PERIOD_STARTS: Final = re.compile(r"(dbt_)?(valid|effective|eff|gueltig|validity)_?(from|start|ab|since|begin|date)?")
_ISO_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:$|[T ]\d)")
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*")
_VALUE: Final = re.compile(r"[\w .-]+")
_RESERVED: Final = word_set(
    "all and as by case cast check column default desc distinct else end from group having in interval is join key"
    " left like limit minute not null number of offset on or order over partition range right row rows select set"
    " table then to union unique user using value values when where with year month day hour second date time total"
)
"""Names that are quoted in an expression because they are reserved words in some dialect."""

_PLAIN_TOTALS: Final = word_set("total totals sum grand tot summe gesamt")
_GENERIC: Final = word_set(
    "amount value quantity net gross cost count duration sum betrag menge summe montant importe units price revenue"
    " fee fees tax vat mwst discount hours minutes seconds days items distance budget payment in"
)
"""Column names that are meaningless without their table: `total_payment_amount`."""

_ALL_ROWS, _COUNT = "count(*)", "_count"
_SPELLED_OUT: Final = {"qty": "quantity", "qnt": "quantity", "amt": "amount", "cnt": "count"}
_HEADERS: Final = word_set("header headers head heads")
"""Last words of tables whose rows have lines in another table: a row in `order_headers` is an order."""


def propose_measures(
    tables: Iterable[Table], known: RelationshipRecord, profiles: Iterable[TableProfile], dialect: Dialect
) -> dict[TableRef, tuple[ProposedMeasure, ...]]:
    """Return the proposed measures of every table that has any. Tables without a profile get none."""
    facts = profiled_tables(tables, known, profiles)
    left_out = copies(facts.values())
    return {
        ref: measures
        for ref, table in facts.items()
        if ref not in left_out and (measures := tuple(_measures(table, facts, dialect)))
    }


def profiled_tables(
    tables: Iterable[Table], known: RelationshipRecord, profiles: Iterable[TableProfile]
) -> dict[TableRef, ProfiledTable]:
    """Return the tables that have a profile, with their name words, keys and references."""
    by_ref = {table.ref: table for table in tables}
    sampled = {each.ref: each for each in profiles if each.ref in by_ref and each.unsampled is None}
    words = table_words(ref.name for ref in by_ref)
    outgoing: dict[TableRef, list[Relationship]] = defaultdict(list)
    for each in {r.id: r for r in (*declared_relationships(by_ref.values()), *known.accepted())}.values():
        outgoing[each.child].append(each)
    return {
        ref: ProfiledTable(by_ref[ref], profile, words[ref.name], known.key_of(by_ref[ref]), tuple(outgoing[ref]))
        for ref, profile in sampled.items()
    }


@dataclass(frozen=True)
class ProfiledTable:
    """A table with its profile. `words`: the words in its name. `key`: its primary key. `references`: those to other
    tables.
    """

    table: Table
    profile: TableProfile
    words: tuple[str, ...]
    key: tuple[str, ...]
    references: tuple[Relationship, ...]

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.ref.name

    @cached_property
    def rows(self) -> int:
        """The number of rows of the table, or of the sample if that is unknown."""
        return self.profile.rows if self.profile.row_count is None else max(self.profile.row_count, self.profile.rows)

    @cached_property
    def profiles(self) -> Mapping[str, ColumnProfile]:
        """Column -> the column's profile."""
        return {each.name: each for each in self.profile.columns}

    @cached_property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """Column -> the words in its name, without a prefix shared by most columns of the table."""
        prefix = own_prefix(column.name for column in self.table.columns)
        found = {}
        for column in self.table.columns:
            words = tokens(column.name)
            found[column.name] = words[len(prefix) :] if prefix and words[: len(prefix)] == prefix else words
            found[column.name] = found[column.name] or words
        return found

    @cached_property
    def keys(self) -> frozenset[str]:
        """The columns in the table's key, unique sets and references."""
        unique = (column for each in self.table.unique_keys for column in each.columns)
        return frozenset((*self.key, *unique, *(name for each in self.references for name in each.child_columns)))

    @cached_property
    def times(self) -> tuple[str, ...]:
        """The columns that state when a row happened; those that only state when it was written come last."""
        times = [each.name for each in self.table.columns if self._is_time(each) and not self._is_ahead(each.name)]
        return tuple(sorted(times, key=lambda name: bool(set(self.parts[name]) & _AUDIT)))

    @cached_property
    def _calendar_keys(self) -> frozenset[str]:
        """The table's columns that refer to a calendar: `order_date_key`."""
        calendars = [each for each in self.references if "calendar" in concepts(tokens(each.parent.name))]
        return frozenset(each.child_columns[0] for each in calendars if len(each.child_columns) == 1)

    @cached_property
    def audit_times(self) -> frozenset[str]:
        """The time columns that only state when a row was written."""
        return frozenset(name for name in self.times if set(self.parts[name]) & _AUDIT)

    @cached_property
    def happens(self) -> bool:
        """Whether the table's rows are events that have their own time."""
        if not self.is_event or not self.times:
            return False
        return self.words[-1] in _EVENTS or bool(set(self.times) - self.audit_times)

    def _is_time(self, column: Column) -> bool:
        """Return whether a column has a time type, contains dates as text, or refers to a calendar."""
        if column.name in self._calendar_keys:
            return True
        profile = self.profiles.get(column.name)
        if column.type is SemanticType.TIME or profile is None or profile.kind is not ValueKind.TEXT:
            return column.type is SemanticType.TIME
        return all(_ISO_DATE.match(str(each)) is not None for each in (profile.minimum, profile.maximum))

    def _is_ahead(self, name: str) -> bool:
        """Return whether a time may be later than the event: a due, expiry or end date."""
        words = self.parts[name]
        return bool(set(words) & _NOT_YET) or words[-1] == "to" or words[:2] == ("valid", "to")

    @cached_property
    def entity(self) -> str:
        """The singular noun for a row: `order_line`."""
        words = _of_whole(self.words)[-MOST_WORDS:]
        return "_".join((*words[:-1], stem(words[-1])))

    @property
    def has_periods(self) -> bool:
        """Whether the table's rows are versions that are valid for a period."""
        return any(
            _PERIOD_STARTS.fullmatch("_".join(tokens(column.name))) is not None
            for column in self.table.columns
            if column.name in self.times
        )

    @property
    def is_event(self) -> bool:
        """Whether a row is an event whose amounts are additive, rather than a thing with attributes."""
        if self.words[-1] in _EVENTS:
            return True
        return not concepts(self.words) & _ENTITIES

    @property
    def is_lookup(self) -> bool:
        """Whether the table's rows are places, classes or states that other tables refer to."""
        return self.words[-1] not in _EVENTS and bool(concepts(self.words) & _LOOKUPS)

    @property
    def is_bridge(self) -> bool:
        """Whether the table only connects others: all its columns are references, or state when a row was written."""
        own = [each for each in self.table.columns if each.name not in self.keys and each.name not in self.audit_times]
        return not own and (len(self.references) >= 2 or len(self.key) >= 2)

    @property
    def is_fact(self) -> bool:
        """Whether a row count is useful: many rows, with a time or references, that are not settings or versions."""
        if self.rows < MIN_ROWS or self.profile.problem is not None or self.has_periods or self.is_bridge:
            return False
        if self.is_about_states or self.is_lookup or (self.table.kind is TableKind.VIEW and not self.is_mart):
            return False
        return bool(self.times or self.references)

    @property
    def is_about_states(self) -> bool:
        """Whether the table's name says that its rows are states, settings or aggregates."""
        return bool(set(self.words) & (_NO_FACTS - _MOVED if self.words[-1] in _MOVEMENTS else _NO_FACTS))

    @property
    def is_aggregate(self) -> bool:
        """Whether a row contains counts of several kinds of events."""
        return sum(words[-1] in _COUNTED_EVENTS for words in self.parts.values()) > 1

    @property
    def is_mart(self) -> bool:
        """Whether the table's name or schema says that it is made for analysis."""
        return bool(_MARTS & {*tokens(self.name)[:1], *tokens(self.table.ref.schema or "")})

    @property
    def is_copy(self) -> bool:
        """Whether the table's name or schema says that it contains raw or staged data, or an old copy."""
        name = tokens(self.name)
        return bool(_COPIES & {name[0], name[-1], *tokens(self.table.ref.schema or "")})


def copies(tables: Iterable[ProfiledTable]) -> set[TableRef]:
    """Return the tables whose measures belong to another table: raw data next to marts, and copies."""
    known = list(tables)
    originals = {each.words for each in known if not each.is_copy}
    has_marts = any(each.is_mart for each in known)
    return {each.table.ref for each in known if each.is_copy and (has_marts or each.words in originals)}


def _measures(
    table: ProfiledTable, facts: Mapping[TableRef, ProfiledTable], dialect: Dialect
) -> Iterator[ProposedMeasure]:
    if not table.is_fact:
        return
    taken = {column.name.casefold() for column in table.table.columns}
    counts = () if table.is_aggregate else (_count(table),)
    for measure in (*counts, *_sums(table, facts, dialect), *_entities(table, facts, dialect),
                    *_rates(table, dialect), *_status_rates(table, dialect)):  # fmt: skip
        if measure.name.casefold() not in taken:
            taken.add(measure.name.casefold())
            yield measure


def _count(table: ProfiledTable) -> ProposedMeasure:
    key = f"`{'`, `'.join(table.key)}` identifies a row" if table.key else "each row is one record"
    time = f", and `{table.times[0]}` dates it" if table.times else ""
    return ProposedMeasure(
        f"{table.entity}{_COUNT}",
        _ALL_ROWS,
        table.key,
        f"{key[0].upper() if not table.key else key[0]}{key[1:]}{time}.",
        f"Number of rows in {table.name}, regardless of status.",
    )


def _sums(table: ProfiledTable, facts: Mapping[TableRef, ProfiledTable], dialect: Dialect) -> Iterator[ProposedMeasure]:
    if not table.is_event or not _adds_up(table, facts):
        return
    mixed = _has_several_currencies(table)
    taken = {column.name.casefold() for column in table.table.columns}
    count = 0
    for column in table.table.columns:
        if column.name in table.keys or count == MOST_SUMS or mostly_null(table.profiles.get(column.name)):
            continue
        words = table.parts[column.name]
        found = additive(column, table.profiles.get(column.name), words, table.words)
        if found is None or (mixed and found.kind is Additive.MONEY and found.unit is None):
            continue
        name = next((each for each in _sum_names(table, words, found.kind) if each.casefold() not in taken), None)
        if name is None:
            continue
        taken.add(name.casefold())
        count += 1
        what = {Additive.MONEY: "an amount of money", Additive.QUANTITY: "a quantity", Additive.DURATION: "a duration"}
        yield ProposedMeasure(
            name,
            f"sum({name_in_expr(column.name, dialect)})",
            (column.name,),
            (
                f"`{column.name}` is a number whose name says that it is {what[found.kind]}, and it is not "
                "part of a key."
            ),
            f"Sum of {column.name}{'' if found.unit is None else f', in {found.unit},'} over the rows of "
            f"{table.name}, regardless of status.",
            unit=found.unit,
        )


def _adds_up(table: ProfiledTable, facts: Mapping[TableRef, ProfiledTable]) -> bool:
    """Return whether a table's rows have a known time: their own or, as for order lines, that of a referenced row.

    Lines count if their name says what they belong to, because orders with duplicates have no key to refer to. The time
    of writing is enough for rows about a person or a customer.
    """
    parents = [parent for each in table.references if (parent := facts.get(each.parent)) is not None]
    if table.happens or any(parent.happens for parent in parents):
        return True
    if table.words[-1] in _LINES and any(
        each.happens and phrase_alike(each.words, table.words[:-1]) == 1 for each in facts.values()
    ):
        return True
    return bool(table.times) and any(concepts(parent.words) & {"person", "customer"} for parent in parents)


def _has_several_currencies(table: ProfiledTable) -> bool:
    profiles = (table.profiles.get(each.name) for each in table.table.columns if is_currency_column(each))
    return any(profile is None or profile.distinct is None or profile.distinct > 1 for profile in profiles)


def _sum_names(table: ProfiledTable, words: Sequence[str], kind: Additive) -> Iterator[str]:
    """Yield names for the sum of a column with these words, starting with the best."""
    named = counted_words(tuple(words)) or words
    spelled = [_SPELLED_OUT.get(word, word) for word in named if not word.isdigit()] or list(words)
    base = [word for word in spelled if word not in _PLAIN_TOTALS]
    if kind is Additive.MONEY and len(base) == 1 < len(spelled) and not names_money(base[0]):
        base.append("amount")
    entity = table.entity.split("_")
    missing = [word for word in entity if word not in base]
    if not base:
        if kind is Additive.MONEY:
            yield "_".join(("total", *entity, "amount"))
        yield "_".join((*entity, "total"))
    elif all(word in _GENERIC or is_unit(word) for word in base):
        yield "_".join(("total", *missing, *base))
    else:
        yield "_".join(("total", *base))
    yield "_".join(("total", *missing, *base))
    yield "_".join(("sum_of", *spelled))


def _entities(
    table: ProfiledTable, facts: Mapping[TableRef, ProfiledTable], dialect: Dialect
) -> Iterator[ProposedMeasure]:
    """Yield a distinct count for each reference to a table of entities."""
    count = 0
    seen: set[str] = set()
    for each in table.references:
        parent = facts.get(each.parent)
        if parent is None or count == MOST_ENTITIES or not _is_entity_reference(table, each, parent):
            continue
        (column,) = each.child_columns
        if column in seen:
            continue
        seen.add(column)
        name = plural_of(_role(table, column, parent))
        count += 1
        yield ProposedMeasure(
            f"distinct_{name}",
            f"count(distinct {name_in_expr(column, dialect)})",
            (column,),
            f"`{column}` refers to `{parent.name}`, and several rows share a value.",
            f"Number of distinct {name.replace('_', ' ')} with at least one row in {table.name}.",
        )


def _is_entity_reference(table: ProfiledTable, reference: Relationship, parent: ProfiledTable) -> bool:
    if len(reference.child_columns) != 1 or reference.condition is not None or reference.parent == reference.child:
        return False
    (column,) = reference.child_columns
    if reference.cardinality is not Cardinality.MANY_TO_ONE or set(tokens(column)) & _PEOPLE_AT_WORK:
        return False
    if parent.rows < MIN_ENTITIES or parent.has_periods or set(parent.words) & _NO_FACTS:
        return False
    if table.key[:1] == (column,):  # Its rows are parts of the parent's rows, which are counted there.
        return False
    if parent.is_lookup or mostly_null(table.profiles.get(column)):
        return False
    base = key_base(table.parts[column], frozenset())[0]
    profile = table.profiles.get(column)
    return _names(base, parent) and profile is not None and not profile.unique


def _names(base: tuple[str, ...], parent: ProfiledTable) -> bool:
    """Return whether the words of a column, without those for a key, name the rows of a table."""
    names = {parent.words, _of_whole(parent.words)}
    return bool(base) and any(
        phrase_alike(base, each) >= 0.75 or phrase_alike(base[-1:], each[-1:]) >= 0.75 for each in names
    )


def _role(table: ProfiledTable, column: str, parent: ProfiledTable) -> tuple[str, ...]:
    """Return a name for the referenced rows, based on the column if it adds a word, such as `billing_customer`."""
    base = key_base(table.parts[column], frozenset())[0]
    own = _of_whole(parent.words)[-MOST_WORDS:]
    added = base[: -len(own)]
    is_role = added and phrase_alike(base[-len(own) :], own) == 1
    return base if is_role and all(len(word) >= 4 and word.isalpha() for word in added) else own


def _of_whole(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words in a table's name without a last word such as `header`."""
    return words[:-1] if len(words) > 1 and words[-1] in _HEADERS else words


def plural_of(words: Sequence[str]) -> str:
    """Return the plural of a noun with several words, joined by underscores."""
    last = words[-1]
    if not last.isascii() or last.endswith("s") or last in ("people", "children", "staff"):
        plural = last
    elif last.endswith("y") and last[-2:-1] not in "aeiou":
        plural = f"{last[:-1]}ies"
    elif last.endswith(("x", "ch", "sh", "z")):
        plural = f"{last}es"
    else:
        plural = {"person": "people", "child": "children"}.get(last, f"{last}s")
    return "_".join((*words[:-1], plural))


def _rates(table: ProfiledTable, dialect: Dialect) -> Iterator[ProposedMeasure]:
    """Yield the share of rows with a flag, for each boolean column with both values.

    A flag of a shop, a product or a vehicle is an attribute that questions filter by.
    """
    if not table.is_event and concepts(table.words) & _THINGS:
        return
    count = 0
    for column in table.table.columns:
        words = table.parts[column.name]
        if count == MOST_RATES or column.name in table.keys or not _is_flag(column, table.profiles.get(column.name)):
            continue
        named = tuple(word for word in words if word not in _FLAG_PREFIXES) or words
        if set(named) & _NO_RATES:
            continue
        count += 1
        quoted = name_in_expr(column.name, dialect)
        condition = quoted if dialect.conditions_are_values else f"{quoted} = 1"
        yield ProposedMeasure(
            _rate_name(table.entity, words, named),
            f"avg(case when {condition} then 1.0 else 0.0 end)",
            (column.name,),
            f"`{column.name}` is a boolean, and rows with both values occur.",
            f"Share of all rows of {table.name} with {column.name}; NULL counts as false.",
            format="percent",
        )


def _rate_name(row: str, words: tuple[str, ...], named: tuple[str, ...]) -> str:
    """Return the name of the share of rows with a flag, which includes the row's name: `returned_order_line_rate`.

    `row`: the singular of what a row is. `words`: of the column. `named`: those without words such as `is`.
    """
    flag = named[:-1] if named[-1] in ("rate", "flag") and len(named) > 1 else named
    entity = row.split("_")
    other = [word for word in entity if word not in flag]
    if flag[-1] in _HAPPENINGS:
        return "_".join((*other, *flag, "rate"))
    if words[:1] == ("has",) and not flag[-1].endswith(("ed", "en", "t")):
        return "_".join((*entity, "with", *flag, "rate"))
    return "_".join((*flag, *other, "rate"))


def counted_entity(measures: Mapping[str, str]) -> str | None:
    """Return the singular that the name of a proposed count of all rows is based on, or None if there is no such count.

    `measures`: names of the proposed measures of a table, with their expressions.
    """
    names = (name for name, expr in measures.items() if expr == _ALL_ROWS and name.endswith(_COUNT))
    return next((name.removesuffix(_COUNT) for name in names), None)


def _status_rates(table: ProfiledTable, dialect: Dialect) -> Iterator[ProposedMeasure]:
    """Yield the share of rows with an outcome, for status columns whose values are declared."""
    found: dict[str, tuple[str, ...]] = {}
    for column in table.table.columns:
        profile = table.profiles.get(column.name)
        if column.name in table.keys or not set(table.parts[column.name]) & _STATUS or mostly_null(profile):
            continue
        if profile is not None and profile.distinct is not None and profile.distinct >= 2:
            found[column.name] = allowed_values(column)
    yield from outcome_rates(table.name, table.entity, found, "the database", dialect)


def outcome_rates(
    table: str, entity: str, columns: Mapping[str, Iterable[str]], declared_by: str, dialect: Dialect
) -> Iterator[ProposedMeasure]:
    """Yield the share of rows with an outcome, the most important first.

    `entity`: the singular of what a row is. `columns`: columns with the values that `declared_by` declares; those that
    are not statuses are ignored.
    """
    found = []
    for column, values in columns.items():
        if not set(tokens(column)) & _STATUS:
            continue
        spelled = {"_".join(tokens(value)): value for value in values if _VALUE.fullmatch(value)}
        for word, value in spelled.items():
            if word in _OUTCOMES:
                closings = next((each - {word} for each in _CLOSINGS if word in each), frozenset[str]())
                others = [spelled[each] for each in sorted(closings) if each in spelled]
                found.append((_OUTCOMES.index(word), word, column, value, others))
    for _, word, column, value, others in sorted(found, key=lambda each: each[0])[:MOST_STATUS_RATES]:
        quoted = name_in_expr(column, dialect)
        rest = "".join(f" when {quoted} = '{other}' then 0.0" for other in others) or " else 0.0"
        of_all = f"all rows of {table} whose {column} is {value}; NULL counts as not {value}."
        closed = f"the rows of {table} whose {column} is {' or '.join((value, *others))} that are {value}."
        yield ProposedMeasure(
            _rate_name(entity, (), tuple(word.split("_"))),
            f"avg(case when {quoted} = '{value}' then 1.0{rest} end)",
            (column,),
            f"`{column}` is a status whose values are declared by {declared_by}; `{value}` is an outcome.",
            f"Share of {closed if others else of_all}",
            format="percent",
        )


def _is_flag(column: Column, profile: ColumnProfile | None) -> bool:
    if column.type is not SemanticType.BOOLEAN or profile is None or profile.kind is not ValueKind.BOOLEAN:
        return False
    return profile.distinct == 2 and not mostly_null(profile)


def mostly_null(profile: ColumnProfile | None) -> bool:
    """Return whether a column is almost empty or was not read."""
    return profile is None or not profile.rows or profile.nulls > MOST_NULLS * profile.rows


def name_in_expr(name: str, dialect: Dialect) -> str:
    """Return a column as it appears in an expression, quoted unless it is a plain word."""
    return name if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED else dialect.quote(name)
