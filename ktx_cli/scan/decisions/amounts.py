"""Which figure of a row counts, and when: detectors of amounts, units, currencies, dates, fiscal years and NULLs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final

from sqlglot import exp

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.decisions.tables import Database, in_rows, is_lines, plain_words, thing, things
from ktx_cli.scan.measures.additive import is_currency_column
from ktx_cli.scan.measures.proposals import ProfiledTable
from ktx_cli.scan.measures.record import ProposedMeasure
from ktx_cli.scan.relationships.names import tokens, word_set
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import Column, SemanticType

FAIR: Final = 0.05
"""The least share of rows that makes a difference worth a question."""

_GROSS: Final = word_set("gross brutto ttc incl including inclusive brut lordo bruto grand total totaal gesamt")
_NET: Final = word_set("net netto ht excl excluding exclusive subtotal neto zwischensumme hors")
_TAX: Final = word_set("tax taxes vat mwst ust steuer tva iva gst btw impuesto")
_DISCOUNT: Final = word_set("discount discounts rabatt remise descuento sconto korting rabat rebate")
_PARTS: Final = word_set(
    "shipping freight fee fees cost costs refund refunded tip tips paid due remaining deposit credit debit bonus"
    " commission margin profit surcharge versand frais budget weight"
)
_NO_COMMERCE: Final = word_set(
    "payroll payslip payslips salary salaries wage wages ledger journal gl budget budgets loan loans gehalt lohn"
    " expense expenses claim claims cost costs balance"
)
"""Words of tables whose gross and net amounts are different things to everybody."""

_CENTS: Final = word_set("cents cent minor pence pfennig centimes centavos subunits")
_RATES: Final = word_set("fx exchange conversion currency kurs wechselkurs cambio")
_CONVERTED: Final = word_set("eur usd gbp chf base local reporting home group converted functional lc")
_HAPPENED: Final = (
    word_set("ordered order placed booked booking purchased signed created received submitted bestellt opened"),
    word_set("invoiced invoice issued billed billing rechnung"),
    word_set("paid payment settled captured cleared bezahlt charged processed"),
    word_set("shipped dispatched sent versendet fulfilled"),
    word_set("delivered delivery geliefert arrived received"),
    word_set("recognized recognised recognition posted posting earned accounting gebucht effective service"),
    word_set("closed close won completed finished"),
    word_set("started start activated activation begin"),
)
"""Steps of business, each with the words of a column that says when it was."""

_NO_STEP: Final = word_set(
    "due expected planned estimated scheduled promised requested target valid until expires expiry expiration updated"
    " modified deleted archived cancelled canceled birth first last next previous synced loaded inserted sla deadline"
    " merged forecast end ended"
)
_FISCAL: Final = word_set("fiscal fy financial geschaeftsjahr fiskal fiscale")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_FISCAL_STARTS: Final = (1, 2, 4, 7, 10)
"""Months in which fiscal years begin, where the data does not say."""


def amounts(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield gross beside net, and an amount beside a tax or a discount that it may or may not include."""
    if set(table.words) & _NO_COMMERCE or not table.is_event:
        return
    found = database.amounts(table)
    main = {
        name: set(words)
        for name, words in found.items()
        if not set(words) & (_TAX | _DISCOUNT | _PARTS) or set(words) & _NET_OF_TAX
    }
    gross = [name for name, words in main.items() if words & _GROSS]
    net = [name for name, words in main.items() if words & _NET]
    plain = [name for name in main if name not in gross and name not in net]
    sums: list[tuple[str, str, tuple[str, ...]]] = [
        (f"Sum of {name}", f"sum({database.quoted(name)})", (name,)) for name in [*gross[:1], *net[:1]]
    ]
    whole = (gross or plain or net)[:1]
    tax = [name for name, words in found.items() if set(words) & _TAX and name not in main]
    discount = [name for name, words in found.items() if set(words) & _DISCOUNT and name not in main]
    if whole and len(sums) < 2:
        sums = sums or [(f"Sum of {whole[0]}", f"sum({database.quoted(whole[0])})", (whole[0],))]
        for other in [*tax[:1], *discount[:1]]:
            left = f"sum({database.quoted(whole[0])} - coalesce({database.quoted(other)}, 0))"
            sums.append((f"Sum of {whole[0]} without {other}", left, (whole[0], other)))
    if len(sums) < 2:
        return
    columns = tuple(dict.fromkeys(name for _, _, names in sums for name in names))
    listed = " or ".join(label.removeprefix("Sum of ") for label, _, _ in sums)
    yield FoundPoint(
        table.table.ref, DecisionKind.AMOUNT, columns,
        f"Which amount of {things(table)} counts: {listed}?",
        tuple(Alternative("_".join(names), label, expr=expr) for label, expr, names in sums),
        (f"{table.name} has {', '.join((*columns, *(each for each in tax[:1] if each not in columns)))} beside each"
         " other.",),
        1.0,
    )  # fmt: skip


_NET_OF_TAX: Final = word_set("incl excl including excluding inclusive exclusive ttc ht")
"""Words that make a name with `tax` in it the name of an amount: `amount_incl_tax`."""


def units(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield amounts in cents: by their names, or a hundred times as large as the amounts of a related table."""
    found = database.amounts(table)
    for name in found:
        profile = table.profiles[name]
        if profile.kind is not ValueKind.INTEGER:
            continue
        if plain_words(name) & _CENTS:
            yield _unit(database, table, name, f"{name} holds whole numbers, and its name says minor units.")
            return
        other = next(_hundredths(database, table, name), None)
        if other is not None:
            evidence = f"{name} holds whole numbers, about 100 times as large as {other}."
            yield _unit(database, table, name, evidence)
            return


def _hundredths(database: Database, table: ProfiledTable, column: str) -> Iterator[str]:
    """Yield amounts with decimals, of the table or of one it refers to, whose values are a hundredth of a column's."""
    profile = table.profiles[column]
    near = [table, *(database.tables[each.parent] for each in table.references if each.parent in database.tables)]
    near += [database.tables[each.child] for each in database.children.get(table.table.ref, ())]
    for other in near:
        for name in database.amounts(other):
            known = other.profiles[name]
            if known.kind is not ValueKind.NUMBER or not known.maximum or not profile.maximum:
                continue
            if 80 <= float(profile.maximum) / float(known.maximum) <= 125 and _is_near(profile.minimum, known.minimum):
                yield f"{other.name}.{name}"


def _is_near(small: object, large: object) -> bool:
    one, other = float(str(small)), float(str(large))
    return one <= 0 or other <= 0 or 30 <= one / other <= 300


def _unit(database: Database, table: ProfiledTable, column: str, evidence: str) -> FoundPoint:
    quoted = database.quoted(column)
    return FoundPoint(
        table.table.ref, DecisionKind.UNIT, (column,),
        f"Is {column} of {things(table)} in cents?",
        (
            Alternative("as_stored", f"{column} counts as it is stored", expr=f"sum({quoted})"),
            Alternative("hundredths", f"{column} is in cents", expr=f"sum({quoted}) / 100.0"),
        ),
        (evidence,), 1.0,
    )  # fmt: skip


def currencies(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield a currency with several values beside amounts that are added up."""
    found = database.amounts(table)
    for column in table.table.columns:
        profile = table.profiles.get(column.name)
        if not is_currency_column(column) or profile is None or not 2 <= (profile.distinct or 0) <= 200:
            continue
        mixed = [name for name in found if not set(tokens(name)) & _CONVERTED]
        if not mixed or not table.is_event:
            continue
        amount = database.quoted(mixed[0])
        readings = [Alternative("added_up", f"{mixed[0]} is added up in all currencies", expr=f"sum({amount})")]
        rate = next((each.name for each in table.table.columns if _is_exchange_rate(table, each)), None)
        converted = next((name for name in found if set(tokens(name)) & _CONVERTED), None)
        if converted is not None:
            label = f"{converted} counts, which is converted"
            readings.append(Alternative("converted", label, expr=f"sum({database.quoted(converted)})"))
        elif rate is not None:
            label = f"{mixed[0]} times {rate} counts"
            readings.append(Alternative("by_rate", label, expr=f"sum({amount} * {database.quoted(rate)})"))
        most = str(profile.top[0][0])
        if len(most) == 3 and most.isalpha() and database.shows_values:
            only = f"{database.quoted(column.name)} = {database.dialect.value(most)}"
            readings.append(Alternative("one", f"Only {most} counts", expr=f"sum(case when {only} then {amount} end)"))
        top = profile.top[0][1]
        yield FoundPoint(
            table.table.ref, DecisionKind.CURRENCY, (column.name, mixed[0]),
            f"Are amounts of {things(table)} in several currencies added up?",
            tuple(readings),
            (f"{column.name} has {profile.distinct} values; {in_rows(profile.filled - top, table)} have another one"
             " than the most frequent.",),
            round((profile.filled - top) / max(1, profile.rows), 4),
        )  # fmt: skip
        return


def _is_exchange_rate(table: ProfiledTable, column: Column) -> bool:
    words = plain_words(column.name)
    is_rate = "fxrate" in words or (bool(words & {"rate", "kurs", "cambio", "fx"}) and bool(words & _RATES))
    return column.type is SemanticType.NUMBER and is_rate and column.name not in table.keys


def dates(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield two or more steps of business whose dates fall in different months for a fair share of the rows."""
    if not database.amounts(table) or not table.is_event or is_lines(table):
        return
    steps: dict[int, str] = {}
    for column in table.times:
        words = {*tokens(column)}
        profile = table.profiles.get(column)
        if words & _NO_STEP or profile is None or profile.nulls > 0.7 * profile.rows:
            continue
        step = next((place for place, known in enumerate(_HAPPENED) if words & known), None)
        if step is not None:
            steps.setdefault(step, column)
    chosen = [steps[place] for place in sorted(steps)][:4]
    if len(chosen) < 2:
        return
    pairs = list(combinations(chosen, 2))
    counted = database.counter(table, [_other_month(database, *pair) for pair in pairs])
    if counted is None:
        return
    far = {pair: count for pair, count in zip(pairs, counted, strict=True) if count >= FAIR * table.rows}
    if not far:
        return
    kept = [name for name in chosen if any(name in pair for pair in far)]
    (one, other), most = max(far.items(), key=lambda each: each[1])
    yield FoundPoint(
        table.table.ref, DecisionKind.DATE, tuple(kept),
        f"Which date do {things(table)} belong to: {' or '.join(kept)}?",
        tuple(Alternative(name, f"By {name}", time=name) for name in kept),
        (f"{one} and {other} are in different months in {most:,} of {table.rows:,} rows.",),
        round(most / table.rows, 4),
    )  # fmt: skip


def _other_month(database: Database, one: str, other: str) -> exp.Expr:
    """Return the condition that two times of a row are in different months."""
    dialect = database.dialect
    times = [dialect.as_timestamp(exp.column(exp.to_identifier(name, quoted=True))) for name in (one, other)]
    months = [(dialect.extract("YEAR", each), dialect.extract("MONTH", each)) for each in times]
    return exp.or_(
        *(exp.NEQ(this=first, expression=second) for first, second in zip(months[0], months[1], strict=True))
    )


def fiscal_starts(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield a fiscal year of a calendar or of targets: in which month it begins, as its dates show."""
    year = next(
        (
            column.name
            for column in table.table.columns
            if _is_fiscal(column.name) and plain_words(column.name) & {"year", "yr", "fy", "jahr", "geschaeftsjahr"}
        ),
        None,
    )
    other = next((column.name for column in table.table.columns if _is_fiscal(column.name)), None)
    name = year or other
    if name is None or table.profile.problem is not None:
        return
    profile = table.profiles.get(name)
    if year is not None and profile is not None and profile.kind is ValueKind.INTEGER and table.times:
        start = _start_month(database, table, year, table.times[0])
        if start is None:
            return
        if start == 1:
            return
        evidence = f"{year} changes with {_MONTHS[start - 1]} of {table.times[0]}."
        months: tuple[int, ...] = (1, start)
    else:
        evidence = f"{table.name} has {name}, and no date says when it begins."
        months = _FISCAL_STARTS
        if table.times:
            return
    yield FoundPoint(
        table.table.ref, DecisionKind.FISCAL_START, (name,), "In which month does the fiscal year begin?",
        tuple(Alternative(str(month), f"It begins in {_MONTHS[month - 1]}") for month in months),
        (evidence,), 1.0,
    )  # fmt: skip


def _is_fiscal(name: str) -> bool:
    return bool(plain_words(name) & _FISCAL)


def _start_month(database: Database, table: ProfiledTable, year: str, time: str) -> int | None:
    """Return the month in which a fiscal year begins, None where the dates do not say so clearly."""
    dialect = database.dialect
    moment = dialect.as_timestamp(exp.column(exp.to_identifier(time, quoted=True)))
    month, own = dialect.extract("MONTH", moment), dialect.extract("YEAR", moment)
    ahead = exp.Sub(this=exp.column(exp.to_identifier(year, quoted=True)), expression=own)
    select = exp.select(exp.alias_(month, "m"), exp.alias_(ahead, "ahead"), exp.alias_(exp.Count(this=exp.Star()), "n"))
    select = select.group_by(month.copy(), ahead.copy())
    rows = database.counter.rows(table, select, 200)
    by_month: dict[int, dict[int, int]] = {}
    for number, difference, count in rows or ():
        if number is not None and difference is not None:
            by_month.setdefault(int(number), {})[int(difference)] = int(count)
    if len(by_month) < 12:
        return None
    usual = {}
    for number, counts in by_month.items():
        best = max(counts, key=lambda each: counts[each])
        if counts[best] < 0.95 * sum(counts.values()):
            return None
        usual[number] = best
    values = set(usual.values())
    if len(values) == 1:
        return 1
    ordered = [usual[number] for number in range(1, 13)]
    rises = [place + 1 for place in range(1, 12) if ordered[place] == ordered[place - 1] + 1]
    return rises[0] if len(rises) == 1 and len(values) == 2 else None


def missing_values(
    database: Database, table: ProfiledTable, measures: Mapping[str, ProposedMeasure]
) -> Iterator[FoundPoint]:
    """Yield flags with a fair share of NULL whose rate is proposed as a measure; `measures`: by column."""
    for column in table.table.columns:
        measure, profile = measures.get(column.name), table.profiles.get(column.name)
        if measure is None or profile is None or column.type is not SemanticType.BOOLEAN:
            continue
        if not FAIR <= profile.nulls / max(1, profile.rows) <= 0.9:
            continue
        quoted = database.quoted(column.name)
        true, false = (
            (quoted, f"NOT {quoted}") if database.dialect.conditions_are_values else (f"{quoted} = 1", f"{quoted} = 0")
        )
        yield FoundPoint(
            table.table.ref, DecisionKind.NULLS, (column.name,),
            f"Does a missing {column.name} of a {thing(table)} count as no?",
            (
                Alternative("as_false", f"A missing {column.name} counts as no", expr=measure.expr),
                Alternative(
                    "left_out", f"{things(table).capitalize()} without {column.name} are left out",
                    expr=f"avg(case when {true} then 1.0 when {false} then 0.0 end)",
                ),
            ),
            (f"{column.name} is missing in {in_rows(profile.nulls, table)}.",),
            round(profile.nulls / profile.rows, 4),
        )  # fmt: skip
        return
