"""How kinds of conventions usually show in data, and how they are usually read; the building blocks of the catalog."""

from __future__ import annotations

from typing import Final

from ktx_cli.jobs.proof.company.conventions import Form, Reading

RATES: Final = "exchange_rates"
"""The table of exchange rates."""

FAMILIES: Final = "product_families"
"""The table whose variants products may be."""


def concept(names: str) -> str:
    """Return the column that a list of names represents, as a template."""
    return f"{{{names.split('|')[0]}}}"


def flag(names: str, share: int) -> Form:
    """Return a form with a boolean that is true for `share` in a thousand rows."""
    return Form((f"{names} flag = {{roll}} < {share}",), parts={"mark": concept(names)})


def flags(names: str, share: int, real: str = "") -> tuple[Form, ...]:
    """Return the forms of a flag: a boolean, a number or a letter, and one that is true for the other rows (`real`)."""
    column = concept(names)
    is_marked = f"CASE WHEN {{roll}} < {share} THEN"
    found = [
        flag(names, share),
        Form((f"{names} ordinal 0 1 = {is_marked} 1 ELSE 0 END",), parts={"mark": f"{column} = 1"}),
        Form((f"{names} status = {is_marked} '<Y|yes|X>' ELSE 'N' END",), parts={"mark": f"{column} = '<Y|yes|X>'"}),
    ]
    if real:
        found.append(Form((f"{real} flag = {{roll}} >= {share}",), parts={"mark": f"NOT {concept(real)}"}))
    return tuple(found)


def kind(names: str, marked: str, share: int, others: str) -> Form:
    """Return a form whose column has few values, one of which marks rows; `others`: two values that mark nothing."""
    usual, other = others.split()
    value = (
        f"CASE WHEN {{roll}} < {share} THEN '{marked}' WHEN {{roll}} < {3 * share} THEN '{other}' ELSE '{usual}' END"
    )
    return Form((f"{names} status = {value}",), parts={"mark": f"{concept(names)} = '{marked}'"})


def removed(day: str, share: int) -> tuple[Form, ...]:
    """Return the forms of rows marked as deleted. `day`: the column with the day they came."""
    when = f"CASE WHEN {{roll}} < {share} THEN {{{day}}} + CAST(20 + {{roll}} % 200 AS INTEGER) END"
    word = "<deleted|removed|D|gone>"
    state = f"CASE WHEN {{roll}} < {share} THEN '{word}' ELSE '<live|current|A|ok>' END"
    return (
        Form(
            (f"deleted_on|removed_on|archived_on|deleted_at date = {when}",), parts={"mark": "{deleted_on} IS NOT NULL"}
        ),
        Form(
            (f"purged_at|erased_at|deletion_time time = CAST({when} AS TIMESTAMP) + INTERVAL 9 HOUR",),
            parts={"mark": "{purged_at} IS NOT NULL"},
        ),
        *flags("is_deleted|deleted|is_removed|is_archived|del_flag", share, "is_active|active|is_enabled|in_use"),
        Form((f"record_state|row_status|lifecycle status = {state}",), parts={"mark": f"{{record_state}} = '{word}'"}),
    )


def left(day: str, dates: str, states: str, words: str, share: int) -> tuple[Form, ...]:
    """Return the forms of rows that ended without being deleted: `dates`, or `states` with one of `words`."""
    when = f"CASE WHEN {{roll}} < {share} THEN {{{day}}} + CAST(30 + {{roll}} % 300 AS INTEGER) END"
    word = f"<{words}>"
    state = f"CASE WHEN {{roll}} < {share} THEN '{word}' ELSE '<active|open|good>' END"
    return (
        Form((f"{dates} date = {when}",), parts={"mark": f"{concept(dates)} IS NOT NULL"}),
        Form((f"{states} status = {state}",), parts={"mark": f"{concept(states)} = '{word}'"}),
    )


def population(what: str, counted: str) -> tuple[Reading, ...]:
    """Return the readings of marked rows: `what` they are, and the thing that is `counted`."""
    capital = what[0].upper() + what[1:]
    return (
        Reading("all", f"{what} count", f"{capital} count as {counted} like any other.", in_sql=False),
        Reading(
            *("without", f"{what} do not count", f"{capital} do not count. They are in no figure about {counted}."),
            filter="($mark) IS NOT TRUE",
        ),
    )


def merged(key: str, table: str) -> tuple[Form, ...]:
    """Return the form of rows that were merged into another one."""
    target = f"CASE WHEN {{{key}}} > 60 AND {{roll}} < 110 THEN 1 + {{roll}} * 7 % 60 END"
    names = "merged_into_id|canonical_id|duplicate_of|surviving_id|replaced_by_id"
    own = f"coalesce({target}, {{{key}}})"
    return (
        Form((f"{names} ref {table} = {target}",), parts={"mark": "{merged_into_id} IS NOT NULL"}),
        Form(
            (f"canonical_id|golden_id|surviving_id ref {table} = {own}",),
            parts={"mark": f"{{canonical_id}} <> {{{key}}}"},
        ),
        Form(
            (f"absorbed_by|same_as|consolidated_into|succeeded_by_id ref {table} = {target}",),
            parts={"mark": "{absorbed_by} IS NOT NULL"},
        ),
    )


def parents(names: str, key: str, table: str, share: int) -> tuple[Form, ...]:
    """Return the forms in which rows belong to another row of the same table, which may represent itself."""
    value = f"CASE WHEN {{{key}}} > 60 AND {{roll}} < {share} THEN 1 + {{roll}} * 11 % 60 END"
    either = f"coalesce({concept(names)}, {{{key}}})"
    return (
        Form((f"{names} ref {table} = {value}",), parts={"parent": either}),
        Form((f"{names} ref {table} = coalesce({value}, {{{key}}})",), parts={"parent": concept(names)}),
    )


def entities(key: str, entity: str, counted: str, together: str) -> tuple[Reading, ...]:
    """Return the readings of a parent: each `entity` counts as one `counted` thing, or all `together` do."""
    return (
        Reading(
            *("entity", f"each {entity} is one {counted}", f"Each {entity} is a {counted} of its own."),
            value=f"{{{key}}}",
            in_sql=False,
        ),
        Reading(
            *("parent", f"{together} are one {counted}", f"{together[0].upper()}{together[1:]} are one {counted}."),
            value="$parent",
        ),
    )


def statuses(names: str, values: str, *, dropped: str, kept: str) -> Form:
    """Return a form with a column of statuses. `values`: with weights; `dropped`, `kept`: those of two readings."""

    def listed(words: str) -> str:
        return f"{concept(names)} IN ({', '.join(repr(each) for each in words.split())})"

    return Form(
        (f"{names} status {values}",),
        parts={
            "dropped": listed(dropped),
            "kept": listed(kept),
            "drop_words": " or ".join(dropped.split()),
            "keep_words": " or ".join(kept.split()),
        },
    )


def codes(names: str, values: str, *, dropped: str, kept: str) -> Form:
    """Return a form whose status column contains numbers. `values`: with shares of a thousand, the last is 1000;
    `dropped`, `kept`: those of two readings.
    """
    *first, last = (each.partition("=") for each in values.split())
    cases = " ".join(f"WHEN {{roll}} < {share} THEN {value}" for value, _, share in first)

    def listed(words: str) -> str:
        return f"{concept(names)} IN ({', '.join(words.split())})"

    return Form(
        (f"{names} ordinal 0 100 = CASE {cases} ELSE {last[0]} END",),
        parts={
            "dropped": listed(dropped),
            "kept": listed(kept),
            "drop_words": " or ".join(dropped.split()),
            "keep_words": " or ".join(kept.split()),
        },
    )


def status_readings(noun: str) -> tuple[Reading, ...]:
    """Return the readings of a `noun`'s statuses."""
    capital = noun[0].upper() + noun[1:]
    return (
        Reading("all", "every status counts", f"{capital} of every status count.", in_sql=False),
        Reading(
            *("without", "all but $drop_words", f"{capital} with the status $drop_words do not count; all others do."),
            filter="($dropped) IS NOT TRUE",
        ),
        Reading(*("only", "only $keep_words", f"Only {noun} with the status $keep_words count."), filter="$kept"),
    )


def later(names: str, first: str, days: int, event: str = "") -> tuple[Form, ...]:
    """Return the forms of a second date or time, up to so many days after the first. `event`: what happened then."""
    parts = {"second": concept(names), "event": event or names.split("|")[0].partition("_")[0]}
    value = f"{{{first}}} + CAST(3 + {{roll}} % {days} AS INTEGER)"
    times = "|".join(f"{name.rpartition('_')[0]}_at" for name in names.split("|")[:1])
    return (
        Form((f"{names} date = {value}",), parts=parts),
        Form(
            (f"{times} time = CAST({value} AS TIMESTAMP) + INTERVAL ({{roll}} % 24) HOUR",),
            parts={**parts, "second": concept(times)},
        ),
    )


def dates(noun: str, first: str, event: str) -> tuple[Reading, ...]:
    """Return the readings of two dates. `event`: what happened on the first."""
    words = f"{noun} belong to the period in which they were"
    return (
        Reading("first", f"by the day {event}", f"{words} {event}.", time=f"{{{first}}}"),
        Reading("second", "by the day $event", f"{words} $event.", time="$second"),
    )


def unit(names: str, kind_and_values: str, factor: str, words: str, value: str = "") -> Form:
    """Return a form with amounts as whole numbers of a minor unit. `value`: SQL that computes them."""
    return Form(
        (f"{names} {kind_and_values}{f' = {value}' if value else ''}",), parts={"factor": factor, "unit": words}
    )


def units(noun: str, amount: str) -> tuple[Reading, ...]:
    """Return the readings of a unit."""
    return (
        Reading("major", "amounts are in euros", f"{noun} are stored in euros.", value=f"{{{amount}}}", in_sql=False),
        Reading(
            *("minor", "amounts are in $unit", f"{noun} are stored in $unit; figures are given in euros."),
            value=f"{{{amount}}} * $factor",
        ),
    )


def repeated(key: str, names: str, share: int = 45, change: str = "") -> Form:
    """Return a form in which rows are repeated under another key. `names`: what is equal; `change`: what is not."""
    by = ", ".join(f"{{inner.{each}}}" for each in names.split())
    return Form(
        (),
        f"INSERT INTO {{table}} BY NAME SELECT * REPLACE ({{{key}}} + 7000 AS {{{key}}}{change}) "
        f"FROM {{table}} WHERE {{roll}} < {share}",
        {"first": f"{{{key}}} IN (SELECT min({{inner.{key}}}) FROM {{table}} GROUP BY {by})"},
    )


def repeats(noun: str) -> tuple[Reading, ...]:
    """Return the readings of repeated rows."""
    capital = noun[0].upper() + noun[1:]
    return (
        Reading("all", "every row counts", f"{capital} count as often as they were recorded.", in_sql=False),
        Reading("once", "repeated rows count once", f"{capital} that were recorded twice count once.", filter="$first"),
    )


def currencies() -> tuple[Form, ...]:
    """Return the forms of amounts in several currencies."""
    return (
        Form(("currency|currency_code|amount_currency currency EUR=6 USD=3 GBP=1",)),
        Form(("currency|currency_code|booked_currency currency EUR=5 USD=2 GBP=2 CHF=1",)),
    )


_RATE: Final = (
    f"(SELECT max(fx.{{all[{RATES}].names.rate}}) FROM {{all[{RATES}]}} AS fx "
    f"WHERE fx.{{all[{RATES}].names.currency}} = {{own}}.{{inner.currency}})"
)


def conversions(noun: str, amount: str) -> tuple[Reading, ...]:
    """Return the readings of amounts in several currencies."""
    return (
        Reading(
            *("mixed", "amounts are added as they are", f"Amounts of {noun} are added up as they are booked."),
            value=f"{{{amount}}}",
            in_sql=False,
        ),
        Reading(
            *("converted", "amounts are converted to euros", f"Amounts of {noun} are converted to euros at our rates."),
            value=f"{{{amount}}} * {_RATE}",
        ),
        Reading(
            *("euros", "only amounts in euros count", f"Only {noun} in euros count."),
            filter="{currency} = 'EUR'",
            in_sql=False,
        ),
    )


def missing(column: str, noun: str) -> tuple[Reading, ...]:
    """Return the readings of missing values in an average."""
    return (
        Reading(
            *("ignored", f"{noun} without a value are excluded", f"{noun} without a value are not in the average."),
            value=f"{{{column}}}",
            in_sql=False,
        ),
        Reading(
            *("zero", f"{noun} without a value count as 0", f"{noun} without a value count as 0 in the average."),
            value=f"coalesce({{{column}}}, 0)",
        ),
    )
