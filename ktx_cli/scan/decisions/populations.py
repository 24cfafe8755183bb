"""Which rows count: detectors of rows of tests, deleted, merged and repeated rows, staff, statuses and parents.

Each looks at one table of a database, and yields points with the condition of every reading as SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import sqlglot
from sqlglot import exp

from ktx_cli.privacy import ValueKind, refusal
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.decisions.tables import (
    Database,
    in_rows,
    is_lines,
    is_within,
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
    **dict.fromkeys(("complimentary", "gratis", "free", "charge", "freigestellt"), "complimentary"),
    **{
        word: word
        for word in (
            "own",
            "monitoring",
            "sandbox",
            "dummy",
            "fake",
            "sample",
            "qa",
            "synthetic",
            "mock",
            "placeholder",
        )
    },
}
"""Words of flags and types of rows that are no business -> the word for it."""

_TRIALS: Final = word_set("trial trials probe prueba essai")
"""Words of types of contracts that bring in nothing."""

_REAL: Final = word_set("real livemode production prod genuine external extern")
"""Words of flags that are false for such rows."""

_DELETED: Final = word_set(
    "deleted delete deletion del removed archived archive softdeleted softdelete retired withdrawn discontinued purged"
    " geloescht loeschung loeschkennzeichen loekz loevm eliminado borrado supprime eliminato excluido verwijderd"
    " usuniety fivetrandeleted"
)
_ABOUT_DELETION: Final = word_set("soft date at on time ts dt datetime timestamp marker mark status fivetran sdc am")
_DELETED_VALUES: Final = _DELETED | word_set("gone d del x inactive ex")
_STATES_OF_RECORDS: Final = word_set("record row rec lifecycle datensatz entry object deletion")
"""Words of columns that say whether a row still holds, not how far it got."""

_MERGED: Final = word_set(
    "merged merge canonical duplicate dup dupe survivor surviving golden superseded master zusammengefuehrt fusionne"
    " fusionado unificado dublette deduped"
)
_MERGED_IF_SELF: Final = word_set("replaced replacement main primary principal haupt winner winning original into root")
_PARENTS: Final = word_set(
    "parent group holding ultimate hq headquarter headquarters corporate umbrella konzern mutter muttergesellschaft"
    " matriz maison mere moeder padre household haushalt top global"
)
_VARIANTS: Final = word_set("variant variants base parent master style model basis eltern")
"""Words of references of products to the one that they are a variant of."""

_GROUPS: Final = word_set(
    "household haushalt holding group konzern organization organisation org parent corporate enterprise family"
)
_TYPES: Final = word_set(
    "type kind category class segment tier art typ tipo categorie kategorie classification mode environment env origin"
    " purpose zweck"
)
_MEETINGS: Final = word_set(
    "activity activities event events meeting meetings call calls task tasks appointment appointments visit visits"
    " interaction interactions touchpoint touchpoints lead opportunity opportunities campaign campaigns product"
    " products"
)
"""Words of tables whose rows may be of the type `demo` or `sample` in earnest."""

_STATUS: Final = word_set(
    "status state stage outcome result statut zustand estado stato condition phase decision"
    " progress fulfilment fulfillment approval"
)
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

_PARTS_OF_VALUES: Final = word_set("suffix prefix last last4 first masked hash type country status verified exempt")
"""Words of columns that have a part of such a value, or say something about it."""

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
    for column in table.table.columns:
        flag = None if column.name in table.keys else database.flag(table, column)
        if flag is None:
            continue
        words = meaning(table, column.name)
        leads = plain_words(column.name) & {"has", "had", "did", "can", "wants"}
        words = tuple(word for word in words if word != "of")
        if not words or leads or words in (("free",), ("own",), ("charge",)):
            continue
        if all(word in _INTERNAL for word in words) and 0 < flag.yes <= RARE * flag.rows:
            yield _excluded(
                table, DecisionKind.INTERNAL, column.name, _INTERNAL[words[0]], flag.is_not_true,
                f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
            )  # fmt: skip
        elif all(word in _REAL for word in words) and 0 < flag.no <= RARE * flag.rows:
            is_real = f"({flag.is_true} OR {database.quoted(column.name)} IS NULL)"
            yield _excluded(
                table, DecisionKind.INTERNAL, column.name, "internal", is_real,
                f"{column.name} is false in {in_rows(flag.no, table)}.", flag.no / flag.rows,
            )  # fmt: skip
    yield from _internal_types(database, table)


def _internal_types(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    if _is_staff_table(table):
        return
    meets = bool(set(table.words) & _MEETINGS)
    for column in table.table.columns:
        if column.name in table.keys or not plain_words(column.name) & _TYPES:
            continue
        found = []
        for value, count in _values(database, table, column):
            words = [word for word in tokens(value) if word not in _ANY_THING]
            known = bool(words) and all(word in _INTERNAL or word in _TRIALS for word in words)
            word = _INTERNAL.get(words[0], words[0]) if known else ""
            if known and word != "complimentary" and not (meets and word in ("demo", "sample", "own")):
                found.append((value, count, word))
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


def test_names(database: Database, table: ProfiledTable, marked: Iterable[FoundPoint]) -> Iterator[FoundPoint]:
    """Yield rows of customers, people and companies whose names say that they are tests, and that no flag marks."""
    is_counted = of_kind(table, "customer", "organization", "person") and not is_lines(table)
    column = _name_column(table)
    if column is None or not is_counted or not database.children.get(table.table.ref) or _is_staff_table(table):
        return
    own = [each for each in marked if each.table == table.table.ref]
    if any("Do test " in each.question for each in own):
        return
    name = exp.func("LOWER", _column(database, column))
    says = exp.or_(*(exp.Like(this=name.copy(), expression=exp.Literal.string(each)) for each in _TEST_NAME))
    filters = [each.filter for point in own for each in point.alternatives if each.filter is not None]
    unmarked = [exp.condition(sqlglot.parse_one(each, dialect=database.dialect.name)) for each in filters]
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
        yield from _deleted_states(database, table, column)
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


def _deleted_states(database: Database, table: ProfiledTable, column: Column) -> Iterator[FoundPoint]:
    """Yield a column such as `record_state` with a value that says that a row is deleted."""
    words = plain_words(column.name)
    of_records = bool(words & _STATES_OF_RECORDS) and bool(words & (_STATUS | {"lifecycle", "flag", "marker"}))
    if column.name in table.keys or not words & (_STATUS | {"lifecycle"}):
        return
    values = _values(database, table, column)
    if len(values) > (4 if of_records else 12):
        return
    known = _DELETED_VALUES if of_records else _DELETED & word_set("deleted archived removed")
    found = [(value, count) for value, count in values if tokens(value) and set(tokens(value)) <= known]
    total, rows = sum(count for _, count in found), table.profile.rows
    is_about_outcomes = not of_records and any("_".join(tokens(value)) in _NOT_COUNTED - known for value, _ in values)
    if found and not is_about_outcomes and 0 < total <= 0.5 * rows:
        listed = " or ".join(value for value, _ in found)
        yield _excluded(
            table, DecisionKind.DELETED, column.name, "deleted",
            _is_none_of(database, column.name, [value for value, _ in found]),
            f"{column.name} is {listed} in {in_rows(total, table)}.", total / rows,
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
        refers = column.name in to_itself or (
            bool(words & {"replaced", "by"}) and is_within(profile, table.profiles.get(key or ""))
        )
        is_reference = refers or (bool(words & _MERGED) and _is_of_key(table, key, profile))
        says = bool(words & _MERGED) or (refers and bool(words & _MERGED_IF_SELF))
        if words & _VARIANTS and of_kind(table, "product"):
            continue
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
    yield from _same_rows(database, table)


def _same_rows(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield rows that are there twice under another key: equal in everything that happened."""
    if len(table.key) != 1 or not table.times or table.rows > _MOST_COMPARED:
        return
    marks = {"created", "updated", "modified", "loaded", "inserted", "synced"}
    columns = [
        each.name
        for each in table.table.columns
        if each.name != table.key[0] and not plain_words(each.name) & marks
        and each.type in (SemanticType.NUMBER, SemanticType.TIME, SemanticType.STRING, SemanticType.BOOLEAN)
    ]  # fmt: skip
    different = 1
    for name in columns:
        different = min(10**12, different * max(1, table.profiles[name].distinct or 1))
    if len(columns) < 3 or different < 1_000 * table.rows or not _has_figure(table):
        return
    inner = exp.select(*(_column(database, name) for name in columns)).distinct()
    counted = database.counter.distinct_rows(table, inner)
    repeated = 0 if counted is None else table.rows - counted
    if counted is None or not 0.002 <= repeated / table.rows <= RARE:
        return
    text = [
        exp.func("COALESCE", exp.cast(_column(database, name), "VARCHAR"), exp.Literal.string("")) for name in columns
    ]
    whole: exp.Expr = text[0]
    for each in text[1:]:
        whole = exp.DPipe(this=exp.DPipe(this=whole, expression=exp.Literal.string("|")), expression=each)
    value = whole.sql(dialect=database.dialect.name)
    yield FoundPoint(
        table.table.ref, DecisionKind.DUPLICATES, tuple(columns),
        f"Do {things(table)} count once that differ in {table.key[0]} alone?",
        (
            Alternative("rows", f"Each row counts, also where only {table.key[0]} differs"),
            Alternative(
                "distinct", f"Rows that differ in {table.key[0]} alone count once", expr=f"count(distinct {value})"
            ),
        ),
        (f"{repeated:,} of {table.rows:,} rows differ from another one in {table.key[0]} alone.",),
        _share(repeated, table.rows),
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
        return not _is_staff_table(table) and not name & word_set(
            "domain opt in status verified sent type template subject count"
        )
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
    column = email_column(table)
    if column is None or _is_staff_table(table):
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
    amounts = list(database.amounts(table)) or recurring_amounts(table)
    if _is_staff_table(table):
        yield from _kinds_of_staff(database, table)
    if not amounts:
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
        named = plain_words(column.name)
        if not named & _STATUS or named & _STATES_OF_RECORDS:
            continue
        point = _of_statuses(database, table, column, amounts)
        if point is not None:
            yield point
            return


def recurring_amounts(table: ProfiledTable) -> list[str]:
    """Return the amounts that a row brings in each month or year."""
    each_period, money = word_set("monthly annual yearly weekly month year"), word_set("amount fee revenue value price")
    return [
        column.name
        for column in table.table.columns
        if column.type is SemanticType.NUMBER
        and ((words := plain_words(column.name)) & _RECURRING or (words & each_period and words & money))
    ]


def _of_statuses(database: Database, table: ProfiledTable, column: Column, amounts: Iterable[str]) -> FoundPoint | None:
    """Return the point of a status: about values that came to nothing, else about the rare ones of unknown codes."""
    values = _values(database, table, column)
    spelled = {value: "_".join(tokens(value)) for value, _ in values}
    doubtful = sorted((value, count) for value, count in values if spelled[value] in _NOT_COUNTED)
    total, rows = sum(count for _, count in doubtful), table.profile.rows
    if doubtful and len(doubtful) < len(values) and total >= 0.005 * rows:
        ended = [value for value, _ in doubtful if spelled[value] in _ENDED_BADLY]
        return _status_point(database, table, column.name, doubtful, ended, amounts)
    codes = [value for value, _ in values if len(value) <= 3]
    if not doubtful and 3 <= len(values) <= 8 and len(codes) == len(values):
        rare = sorted(values, key=lambda each: each[1])[: len(values) // 2]
        return _status_point(database, table, column.name, sorted(rare), [rare[0][0]], amounts)
    return None


_OF_STAFF: Final = word_set("employment contract worker employee staff vertrag beschaeftigung contrato contrat")


def _kinds_of_staff(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield the kinds of employment of people, not all of whom belong to a headcount."""
    for column in table.table.columns:
        words = plain_words(column.name)
        if column.name in table.keys or not words & _OF_STAFF:
            continue
        values = _values(database, table, column)
        if 2 <= len(values) <= 8:
            others = sorted(sorted(values, key=lambda each: -each[1])[1:])
            rarest = min(values, key=lambda each: each[1])[0]
            yield _status_point(database, table, column.name, others, [rarest], ())
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
    values = _values(database, table, next(each for each in table.table.columns if each.name == column))
    rest = [value for value, _ in values if value not in doubted]
    usual = max(values, key=lambda each: each[1])[0]
    if len(rest) > 1 and usual in rest:
        only = f"{database.quoted(column)} = {database.dialect.value(usual)}"
        alternatives.append(Alternative("only_usual", f"Only {things(table)} that are {usual} count", filter=only))
    shares = ", ".join(f"{value} {count:,}" for value, count in doubtful[:6])
    total = sum(count for _, count in doubtful)
    return FoundPoint(
        table.table.ref, DecisionKind.STATUS, (column,),
        f"Which {things(table)} count: also those that are {' or '.join(doubted[:4])}?",
        tuple(alternatives),
        (
            f"{column} is one of these in {in_rows(total, table)}: {shares}.",
            *((f"Amounts of {table.name} are added up: {', '.join(list(amounts)[:3])}.",) if amounts else ()),
        ),
        _share(total, table.profile.rows),
    )  # fmt: skip


def parents(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield parents of counted things: a reference of customers to one of themselves, or to a group or household."""
    if len(table.key) != 1 or _is_staff_table(table):
        return
    own = {stem(word) for word in table.words}
    known = {each.child_columns[0] for each in self_references(table)}
    key = table.profiles.get(table.key[0])
    for column in (each.name for each in table.table.columns):
        words, profile = plain_words(column), table.profiles.get(column)
        if profile is None or column == table.key[0] or (column not in known and not is_within(profile, key)):
            continue
        if words & _VARIANTS and of_kind(table, "product") and _filled(profile) >= 0.005:
            yield _parent(database, table, column, "base", coalesced=True)
            return
        if not words & _PARENTS or words & _MERGED or profile.kind is ValueKind.TIME:
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
    counted = f"{word} {thing(table)}" if word in ("parent", "base") else word
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
    if refusal(table.name, column.name, profile.kind, tuple(value for value, _ in profile.top)) is not None:
        return []
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
