"""Detectors that find rows that may not count: test rows, the company's own rows, and deleted rows.

Each detector reads one table of a database, and yields points with the condition of every reading as SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import sqlglot
from sqlglot import exp

from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.decisions.statuses import NOT_COUNTED, STATES_OF_RECORDS, STATUS
from ktx_cli.scan.decisions.tables import (
    RARE,
    Asking,
    Database,
    Flag,
    capital,
    column_named,
    counts,
    email_column,
    excluded,
    in_rows,
    is_lines,
    is_staff_table,
    is_time,
    meaning,
    name_column,
    of_kind,
    plain_words,
    share_of,
    things,
)
from ktx_cli.scan.measures.proposals import ProfiledTable
from ktx_cli.scan.relationships.names import tokens, word_set
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import Column

_INTERNAL: Final = {
    **dict.fromkeys(("test", "tests", "testing", "tester", "prueba", "essai", "teste", "prova", "testowy"), "test"),
    **dict.fromkeys(("internal", "intern", "interno", "interna", "interne", "internes", "wewnetrzny"), "internal"),
    **dict.fromkeys(("demo", "demos"), "demo"),
    **dict.fromkeys(("staff", "employee", "employees", "mitarbeiter", "empleado", "employe"), "staff"),
    **dict.fromkeys(("intercompany", "intragroup"), "intercompany"),
    **dict.fromkeys(("bot", "robot", "crawler"), "bot"),
    **dict.fromkeys(("complimentary", "gratis", "free", "charge", "freigestellt"), "complimentary"),
    **dict.fromkeys(("qa", "uat", "e2e"), "test"),
    **{word: word for word in ("own", "monitoring", "sandbox", "dummy", "fake", "sample", "synthetic", "mock")},
    "placeholder": "placeholder",
}
"""Words for flags and types of rows that are not real business -> the name for these rows."""

_TRIALS: Final = word_set("trial trials probe prueba essai")
"""Words for contracts without revenue."""

_CONTRACTS: Final = word_set(
    "subscription subscriptions contract contracts membership memberships license licenses abo abos vertrag vertraege"
)
_NO_PRODUCTION: Final = word_set("test testing sandbox staging stage uat preprod dev development e2e qa")
"""Values for environments that are not production."""

_PRODUCTION: Final = word_set("prod production live produktion produccion produzione")
"""Values that show that a column states the environment, whatever its name."""

_ENVIRONMENTS: Final = word_set("environment env realm system stack instance mode umgebung deployment")
_NETWORKS: Final = word_set("office vpn corporate intranet headquarters hq buero")
"""The company's own networks."""

_VISITS: Final = word_set("visit visits session sessions pageview pageviews hit hits traffic view views")
_REAL: Final = {
    **dict.fromkeys(("real", "genuine", "external", "extern", "authentic", "organic"), "internal"),
    **dict.fromkeys(("live", "livemode", "production", "prod"), "test"),
    **dict.fromkeys(("human",), "automated"),
    **dict.fromkeys(("paying", "paid"), "non-paying"),
    **dict.fromkeys(("billable", "chargeable"), "non-billable"),
}
"""Words for flags that are false for rows that are not real business -> the name for these rows."""

_OF_CONTRACTS: Final = frozenset({"non-paying", "non-billable"})
_SURELY: Final = word_set("verified confirmed really plan")
"""Words that add no meaning to the name of such a flag: `verified_human`."""

_DELETED: Final = word_set(
    "deleted delete deletion del removed archived archive softdeleted softdelete retired withdrawn discontinued purged"
    " erased geloescht loeschung loeschkennzeichen loekz loevm eliminado borrado supprime eliminato excluido verwijderd"
    " usuniety fivetrandeleted"
)
_ABOUT_DELETION: Final = word_set(
    "soft date at on day time ts dt datetime timestamp marker mark status fivetran sdc am"
)
_DELETED_VALUES: Final = _DELETED | word_set("gone d del x inactive ex")
_NO_MORE: Final = word_set(
    "closed deactivated terminated disabled left revoked delisted suspended blocked churned resigned exited gekuendigt"
    " deaktiviert cerrado desactivado ferme desactive chiuso gesloten"
)
"""Words for times at which a thing or a person left the company."""

_ENDED_VALUES: Final = word_set(
    "inactive deactivated discontinued terminated churned disabled obsolete deleted archived dormant revoked delisted"
    " closed suspended left former retired withdrawn lapsed phased_out end_of_life end_of_sale eol inaktiv inactivo"
    " inactif inattivo inactief"
)
_SURELY_ENDED: Final = word_set(
    "inactive deactivated discontinued terminated churned disabled obsolete deleted archived"
)
"""Values that always mean this, whatever the column's name."""

_STATES: Final = STATUS | word_set("availability lifecycle verfuegbarkeit")
_IN_USE: Final = word_set("active enabled current alive operational aktiv actif activo attivo actief aktywny")
"""Words for flags that are false for rows that are no longer in use."""

_SOLD: Final = word_set("sellable listed purchasable orderable sold")
"""Words for flags that are false for products that are no longer sold."""

_FREE_MAIL: Final = word_set(
    "gmail.com googlemail.com yahoo.com hotmail.com outlook.com live.com icloud.com me.com aol.com gmx.de gmx.net"
    " web.de t-online.de proton.me protonmail.com mail.com yandex.ru mail.ru qq.com 163.com orange.fr free.fr libero.it"
    " msn.com yahoo.de yahoo.fr yahoo.co.uk hotmail.co.uk freenet.de wanadoo.fr laposte.net wp.pl o2.pl interia.pl"
)

_DOMAIN: Final = re.compile(r"[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)+")

_MOST_DOMAINS: Final = 20

_TYPES: Final = word_set(
    "type kind category class segment tier art typ tipo categorie kategorie classification origin purpose zweck"
)
_MEETINGS: Final = word_set(
    "activity activities event events meeting meetings call calls task tasks appointment appointments visit visits"
    " interaction interactions touchpoint touchpoints lead opportunity opportunities campaign campaigns product"
    " products"
)
"""Words for tables in which the types `demo` and `sample` are real business."""


def internal_rows(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield flags for test, demo and internal rows, and types and environments with such values."""
    for column in table.table.columns:
        flag = None if column.name in table.keys else database.flag(table, column)
        if flag is None:
            continue
        words = tuple(word for word in meaning(table, column.name) if word != "of")
        leads = plain_words(column.name) & {"has", "had", "did", "can", "wants"}
        if not words or leads or words in (("free",), ("own",), ("charge",)):
            continue
        is_contract = bool(_CONTRACTS & set(table.words[-1:]))
        is_none = all(word in _INTERNAL or word == "from" for word in words)
        if is_none or (is_contract and set(words) <= _TRIALS):
            word = next((_INTERNAL[each] for each in words if each in _INTERNAL), words[0])
            yield from _flagged(database, table, column, flag, word)
        meant = [word for word in words if word not in _SURELY]
        if meant and all(word in _REAL for word in meant):
            word = _REAL[meant[0]]
            if word not in _OF_CONTRACTS or is_contract or of_kind(table, "customer", "organization", "account"):
                yield from _unflagged(database, table, column, flag, DecisionKind.INTERNAL, word)
    yield from _internal_values(database, table)


def _flagged(database: Database, table: ProfiledTable, column: Column, flag: Flag, word: str) -> Iterator[FoundPoint]:
    if 0 < flag.yes <= RARE * flag.rows:
        yield excluded(
            table, DecisionKind.INTERNAL, column.name, word, flag.is_not_true,
            f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
        )  # fmt: skip


def _unflagged(
    database: Database, table: ProfiledTable, column: Column, flag: Flag, kind: DecisionKind, word: str
) -> Iterator[FoundPoint]:
    """Yield the point for a flag that is false for rows that may not count."""
    if 0 < flag.no <= RARE * flag.rows:
        yield excluded(
            table, kind, column.name, word, f"({flag.is_true} OR {database.quoted(column.name)} IS NULL)",
            f"{column.name} is false in {in_rows(flag.no, table)}.", flag.no / flag.rows,
        )  # fmt: skip


def _internal_values(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield types, environments and networks with a value for rows that are not real business."""
    if is_staff_table(table):
        return
    for column in table.table.columns:
        if column.name in table.keys:
            continue
        named, values = plain_words(column.name), database.values(table, column)
        if any(_PRODUCTION & set(tokens(value)) for value, _ in values):
            named |= {"environment"}
        if not named & (_TYPES | _ENVIRONMENTS) and not set(table.words) & _VISITS:
            continue  # No value shows it.
        found = [
            (value, count, word)
            for value, count in values
            if (word := _internal_value(table, named, value)) is not None
        ]
        rows = table.profile.rows
        total = sum(count for _, count, _ in found)
        if found and 0 < total <= RARE * rows:
            listed = " or ".join(value for value, _, _ in found)
            yield excluded(
                table, DecisionKind.INTERNAL, column.name, found[0][2],
                database.is_none_of(column.name, [value for value, _, _ in found]),
                f"{column.name} is {listed} in {in_rows(total, table)}.", total / rows,
            )  # fmt: skip


def _internal_value(table: ProfiledTable, named: frozenset[str], value: str) -> str | None:
    """Return the name for rows with a value that shows that they are not real business, or None for other values."""
    words = [word for word in tokens(value) if word not in _ANY_THING]
    if not words:
        return None
    if named & _ENVIRONMENTS and all(word in _NO_PRODUCTION for word in words):
        return "test"
    if set(table.words) & _VISITS and all(word in _NETWORKS for word in words):
        return "internal"
    if not named & (_TYPES | _ENVIRONMENTS) or not all(word in _INTERNAL or word in _TRIALS for word in words):
        return None
    word = _INTERNAL.get(words[0], words[0])
    is_in_earnest = bool(set(table.words) & _MEETINGS) and word in ("demo", "sample", "own")
    return None if word == "complimentary" or is_in_earnest else word


_ANY_THING: Final = word_set(
    "account accounts customer customers user users order orders company use only data record type client"
)
_TEST_WORDS: Final = {
    **{
        word: (word, f"{word} %", f"% {word}", f"% {word} %", f"%({word})%")
        for word in ("test", "testing", "qa", "e2e", "sandbox")
    },
    "demo": ("demo %", "% demo", "%(demo)%"),
    "internal": ("% internal", "%(internal)%"),
    "dummy": ("%dummy%",),
    "do not use": ("%do not use%",),
}
"""Words in the names of test customers -> patterns that match these names."""

_TEST_BOXES: Final = ("test", "qa", "demo", "dummy", "e2e")
"""Prefixes of test email addresses."""

_AFTER_BOX: Final = ("@", "+", ".", "-", "_", *map(str, range(10)))
_TEST_DOMAINS: Final = ("%@test.%", "%@example.com", "%@example.org", "%@mailinator.com")
_FEWEST: Final = 3
_MOST_TESTS: Final = 0.1
"""The maximum share of rows that are tests."""


def test_rows(database: Database, table: ProfiledTable, marked: Iterable[FoundPoint]) -> Asking:
    """Yield test rows recognized by name or address that no flag marks."""
    own = [each for each in marked if each.table == table.table.ref]
    if is_lines(table) or is_staff_table(table) or any("Do test " in each.question for each in own):
        return
    filters = [each.filter for point in own for each in point.alternatives if each.filter is not None]
    unmarked = [exp.condition(sqlglot.parse_one(each, dialect=database.dialect.name)) for each in filters]
    is_counted = of_kind(table, "customer", "organization", "person") and bool(database.children.get(table.table.ref))
    asked: list[tuple[str, list[exp.Expr]]] = []
    for column, signs in (
        (name_column(table) if is_counted else None, _named_as_tests),
        (email_column(table), _addressed_as_tests),
    ):
        if column is not None:
            conditions = signs(exp.func("LOWER", column_named(column)))
            asked.append((column, [exp.or_(*(each.copy() for each in conditions)), *conditions]))
    if not asked:
        return
    answer = yield counts(*(exp.and_(each, *unmarked) for _, conditions in asked for each in conditions))
    numbers = [int(each or 0) for each in answer or ()]
    for column, (_, *conditions) in asked if numbers else ():
        total, *each_count = numbers[: len(conditions) + 1]
        numbers = numbers[len(conditions) + 1 :]
        if not _FEWEST <= total <= _MOST_TESTS * table.rows:
            continue
        found = [each.copy() for each, count in zip(conditions, each_count, strict=True) if count]
        sql = exp.or_(*found).sql(dialect=database.dialect.name)
        yield excluded(
            table, DecisionKind.INTERNAL, column, "test", f"({database.quoted(column)} IS NULL OR NOT ({sql}))",
            f"{column} names a test in {total:,} of {table.rows:,} rows.", total / table.rows,
        )  # fmt: skip
        return


def _is_like(text: exp.Expr, pattern: str) -> exp.Expr:
    return exp.Like(this=text.copy(), expression=exp.Literal.string(pattern))


def _named_as_tests(text: exp.Expr) -> list[exp.Expr]:
    return [exp.or_(*(_is_like(text, each) for each in patterns)) for patterns in _TEST_WORDS.values()]


def _addressed_as_tests(text: exp.Expr) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for word in _TEST_BOXES:
        after = exp.Substring(this=text.copy(), start=exp.Literal.number(len(word) + 1), length=exp.Literal.number(1))
        ends = exp.In(this=after, expressions=[exp.Literal.string(each) for each in _AFTER_BOX])
        found.append(exp.and_(_is_like(text, f"{word}%"), ends))
    return [*found, *(_is_like(text, each) for each in _TEST_DOMAINS)]


def deleted_rows(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield marks of deleted, archived and inactive rows: mostly empty times, flags and states."""
    is_thing = is_kept(database, table)
    for column in table.table.columns:
        if column.name in table.keys:
            continue
        profile, flag = table.profiles.get(column.name), database.flag(table, column)
        words = frozenset(meaning(table, column.name))
        says = bool(words & _DELETED) and not words - _DELETED - _ABOUT_DELETION
        ceased = is_thing and bool(words & _NO_MORE) and not words - _NO_MORE - _ABOUT_DELETION
        ceased = ceased or (is_thing and {"end", "of", "life"} <= words)
        word = "archived" if {"archived", "archive"} & words else "deleted" if says else "closed"
        word = next((each for each in ("discontinued", "withdrawn", "retired") if each in words), word)
        if flag is not None:
            most = 0.5 if says else RARE
            if (says or ceased) and flag.yes and (flag.no or flag.nulls) and flag.yes <= most * flag.rows:
                yield excluded(
                    table, DecisionKind.DELETED, column.name, word, flag.is_not_true,
                    f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
                )  # fmt: skip
            in_use = words - {"in", "use", "used", "for", "sale"} <= _IN_USE | (_SOLD if is_product(table) else set())
            is_named = words & (_IN_USE | _SOLD) or words in ({"in", "use"}, {"for", "sale"})
            if is_named and in_use and not table.has_periods:
                yield from _unflagged(database, table, column, flag, DecisionKind.DELETED, "inactive")
        elif profile is not None and (says or ceased) and is_time(table, column, profile):
            if 0 < profile.filled <= 0.5 * profile.rows:
                yield excluded(
                    table, DecisionKind.DELETED, column.name, word, f"{database.quoted(column.name)} IS NULL",
                    f"{column.name} is set in {in_rows(profile.filled, table)}.", profile.filled / profile.rows,
                )  # fmt: skip
        else:
            yield from _deleted_states(database, table, column, is_thing)


def is_product(table: ProfiledTable) -> bool:
    """Return whether the rows of a table are products."""
    return of_kind(table, "product")


def is_kept(database: Database, table: ProfiledTable) -> bool:
    """Return whether the rows of a table are things or people that the company has for a time, rather than events."""
    if of_kind(table, "customer", "organization", "person", "product", "account", "supplier", "store"):
        return not table.happens or (bool(database.children.get(table.table.ref)) and not database.amounts(table))
    return email_column(table) is not None and bool(database.children.get(table.table.ref))


def _deleted_states(database: Database, table: ProfiledTable, column: Column, is_thing: bool) -> Iterator[FoundPoint]:
    """Yield a column such as `record_state` with a value that marks a row as deleted or no longer in use."""
    words = plain_words(column.name)
    of_records = bool(words & STATES_OF_RECORDS) and bool(words & (STATUS | {"lifecycle", "flag", "marker"}))
    values = database.values(table, column)
    if len(values) > (4 if of_records else 12) or (not words & _STATES and not is_thing):
        return
    known = _DELETED_VALUES if of_records else _DELETED & word_set("deleted archived removed")
    if is_thing:
        known = known | (_ENDED_VALUES if words & _STATES else _SURELY_ENDED)
    spelled = {value: tokens(value) for value, _ in values}
    found = [
        (value, count)
        for value, count in values
        if spelled[value] and (set(spelled[value]) <= known or "_".join(spelled[value]) in known)
    ]
    total, rows = sum(count for _, count in found), table.profile.rows
    others = ("_".join(each) for each in spelled.values())
    is_about_outcomes = not (of_records or is_thing) and any(each in NOT_COUNTED - known for each in others)
    if found and not is_about_outcomes and 0 < total <= 0.5 * rows:
        listed = " or ".join(value for value, _ in found)
        says_deleted = all(set(spelled[value]) <= _DELETED_VALUES - {"inactive"} for value, _ in found)
        yield excluded(
            table, DecisionKind.DELETED, column.name, "deleted" if says_deleted else found[0][0],
            database.is_none_of(column.name, [value for value, _ in found]),
            f"{column.name} is {listed} in {in_rows(total, table)}.", total / rows,
        )  # fmt: skip


def company_domain(database: Database, internal: Iterable[FoundPoint]) -> tuple[str, str] | None:
    """Return the company's own email domain, and whether it comes from employees or from internal rows."""
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
    """Return domain -> rows for the most frequent company domains; domains with a single row are not read."""
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
    """Yield people who are not employees but have email addresses in the company's own domain."""
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
        f"Do {things(table)} with {shown} (the company's own domain) count?",
        (
            Alternative("count", f"{capital(things(table))} with {shown} count"),
            Alternative(
                "exclude", f"{capital(things(table))} with {shown} do not count",
                filter=f"({quoted} IS NULL OR lower({quoted}) NOT LIKE '%@{domain}')",
            ),
        ),
        (
            f"{column} has the domain {domain} in {counted[0]:,} of {table.rows:,} rows.",
            f"{domain} is the domain of {whose}.",
        ),
        share_of(counted[0], table.rows),
    )  # fmt: skip
