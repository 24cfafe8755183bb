"""The input of the decision point detectors: profiled tables, flags among their columns, and row counts."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from sqlglot import exp

from ktx_cli.core import SourceError, monotonic
from ktx_cli.privacy import ValueKind, refusal
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.measures.additive import Additive, additive
from ktx_cli.scan.measures.proposals import ProfiledTable, mostly_null, name_in_expr, plural_of
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.scan.relationships.names import concepts, stem, tokens, word_set
from ktx_cli.scan.relationships.names import words as layers
from ktx_cli.scan.relationships.record import Relationship
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import (
    Column,
    Connector,
    Dialect,
    SemanticType,
    TableKind,
    TableRef,
    allowed_values,
    lost_its_session,
    may_ask,
)

FEWEST_ROWS: Final = 30
"""The minimum number of rows; a smaller table is a lookup table, or too small to judge."""

RARE: Final = 0.3
"""The maximum share of rows that count as an exception. Above it, the column distinguishes two kinds of rows."""

MOST_ROWS: Final = 10_000_000
"""The maximum number of rows that are counted; for larger tables, the profile of the sample is used."""

MOST_STATEMENTS: Final = 48
"""The maximum number of statements that detection sends to a database, one per table."""

ANY_WORDS: Final = word_set(
    "is was are flag flg b bool boolean ind indicator yn ist es est e czy record records row rows data entry account"
    " accounts customer customers client clients user users order orders company companies organization organisation"
    " org tenant workspace team member members person people contact contacts lead leads transaction transactions"
    " konto kunde kunden cliente compte traffic visit visits session sessions mode subscription subscriptions"
)
"""Words in flag names that name the flagged thing rather than the flag's meaning."""

_TRUE: Final = ("y", "yes", "t", "true", "j", "ja", "s", "si", "o", "oui", "x", "1")
_FALSE: Final = ("n", "no", "f", "false", "nein", "non", "nee", "", "0")
_LINES: Final = word_set("item items line lines detail details position positions positionen")
_NOTES: Final = word_set(
    "note notes comment comments message messages mail mails email emails attachment attachments file files document"
    " documents page pages post posts reply replies thread threads notification notifications"
)
"""Words for tables of texts, where `internal` controls who may read them."""

_LOGS: Final = word_set("log logs audit history hist trace traces error errors job jobs queue queues webhook webhooks")


@dataclass(frozen=True, slots=True)
class Flag:
    """A column with two values. `yes`, `no`: rows with each value in the sample. `is_true`, `is_not_true`: NULL-safe
    SQL.
    """

    yes: int
    no: int
    nulls: int
    is_true: str
    is_not_true: str

    @property
    def rows(self) -> int:
        """The number of rows in the sample."""
        return self.yes + self.no + self.nulls


@dataclass(frozen=True, slots=True)
class Ask:
    """The values that a detector computes over all rows of a table: aggregates, or subqueries with one value."""

    values: tuple[exp.Expr, ...]


Answer = tuple[Any, ...] | None
"""The values of an `Ask`, or None if the table cannot be read."""

Asking = Generator["FoundPoint | Ask", Answer, None]
"""Yields points and asks for values, which are computed together with those for other detectors."""


def counts(*conditions: exp.Expr) -> Ask:
    """Return an `Ask` for the number of rows that meet each condition."""
    return Ask(
        tuple(exp.Count(this=exp.Case(ifs=[exp.If(this=each, true=exp.Literal.number(1))])) for each in conditions)
    )


@dataclass(slots=True)
class RowCounter:
    """Sends one aggregate statement per table until `deadline` or the maximum number of statements is reached."""

    connector: Connector
    dialect: Dialect
    deadline: float
    statements: int = 0
    problems: list[str] = field(default_factory=list)

    def points_of(self, table: ProfiledTable, detectors: Iterable[Asking]) -> list[FoundPoint]:
        """Return the points that detectors yield for a table; each round of asks becomes one statement."""
        found: list[FoundPoint] = []
        waiting: list[tuple[Asking, Answer, bool]] = [(each, None, False) for each in detectors]
        while waiting:
            asked: list[tuple[Asking, Ask]] = []
            for detector, answer, has_begun in waiting:
                try:
                    item = detector.send(answer) if has_begun else next(detector)
                    while not isinstance(item, Ask):
                        found.append(item)
                        item = next(detector)
                except StopIteration:
                    continue
                asked.append((detector, item))
            answers = self._answers(table, [ask for _, ask in asked])
            waiting = [(detector, answer, True) for (detector, _), answer in zip(asked, answers, strict=True)]
        return found

    def _answers(self, table: ProfiledTable, asks: Sequence[Ask]) -> list[Answer]:
        """Return the answers to the asks about a table, from one statement, or from one each if that fails."""
        if not asks:
            return []
        values = self._row(table, [each for ask in asks for each in ask.values])
        if values is None and len(asks) > 1:
            return [self._row(table, ask.values) for ask in asks]
        answers: list[Answer] = []
        for ask in asks:
            answers.append(None if values is None else values[: len(ask.values)])
            values = None if values is None else values[len(ask.values) :]
        return answers

    def _row(self, table: ProfiledTable, values: Sequence[exp.Expr]) -> Answer:
        # The row count keeps the result at one row, even if only subqueries are selected.
        asked = enumerate([exp.Count(this=exp.Star()), *values])
        listed = (exp.alias_(each, f"c{place}", copy=False) for place, each in asked)
        rows = self.rows(table, exp.select(*listed, copy=False))
        return tuple(rows[0][1:]) if rows else None

    def number_of(self, table: ProfiledTable, select: exp.Select) -> exp.Expr:
        """Return the row count of a SELECT over a table as a value of an `Ask`."""
        inner = select.from_(self.path(table.table.ref), copy=False).subquery("d", copy=False)
        return exp.Subquery(this=exp.select(exp.Count(this=exp.Star())).from_(inner, copy=False))

    def path(self, ref: TableRef) -> exp.Table:
        """Return a table as it appears in FROM."""
        return exp.maybe_parse(self.dialect.path(ref), into=exp.Table, dialect=self.dialect.name)

    def differing_rows(self, table: ProfiledTable, reference: Relationship, own: str, other: str) -> int | None:
        """Return the number of rows whose value differs from that of the row that they refer to."""
        child, parent = (
            exp.alias_(self.path(ref), name, table=True)
            for ref, name in ((reference.child, "c"), (reference.parent, "p"))
        )
        pairs = zip(reference.child_columns, reference.parent_columns, strict=True)
        on = [exp.EQ(this=_of("c", mine), expression=_of("p", theirs)) for mine, theirs in pairs]
        select = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(child).join(parent, on=exp.and_(*on))
        select = select.where(exp.NEQ(this=_of("c", own), expression=_of("p", other)))
        found = self._run(table, select, 1)
        return None if not found else int(found[0][0])

    def rows(self, table: ProfiledTable, select: exp.Select, most: int = 1) -> Sequence[Sequence[Any]] | None:
        """Return up to `most` rows of an aggregate over a table, or None if the table cannot be read.

        Raises `SourceError` only if the database is unreachable.
        """
        return self._run(table, select.from_(self.path(table.table.ref)), most)

    def _run(self, table: ProfiledTable, select: exp.Select, most: int) -> Sequence[Sequence[Any]] | None:
        if self.statements >= MOST_STATEMENTS or table.rows > MOST_ROWS:
            return None
        text = select.sql(dialect=self.dialect.name)
        text = self.dialect.limited(text, most) if most > 1 else text
        if not may_ask(self.connector, text, max_rows=most, is_late=monotonic() > self.deadline):
            return None
        self.statements += 1
        try:
            found = self.connector.query(text, max_rows=most)
        except SourceError as error:
            if error.code == "connection" or lost_its_session(error):
                raise
            self.problems.append(str(table.table.ref))
            return None
        return found.rows


def _of(table: str, column: str) -> exp.Expr:
    return exp.column(exp.to_identifier(column, quoted=True), table=table)


@dataclass(frozen=True)
class Database:
    """The tables of a database, those whose points belong to another table, and how to count their rows."""

    tables: Mapping[TableRef, ProfiledTable]
    copies: frozenset[TableRef]
    dialect: Dialect
    counter: RowCounter
    shows_values: bool = True
    """Whether row values that name a known outcome may be recorded."""

    @cached_property
    def children(self) -> Mapping[TableRef, list[Relationship]]:
        """Table -> the references to it."""
        found: dict[TableRef, list[Relationship]] = defaultdict(list)
        for table in self.tables.values():
            for each in table.references:
                found[each.parent].append(each)
        return found

    @cached_property
    def counted(self) -> list[ProfiledTable]:
        """The tables whose rows are worth counting: not lookups, bridges, settings, logs, texts or copies."""
        return [each for ref, each in self.tables.items() if ref not in self.copies and _is_counted(each)]

    @cached_property
    def audit_columns(self) -> frozenset[str]:
        """The names of times that occur in many tables because they say when a row was written or loaded."""
        names = Counter(name for table in self.tables.values() for name in table.times)
        return frozenset(name for name, count in names.items() if count >= max(4, 0.4 * len(self.tables)))

    def fractional_amounts(self, table: ProfiledTable) -> list[str]:
        """Return amounts with decimals in other tables, as `table.column`."""
        return [each for each in self._fractional if not each.startswith(f"{table.name}.")]

    @cached_property
    def _fractional(self) -> list[str]:
        found = ((table, name) for table in self.counted if happens(table) for name in self.amounts(table))
        return [f"{table.name}.{name}" for table, name in found if table.profiles[name].kind is ValueKind.NUMBER]

    def quoted(self, column: str) -> str:
        """Return a column as it appears in conditions and expressions."""
        return name_in_expr(column, self.dialect)

    def flag(self, table: ProfiledTable, column: Column) -> Flag | None:
        """Return a column as a flag, or None if its values are not those of a flag."""
        profile = table.profiles.get(column.name)
        if profile is None or profile.problem is not None or profile.distinct not in (1, 2):
            return None
        name = self.quoted(column.name)
        values = dict(profile.top)
        if profile.kind is ValueKind.BOOLEAN and (
            column.type is SemanticType.BOOLEAN or set(map(type, values)) == {bool}
        ):
            yes = sum(count for value, count in values.items() if value)
            has_truth = self.dialect.conditions_are_values
            true, false = (name, f"NOT coalesce({name}, false)") if has_truth else (f"{name} = 1", _is_zero(name))
            return Flag(yes, profile.filled - yes, profile.nulls, true, false)
        if profile.kind is ValueKind.INTEGER and values.keys() <= {0, 1}:
            yes = values.get(1, 0)
            return Flag(yes, profile.filled - yes, profile.nulls, f"{name} = 1", _is_zero(name))
        if profile.kind is ValueKind.TEXT:
            return self._text_flag(name, profile)
        return None

    def _text_flag(self, name: str, profile: ColumnProfile) -> Flag | None:
        words = {value: str(value).strip().casefold() for value, _ in profile.top}
        true = [value for value, word in words.items() if word in _TRUE]
        if len(true) != 1 or any(word not in _FALSE for value, word in words.items() if value not in true):
            return None
        yes = dict(profile.top)[true[0]]
        literal = self.dialect.value(true[0])
        is_not = f"({name} IS NULL OR {name} <> {literal})"
        return Flag(yes, profile.filled - yes, profile.nulls, f"{name} = {literal}", is_not)

    def amounts_or_quantities(self, table: ProfiledTable) -> list[str]:
        """Return a table's additive columns."""
        return [
            column.name
            for column in table.table.columns
            if column.name not in table.keys
            and additive(column, table.profiles.get(column.name), table.parts[column.name], table.words) is not None
        ]

    def amounts(self, table: ProfiledTable) -> dict[str, tuple[str, ...]]:
        """Return the additive money columns with the words of their names, in table order."""
        found = {}
        for column in table.table.columns:
            profile = table.profiles.get(column.name)
            if column.name in table.keys or mostly_null(profile):
                continue
            kind = additive(column, profile, table.parts[column.name], table.words)
            if kind is not None and kind.kind is Additive.MONEY:
                found[column.name] = table.parts[column.name]
        return found

    def values(self, table: ProfiledTable, column: Column) -> list[tuple[str, int]]:
        """Return the text values of a column with few distinct values, with row counts, if they may be recorded."""
        profile = table.profiles.get(column.name)
        if profile is None or profile.kind is not ValueKind.TEXT or not 1 < (profile.distinct or 0) <= 30:
            return []
        declared = set(allowed_values(column))
        seen, is_restricted = tuple(value for value, _ in profile.top), profile.is_restricted
        if refusal(table.name, column.name, profile.kind, seen, is_restricted=is_restricted) is not None:
            return []
        return [
            (str(value), count)
            for value, count in profile.top
            if _VALUE.fullmatch(str(value)) and (self.shows_values or value in declared)
        ]

    def is_none_of(self, column: str, values: Sequence[str | int]) -> str:
        """Return the NULL-safe condition that a column does not have any of the values."""
        quoted = self.quoted(column)
        literals = ", ".join(self.dialect.value(value) for value in values)
        other = f"<> {literals}" if len(values) == 1 else f"NOT IN ({literals})"
        return f"({quoted} IS NULL OR {quoted} {other})"


_VALUE: Final = re.compile(r"[\w ./()-]{1,40}")


def column_named(name: str) -> exp.Expr:
    """Return a column of this table."""
    return exp.column(exp.to_identifier(name, quoted=True))


def excluded(
    table: ProfiledTable, kind: DecisionKind, column: str, word: str, condition: str, evidence: str, share: float
) -> FoundPoint:
    """Return a point about rows that may or may not count. `word`: the name for the rows, such as `internal`."""
    what = f"{word} {things(table)}"
    return FoundPoint(
        table.table.ref, kind, (column,), f"Do {what} count?",
        (
            Alternative("count", f"{capital(what)} count"),
            Alternative("exclude", f"{capital(what)} do not count", filter=condition),
        ),
        (evidence,), round(share, 4),
    )  # fmt: skip


def capital(text: str) -> str:
    """Return a text with its first letter capitalized."""
    return f"{text[:1].upper()}{text[1:]}"


def share_of(count: int, rows: int) -> float:
    """Return a share of rows in its recorded form."""
    return round(count / rows, 4) if rows else 0.0


def is_time(table: ProfiledTable, column: Column, profile: ColumnProfile) -> bool:
    """Return whether a column contains dates or times."""
    return column.type is SemanticType.TIME or column.name in table.times or profile.kind is ValueKind.TIME


_STAFF: Final = word_set(
    "employee employees staff mitarbeiter empleado empleados employe personnel worker workers personal"
)


def is_staff_table(table: ProfiledTable) -> bool:
    """Return whether a table's rows are the company's own employees."""
    return bool(_STAFF & set(table.words[-1:])) or "hr" in tokens(table.table.ref.schema or "")


def email_column(table: ProfiledTable) -> str | None:
    """Return the column of a table that contains email addresses."""
    for column in table.table.columns:
        words = plain_words(column.name)
        profile = table.profiles.get(column.name)
        is_address = words & {"email", "mail", "emailaddress"} and not words & word_set(
            "domain opt in status verified sent type template subject count is has consent id at bounced"
        )
        if is_address and profile is not None and profile.kind is ValueKind.TEXT:
            return column.name
    return None


def name_column(table: ProfiledTable) -> str | None:
    """Return the column of a table that contains its rows' names."""
    own = {*map(stem, table.words), "full", "display", "company", "account", "customer", "legal"}
    for column in table.table.columns:
        profile = table.profiles.get(column.name)
        rest = [word for word in table.parts[column.name] if stem(word) not in own]
        if rest == ["name"] and profile is not None and profile.kind is ValueKind.TEXT:
            return column.name
    return None


def _is_zero(name: str) -> str:
    return f"coalesce({name}, 0) = 0"


def _is_counted(table: ProfiledTable) -> bool:
    if table.rows < FEWEST_ROWS or table.profile.problem is not None or table.is_bridge or table.is_about_states:
        return False
    words = {*table.words}
    return not (table.is_lookup or words & _LOGS or table.words[-1] in _NOTES)


def is_lines(table: ProfiledTable) -> bool:
    """Return whether the rows of a table are parts of something, such as `order_lines`."""
    return len(table.words) > 1 and table.words[-1] in _LINES


def happens(table: ProfiledTable) -> bool:
    """Return whether the rows of a table are events whose amounts are additive."""
    return table.is_event or table.words[-1] in ("bill", "bills")


def of_kind(table: ProfiledTable, *kinds: str) -> bool:
    """Return whether a table's name means one of these concepts."""
    return bool(concepts(table.words) & set(kinds))


def is_within(profile: ColumnProfile | None, key: ColumnProfile | None) -> bool:
    """Return whether the values of a mostly empty column are among those of a key, so that it may be a reference."""
    if profile is None or key is None or profile.kind is not key.kind or profile.nulls < 0.4 * profile.rows:
        return False
    ends = (key.minimum, profile.minimum, profile.maximum, key.maximum)
    return None not in ends and ends[0] <= ends[1] and ends[2] <= ends[3]


def things(table: ProfiledTable) -> str:
    """Return the plural noun for a table's rows in a sentence: `order lines`."""
    return plural_of(table.entity.split("_")).replace("_", " ")


def thing(table: ProfiledTable) -> str:
    """Return the singular noun for a row of a table in a sentence."""
    return table.entity.replace("_", " ")


def meaning(table: ProfiledTable, column: str) -> tuple[str, ...]:
    """Return the meaningful words of a flag's name: `is_test_order` in orders gives `test`."""
    own = {stem(word) for word in table.words}
    words = [word for each in table.parts[column] for word in _split(each)]
    return tuple(word for word in words if word not in ANY_WORDS and stem(word) not in own)


@functools.lru_cache(maxsize=100_000)
def _split(word: str) -> tuple[str, ...]:
    """Return compound words that are written as one: `isinternal`, `testkunde`."""
    if word.startswith("is") and len(word) > 5:
        return "is", word[2:]
    ending = next((each for each in ANY_WORDS if len(each) > 4 and word.endswith(each) and word != each), None)
    return (word,) if ending is None else (word.removesuffix(ending), ending)


def in_rows(count: int, table: ProfiledTable) -> str:
    """Return the number of rows in a table or its sample that meet a condition: `12 of 812 rows`."""
    profile = table.profile
    sampled = "" if profile.complete else " in a sample"
    return f"{count:,} of {profile.rows:,} rows{sampled}"


def is_view(table: ProfiledTable) -> bool:
    """Return whether a table is a view."""
    return table.table.kind is not TableKind.TABLE


@functools.lru_cache(maxsize=100_000)
def plain_words(name: str) -> frozenset[str]:
    """Return the words in a name as a set."""
    return frozenset(tokens(name))


_SAME: Final = tuple(
    frozenset(map(stem, each.split()))
    for each in (
        "account customer client organization organisation company firm kunde konto",
        "contact user member login person people kontakt nutzer",
        "order purchase booking sale revenue bestellung auftrag umsatz",
        "opportunity deal pipeline",
        "ticket case request issue incident",
        "lead enquiry inquiry prospect",
        "payment transaction receipt charge zahlung",
        "subscription contract membership mrr arr plan abo vertrag",
        "invoice bill billing rechnung",
        "product article item variant artikel produkt",
        "session visit traffic pageview",
        "employee staff personnel headcount people worker mitarbeiter",
        "shipment delivery freight lieferung",
        "return refund retoure",
        "usage reading consumption",
        "expense claim spesen",
        "ad advertising spend campaign",
        "budget target plan fiscal",
    )
)
"""Groups of words for the same business concept."""


def same_thing(table: str, words: frozenset[str]) -> float:
    """Return how likely words refer to the rows of a table: 1 for the table's own name, less for synonyms."""
    own = frozenset(stem(word) for word in tokens(table))
    own = frozenset(word for word in own if word not in layers("layer")) or own
    if own <= words:
        return 1.0
    if own & words:
        return 0.5
    return 0.6 if any(group & own and group & words for group in _SAME) else 0.0


def name_words(name: str) -> tuple[str, ...]:
    """Return the meaningful words in a column's name."""
    return tuple(word for word in tokens(name) if len(word) > 2 and word not in _SMALL)


_SMALL: Final = word_set("the and for flag code day date name")
