"""Rows that are there more than once, and people of the company among its customers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import sqlglot
from sqlglot import exp

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.decisions.tables import (
    RARE,
    Ask,
    Asking,
    Database,
    capital,
    column_named,
    counts,
    email_column,
    is_lines,
    is_staff_table,
    name_column,
    of_kind,
    plain_words,
    share_of,
    things,
)
from ktx_cli.scan.measures.proposals import ProfiledTable
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.scan.relationships.names import concepts, key_base, tokens, word_set
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import Column, SemanticType

_NATURAL: Final = (
    ("email", "mail", "emailaddress"),
    ("external", "extern", "foreign", "crm", "source", "legacy", "erp", "salesforce", "sfdc", "hubspot", "stripe"),
    ("tax", "vat", "ust", "iban", "duns", "ssn", "ein", "siret", "siren", "nif", "nip", "steuernummer", "passport"),
)
"""Words of columns that name one thing in the world: addresses, numbers of other systems, registrations."""

_PARTS_OF_VALUES: Final = word_set("suffix prefix last last4 first masked hash type country status verified exempt")
"""Words of columns that have a part of such a value, or say something about it."""

_FREE_MAIL: Final = word_set(
    "gmail.com googlemail.com yahoo.com hotmail.com outlook.com live.com icloud.com me.com aol.com gmx.de gmx.net"
    " web.de t-online.de proton.me protonmail.com mail.com yandex.ru mail.ru qq.com 163.com orange.fr free.fr libero.it"
    " msn.com yahoo.de yahoo.fr yahoo.co.uk hotmail.co.uk freenet.de wanadoo.fr laposte.net wp.pl o2.pl interia.pl"
)

_DOMAIN: Final = re.compile(r"[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)+")

_MOST_DOMAINS: Final = 20

_FEWEST: Final = 3
"""So many repeated values are more than a slip."""


def repeated_rows(database: Database, table: ProfiledTable) -> Asking:
    """Yield columns that name one thing in the world, and have a few values more than once; else rows that do."""
    if is_lines(table):
        return
    for words in _NATURAL:
        for column in table.table.columns:
            profile = table.profiles.get(column.name)
            if profile is None or not _is_natural(table, column, words):
                continue
            repeated = profile.filled - (profile.distinct or 0)
            if profile.distinct is None or profile.filled < 20 or not 0.002 <= repeated / profile.filled <= RARE:
                continue
            chance = _by_chance(profile)
            if repeated < _FEWEST or abs(repeated - chance) <= 1 + 2 * chance**0.5:
                continue
            yield _repeated(database, table, (column.name,), repeated, profile.rows, f"{column.name} repeats")
            return
    named, compared = _named_and_placed(database, table), _compared(table)
    asked: list[exp.Expr] = []
    if named is not None:
        asked += [exp.Count(this=_together(named)), exp.Count(this=exp.Distinct(expressions=[_together(named)]))]
    if compared:
        select = exp.select(*map(column_named, compared)).distinct()
        asked.append(database.counter.number_of(table, select))
    if not asked:
        return
    answer = yield Ask(tuple(asked))
    numbers = [int(each or 0) for each in answer or ()]
    if named is not None and numbers:
        filled, different = numbers[:2]
        repeated = filled - different
        if filled >= 20 and repeated >= _FEWEST and 0.002 <= repeated / filled <= 0.2:
            known = _together(named).sql(dialect=database.dialect.name)
            what = f"{named[0]} and {named[1]} together repeat"
            yield _repeated(database, table, named, repeated, table.rows, what, known)
    if compared and numbers:
        repeated = table.rows - numbers[-1]
        if 0.002 <= repeated / table.rows <= RARE:
            yield _same_rows(database, table, compared, repeated)


def _by_chance(profile: ColumnProfile) -> float:
    """Return how many values would repeat in whole numbers that are drawn from their range, 0 for other values."""
    if profile.kind is not ValueKind.INTEGER or profile.minimum is None or profile.maximum is None:
        return 0.0
    values = float(profile.maximum - profile.minimum) + 1
    return profile.filled - values * (1 - (1 - 1 / values) ** profile.filled)


def _compared(table: ProfiledTable) -> tuple[str, ...]:
    """Return the columns in which rows that are there twice are equal: all but the key, where they say enough."""
    if len(table.key) != 1 or not table.times or table.rows > _MOST_COMPARED or not _has_figure(table):
        return ()
    marks = {"created", "updated", "modified", "loaded", "inserted", "synced"}
    columns = tuple(
        each.name
        for each in table.table.columns
        if each.name != table.key[0] and not plain_words(each.name) & marks
        and each.type in (SemanticType.NUMBER, SemanticType.TIME, SemanticType.STRING, SemanticType.BOOLEAN)
    )  # fmt: skip
    different = 1
    for name in columns:
        different = min(10**12, different * max(1, table.profiles[name].distinct or 1))
    return columns if len(columns) >= 3 and different >= 1_000 * table.rows else ()


def _same_rows(database: Database, table: ProfiledTable, columns: tuple[str, ...], repeated: int) -> FoundPoint:
    """Return the point of rows that are there twice under another key: equal in everything that happened."""
    text = [exp.func("COALESCE", exp.cast(column_named(name), "VARCHAR"), exp.Literal.string("")) for name in columns]
    whole: exp.Expr = text[0]
    for each in text[1:]:
        whole = exp.DPipe(this=exp.DPipe(this=whole, expression=exp.Literal.string("|")), expression=each)
    value = whole.sql(dialect=database.dialect.name)
    return FoundPoint(
        table.table.ref, DecisionKind.DUPLICATES, columns,
        f"Do {things(table)} count once that differ in {table.key[0]} alone?",
        (
            Alternative("rows", f"Each row counts, also where only {table.key[0]} differs"),
            Alternative(
                "distinct", f"Rows that differ in {table.key[0]} alone count once", expr=f"count(distinct {value})"
            ),
        ),
        (f"{repeated:,} of {table.rows:,} rows differ from another one in {table.key[0]} alone.",),
        share_of(repeated, table.rows),
    )  # fmt: skip


def _has_figure(table: ProfiledTable) -> bool:
    return any(each.type is SemanticType.NUMBER and each.name not in table.keys for each in table.table.columns)


_MOST_COMPARED: Final = 1_000_000
"""Tables with more rows are not searched for equal rows."""


def _is_natural(table: ProfiledTable, column: Column, words: tuple[str, ...]) -> bool:
    name = plain_words(column.name)
    if column.name in table.keys or not name & set(words) or name & _PARTS_OF_VALUES:
        return False
    if words is _NATURAL[0]:
        return not is_staff_table(table) and not name & word_set(
            "domain opt in status verified sent type template subject count"
        )
    base, is_key = key_base(tokens(column.name))
    is_number = is_key or bool(name & word_set("number no nr ref id code key iban duns ssn ein siret nif nip"))
    other = concepts(base) - concepts(table.words) if words is _NATURAL[1] else set()
    return is_number and not (other - {"supplier"}) and not any(name & set(each) for each in (("rate", "amount"),))


def _named_and_placed(database: Database, table: ProfiledTable) -> tuple[str, str] | None:
    """Return the column of names of people and companies, and one of where they live or when they were born."""
    is_counted = of_kind(table, "customer", "organization", "person", "supplier")
    if not is_counted or not database.children.get(table.table.ref):
        return None
    name = name_column(table)
    where = next(
        (
            column.name
            for column in table.table.columns
            if plain_words(column.name) & word_set("zip postal postcode plz address street adresse strasse birth")
            and (profile := table.profiles.get(column.name)) is not None
            and (profile.distinct or 0) > 10
        ),
        None,
    )
    return None if name is None or where is None else (name, where)


def _together(columns: tuple[str, str]) -> exp.Expr:
    name, where = (
        exp.cast(part, "VARCHAR") for part in (exp.func("LOWER", column_named(columns[0])), column_named(columns[1]))
    )
    return exp.DPipe(this=exp.DPipe(this=name, expression=exp.Literal.string("|")), expression=where)


def _repeated(
    database: Database, table: ProfiledTable, columns: tuple[str, ...], count: int, rows: int, what: str,
    known: str | None = None,
) -> FoundPoint:  # fmt: skip
    value = known or f"lower({database.quoted(columns[0])})"
    if known is None and table.profiles[columns[0]].kind is not ValueKind.TEXT:
        value = database.quoted(columns[0])
    label = " and ".join(columns)
    return FoundPoint(
        table.table.ref, DecisionKind.DUPLICATES, columns,
        f"Do {things(table)} with the same {label} count once?",
        (
            Alternative("rows", f"Each row counts, also where {label} repeats"),
            Alternative("distinct", f"Rows with the same {label} count once", expr=f"count(distinct {value})"),
        ),
        (f"{what} in {count:,} of {rows:,} rows.",), share_of(count, rows),
    )  # fmt: skip


def company_domain(database: Database, internal: Iterable[FoundPoint]) -> tuple[str, str] | None:
    """Return the mail domain of the company itself, and whose it is: of its employees, else of internal rows."""
    for table in database.tables.values():
        if table.table.ref in database.copies or not is_staff_table(table) or (column := email_column(table)) is None:
            continue
        best = _own_domain(database, table, column, None)
        if best is not None:
            return best, f"most rows of {table.name}"
    for point in internal:
        table = database.tables[point.table]
        condition = point.alternatives[-1].filter
        if (column := email_column(table)) is None or condition is None or point.columns == (column,):
            continue
        best = _own_domain(database, table, column, f"NOT ({condition})")
        if best is not None:
            return best, f"most rows of {table.name} by {point.columns[0]}"
    return None


def _own_domain(database: Database, table: ProfiledTable, column: str, where: str | None) -> str | None:
    domains = _domains(database, table, column, where)
    best = max(domains.items(), key=lambda each: each[1], default=("", 0))
    return best[0] if best[1] >= 3 and best[1] >= 0.5 * sum(domains.values()) else None


def _domains(database: Database, table: ProfiledTable, column: str, where: str | None) -> dict[str, int]:
    """Return domain -> rows of the most frequent domains of companies; those of a single row are not read."""
    value = column_named(column)
    start = exp.Add(this=exp.StrPosition(this=value, substr=exp.Literal.string("@")), expression=exp.Literal.number(1))
    domain = exp.func("LOWER", exp.Substring(this=value.copy(), start=start))
    count = exp.Count(this=exp.Star())
    select = exp.select(exp.alias_(domain, "domain"), exp.alias_(count, "rows_of_it"))
    select = select.where(exp.Like(this=value.copy(), expression=exp.Literal.string("%_@_%")))
    if where is not None:
        select = select.where(sqlglot.parse_one(where, dialect=database.dialect.name))
    select = select.group_by(domain.copy()).having(exp.GTE(this=count.copy(), expression=exp.Literal.number(2)))
    select = select.order_by(exp.Ordered(this=count.copy(), desc=True))
    rows = database.counter.rows(table, select, _MOST_DOMAINS) or ()
    found = {str(name): int(number) for name, number in rows if name}
    return {name: number for name, number in found.items() if _DOMAIN.fullmatch(name) and name not in _FREE_MAIL}


def staff_rows(database: Database, table: ProfiledTable, domain: str, whose: str) -> Asking:
    """Yield people outside the staff whose mail addresses are of the company's own domain."""
    column = email_column(table)
    if column is None or is_staff_table(table):
        return
    pattern = exp.Literal.string(f"%@{domain}")
    counted = yield counts(exp.Like(this=exp.func("LOWER", column_named(column)), expression=pattern))
    if counted is None or not 0 < counted[0] <= RARE * table.rows:
        return
    quoted = database.quoted(column)
    shown = f"addresses of {domain}"
    yield FoundPoint(
        table.table.ref, DecisionKind.STAFF, (column,),
        f"Do {things(table)} with {shown} count, the company's own domain?",
        (
            Alternative("count", f"{capital(things(table))} with {shown} count"),
            Alternative(
                "exclude", f"{capital(things(table))} with {shown} do not count",
                filter=f"({quoted} IS NULL OR lower({quoted}) NOT LIKE '%@{domain}')",
            ),
        ),
        (
            f"{column} is of {domain} in {counted[0]:,} of {table.rows:,} rows.",
            f"{domain} is the domain of {whose}.",
        ),
        share_of(counted[0], table.rows),
    )  # fmt: skip
