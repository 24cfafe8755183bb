"""Which rows count: detectors of rows of tests, deleted, merged and repeated rows, staff, statuses and parents.

Each looks at one table of a database, and yields points with the condition of every reading as SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import sqlglot
from sqlglot import exp

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.decisions.tables import (
    Database,
    Flag,
    in_rows,
    is_lines,
    meaning,
    of_kind,
    plain_words,
    thing,
    things,
)
from ktx_cli.scan.measures.proposals import ProfiledTable
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.scan.relationships.names import concepts, key_base, stem, tokens, word_set
from ktx_cli.scan.relationships.record import Cardinality, Relationship
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import Column, SemanticType, allowed_values

RARE: Final = 0.3
"""The largest share of rows that are an exception: more, and the column tells two kinds of rows apart."""

_INTERNAL: Final = {
    **dict.fromkeys(("test", "tests", "testing", "tester", "prueba", "essai", "teste", "prova", "testowy"), "test"),
    **dict.fromkeys(("internal", "intern", "interno", "interna", "interne", "internes", "wewnetrzny"), "internal"),
    **dict.fromkeys(("demo", "demos"), "demo"),
    **dict.fromkeys(("staff", "employee", "employees", "mitarbeiter", "empleado", "employe"), "staff"),
    **dict.fromkeys(("intercompany", "intragroup"), "intercompany"),
    **dict.fromkeys(("bot", "robot", "crawler"), "bot"),
    **{word: word for word in ("sandbox", "dummy", "fake", "sample", "qa", "synthetic", "mock", "placeholder")},
}
"""Words of flags and types of rows that are no business -> the word for it."""

_REAL: Final = word_set("real livemode production prod genuine external extern")
"""Words of flags that are false for such rows."""

_DELETED: Final = word_set(
    "deleted delete deletion del removed archived archive softdeleted softdelete geloescht loeschung loeschkennzeichen"
    " loekz loevm eliminado borrado supprime eliminato excluido verwijderd usuniety fivetrandeleted"
)
_ABOUT_DELETION: Final = word_set("soft date at on time ts dt datetime timestamp marker mark status fivetran sdc am")
_MERGED: Final = word_set(
    "merged merge canonical duplicate dup dupe survivor surviving golden superseded master zusammengefuehrt fusionne"
    " fusionado unificado dublette deduped"
)
_MERGED_IF_SELF: Final = word_set("replaced main primary principal haupt winner winning original into root")
_PARENTS: Final = word_set(
    "parent group holding ultimate hq headquarter headquarters corporate umbrella konzern mutter muttergesellschaft"
    " matriz maison mere moeder padre household haushalt top global"
)
_GROUPS: Final = word_set(
    "household haushalt holding group konzern organization organisation org parent corporate enterprise family"
)
_TYPES: Final = word_set(
    "type kind category class segment tier art typ tipo categorie kategorie classification mode environment env origin"
)
_MEETINGS: Final = word_set(
    "activity activities event events meeting meetings call calls task tasks appointment appointments visit visits"
    " interaction interactions touchpoint touchpoints lead opportunity opportunities campaign campaigns product"
    " products"
)
"""Words of tables whose rows may be of the type `demo` or `sample` in earnest."""

_STATUS: Final = word_set("status state stage outcome result statut zustand estado stato condition state_code phase")
_ENDED_BADLY: Final = word_set(
    "cancelled canceled cancel void voided failed failure declined rejected abandoned error reversed draft deleted test"
    " storniert abgebrochen entwurf annule annulee annulled cancelado cancelada anulado anulada borrador brouillon"
    " annullato bozza geannuleerd concept anulowane uncollectible denied invalid duplicate incomplete bounced expired"
    " written_off"
)
"""Statuses of rows that came to nothing."""

_NOT_COUNTED: Final = _ENDED_BADLY | word_set(
    "pending refunded returned chargeback pendiente in_attesa ausstehend trialing trial past_due on_hold storno"
    " erstattet retourniert rembourse reembolsado"
)
"""Statuses of rows that many leave out of a figure: also those that are on their way, or were taken back."""

_RECURRING: Final = word_set("mrr arr acv tcv recurring")
_NATURAL: Final = (
    ("email", "mail", "emailaddress"),
    ("external", "extern", "foreign", "crm", "source", "legacy", "erp", "salesforce", "sfdc", "hubspot", "stripe"),
    ("tax", "vat", "ust", "iban", "duns", "ssn", "ein", "siret", "siren", "nif", "nip", "steuernummer", "passport"),
)
"""Words of columns that name one thing in the world: addresses, numbers of other systems, registrations."""

_FREE_MAIL: Final = word_set(
    "gmail.com googlemail.com yahoo.com hotmail.com outlook.com live.com icloud.com me.com aol.com gmx.de gmx.net"
    " web.de t-online.de proton.me protonmail.com mail.com yandex.ru mail.ru qq.com 163.com orange.fr free.fr libero.it"
    " msn.com yahoo.de yahoo.fr yahoo.co.uk hotmail.co.uk freenet.de wanadoo.fr laposte.net wp.pl o2.pl interia.pl"
)
_DOMAIN: Final = re.compile(r"[a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)+")
_MOST_DOMAINS: Final = 20
_VALUE: Final = re.compile(r"[\w ./()-]{1,40}")

Detector = Callable[[Database, ProfiledTable], Iterable[FoundPoint]]


def internal_rows(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield flags of test, demo and internal rows, types with such a value, and names of accounts that say `test`."""
    flags: list[Flag] = []
    marks_tests = False
    for column in table.table.columns:
        flag = None if column.name in table.keys else database.flag(table, column)
        if flag is None:
            continue
        words = meaning(table, column.name)
        leads = plain_words(column.name) & {"has", "had", "did", "can", "wants"}
        if not words or leads:
            continue
        if all(word in _INTERNAL for word in words) and 0 < flag.yes <= RARE * flag.rows:
            flags.append(flag)
            marks_tests = marks_tests or _INTERNAL[words[0]] in ("test", "dummy", "fake")
            yield _excluded(
                table, DecisionKind.INTERNAL, column.name, _INTERNAL[words[0]], flag.is_not_true,
                f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
            )  # fmt: skip
        elif all(word in _REAL for word in words) and 0 < flag.no <= RARE * flag.rows:
            flags.append(flag)
            is_real = f"({flag.is_true} OR {database.quoted(column.name)} IS NULL)"
            yield _excluded(
                table, DecisionKind.INTERNAL, column.name, "internal", is_real,
                f"{column.name} is false in {in_rows(flag.no, table)}.", flag.no / flag.rows,
            )  # fmt: skip
    yield from _internal_types(database, table)
    if not marks_tests:
        yield from _test_names(database, table, flags)


def _internal_types(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    meets = bool(set(table.words) & _MEETINGS)
    for column in table.table.columns:
        if column.name in table.keys or not plain_words(column.name) & _TYPES:
            continue
        found = []
        for value, count in _values(database, table, column):
            words = [word for word in tokens(value) if word not in _ANY_THING]
            known = bool(words) and all(word in _INTERNAL for word in words)
            if known and not (meets and _INTERNAL[words[0]] in ("demo", "sample", "test")):
                found.append((value, count, _INTERNAL[words[0]]))
        rows = table.profile.rows
        total = sum(count for _, count, _ in found)
        if found and 0 < total <= RARE * rows:
            listed = " or ".join(value for value, _, _ in found)
            yield _excluded(
                table, DecisionKind.INTERNAL, column.name, found[0][2],
                _is_none_of(database, column.name, [value for value, _, _ in found]),
                f"{column.name} is {listed} in {in_rows(total, table)}.", total / rows,
            )  # fmt: skip


_ANY_THING: Final = word_set(
    "account accounts customer customers user users order orders company use only data record type client"
)
_TEST_NAME: Final = ("test", "test %", "% test", "%(test)%", "%test account%", "%dummy%", "%do not use%", "demo %")


def _test_names(database: Database, table: ProfiledTable, flags: list[Flag]) -> Iterator[FoundPoint]:
    """Yield rows of customers, people and companies whose names say that they are tests, and that no flag marks."""
    is_counted = of_kind(table, "customer", "organization", "person") and not is_lines(table)
    column = _name_column(table)
    if column is None or not is_counted or not database.children.get(table.table.ref) or _is_staff_table(table):
        return
    name = exp.func("LOWER", _column(database, column))
    says = exp.or_(*(exp.Like(this=name.copy(), expression=exp.Literal.string(each)) for each in _TEST_NAME))
    unmarked = [exp.condition(sqlglot.parse_one(each.is_not_true, dialect=database.dialect.name)) for each in flags]
    counted = database.counter(table, [exp.and_(says, *unmarked)])
    if counted is None or not 3 <= counted[0] <= 0.1 * table.rows:
        return
    quoted = f"lower({database.quoted(column)})"
    no_test = " AND ".join(f"{quoted} NOT LIKE '{each}'" for each in _TEST_NAME)
    yield _excluded(
        table, DecisionKind.INTERNAL, column, "test", f"({quoted} IS NULL OR ({no_test}))",
        f"{column} says that it is a test in {counted[0]:,} of {table.rows:,} rows.", counted[0] / table.rows,
    )  # fmt: skip


def _name_column(table: ProfiledTable) -> str | None:
    own = {*map(stem, table.words), "full", "display", "company", "account", "customer", "legal"}
    for column in table.table.columns:
        profile = table.profiles.get(column.name)
        rest = [word for word in table.parts[column.name] if stem(word) not in own]
        if rest == ["name"] and profile is not None and profile.kind is ValueKind.TEXT:
            return column.name
    return None


def deleted_rows(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield marks of deleted and archived rows: times that are mostly NULL, and flags that are mostly false."""
    for column in table.table.columns:
        words = meaning(table, column.name)
        if not set(words) & _DELETED or set(words) - _DELETED - _ABOUT_DELETION or column.name in table.keys:
            continue
        profile, flag = table.profiles.get(column.name), database.flag(table, column)
        word = "archived" if {"archived", "archive"} & set(words) else "deleted"
        if flag is not None and flag.yes and (flag.no or flag.nulls):
            if flag.yes <= 0.5 * flag.rows:
                yield _excluded(
                    table, DecisionKind.DELETED, column.name, word, flag.is_not_true,
                    f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
                )  # fmt: skip
        elif profile is not None and _is_time(table, column, profile) and 0 < profile.filled <= 0.5 * profile.rows:
            yield _excluded(
                table, DecisionKind.DELETED, column.name, word, f"{database.quoted(column.name)} IS NULL",
                f"{column.name} is set in {in_rows(profile.filled, table)}.", profile.filled / profile.rows,
            )  # fmt: skip


def _is_time(table: ProfiledTable, column: Column, profile: ColumnProfile) -> bool:
    return column.type is SemanticType.TIME or column.name in table.times or profile.kind is ValueKind.TIME


def merged_rows(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield references of rows to the row of the same table that they were merged into, and flags of such rows."""
    key = table.key[0] if len(table.key) == 1 else None
    to_itself = {each.child_columns[0] for each in self_references(table)}
    found = False
    for column in table.table.columns:
        profile = table.profiles.get(column.name)
        words = plain_words(column.name)
        if profile is None or not profile.rows or not profile.filled or column.name == key:
            continue
        flag = database.flag(table, column)
        if flag is not None:
            if set(meaning(table, column.name)) & _MERGED and 0 < flag.yes <= RARE * flag.rows:
                kind = DecisionKind.MERGED if words & {"merged", "merge"} else DecisionKind.DUPLICATES
                adjective = "merged" if kind is DecisionKind.MERGED else "duplicate"
                yield _excluded(
                    table, kind, column.name, adjective, flag.is_not_true,
                    f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
                )  # fmt: skip
            continue
        is_reference = column.name in to_itself or (bool(words & _MERGED) and _is_of_key(table, key, profile))
        says = bool(words & _MERGED) or (column.name in to_itself and bool(words & _MERGED_IF_SELF))
        if _is_time(table, column, profile) and words & {"merged", "merge"} and not found:
            is_reference, says = True, profile.filled <= 0.5 * profile.rows
        if not (says and is_reference) or key is None:
            continue
        quoted, own = database.quoted(column.name), database.quoted(key)
        if profile.nulls >= 0.4 * profile.rows:
            count, condition = profile.filled, f"{quoted} IS NULL"
        elif not _is_time(table, column, profile) and (profile.distinct or 0) < profile.filled:
            count, condition = profile.filled - (profile.distinct or 0), f"coalesce({quoted}, {own}) = {own}"
        else:
            continue
        if count > 0.5 * profile.rows:
            continue
        found = True
        yield _excluded(
            table, DecisionKind.MERGED, column.name, "merged", condition,
            f"{column.name} refers to another row of {table.name} in {in_rows(count, table)}.", count / profile.rows,
        )  # fmt: skip


def self_references(table: ProfiledTable) -> list[Relationship]:
    """Return the references of a table to itself, by one column."""
    return [each for each in table.references if each.parent == each.child and len(each.child_columns) == 1]


def _is_of_key(table: ProfiledTable, key: str | None, profile: ColumnProfile) -> bool:
    known = table.profiles.get(key or "")
    return known is not None and known.kind is profile.kind


def repeated_rows(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield columns that name one thing in the world, and have a few values more than once."""
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
            yield _repeated(database, table, (column.name,), repeated, profile.rows, f"{column.name} repeats")
            return
    yield from _repeated_names(database, table)


def _is_natural(table: ProfiledTable, column: Column, words: tuple[str, ...]) -> bool:
    name = plain_words(column.name)
    if column.name in table.keys or not name & set(words):
        return False
    if words is _NATURAL[0]:
        person = of_kind(table, "person", "customer", "organization", "student", "supplier")
        return person and not name & word_set("domain opt in status verified sent type template subject count")
    base, is_key = key_base(tokens(column.name))
    is_number = is_key or bool(name & word_set("number no nr ref id code key iban duns ssn ein siret nif nip"))
    other = concepts(base) - concepts(table.words) if words is _NATURAL[1] else set()
    return is_number and not (other - {"supplier"}) and not any(name & set(each) for each in (("rate", "amount"),))


def _repeated_names(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield names of people and companies that repeat together with an address or a birth date."""
    if not of_kind(table, "customer", "organization", "person", "supplier") or not database.children.get(
        table.table.ref
    ):
        return
    name = _name_column(table)
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
    if name is None or where is None:
        return
    parts = [exp.func("LOWER", _column(database, name)), _column(database, where)]
    text = [exp.cast(part, "VARCHAR") for part in parts]
    both = exp.DPipe(this=exp.DPipe(this=text[0], expression=exp.Literal.string("|")), expression=text[1])
    known = both.sql(dialect=database.dialect.name)
    distinct = exp.Count(this=exp.Distinct(expressions=[both.copy()]))
    rows = database.counter.rows(table, exp.select(exp.Count(this=both.copy()), distinct))
    if not rows or not rows[0][0]:
        return
    filled, different = int(rows[0][0]), int(rows[0][1] or 0)
    if filled >= 20 and 0.002 <= (filled - different) / filled <= 0.2:
        yield _repeated(
            database, table, (name, where), filled - different, table.rows, f"{name} and {where} together repeat", known
        )


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
        (f"{what} in {count:,} of {rows:,} rows.",), _share(count, rows),
    )  # fmt: skip


def company_domain(database: Database, internal: Iterable[FoundPoint]) -> tuple[str, str] | None:
    """Return the mail domain of the company itself, and whose it is: of its employees, else of internal rows."""
    for table in database.tables.values():
        if table.table.ref in database.copies or not _is_staff_table(table) or (column := email_column(table)) is None:
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


def _is_staff_table(table: ProfiledTable) -> bool:
    staff = word_set(
        "employee employees staff mitarbeiter empleado empleados employe personnel worker workers personal"
    )
    return bool(staff & set(table.words[-1:])) or "hr" in tokens(table.table.ref.schema or "")


def email_column(table: ProfiledTable) -> str | None:
    """Return the column of a table that holds mail addresses."""
    for column in table.table.columns:
        words = plain_words(column.name)
        profile = table.profiles.get(column.name)
        is_address = words & {"email", "mail", "emailaddress"} and not words & word_set(
            "domain opt in status verified sent type template subject count is has consent id at bounced"
        )
        if is_address and profile is not None and profile.kind is ValueKind.TEXT:
            return column.name
    return None


def _domains(database: Database, table: ProfiledTable, column: str, where: str | None) -> dict[str, int]:
    """Return domain -> rows of the most frequent domains of companies; those of a single row are not read."""
    value = _column(database, column)
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


def staff_rows(database: Database, table: ProfiledTable, domain: str, whose: str) -> Iterator[FoundPoint]:
    """Yield people outside the staff whose mail addresses are of the company's own domain."""
    if not of_kind(table, "person", "customer", "student") or _is_staff_table(table):
        return
    column = email_column(table)
    if column is None:
        return
    pattern = exp.Literal.string(f"%@{domain}")
    counted = database.counter(table, [exp.Like(this=exp.func("LOWER", _column(database, column)), expression=pattern)])
    if counted is None or not 0 < counted[0] <= RARE * table.rows:
        return
    quoted = database.quoted(column)
    shown = f"addresses of {domain}"
    yield FoundPoint(
        table.table.ref, DecisionKind.STAFF, (column,),
        f"Do {things(table)} with {shown} count, the company's own domain?",
        (
            Alternative("count", f"{_capital(things(table))} with {shown} count"),
            Alternative(
                "exclude", f"{_capital(things(table))} with {shown} do not count",
                filter=f"({quoted} IS NULL OR lower({quoted}) NOT LIKE '%@{domain}')",
            ),
        ),
        (
            f"{column} is of {domain} in {counted[0]:,} of {table.rows:,} rows.",
            f"{domain} is the domain of {whose}.",
        ),
        _share(counted[0], table.rows),
    )  # fmt: skip


def statuses(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield a status with values that came to nothing, of a table whose amounts are added up."""
    amounts = database.amounts(table) or [
        column.name for column in table.table.columns if plain_words(column.name) & _RECURRING
    ]
    if not amounts or not (table.is_event or amounts):
        return
    for column in table.table.columns:
        if column.name in table.keys:
            continue
        words = meaning(table, column.name)
        flag = database.flag(table, column)
        if flag is not None:
            is_ended = len(words) == 1 and words[0] in _ENDED_BADLY - _INTERNAL.keys() - _DELETED - _MERGED
            if is_ended and 0 < flag.yes <= 0.5 * flag.rows:
                yield _excluded(
                    table, DecisionKind.STATUS, column.name, words[0], flag.is_not_true,
                    f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
                )  # fmt: skip
            continue
        if not plain_words(column.name) & _STATUS:
            continue
        values = _values(database, table, column)
        spelled = {value: "_".join(tokens(value)) for value, _ in values}
        doubtful = sorted((value, count) for value, count in values if spelled[value] in _NOT_COUNTED)
        total, rows = sum(count for _, count in doubtful), table.profile.rows
        if not doubtful or len(doubtful) == len(values) or total < 0.005 * rows:
            continue
        ended = [value for value, _ in doubtful if spelled[value] in _ENDED_BADLY]
        yield _status_point(database, table, column.name, doubtful, ended, amounts)
        return


def _status_point(
    database: Database, table: ProfiledTable, column: str, doubtful: list[tuple[str, int]], ended: list[str],
    amounts: Iterable[str],
) -> FoundPoint:  # fmt: skip
    doubted = [value for value, _ in doubtful]
    alternatives = [Alternative("all", f"{_capital(things(table))} of every {column} count")]
    if ended:
        label = f"{_capital(things(table))} that are {' or '.join(ended)} do not count"
        alternatives.append(Alternative("without_ended", label, filter=_is_none_of(database, column, ended)))
    if set(doubted) != set(ended):
        label = f"{_capital(things(table))} that are {' or '.join(doubted)} do not count"
        alternatives.append(Alternative("without_open", label, filter=_is_none_of(database, column, doubted)))
    shares = ", ".join(f"{value} {count:,}" for value, count in doubtful[:6])
    total = sum(count for _, count in doubtful)
    return FoundPoint(
        table.table.ref, DecisionKind.STATUS, (column,),
        f"Which {things(table)} count: also those that are {' or '.join(doubted[:4])}?",
        tuple(alternatives),
        (
            f"{column} is one of these in {in_rows(total, table)}: {shares}.",
            f"Amounts of {table.name} are added up: {', '.join(list(amounts)[:3])}.",
        ),
        _share(total, table.profile.rows),
    )  # fmt: skip


def parents(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield parents of counted things: a reference of customers to one of themselves, or to a group or household."""
    if len(table.key) != 1 or _is_staff_table(table):
        return
    own = {stem(word) for word in table.words}
    for each in self_references(table):
        (column,) = each.child_columns
        words = plain_words(column)
        profile = table.profiles.get(column)
        if profile is None or not words & _PARENTS or words & _MERGED:
            continue
        if of_kind(table, "customer", "organization", "account", "supplier", "store") and _filled(profile) >= 0.005:
            yield _parent(database, table, column, "parent", coalesced=True)
            return
    if not of_kind(table, "customer", "organization", "person"):
        return
    for each in table.references:
        parent = database.tables.get(each.parent)
        if parent is None or each.parent == each.child or len(each.child_columns) != 1:
            continue
        words = plain_words(each.child_columns[0]) | set(parent.words)
        is_group = bool(words & _GROUPS) and (of_kind(table, "customer") or bool(words & {"household", "haushalt"}))
        profile = table.profiles.get(each.child_columns[0])
        if not is_group or profile is None or each.cardinality is not Cardinality.MANY_TO_ONE:
            continue
        if own == {stem(word) for word in parent.words} or parent.rows < 0.1 * table.rows or parent.rows < 20:
            continue
        if profile.distinct and profile.distinct < profile.filled:
            yield _parent(database, table, each.child_columns[0], thing(parent), coalesced=profile.nulls > 0)
            return


def _filled(profile: ColumnProfile) -> float:
    return profile.filled / profile.rows if profile.rows else 0.0


def _parent(database: Database, table: ProfiledTable, column: str, word: str, *, coalesced: bool) -> FoundPoint:
    profile = table.profiles[column]
    value, key = database.quoted(column), database.quoted(table.key[0])
    if coalesced:
        value = f"coalesce({value}, {key})"
    counted = f"{word} {thing(table)}" if word == "parent" else word
    return FoundPoint(
        table.table.ref, DecisionKind.ENTITY, (column, table.key[0]),
        f"Is each {thing(table)} counted, or each {counted}?",
        (
            Alternative("entity", f"Each {thing(table)} counts"),
            Alternative("parent", f"Each {counted} counts once", expr=f"count(distinct {value})"),
        ),
        (f"{column} is set in {in_rows(profile.filled, table)}, with {profile.distinct:,} different values.",),
        _share(profile.filled, profile.rows),
    )  # fmt: skip


def _excluded(
    table: ProfiledTable, kind: DecisionKind, column: str, word: str, condition: str, evidence: str, share: float
) -> FoundPoint:
    """Return a point about rows that count, or do not."""
    what = f"{word} {things(table)}"
    return FoundPoint(
        table.table.ref, kind, (column,), f"Do {what} count?",
        (
            Alternative("count", f"{_capital(what)} count"),
            Alternative("exclude", f"{_capital(what)} do not count", filter=condition),
        ),
        (evidence,), round(share, 4),
    )  # fmt: skip


def _values(database: Database, table: ProfiledTable, column: Column) -> list[tuple[str, int]]:
    """Return the texts of a column of few, with the rows that have them: those that may be recorded."""
    profile = table.profiles.get(column.name)
    if profile is None or profile.kind is not ValueKind.TEXT or not 1 < (profile.distinct or 0) <= 30:
        return []
    declared = set(allowed_values(column))
    return [
        (str(value), count)
        for value, count in profile.top
        if _VALUE.fullmatch(str(value)) and (database.shows_values or value in declared)
    ]


def _is_none_of(database: Database, column: str, values: list[str]) -> str:
    quoted = database.quoted(column)
    literals = ", ".join(database.dialect.value(value) for value in values)
    other = f"<> {literals}" if len(values) == 1 else f"NOT IN ({literals})"
    return f"({quoted} IS NULL OR {quoted} {other})"


def _column(database: Database, name: str) -> exp.Expr:
    return exp.column(exp.to_identifier(name, quoted=True))


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _share(count: int, rows: int) -> float:
    return round(count / rows, 4) if rows else 0.0
