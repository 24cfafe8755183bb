"""Detectors for the identity of things: repeated rows, rows merged into other rows, and parents of counted things."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.decisions.tables import (
    RARE,
    Ask,
    Asking,
    Database,
    column_named,
    counts,
    excluded,
    in_rows,
    is_lines,
    is_staff_table,
    is_time,
    is_within,
    meaning,
    name_column,
    of_kind,
    plain_words,
    share_of,
    thing,
    things,
)
from ktx_cli.scan.measures.proposals import ProfiledTable
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.scan.relationships.names import concepts, key_base, stem, tokens, word_set
from ktx_cli.scan.relationships.record import Cardinality, Relationship
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import Column, SemanticType

_NATURAL: Final = (
    ("email", "mail", "emailaddress"),
    ("external", "extern", "foreign", "crm", "source", "legacy", "erp", "salesforce", "sfdc", "hubspot", "stripe"),
    ("tax", "vat", "ust", "iban", "duns", "ssn", "ein", "siret", "siren", "nif", "nip", "steuernummer", "passport"),
)
"""Words for columns that identify one real-world thing: addresses, numbers from other systems, registrations."""

_PARTS_OF_VALUES: Final = word_set("suffix prefix last last4 first masked hash type country status verified exempt")
"""Words for columns that contain part of such a value or a description of it."""

_MERGED: Final = word_set(
    "merged merge canonical duplicate dup dupe survivor surviving golden superseded master zusammengefuehrt fusionne"
    " fusionado unificado dublette deduped absorbed absorber consolidated"
)
_MERGED_IF_SELF: Final = word_set(
    "replaced replacement main primary principal haupt winner winning original into root same succeeded survives alias"
)
"""Words that mean a merge only in a self-reference, and only if the data is conclusive."""

_PARENTS: Final = word_set(
    "parent group holding ultimate hq headquarter headquarters corporate umbrella konzern mutter muttergesellschaft"
    " matriz maison mere moeder padre household haushalt top global"
)
_VARIANTS: Final = word_set("variant variants base based parent master main core style model basis eltern")
"""Words for references from a variant to its product."""

_GROUPS: Final = word_set(
    "household haushalt holding group konzern organization organisation org parent corporate enterprise family"
)
_FAMILIES: Final = word_set("family families model models style styles master base parent template templates")
"""Words for tables whose rows have products as variants."""

_OTHER_TIES: Final = word_set(
    "referred referral referrer introduced introducer recommended invited related similar follow following follows"
    " previous prev prior next successor predecessor renewal renewed renews linked reply replied split reversal"
    " reversed reverses cancels corrected corrects deputy substitute manager supervisor boss partner spouse assigned"
    " owner created updated approved"
)
"""Words for references to rows of the same table that are counted separately."""

_REFERS: Final = word_set("id ref key fk no nr number of by to into through as with under up via on")
"""Words that mark a name as a reference: at its end, or where they relate one row to another."""

_OWN: Final = 0.2
"""The minimum share of self-references that shows that a column must be a reference."""

_CHAINS: Final = 0.02
"""The maximum share of references to rows that refer to other rows, in a one-level hierarchy."""


def merged_flags(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield flags for rows that were merged into another row or are duplicates."""
    for column in table.table.columns:
        flag = database.flag(table, column)
        if flag is None or not set(meaning(table, column.name)) & _MERGED or not 0 < flag.yes <= RARE * flag.rows:
            continue
        kind = DecisionKind.MERGED if plain_words(column.name) & {"merged", "merge"} else DecisionKind.DUPLICATES
        adjective = "merged" if kind is DecisionKind.MERGED else "duplicate"
        yield excluded(
            table, kind, column.name, adjective, flag.is_not_true,
            f"{column.name} is true in {in_rows(flag.yes, table)}.", flag.yes / flag.rows,
        )  # fmt: skip


def related_rows(database: Database, table: ProfiledTable) -> Asking:
    """Yield self-references of a table: to the row that a row was merged into, or to its parent.

    Names decide which. If they do not, the data must show a single level: the rows at its top refer to themselves or to
    nothing.
    """
    if len(table.key) != 1:
        return
    merged = next(_merged_by_name(database, table), None)
    parent = _parent_by_name(database, table) if _has_parents(table) else None
    named = [point.columns[0] for point in (merged, parent) if point is not None]
    doubtful = [name for name in _candidates(database, table) if name not in named]
    if merged is not None and not plain_words(merged.columns[0]) & _MERGED:
        doubtful.append(merged.columns[0])
    ties: dict[str, _Ties] = {}
    if doubtful:
        answer = yield Ask(tuple(value for name in doubtful for value in _ties(database, table, name)))
        numbers = [int(each or 0) for each in answer or ()]
        for place, name in enumerate(doubtful if numbers else ()):
            ties[name] = _Ties(*numbers[3 * place : 3 * place + 3])
    flat = [name for name in doubtful if name in ties and _is_flat(table, name, ties[name])]
    if merged is not None and merged.columns[0] in ties and merged.columns[0] not in flat:
        merged = None
    for name in flat:
        profile, words = table.profiles[name], plain_words(name)
        refers = name in _to_itself(table) or _names_a_reference(name)
        if name in named or not (refers or ties[name].own >= _OWN * table.rows):
            continue
        if words & (_MERGED | _MERGED_IF_SELF) and not (words & _VARIANTS and of_kind(table, "product")):
            own = round(ties[name].own * profile.rows / max(1, table.rows))
            merged = merged or _merged(database, table, name, profile.filled - own)
        elif _has_parents(table):
            word = "base" if of_kind(table, "product") else "parent"
            parent = parent or _parent(database, table, name, word, coalesced=profile.nulls > 0)
    yield from (point for point in (merged, parent) if point is not None)


@dataclass(frozen=True, slots=True)
class _Ties:
    """How many rows refer to themselves, to a row that refers to another row, and to a missing row."""

    own: int
    chained: int
    unknown: int


def _has_parents(table: ProfiledTable) -> bool:
    kinds = ("customer", "organization", "account", "supplier", "store", "product")
    is_known = of_kind(table, *kinds) or bool({"partner", "partners"} & set(table.words))
    return is_known and not is_staff_table(table)


def _to_itself(table: ProfiledTable) -> set[str]:
    return {each.child_columns[0] for each in self_references(table)}


def _names_a_reference(name: str) -> bool:
    words = tokens(name)
    return len(words) > 1 and bool(_REFERS & {words[-1], *words[1:-1]})


def _candidates(database: Database, table: ProfiledTable) -> Iterator[str]:
    """Yield columns whose values are all in the key, which means that they may refer to rows of the table."""
    key = table.profiles.get(table.key[0])
    # An inferred reference whose name does not match the other table may just as well refer to this table.
    elsewhere = {name for each in table.table.foreign_keys if each.target != table.table.ref for name in each.columns}
    for each in table.references:
        if each.parent != each.child and _stems(each.parent.name) & _stems(each.child_columns[0]):
            elsewhere |= set(each.child_columns)
    for column in table.table.columns:
        profile, words = table.profiles.get(column.name), plain_words(column.name)
        if profile is None or key is None or profile.kind is not key.kind or column.name in table.key:
            continue
        if column.name in elsewhere or words & _OTHER_TIES or not 10 <= (profile.distinct or 0) < profile.filled:
            continue
        ends = (key.minimum, profile.minimum, profile.maximum, key.maximum)
        is_among = None not in ends and ends[0] <= ends[1] and ends[2] <= ends[3]
        is_named = column.name in _to_itself(table) or _names_a_reference(column.name)
        if is_among and (profile.nulls == 0 or (is_named and profile.nulls >= 0.3 * profile.rows)):
            yield column.name


def _stems(name: str) -> set[str]:
    return {stem(word) for word in tokens(name)}


def _ties(database: Database, table: ProfiledTable, name: str) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
    """Return the number of rows that refer to themselves, to a row that refers to another row, and to a missing row."""
    reference, key = column_named(name), column_named(table.key[0])
    other = exp.NEQ(this=reference.copy(), expression=key.copy())
    path = database.counter.path(table.table.ref)
    referring = exp.select(key.copy()).from_(path.copy()).where(other.copy())
    keys = exp.select(key.copy()).from_(path.copy())
    rows = exp.select(reference.copy())
    chained = rows.copy().where(exp.and_(other.copy(), exp.In(this=reference.copy(), query=referring.subquery())))
    unknown = rows.copy().where(exp.and_(other.copy(), exp.In(this=reference.copy(), query=keys.subquery()).not_()))
    own = counts(exp.EQ(this=reference.copy(), expression=key.copy())).values[0]
    return own, database.counter.number_of(table, chained), database.counter.number_of(table, unknown)


def _is_flat(table: ProfiledTable, name: str, ties: _Ties) -> bool:
    """Return whether a column refers only to existing rows that do not refer to others."""
    profile = table.profiles[name]
    filled = profile.filled * table.rows / max(1, profile.rows) - ties.own
    return ties.unknown == 0 and filled > 0 and ties.chained <= _CHAINS * filled


def _merged_by_name(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    key = table.profiles.get(table.key[0])
    for column in table.table.columns:
        profile, words = table.profiles.get(column.name), plain_words(column.name)
        if profile is None or not profile.filled or column.name in table.key or database.flag(table, column):
            continue
        refers = column.name in _to_itself(table) or (
            bool(words & _MERGED_IF_SELF) and _names_a_reference(column.name) and is_within(profile, key)
        )
        is_reference = refers or (bool(words & _MERGED) and key is not None and key.kind is profile.kind)
        says = bool(words & _MERGED) or (refers and bool(words & _MERGED_IF_SELF))
        if words & _VARIANTS and of_kind(table, "product"):
            continue
        if _is_time_of_merge(table, column, profile, words):
            is_reference, says = True, profile.filled <= 0.5 * profile.rows
        if not (says and is_reference):
            continue
        if profile.nulls >= 0.4 * profile.rows:
            count = profile.filled
        elif not is_time(table, column, profile) and (profile.distinct or 0) < profile.filled:
            count = profile.filled - (profile.distinct or 0)
        else:
            continue
        if count <= 0.5 * profile.rows:
            yield _merged(database, table, column.name, count)
            return


def _is_time_of_merge(table: ProfiledTable, column: Column, profile: ColumnProfile, words: frozenset[str]) -> bool:
    return is_time(table, column, profile) and bool(words & {"merged", "merge"})


def _merged(database: Database, table: ProfiledTable, name: str, count: int) -> FoundPoint:
    profile = table.profiles[name]
    quoted, own = database.quoted(name), database.quoted(table.key[0])
    is_nullable = profile.nulls >= 0.4 * profile.rows
    condition = f"{quoted} IS NULL" if is_nullable else f"coalesce({quoted}, {own}) = {own}"
    return excluded(
        table, DecisionKind.MERGED, name, "merged", condition,
        f"{name} refers to another row of {table.name} in {in_rows(count, table)}.", count / profile.rows,
    )  # fmt: skip


def self_references(table: ProfiledTable) -> list[Relationship]:
    """Return the single-column references of a table to itself."""
    return [each for each in table.references if each.parent == each.child and len(each.child_columns) == 1]


def _parent_by_name(database: Database, table: ProfiledTable) -> FoundPoint | None:
    """Return the point for a column whose name says that it refers to a parent row."""
    key = table.profiles.get(table.key[0])
    for column in (each.name for each in table.table.columns):
        words, profile = plain_words(column), table.profiles.get(column)
        if profile is None or column == table.key[0] or profile.kind is ValueKind.TIME:
            continue
        if column not in _to_itself(table) and not is_within(profile, key):
            continue
        is_product = of_kind(table, "product")
        says = words & _VARIANTS if is_product else words & _PARENTS and not words & _MERGED
        if says and profile.filled >= 0.005 * profile.rows:
            return _parent(database, table, column, "base" if is_product else "parent", coalesced=True)
    return None


def groups(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield a table of groups, households or families that a table's rows belong to."""
    is_product = of_kind(table, "product")
    if not (is_product or of_kind(table, "customer", "organization", "person")) or is_staff_table(table):
        return
    own = {stem(word) for word in table.words}
    for each in table.references:
        parent = database.tables.get(each.parent)
        if parent is None or each.parent == each.child or len(each.child_columns) != 1:
            continue
        base, _ = key_base(tokens(each.child_columns[0]))
        words = frozenset(base) | set(parent.words)
        if is_product:
            is_group = bool(words & _FAMILIES)
        else:
            is_group = bool(words & _GROUPS) and (of_kind(table, "customer") or bool(words & {"household", "haushalt"}))
        profile = table.profiles.get(each.child_columns[0])
        if not is_group or profile is None or each.cardinality is not Cardinality.MANY_TO_ONE:
            continue
        if own == {stem(word) for word in parent.words} or parent.rows < 0.1 * table.rows or parent.rows < 20:
            continue
        if profile.distinct and profile.distinct < profile.filled:
            yield _parent(database, table, each.child_columns[0], thing(parent), coalesced=profile.nulls > 0)
            return


def _parent(database: Database, table: ProfiledTable, column: str, word: str, *, coalesced: bool) -> FoundPoint:
    profile = table.profiles[column]
    value, key = database.quoted(column), database.quoted(table.key[0])
    if coalesced:
        value = f"coalesce({value}, {key})"
    counted = f"{word} {thing(table)}" if word in ("parent", "base") else word
    return FoundPoint(
        table.table.ref, DecisionKind.ENTITY, (column, table.key[0]),
        f"Does each {thing(table)} count, or each {counted}?",
        (
            Alternative("entity", f"Each {thing(table)} counts"),
            Alternative("parent", f"Each {counted} counts once", expr=f"count(distinct {value})"),
        ),
        (f"{column} is set in {in_rows(profile.filled, table)}, with {profile.distinct:,} different values.",),
        share_of(profile.filled, profile.rows),
    )  # fmt: skip


_FEWEST: Final = 3
"""The maximum number of repeated values that may be accidental."""


def repeated_rows(database: Database, table: ProfiledTable) -> Asking:
    """Yield columns that identify one real-world thing and have a few repeated values; else repeated rows."""
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
            what = f"the combination of {named[0]} and {named[1]} repeats"
            yield _repeated(database, table, named, repeated, table.rows, what, known)
    if compared and numbers:
        repeated = table.rows - numbers[-1]
        if 0.002 <= repeated / table.rows <= RARE:
            yield _same_rows(database, table, compared, repeated)


def _by_chance(profile: ColumnProfile) -> float:
    """Return how many values would repeat if the whole numbers were random within their range; 0 for other values."""
    if profile.kind is not ValueKind.INTEGER or profile.minimum is None or profile.maximum is None:
        return 0.0
    values = float(profile.maximum - profile.minimum) + 1
    return profile.filled - values * (1 - (1 - 1 / values) ** profile.filled)


def _compared(table: ProfiledTable) -> tuple[str, ...]:
    """Return the columns in which duplicate rows are equal: all except the key, if they are specific enough."""
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
    """Return the point for rows that appear twice with different keys but are otherwise equal."""
    text = [exp.func("COALESCE", exp.cast(column_named(name), "VARCHAR"), exp.Literal.string("")) for name in columns]
    whole: exp.Expr = text[0]
    for each in text[1:]:
        whole = exp.DPipe(this=exp.DPipe(this=whole, expression=exp.Literal.string("|")), expression=each)
    value = whole.sql(dialect=database.dialect.name)
    return FoundPoint(
        table.table.ref, DecisionKind.DUPLICATES, columns,
        f"Do {things(table)} that differ only in {table.key[0]} count once?",
        (
            Alternative("rows", f"Each row counts, even if only {table.key[0]} differs"),
            Alternative(
                "distinct", f"Rows that differ only in {table.key[0]} count once", expr=f"count(distinct {value})"
            ),
        ),
        (f"{repeated:,} of {table.rows:,} rows differ from another row only in {table.key[0]}.",),
        share_of(repeated, table.rows),
    )  # fmt: skip


def _has_figure(table: ProfiledTable) -> bool:
    return any(each.type is SemanticType.NUMBER and each.name not in table.keys for each in table.table.columns)


_MOST_COMPARED: Final = 1_000_000
"""The maximum number of rows in a table that is searched for equal rows."""


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
    """Return the column with names of people or companies, and one with their place or date of birth."""
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
            Alternative("rows", f"Each row counts, even if {label} repeats"),
            Alternative("distinct", f"Rows with the same {label} count once", expr=f"count(distinct {value})"),
        ),
        (f"{what} in {count:,} of {rows:,} rows.",), share_of(count, rows),
    )  # fmt: skip
