"""Warns about filter values without rows, with the nearest known values, and about periods without rows."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import ResultWarning, SourceError, StorageError, listing, monotonic, nearest_values, one_line
from ktx_cli.project import Layout, read_state
from ktx_cli.semantic import (
    MOST_CANDIDATES,
    MOST_CHECKED,
    comparisons,
    has_rows,
    is_proven,
    load_lists,
    periods,
    plan_check,
)
from ktx_cli.warehouses import Connector, SemanticType, StatementRefusedError, ended_at

if TYPE_CHECKING:
    from ktx_cli.semantic import Answer, ColumnValues, Comparison, CompiledQuery, Recency, ValueFindings


SECONDS: Final = 2.0
"""Time limit for the check in seconds. Slower queries are not checked, because the check reads the same columns."""

_FEW: Final = 8
"""If no value is near, all values of a column are listed, up to this number."""

_WIDEST: Final = 60


@dataclass(frozen=True, slots=True)
class _Values:
    """The known values of a column, and whether the list is complete."""

    values: tuple[Any, ...] = ()
    complete: bool = False


def value_warnings(
    answer: Answer, connector: Connector, layout: Layout, connection: str, *, suggest: bool
) -> list[ResultWarning]:
    """Return a warning for each filter value without rows, and for each recent period without rows.

    A warning requires proof. The answer and the value lists of the scan settle most values, and one statement settles
    the others. `suggest` allows row values in warnings.
    """
    asked = answer.asked
    if asked is None:
        return []
    since = [each for each in periods(asked) if not has_rows(each, asked, answer.rows)]
    open_ones = [each for each in comparisons(asked) if not is_proven(each, asked, answer.rows)]
    lists = _lists(layout, connection, open_ones)
    wanted = [each for each in open_ones if not _is_listed(each, lists.get(_key(each)))][:MOST_CHECKED]
    if not wanted and not since:
        return []
    if answer.receipt["timing_ms"]["execute"] > SECONDS * 1000:
        return [_unchecked(asked, wanted, since, "the query itself took too long for a further check")]
    names = [suggest and each.public for each in wanted]
    read = [
        named and not (each.column.type is SemanticType.STRING and lists.get(_key(each), _Values()).complete)
        for each, named in zip(wanted, names, strict=True)
    ]
    check = plan_check(asked, wanted, since, read)
    try:
        with ended_at(connector, monotonic() + SECONDS) as deadline:
            found = check.read(connector.query(check.sql, max_rows=check.max_rows).rows)
    except (SourceError, StatementRefusedError) as error:  # the error text may quote row values
        why = (
            f"the check took longer than {SECONDS:g} seconds"
            if error.code == "timeout" or deadline.passed
            else "the database rejected the check"
        )
        return [_unchecked(asked, wanted, since, why)]
    return list(_unmatched_values(asked, wanted, since, found, lists, names, suggest))


def _unmatched_values(
    asked: CompiledQuery,
    wanted: Sequence[Comparison],
    since: Sequence[Recency],
    found: ValueFindings,
    lists: Mapping[Any, _Values],
    names: Sequence[bool],
    suggest: bool,
) -> Iterator[ResultWarning]:
    dialect = asked.dialect
    for number in sorted(found.missing):
        each = wanted[number]
        near = _near(each, lists.get(_key(each), _Values()), found.candidates.get(number, ())) if names[number] else ""
        nothing = ", so the condition excludes nothing" if each.negated else ""
        visible = " that you can see" if each.source.policies else ""
        message = f"no row{visible} matches `{one_line(each.text(dialect), 200)}`{nothing}{near}"
        yield ResultWarning("no_such_value", message, column=each.name)
    for number in sorted(found.empty):
        period = since[number]
        newest = found.newest.get(number) if suggest else None
        source = asked.compiled.build.names.model.sources[period.fact]
        visible = " that you can see" if source.policies else ""
        tail = f"; the most recent is from {_moment(newest)}" if newest else ""
        message = f"no row of `{period.fact}`{visible} is in the last {period.last}{tail}"
        yield ResultWarning("no_recent_rows", message, fact=period.fact)


def _near(each: Comparison, known: _Values, candidates: Sequence[str]) -> str:
    """Return the end of the sentence with the nearest values; empty if they look personal or are unknown."""
    values = list(dict.fromkeys([*(value for value in known.values if isinstance(value, str)), *candidates]))
    if not values or _is_private(each, values):
        return ""
    if each.column.type in (SemanticType.NUMBER, SemanticType.TIME):
        return f"; the nearest {'value is' if len(values) == 1 else 'values are'} {_or(values, 'and', quote=False)}"
    near = _like(each, values) if each.like is not None else nearest_values(str(each.value), values)
    if near:
        return f"; did you mean {_or(near, 'or')}?"
    if len(values) <= _FEW and (known.complete or len(candidates) < MOST_CANDIDATES):
        return f"; known values: {_or(values, 'and')}"
    return ""


def _is_private(each: Comparison, values: Sequence[str]) -> bool:
    """Whether a column's values must not be suggested: personal data and identifiers."""
    from ktx_cli.privacy import ValueKind, refusal

    table = each.source.table[-1] if each.source.table else each.source.name
    kind = {SemanticType.NUMBER: ValueKind.INTEGER, SemanticType.TIME: ValueKind.TIME}.get(each.column.type)
    found = refusal(table, each.column.name, kind or ValueKind.TEXT, list(values))
    return found is not None and (found.personal or kind is ValueKind.INTEGER)


def _like(each: Comparison, values: Sequence[str]) -> list[str]:
    """Return the values that match a pattern regardless of case."""
    import re

    marks = {"%": ".*", "_": "."}
    pattern = "".join(marks.get(letter, re.escape(letter)) for letter in str(each.value))
    return [value for value in values if re.fullmatch(pattern, value, re.IGNORECASE | re.DOTALL)][:3]


def _or(values: Sequence[str], word: str, *, quote: bool = True) -> str:
    shown = [one_line(value, _WIDEST) for value in values]
    if quote:
        shown = ["'" + value.replace("'", "''") + "'" for value in shown]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"


def _moment(text: str) -> str:
    return one_line(text, _WIDEST).replace("T00:00:00", "").removesuffix(" 00:00:00")


def _unchecked(asked: CompiledQuery, wanted: Sequence[Comparison], since: Sequence[Recency], why: str) -> ResultWarning:
    """Return the warning that values and periods could not be checked."""
    what = [f"`{one_line(each.text(asked.dialect), 200)}`" for each in wanted]
    what += [f"the last {each.last} in `{each.fact}`" for each in since]
    return ResultWarning("values_not_checked", f"could not check whether any row matches {listing(what)}: {why}")


def _lists(layout: Layout, connection: str, wanted: Sequence[Comparison]) -> dict[Any, _Values]:
    """Return the value lists of columns without row policies, by source and column."""
    tables = {each.source.table[-1] for each in wanted if each.source.table and not each.source.policies}
    if not tables:
        return {}
    listed: list[ColumnValues] = []
    for table in sorted(tables):
        with contextlib.suppress(StorageError):  # with a damaged state database, the warehouse itself is queried
            listed += read_state(layout, functools.partial(load_lists, connection=connection, table=table)) or ()
    return {_key(each): found for each in wanted if (found := _list_of(each, listed)) is not None}


def _list_of(each: Comparison, listed: Sequence[ColumnValues]) -> _Values | None:
    if each.source.policies or not each.source.table:
        return None
    table, name = each.source.table[-1].casefold(), each.column.name.casefold()
    for one in listed:
        if one.ref.name.casefold() == table and one.column.casefold() == name and each.source.is_of(one.ref):
            return _Values(tuple(value for value, _ in one.values), one.complete)
    return None


def _is_listed(each: Comparison, known: _Values | None) -> bool:
    """Whether the scan saw the value. Texts are compared literally, numbers and booleans by value."""
    if known is None or each.like is not None:
        return False
    return any(value == each.value and isinstance(value, str) == isinstance(each.value, str) for value in known.values)


def _key(each: Comparison) -> tuple[str, str]:
    return each.source.name, each.column.name
