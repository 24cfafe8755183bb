"""Detectors for statuses: rows that failed or were cancelled, and people who are not part of the headcount."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.decisions.tables import (
    RARE,
    Database,
    capital,
    excluded,
    happens,
    in_rows,
    is_staff_table,
    is_time,
    meaning,
    plain_words,
    share_of,
    things,
)
from ktx_cli.scan.measures.proposals import ProfiledTable
from ktx_cli.scan.relationships.names import tokens, word_set
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import Column, SemanticType

STATUS: Final = word_set(
    "status state stage outcome result statut zustand estado stato condition phase fase etat decision verdict"
    " disposition progress fulfilment fulfillment approval step workflow milestone situation standing settlement"
    " clearing posting review lifecycle"
)
"""Words for columns that state a row's progress."""

STATES_OF_RECORDS: Final = word_set("record row rec lifecycle datensatz entry object deletion")
"""Words for columns that state a row's validity rather than its progress."""

_ENDED_BADLY: Final = word_set(
    "cancelled canceled cancel void voided failed failure declined rejected abandoned error reversed draft deleted test"
    " storniert abgebrochen entwurf annule annulee annulled cancelado cancelada anulado anulada borrador brouillon"
    " annullato bozza geannuleerd concept anulowane uncollectible denied invalid duplicate incomplete bounced expired"
    " written_off refused recalled withdrawn revoked terminated churned lapsed aborted ended turned_down inactive"
    " abgelehnt refuse rechazado rifiutato geweigerd odrzucone"
)
"""Statuses of rows that failed or were cancelled."""

NOT_COUNTED: Final = _ENDED_BADLY | word_set(
    "pending refunded returned chargeback pendiente in_attesa ausstehend trialing trial past_due on_hold storno"
    " erstattet retourniert rembourse reembolsado disputed suspended paused blocked lost fraud"
)
"""Statuses of rows that are often excluded from figures, including rows in progress and reversed rows."""

_KINDS: Final = word_set(
    "type kind category class reason cause method channel segment tier priority severity source origin medium language"
    " country region city currency unit size color colour gender name title code typ tipo art grund"
)
"""Words for columns that state a row's kind or reason rather than its progress."""

_PLACES: Final = word_set("city zip postal postcode plz street address country county province region latitude")
"""Words for columns next to which `state` means part of a country."""

_Values = Sequence[tuple[str | int, int]]
"""A column's values with their row counts."""

_OF_TIMES: Final = word_set("at on date time day dt ts timestamp datetime am")
_RECURRING: Final = word_set("mrr arr acv tcv recurring")
_SAY_SO: Final = word_set("cancelled canceled voided failed declined rejected abandoned refused lost refunded")
"""Words that have this meaning even in combination with other words."""

_OTHER_KINDS: Final = word_set("test deleted withdrawn duplicate inactive ended trial trialing")
"""Values covered by other kinds of points."""

_TAKEN_BACK: Final = word_set("refunded disputed chargeback")
_SAY_NOTHING: Final = _ENDED_BADLY - _OTHER_KINDS
"""Statuses that may also be the name of a flag."""


def statuses(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield a status with values for failed or cancelled rows, if amounts in the table are summed."""
    amounts = list(database.amounts(table)) or recurring_amounts(table)
    if is_staff_table(table):
        yield from _kinds_of_staff(database, table)
    if not amounts:
        return
    named, others = [], []
    for column in table.table.columns:
        words, profile = meaning(table, column.name), table.profiles.get(column.name)
        if profile is not None and is_time(table, column, profile):
            rest = [word for word in words if word not in _OF_TIMES]
            if rest and set(rest) <= _SAY_SO | {"void"} and 0 < profile.filled <= 0.5 * profile.rows:
                yield excluded(
                    table, DecisionKind.STATUS, column.name, rest[0], f"{database.quoted(column.name)} IS NULL",
                    f"{column.name} is set in {in_rows(profile.filled, table)}.", profile.filled / profile.rows,
                )  # fmt: skip
            continue
        flag = None if column.name in table.keys else database.flag(table, column)
        if flag is not None:
            if len(words) == 1 and words[0] in _SAY_NOTHING | _TAKEN_BACK and 0 < flag.yes <= 0.5 * flag.rows:
                yield excluded(
                    table, DecisionKind.STATUS, column.name, words[0], flag.is_not_true,
                    f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
                )  # fmt: skip
            continue
        plain = plain_words(column.name)
        is_referring = any(column.name in each.child_columns for each in table.references)
        is_name = bool(plain & STATUS) and not plain & STATES_OF_RECORDS - {"lifecycle"}
        if is_name and not _is_of_a_country(table, plain) and column.name not in table.key:
            named.append(column)
        elif column.name not in table.keys and not is_referring and not plain & (_KINDS | STATES_OF_RECORDS):
            others.append(column)
    # Values are better evidence than column names; codes and unknown words come last.
    tries = [(each, _known) for each in named]
    tries += [(each, _known) for each in others]
    tries += [(each, _coded) for each in named]
    tries += [(each, _unknown) for each in named if happens(table)]
    for column, kind in tries:
        if (point := kind(database, table, column, amounts)) is not None:
            yield point
            return


def _is_of_a_country(table: ProfiledTable, words: frozenset[str]) -> bool:
    """Return whether a column named `state` is part of an address."""
    others = (plain_words(each.name) for each in table.table.columns)
    return "state" in words and any(each & _PLACES for each in others)


def recurring_amounts(table: ProfiledTable) -> list[str]:
    """Return the amounts that a row contributes per month or year."""
    each_period, money = word_set("monthly annual yearly weekly month year"), word_set("amount fee revenue value price")
    return [
        column.name
        for column in table.table.columns
        if column.type is SemanticType.NUMBER
        and ((words := plain_words(column.name)) & _RECURRING or (words & each_period and words & money))
    ]


def _known(database: Database, table: ProfiledTable, column: Column, amounts: Iterable[str]) -> FoundPoint | None:
    """Return the point for a status with values known to mean that a row failed or was cancelled."""
    values = database.values(table, column)
    spelled = {value: _meaning_of(value) for value, _ in values}
    doubtful = sorted((value, count) for value, count in values if spelled[value] in NOT_COUNTED)
    total = sum(count for _, count in doubtful)
    if not doubtful or len(doubtful) == len(values) or total < 0.005 * table.profile.rows:
        return None
    is_named = bool(plain_words(column.name) & STATUS)
    if not is_named and (total > 0.5 * table.profile.rows or {spelled[value] for value, _ in doubtful} <= _OTHER_KINDS):
        return None
    ended = [value for value, _ in doubtful if spelled[value] in _ENDED_BADLY]
    return _status_point(database, table, column, values, doubtful, ended, amounts)


def _meaning_of(value: str) -> str:
    """Return the words of a status; if there are several, the one for a failed outcome: `closed lost`."""
    words = tokens(value)
    return next((word for word in words if word in _SAY_SO), "_".join(words)) if len(words) > 1 else "_".join(words)


def _coded(database: Database, table: ProfiledTable, column: Column, amounts: Iterable[str]) -> FoundPoint | None:
    """Return the point, about the rare codes, for a status with codes of unknown meaning."""
    values: _Values = _numbers(database, table, column) or database.values(table, column)
    if not 3 <= len(values) <= 8 or any(len(str(value)) > 3 for value, _ in values):
        return None
    rare = sorted(values, key=lambda each: (each[1], str(each[0])))[: len(values) // 2]
    return _status_point(
        database, table, column, values, sorted(rare, key=lambda each: str(each[0])), [rare[0][0]], amounts
    )


def _unknown(database: Database, table: ProfiledTable, column: Column, amounts: Iterable[str]) -> FoundPoint | None:
    """Return the point, about the rarest words, for a status with unknown words."""
    values = database.values(table, column)
    rarest = min(values, key=lambda each: (each[1], each[0]), default=("", 0))
    if not 2 <= len(values) <= 8 or rarest[1] > RARE * table.profile.rows:
        return None
    return _status_point(database, table, column, values, [rarest], [rarest[0]], amounts)


def _numbers(database: Database, table: ProfiledTable, column: Column) -> list[tuple[int, int]]:
    """Return the numeric values of a status, with their row counts."""
    profile = table.profiles.get(column.name)
    if profile is None or profile.kind is not ValueKind.INTEGER or not 2 < (profile.distinct or 0) <= 8:
        return []
    return [(int(value), count) for value, count in profile.top] if database.shows_values else []


_OF_STAFF: Final = word_set("employment contract worker employee staff vertrag beschaeftigung contrato contrat")


def _kinds_of_staff(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield the employment types, if not all of them are part of the headcount."""
    for column in table.table.columns:
        words = plain_words(column.name)
        if column.name in table.keys or not words & _OF_STAFF:
            continue
        values = database.values(table, column)
        if 2 <= len(values) <= 8:
            others = sorted(sorted(values, key=lambda each: -each[1])[1:])
            rarest = min(values, key=lambda each: each[1])[0]
            yield _status_point(database, table, column, values, others, [rarest], ())
            return


def _status_point(
    database: Database, table: ProfiledTable, column: Column, values: _Values,
    doubtful: _Values, ended: Sequence[str | int], amounts: Iterable[str],
) -> FoundPoint:  # fmt: skip
    name = column.name
    doubted = [value for value, _ in doubtful]

    def are(some: Iterable[str | int]) -> str:
        return " or ".join(map(str, some))

    alternatives = [Alternative("all", f"{capital(things(table))} of every {name} count")]
    if ended:
        label = f"{capital(things(table))} that are {are(ended)} do not count"
        alternatives.append(Alternative("without_ended", label, filter=database.is_none_of(name, ended)))
    if set(doubted) != set(ended):
        label = f"{capital(things(table))} that are {are(doubted)} do not count"
        alternatives.append(Alternative("without_open", label, filter=database.is_none_of(name, doubted)))
    rest = [value for value, _ in values if value not in doubted]
    usual = max(values, key=lambda each: each[1])[0]
    if len(rest) > 1 and usual in rest:
        only = f"{database.quoted(name)} = {database.dialect.value(usual)}"
        alternatives.append(Alternative("only_usual", f"Only {things(table)} that are {usual} count", filter=only))
    shares = ", ".join(f"{value} {count:,}" for value, count in doubtful[:6])
    total = sum(count for _, count in doubtful)
    return FoundPoint(
        table.table.ref, DecisionKind.STATUS, (name,),
        f"Which {things(table)} count: those that are {are(doubted[:4])}, too?",
        tuple(alternatives),
        (
            f"{name} is one of these values in {in_rows(total, table)}: {shares}.",
            *((f"Amounts of {table.name} are summed: {', '.join(list(amounts)[:3])}.",) if amounts else ()),
        ),
        share_of(total, table.profile.rows),
    )  # fmt: skip
