"""What a column's values say about how it stores them: forms, codes that are no numbers, and almost-forms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ktx_cli.core import SourceError
from ktx_cli.core.clock import monotonic
from ktx_cli.scan.outcome import stored_warnings
from ktx_cli.scan.profile.profiler import SampledTable, count_sample
from ktx_cli.scan.profile.values import Recognized, recognize, recognize_columns
from ktx_cli.warehouses.port import (
    Column,
    ForwardingConnector,
    QueryResult,
    SemanticType,
    StoredAs,
    Table,
    TableKind,
    TableRef,
)
from ktx_cli.warehouses.sampling import Sample, SampleMethod

REF = TableRef("shop", "orders")


def column(name: str, kind: SemanticType = SemanticType.STRING) -> Column:
    return Column(name, "INTEGER" if kind is SemanticType.NUMBER else "TEXT", kind)


def table(*columns: Column, **fields: Any) -> Table:
    return Table(REF, TableKind.TABLE, columns, **fields)


def sampled(owner: Table, values: Mapping[str, Sequence[Any]], *, complete: bool = True) -> SampledTable:
    rows = max(map(len, values.values()))
    method = SampleMethod.ALL if complete else SampleMethod.RANDOM
    sample = Sample(tuple(values), tuple(map(list, values.values())), rows, method, rows, exact_count=complete)
    return count_sample(owner, sample)


def of(name: str, values: Sequence[Any], **options: Any) -> Recognized | None:
    kind = SemanticType.NUMBER if all(isinstance(each, int | None) for each in values) else SemanticType.STRING
    owner = table(column(name, kind), **options)
    return recognize(owner, owner.columns[0], sampled(owner, {name: values}), privacy="standard")


def form(name: str, values: Sequence[Any], **options: Any) -> StoredAs | None:
    found = of(name, values, **options)
    return None if found is None or not found.column.converts else found.column.stored_as


@pytest.mark.table(
    ("name", "values", "expected"),
    [
        ("day", ["2024-01-31", "2024-02-29", "", None], "iso_date"),
        ("paid_at", ["2024-01-31 10:00:00", "2024-01-31T10:00", "  "], "iso_timestamp"),
        ("paid_at", ["2024-01-31 10:00:00.123456", "1999-12-31 23:59:59"], "iso_timestamp"),
        ("paid_at", ["2024-01-31T10:00:00Z", "2024-01-31T10:00:00+05:30"], "iso_timestamp_tz"),
        ("paid_at", ["2024-01-31t10:00:00z"], "iso_timestamp_tz"),
        ("created_at", [1_700_000_000, 1_700_000_001, None], "epoch_seconds"),
        ("eventTimestamp", [1_700_000_000_000], "epoch_milliseconds"),
        ("price", ["12.50", "-3", "0", "0.5"], "number_text"),
        ("quantity", ["1", "2", "10", "2", "3"], "number_text"),
        ("active", ["Y", "n", "N", ""], "boolean_text"),
        ("paid", ["true", "False"], "boolean_text"),
        ("payload", ['{"a": 1}', "[1, 2]", "{}"], "json_text"),
    ],
)
def test_values_in_one_form_are_recognized(name: str, values: Sequence[Any], expected: str) -> None:
    assert form(name, values) == expected


@pytest.mark.table(
    ("name", "values"),
    [
        ("zip", ["10115", "1011", "80331"]),
        ("plz", ["1.5", "2.5"]),
        ("code", ["007", "12", "13"]),
        ("amount", ["00123", "00124", "1.5"]),
        ("phone", ["4930123456", "49301234"]),
        ("order_number", ["1", "2", "2"]),
        ("orderId", ["1.5", "2"]),
        ("release_year", ["2006", "2007", "2007"]),
        ("born", ["1980", "1990", "1990"]),
        ("legacy", [str(number) for number in range(5, 45)]),
        ("balance", ["1" * 16, "2"]),
        ("share", ["0.1234567890123", "0.5"]),
        ("flag", ["0", "1", "1"]),
        ("price", ["1,50", "2,75"]),
        ("day", ["2024-02-30", "2024-01-01"]),
        ("day", ["2024-01-01", "2024-01-01 10:00:00"]),
        ("paid_at", ["2024-01-01 10:00:00", "2024-01-01 10:00:00Z"]),
        ("country", ["NO", "NO"]),
        ("answer", ["Y", "N", "true", "false"]),
        ("answer", ["Y"]),
        ("payload", ['"text"', "1"]),
        ("payload", ['{"a": 1', "{}"]),
        ("note", ["2024", "soon", "n/a"]),
        ("created_at", [0, 1_700_000_000]),
        ("amount", [1_700_000_000, 1_700_000_001]),
        ("created_at", [1_700_000_000, 1_700_000_000_000]),
        ("empty", ["", " ", None]),
    ],
)
def test_anything_else_keeps_its_type(name: str, values: Sequence[Any]) -> None:
    assert form(name, values) is None


def test_keys_are_not_numbers() -> None:
    values = ["1.5", "2.5", "2.5"]
    assert form("amount", values) is StoredAs.NUMBER_TEXT
    assert form("amount", values, primary_key=("amount",)) is None
    owner = table(column("amount"))
    found = recognize(owner, owner.columns[0], sampled(owner, {"amount": values}), frozenset({(REF, "amount")}))
    assert found is None


def test_a_column_that_is_almost_in_one_form_is_not_converted() -> None:
    dates = [f"2024-01-{day:02}" for day in range(1, 29)]
    found = of("ordered_on", [*dates, "n/a", "31/01/2024", None])
    assert found is not None
    assert (found.column.stored_as, found.column.values, found.column.misfits) == (StoredAs.ISO_DATE, 30, 2)
    assert not found.column.converts
    assert found.column.evidence == "30 values, 2 of them not ISO dates."
    assert found.example == "31/01/2024"
    assert of("ordered_on", [*dates[:10], "n/a", "tbd"]) is None


@pytest.mark.table(
    ("name", "misfit"), [("ordered_on", "anna@example.com"), ("birth_date", "unknown"), ("ordered_on", "x" * 41)]
)
def test_an_example_is_never_personal_or_long(name: str, misfit: str) -> None:
    found = of(name, [*(f"2024-01-{day:02}" for day in range(1, 29)), misfit])
    assert found is not None
    assert (found.column.misfits, found.example) == (1, None)


def test_dates_in_an_unclear_order_are_mentioned() -> None:
    found = of("day", ["03/04/2024", "31/12/2024"])
    assert found is not None
    assert (found.column.stored_as, found.column.converts) == (None, False)
    (warning,) = stored_warnings("wh", {REF: (found.column,)}, {})
    assert warning.code == "unclear_dates"
    assert "`shop.orders.day`" in str(warning.message)


class Answering(ForwardingConnector):
    """Answers every statement with one row, or an error."""

    inner: Any = None

    def __init__(self, *row: int, dialect: str = "duckdb", error: SourceError | None = None) -> None:
        self.dialect, self.row, self.error = dialect, row, error
        self.sent: list[str] = []

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.sent.append(sql)
        if self.error is not None:
            raise self.error
        return QueryResult((), (self.row,))


DAYS = ["2024-01-01", "2024-01-02"]


def checked(connector: Answering, values: Mapping[str, Sequence[Any]], **options: Any) -> Any:
    owner = table(*map(column, values))
    samples = [sampled(owner, values, complete=options.pop("complete", False))]
    more = {"privacy": "standard", "deadline": monotonic() + 60} | options
    return recognize_columns(connector, [owner], samples, **more)


def test_a_sample_is_confirmed_by_one_statement_for_all_columns() -> None:
    connector = Answering(100, 0, 90, 3)
    found = checked(connector, {"day": DAYS, "due": DAYS})
    assert len(connector.sent) == found.statements == 1
    day, due = found.columns[REF]
    assert (day.values, day.misfits, day.every_row, day.converts) == (100, 0, True, True)
    assert (due.values, due.misfits, due.every_row, due.converts) == (90, 3, True, False)


def test_a_column_with_many_other_values_is_dropped() -> None:
    assert checked(Answering(100, 11), {"day": DAYS}).columns == {}


@pytest.mark.table(
    ("connector", "options", "statements"),
    [(Answering(), {"deadline": 0.0}, 0), (Answering(error=SourceError("no", code="query")), {}, 1)],
)
def test_what_cannot_be_checked_rests_on_the_sample(connector: Any, options: dict[str, Any], statements: int) -> None:
    found = checked(connector, {"day": DAYS}, **options)
    (day,) = found.columns[REF]
    assert (day.values, day.every_row, day.converts, found.statements) == (2, False, True, statements)
    assert day.evidence == "2 sampled values, all of them ISO dates."
    assert len(found.problems) == statements


def test_a_whole_table_needs_no_statement() -> None:
    connector = Answering()
    (day,) = checked(connector, {"day": DAYS}, complete=True).columns[REF]
    assert (day.every_row, connector.sent) == (True, [])


def test_truncated_json_is_checked_by_the_database_or_stays_text() -> None:
    long = json.dumps({"text": "x" * 300})[:256]
    values = {"payload": ["{}", long]}
    assert checked(Answering(dialect="duckdb"), values, complete=True).columns == {}
    (payload,) = checked(Answering(2, 0, dialect="sqlite"), values, complete=True).columns[REF]
    assert (payload.stored_as, payload.every_row) == (StoredAs.JSON_TEXT, True)
    assert checked(Answering(dialect="sqlite"), values, complete=True, deadline=0.0).columns == {}


def test_an_unreachable_database_ends_the_scan() -> None:
    with pytest.raises(SourceError):
        checked(Answering(error=SourceError("gone", code="connection")), {"day": DAYS})
