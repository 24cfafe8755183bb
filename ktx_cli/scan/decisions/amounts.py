"""Detectors for the meaning of amounts: which one counts, its unit, currency and date, fiscal years and NULLs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from sqlglot import exp

from ktx_cli.privacy import ValueKind
from ktx_cli.scan.decisions.record import FoundPoint
from ktx_cli.scan.decisions.tables import (
    Asking,
    Database,
    column_named,
    counts,
    happens,
    in_rows,
    is_lines,
    plain_words,
    thing,
    things,
)
from ktx_cli.scan.measures.additive import (
    DISCOUNT,
    FEE,
    GROSS,
    NET,
    PRICE,
    REFUND,
    SHARE,
    TAX,
    Additive,
    additive,
    is_currency_column,
)
from ktx_cli.scan.measures.proposals import ProfiledTable
from ktx_cli.scan.measures.record import ProposedMeasure
from ktx_cli.scan.relationships.names import tokens, word_set
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.warehouses import Column, SemanticType

FAIR: Final = 0.05
"""The minimum share of rows for which a difference justifies a question."""

_REFUNDS: Final = REFUND | word_set("return returns reimbursement credit")
_REDUCTIONS: Final = DISCOUNT | word_set(
    "deduction deductions deducted withheld voucher vouchers coupon coupons promo promotion allowance markdown"
    " reduction abzug nachlass gutschein rebaja bon korting"
)
"""Words for deductions from an amount."""

_KEPT: Final = FEE | word_set("handling restocking retained commission")
"""Words for retained parts of an amount."""

_PARTS: Final = (
    FEE
    | REFUND
    | word_set(
        "shipping freight cost costs tip tips paid due remaining deposit credit debit bonus commission margin profit"
        " surcharge versand budget weight"
    )
)

_NO_COMMERCE: Final = word_set(
    "payroll payslip payslips salary salaries wage wages ledger journal gl budget budgets loan loans gehalt lohn"
    " expense expenses claim claims cost costs balance"
)
"""Words for tables whose gross and net amounts never mean the same thing."""

_CENTS: Final = word_set("cents cent minor pence pfennig centimes centavos subunits")
_RATES: Final = word_set("fx exchange conversion currency kurs wechselkurs cambio")
_CONVERTED: Final = word_set("eur usd gbp chf base local reporting home group converted functional lc")
_NO_STEP: Final = word_set(
    "expected planned estimated scheduled promised requested target valid until expires expiry expiration updated"
    " modified deleted archived cancelled canceled birth first last next previous synced inserted sla deadline merged"
    " forecast end ended required needed wanted"
)
_FISCAL: Final = word_set("fiscal fy financial geschaeftsjahr fiskal fiscale")
_PLANS: Final = word_set("budget budgets target targets plan plans forecast forecasts quota quotas calendar goal goals")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_FISCAL_STARTS: Final = (1, 2, 4, 7, 10)
"""Months in which fiscal years usually begin, if the data does not show it."""


def amounts(database: Database, table: ProfiledTable) -> Asking:
    """Yield gross and net amounts, and amounts that may or may not include a tax, a discount or a fee."""
    if set(table.words) & _NO_COMMERCE or not happens(table):
        return
    found = database.amounts(table)
    refunds = bool(set(table.words) & _REFUNDS)
    parts = _PARTS - _REFUNDS if refunds else _PARTS
    main = {
        name: set(words)
        for name, words in found.items()
        if not set(words) & (TAX | _REDUCTIONS | parts) or set(words) & _NET_OF_TAX
    }
    gross = [name for name, words in main.items() if words & GROSS]
    net = [name for name, words in main.items() if words & NET]
    plain = [name for name in main if name not in gross and name not in net]
    listed_first = [*gross[:1], *net[:1]] if gross and net else [*plain[:1], *(gross or net)[:1]]
    sums: list[tuple[str, str, tuple[str, ...]]]
    if len(listed_first) > 1:
        sums = [(f"Sum of {name}", f"sum({database.quoted(name)})", (name,)) for name in listed_first]
        yield _amount_point(table, sums)
        return
    whole = _whole(database, table, listed_first)
    if whole is None:
        return
    parts_of_it = list(_parts_by_name(database, table, main))
    if not parts_of_it and listed_first:
        doubtful = list(_doubtful_parts(table, listed_first[0], found))
        if doubtful:
            answer = yield counts(*(_is_no_part(listed_first[0], name) for name in doubtful))
            within = [name for name, count in zip(doubtful, answer or (), strict=False) if not count]
            parts_of_it = [_Part(name, f"coalesce({database.quoted(name)}, 0)") for name in within[:1]]
    sums = [(f"Sum of {whole.name}", f"sum({whole.sql})", whole.columns)]
    for part in parts_of_it:
        names = (*whole.columns, part.name)
        reduced = part.left.format(whole.sql) if part.left else f"{whole.sql} - {part.sql}"
        sums.append((f"Sum of {whole.name} without {part.name}", f"sum({reduced})", names))
        if part.is_tax:
            raised = part.more.format(whole.sql) if part.more else f"{whole.sql} + {part.sql}"
            sums.append((f"Sum of {whole.name} with {part.name}", f"sum({raised})", (*names, "added")))
    if len(sums) > 1:
        yield _amount_point(table, sums)


@dataclass(frozen=True, slots=True)
class _Whole:
    """A row's amount: a column, or price times quantity."""

    name: str
    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part that an amount may or may not include.

    `sql`: the part as an amount. `left`, `more`: for a part that is a rate, the amount without it and with it, around
    `{}`.
    """

    name: str
    sql: str = ""
    is_tax: bool = False
    left: str = ""
    more: str = ""


def _amount_point(table: ProfiledTable, sums: Sequence[tuple[str, str, tuple[str, ...]]]) -> FoundPoint:
    columns = tuple(dict.fromkeys(name for _, _, names in sums for name in names if name in table.parts))
    listed = " or ".join(label.removeprefix("Sum of ") for label, _, _ in sums)
    tax = [name for name in table.parts if set(table.parts[name]) & TAX and name in _deductions(table)]
    return FoundPoint(
        table.table.ref, DecisionKind.AMOUNT, columns,
        f"Which amount of {things(table)} counts: {listed}?",
        tuple(Alternative("_".join(names), label, expr=expr) for label, expr, names in sums),
        (f"{table.name} has {', '.join((*columns, *(each for each in tax[:1] if each not in columns)))}.",),
        1.0,
    )  # fmt: skip


def _whole(database: Database, table: ProfiledTable, amount: list[str]) -> _Whole | None:
    if amount:
        return _Whole(amount[0], database.quoted(amount[0]), (amount[0],))
    price = next(
        (
            name
            for name, words in table.parts.items()
            if set(words) & PRICE and len(words) <= 2 and _is_number(table, name)
        ),
        None,
    )
    quantity = next(
        (
            column.name
            for column in table.table.columns
            if column.name not in table.keys
            and (known := additive(column, table.profiles.get(column.name), table.parts[column.name], table.words))
            and known.kind is Additive.QUANTITY
        ),
        None,
    )
    if price is None or quantity is None or not is_lines(table):
        return None
    sql = f"{database.quoted(price)} * {database.quoted(quantity)}"
    return _Whole(f"{price} times {quantity}", sql, (price, quantity))


def _is_number(table: ProfiledTable, name: str) -> bool:
    profile = table.profiles.get(name)
    return profile is not None and profile.kind in (ValueKind.INTEGER, ValueKind.NUMBER) and name not in table.keys


def _parts_by_name(database: Database, table: ProfiledTable, main: Collection[str]) -> Iterator[_Part]:
    """Yield a tax, a discount and a fee, as amounts or as rates."""
    others = [name for name in _deductions(table) if name not in main]
    for words in (TAX, _REDUCTIONS, _KEPT):
        is_tax = words is TAX
        amount = next((name for name in others if set(table.parts[name]) & words and name in _deductions(table)), None)
        if amount is not None and (is_tax or not set(table.parts[amount]) & TAX):
            yield _Part(amount, f"coalesce({database.quoted(amount)}, 0)", is_tax)
            continue
        rate = next((name for name in table.parts if set(table.parts[name]) & words and _is_rate(table, name)), None)
        if rate is None or words is _KEPT:
            continue
        quoted, most = database.quoted(rate), float(table.profiles[rate].maximum or 0)
        one, hundredth = ("1", "") if most <= 1 else ("100.0", " / 100.0")
        factor = f"coalesce({quoted}, 0)"
        if is_tax:
            left, more = f"{{}} * {one} / ({one} + {factor})", f"{{}} * ({one} + {factor}){hundredth}"
            yield _Part(rate, is_tax=True, left=left.replace(" * 1 /", " /"), more=more)
        else:
            yield _Part(rate, left=f"{{}} * ({one} - {factor}){hundredth}")


def _is_rate(table: ProfiledTable, name: str) -> bool:
    """Return whether a column expresses part of an amount as a fraction or a percentage."""
    profile = table.profiles.get(name)
    if profile is None or not _is_number(table, name) or profile.maximum is None or profile.minimum is None:
        return False
    low, high = float(profile.minimum), float(profile.maximum)
    says = bool(set(table.parts[name]) & SHARE)
    return low >= 0 and (0 < high <= 1 or (says and 1 < high <= 100)) and (profile.distinct or 0) >= 2


def _doubtful_parts(table: ProfiledTable, whole: str, money: Collection[str]) -> Iterator[str]:
    """Yield amounts that are smaller than another amount in the row and whose names do not say what they are."""
    known = table.profiles[whole]
    for name, words in table.parts.items():
        profile = table.profiles.get(name)
        if profile is None or name == whole or not _is_number(table, name) or profile.kind is not known.kind:
            continue
        if set(words) & (_PARTS | PRICE | SHARE | _NO_PARTS) or profile.minimum is None or known.maximum is None:
            continue
        is_smaller = profile.minimum >= 0 and 0 < (profile.maximum or 0) < known.maximum
        if is_smaller and (profile.distinct or 0) > 30 and (name in money or profile.kind is ValueKind.NUMBER):
            yield name


def _is_no_part(whole: str, part: str) -> exp.Expr:
    """Return the condition that an amount is too large to be part of another one."""
    most = exp.Mul(this=column_named(whole), expression=exp.Literal.number(_MOST_OF_IT))
    return exp.GT(this=column_named(part), expression=most)


_MOST_OF_IT: Final = "0.6"
"""The maximum size of a part relative to its amount, in every row."""

_NO_PARTS: Final = word_set(
    "weight height width length size score rating latitude longitude hours minutes seconds duration distance quantity"
    " qty probability balance"
)


def _deductions(table: ProfiledTable) -> list[str]:
    """Return the columns of taxes, discounts and fees that are amounts rather than rates."""
    found = []
    for column in table.table.columns:
        profile, words = table.profiles.get(column.name), set(table.parts[column.name])
        if column.type is not SemanticType.NUMBER or profile is None or column.name in table.keys:
            continue
        is_rate = words & _NO_AMOUNT or profile.kind not in (ValueKind.INTEGER, ValueKind.NUMBER)
        known = words & (TAX | _REDUCTIONS | _KEPT) and not words & _SHIPPING
        if known and not is_rate and (profile.distinct or 0) > 30 and float(profile.maximum or 0) > 1:
            found.append(column.name)
    return found


_NO_AMOUNT: Final = SHARE | word_set("class code id")
_SHIPPING: Final = word_set("shipping freight delivery versand fracht")
_NET_OF_TAX: Final = word_set("incl excl including excluding inclusive exclusive ttc ht")
"""Words that show that a name containing `tax` is an amount: `amount_incl_tax`."""


def units(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield amounts in minor units, recognized by name, by a related table, or as the only whole numbers."""
    if not happens(table):
        return
    found = list(database.amounts(table))
    if table.times:
        found += [
            column.name
            for column in table.table.columns
            if column.name not in found and column.name not in table.keys and table.parts[column.name] in _VALUES
        ]
    for name in found:
        profile = table.profiles[name]
        if profile.kind is not ValueKind.INTEGER:
            continue
        large = float(profile.maximum or 0) >= _MICROS
        if plain_words(name) & _CENTS:
            yield _unit(
                database, table, name, f"{name} contains whole numbers, and its name mentions a minor unit.", large
            )
            return
        other = next(_hundredths(database, table, name), None)
        if other is not None:
            evidence = f"{name} contains whole numbers, about 100 times as large as {other}."
            yield _unit(database, table, name, evidence, large)
            return
        others = database.fractional_amounts(table)
        if len(others) >= 2 and (profile.distinct or 0) > 30 and float(profile.maximum or 0) >= 1_000:
            evidence = f"{name} contains whole numbers, while amounts such as {others[0]} have decimals."
            yield _unit(database, table, name, evidence, large)
            return


_VALUES: Final = (("value",), ("wert",), ("total",), ("price",))
_MICROS: Final = 50_000_000
"""The minimum size of an amount that may be in millionths."""


def _hundredths(database: Database, table: ProfiledTable, column: str) -> Iterator[str]:
    """Yield amounts with decimals, in this table or a referenced one, that are a hundredth of a column's values."""
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


def _unit(database: Database, table: ProfiledTable, column: str, evidence: str, large: bool) -> FoundPoint:
    quoted = database.quoted(column)
    readings = [
        Alternative("as_stored", f"{column} is in the main unit", expr=f"sum({quoted})"),
        Alternative("hundredths", f"{column} is in cents", expr=f"sum({quoted}) / 100.0"),
    ]
    if large:
        readings.append(Alternative("millionths", f"{column} is in millionths", expr=f"sum({quoted}) / 1000000.0"))
    return FoundPoint(
        table.table.ref, DecisionKind.UNIT, (column,),
        f"What is the unit of {column} in {things(table)}?", tuple(readings), (evidence,), 1.0,
    )  # fmt: skip


def currencies(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield a currency column with several values next to amounts that are summed."""
    found = database.amounts(table)
    for column in table.table.columns:
        profile = table.profiles.get(column.name)
        if not is_currency_column(column) or profile is None or not 2 <= (profile.distinct or 0) <= 200:
            continue
        mixed = [name for name in found if not set(tokens(name)) & _CONVERTED]
        if not mixed or not happens(table):
            continue
        amount = database.quoted(mixed[0])
        readings = [Alternative("added_up", f"{mixed[0]} is summed across currencies", expr=f"sum({amount})")]
        rate = next((each.name for each in table.table.columns if _is_exchange_rate(table, each)), None)
        converted = next((name for name in found if set(tokens(name)) & _CONVERTED), None)
        if converted is not None:
            label = f"{converted} counts, which is already converted"
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
            f"Are {things(table)} summed across currencies?",
            tuple(readings),
            (f"{column.name} has {profile.distinct} values; {in_rows(profile.filled - top, table)} have a "
                "value other than the most frequent one.",),
            round((profile.filled - top) / max(1, profile.rows), 4),
        )  # fmt: skip
        return


def _is_exchange_rate(table: ProfiledTable, column: Column) -> bool:
    words = plain_words(column.name)
    is_rate = "fxrate" in words or (bool(words & {"rate", "kurs", "cambio", "fx"}) and bool(words & _RATES))
    return column.type is SemanticType.NUMBER and is_rate and column.name not in table.keys


def dates(database: Database, table: ProfiledTable) -> Asking:
    """Yield two or more business steps whose dates fall in different months in a significant share of rows."""
    if not database.amounts_or_quantities(table) or not happens(table) or is_lines(table) or table.has_periods:
        return
    chosen = []
    for column in table.table.columns:
        words, profile = {*tokens(column.name)}, table.profiles.get(column.name)
        is_time = column.type is SemanticType.TIME or column.name in table.times
        is_plain = is_time and not words & _NO_STEP and column.name not in database.audit_columns
        if is_plain and profile is not None and profile.nulls <= 0.7 * profile.rows:
            chosen.append(column.name)
    chosen = chosen[:4]
    if len(chosen) < 2:
        return
    pairs = list(combinations(chosen, 2))
    counted = yield counts(*(_other_month(database, *pair) for pair in pairs))
    if counted is None:
        return
    far = {
        pair: count
        for pair, count in zip(pairs, map(_whole_number, counted), strict=True)
        if count >= FAIR * table.rows
    }
    if not far:
        return
    kept = [name for name in chosen if any(name in pair for pair in far)]
    (one, other), most = max(far.items(), key=lambda each: each[1])
    yield FoundPoint(
        table.table.ref, DecisionKind.DATE, tuple(kept),
        f"Which date determines the period of {things(table)}: {' or '.join(kept)}?",
        tuple(Alternative(name, f"By {name}", time=name) for name in kept),
        (f"{one} and {other} fall in different months in {most:,} of {table.rows:,} rows.",),
        round(most / table.rows, 4),
    )  # fmt: skip


def _whole_number(value: object) -> int:
    return int(str(value or 0))


def _other_month(database: Database, one: str, other: str) -> exp.Expr:
    """Return the condition that a row's two times fall in different months."""
    dialect = database.dialect
    times = [dialect.as_timestamp(exp.column(exp.to_identifier(name, quoted=True))) for name in (one, other)]
    months = [(dialect.extract("YEAR", each), dialect.extract("MONTH", each)) for each in times]
    return exp.or_(
        *(exp.NEQ(this=first, expression=second) for first, second in zip(months[0], months[1], strict=True))
    )


def fiscal_starts(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield the fiscal year column of a calendar or target table, with the first month that its dates show."""
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
        if start == 1 or (start is None and not set(table.words) & _PLANS):
            return
        says = f"{year} changes in {_MONTHS[start - 1]} of {table.times[0]}." if start else ""
        evidence = says or f"{table.name} has {year}, and its dates do not show when the fiscal year begins."
        months: tuple[int, ...] = (1, start) if start else _FISCAL_STARTS
    elif table.times and not set(table.words) & _PLANS:
        return
    else:
        evidence = f"{table.name} has {name}, and no date shows when the fiscal year begins."
        months = _FISCAL_STARTS
    yield FoundPoint(
        table.table.ref, DecisionKind.FISCAL_START, (name,), "In which month does the fiscal year begin?",
        tuple(Alternative(str(month), f"It begins in {_MONTHS[month - 1]}") for month in months),
        (evidence,), 1.0,
    )  # fmt: skip


def _is_fiscal(name: str) -> bool:
    return bool(plain_words(name) & _FISCAL)


def _start_month(database: Database, table: ProfiledTable, year: str, time: str) -> int | None:
    """Return the month in which a fiscal year begins, or None if the dates do not show it clearly."""
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
    for number, by_year in by_month.items():
        best = max(by_year, key=lambda each: by_year[each])
        if by_year[best] < 0.95 * sum(by_year.values()):
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
    """Yield columns with many missing values on which a rate, an average or a count depends.

    `measures`: the proposed rates, by column.
    """
    amounts_of = database.amounts(table) if happens(table) else {}
    for column in table.table.columns:
        profile = table.profiles.get(column.name)
        if profile is None or column.name in table.keys or not profile.rows or profile.problem is not None:
            continue
        missing = profile.nulls / profile.rows
        words = set(table.parts[column.name])
        if not FAIR <= missing <= 0.9:
            continue
        quoted = database.quoted(column.name)
        measure = measures.get(column.name)
        if measure is not None and column.type is SemanticType.BOOLEAN:
            has_truth = database.dialect.conditions_are_values
            true, false = (quoted, f"NOT {quoted}") if has_truth else (f"{quoted} = 1", f"{quoted} = 0")
            question = f"Does a missing {column.name} of a {thing(table)} count as no?"
            yield _missing(
                table, column.name, profile.nulls, missing, question,
                Alternative("as_false", f"A missing {column.name} counts as no", expr=measure.expr),
                Alternative(
                    "left_out", f"{things(table).capitalize()} without {column.name} are excluded",
                    expr=f"avg(case when {true} then 1.0 when {false} then 0.0 end)",
                ),
            )  # fmt: skip
        elif (
            missing >= 2 * FAIR
            and table.times
            and column.type is SemanticType.NUMBER
            and (column.name in amounts_of or (words & _RATINGS and set(table.words) & _RATED))
        ):
            question = f"Do {things(table)} without {column.name} count in the average of {column.name}?"
            yield _missing(
                table, column.name, profile.nulls, missing, question,
                Alternative("left_out", f"{things(table).capitalize()} without {column.name} are excluded",
                            expr=f"avg({quoted})"),
                Alternative("as_zero", f"A missing {column.name} counts as 0", expr=f"avg(coalesce({quoted}, 0))"),
            )  # fmt: skip
        elif missing >= 2 * FAIR and column.type is SemanticType.STRING and words & _ORIGINS and _has_an_origin(table):
            yield _missing(
                table, column.name, profile.nulls, missing, f"Do {things(table)} without {column.name} count?",
                Alternative("count", f"{things(table).capitalize()} without {column.name} count"),
                Alternative("exclude", f"{things(table).capitalize()} without {column.name} do not count",
                            filter=f"{quoted} IS NOT NULL"),
            )  # fmt: skip


def placeholders(database: Database, table: ProfiledTable) -> Iterator[FoundPoint]:
    """Yield the origin of leads, orders or customers if a significant share of rows have a value such as `unknown`."""
    for column in table.table.columns:
        if not set(table.parts[column.name]) & _ORIGINS or not _has_an_origin(table):
            continue
        values = database.values(table, column)
        found = [(value, count) for value, count in values if "_".join(tokens(value)) in _UNKNOWN]
        total, rows = sum(count for _, count in found), table.profile.rows
        if not found or not 2 * FAIR * rows <= total <= 0.9 * rows:
            continue
        listed = " or ".join(value for value, _ in found)
        name = column.name
        yield FoundPoint(
            table.table.ref, DecisionKind.NULLS, (name,), f"Do {things(table)} whose {name} is {listed} count?",
            (
                Alternative("count", f"{things(table).capitalize()} whose {name} is {listed} count"),
                Alternative("exclude", f"{things(table).capitalize()} whose {name} is {listed} do not count",
                            filter=database.is_none_of(name, [value for value, _ in found])),
            ),
            (f"{name} is {listed} in {in_rows(total, table)}.",), round(total / rows, 4),
        )  # fmt: skip


_UNKNOWN: Final = word_set(
    "unknown n_a na none null nil not_set not_available not_specified unspecified undefined missing unbekannt"
    " desconocido inconnu sconosciuto onbekend"
)
"""Values that mean "missing"."""

_RATINGS: Final = word_set("satisfaction csat rating score nps stars bewertung zufriedenheit note")
_RATED: Final = word_set(
    "ticket tickets case cases request requests survey surveys feedback response responses order orders call calls"
    " conversation conversations chat chats stay stays ride rides trip trips delivery deliveries"
)
_ORIGINS: Final = word_set("source origin channel referrer medium herkunft quelle kanal")
_ARRIVED: Final = word_set(
    "lead leads enquiry enquiries inquiry inquiries prospect prospects signup signups registration registrations"
    " application applications order orders booking bookings customer customers account accounts"
)


def _has_an_origin(table: ProfiledTable) -> bool:
    return bool(_ARRIVED & set(table.words[-1:]))


def _missing(
    table: ProfiledTable, column: str, nulls: int, share: float, question: str, *readings: Alternative
) -> FoundPoint:
    evidence = f"{column} is missing in {in_rows(nulls, table)}."
    return FoundPoint(table.table.ref, DecisionKind.NULLS, (column,), question, readings, (evidence,), round(share, 4))
