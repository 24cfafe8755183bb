"""Times, numbers and booleans stored as another type: scanned, written to the manifest, and queried on every engine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.project import Scan
from ktx_cli.project.layout import Layout
from ktx_cli.scan.outcome import ScanOutcome
from ktx_cli.scan.pipeline import ScanJob, scan_connection
from ktx_cli.scan.stages import Depth
from ktx_cli.semantic.answer import Answer, ask
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.manifest import ManifestLayout
from ktx_cli.semantic.model import Model, SemanticError
from ktx_cli.semantic.store.layer import ParsedCopies
from ktx_cli.warehouses.port import ConnectionSpec, Connector, Scope, StoredAs
from ktx_cli.warehouses.registry import connect
from tests.scan.test_pipeline import Tree
from tests.semantic.golden.engines import comparable
from tests.warehouses.conftest import Engine, engine

__all__ = ["engine"]

NOW = datetime(2024, 6, 1, tzinfo=UTC)
START = datetime(2024, 1, 1)
COLUMNS = {
    "payment_id": "int",
    "amount": "decimal(10, 2)",
    "paid_at": "varchar(40)",
    "due_on": "varchar(40)",
    "booked_at": "varchar(40)",
    "fee": "varchar(40)",
    "is_refund": "varchar(40)",
    "created_at": "bigint",
    "changed_at": "bigint",
    "details": "varchar(200)",
    "branch": "varchar(40)",
    "written": "varchar(40)",
    "noted_at": "varchar(40)",
}


def _moment(number: int) -> datetime:
    return START + timedelta(hours=17 * number, seconds=number)


def _row(number: int) -> dict[str, Any]:
    moment = _moment(number)
    epoch = int(moment.replace(tzinfo=UTC).timestamp())
    return {
        "payment_id": number,
        "amount": Decimal(number % 7) + Decimal("0.25"),
        "paid_at": ("" if number == 3 else None) if number % 50 == 3 else moment.isoformat(" "),
        "due_on": moment.date().isoformat(),
        "booked_at": f"{(moment + timedelta(hours=2)).isoformat()}+02:00",
        "fee": f"{number % 5}.{number % 4}5",
        "is_refund": "Y" if number % 3 == 0 else "N",
        "created_at": epoch,
        "changed_at": epoch * 1000 + 250,
        "details": json.dumps({"n": number}),
        "branch": f"{number % 9:05}",
        "written": f"{number % 12 + 1:02}/{number % 9 + 1:02}/2024",
        "noted_at": "soon" if number % 50 == 7 else moment.isoformat("T"),
    }


ROWS = [_row(number) for number in range(200)]


def creating(rows: list[dict[str, Any]]) -> list[str]:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    values = ", ".join("(" + ", ".join(map(_literal, row.values())) + ")" for row in rows)
    return [f"CREATE TABLE payment ({columns})", f"INSERT INTO payment VALUES {values}"]


def _literal(value: Any) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, int | Decimal) else f"'{value}'"


class Project:
    """A committed tree that is scanned, and the model in it."""

    def __init__(self, folder: Path, driver: str, options: Mapping[str, Any]) -> None:
        self.connector: Connector = connect(ConnectionSpec("wh", driver, dict(options)))
        self.tree, self.copies = Tree(), ParsedCopies(Layout(folder), "wh")
        self.driver = driver

    def scan(self, *, depth: Depth = Depth.PROFILE, settings: Scan | None = None, **more: Any) -> ScanOutcome:
        job = ScanJob("wh", self.driver, self.tree, self.copies, depth=depth, settings=settings or Scan(), **more)
        outcome = scan_connection(self.connector, Scope(), job)
        for path, content in outcome.files.items():
            if content is None:
                del self.tree[path]
            else:
                self.tree[path] = content
        assert not outcome.failures
        return outcome

    def columns(self) -> dict[str, dict[str, Any]]:
        shards = (yaml.load(text, where=path) for path, text in self.tree.items() if "/_schema/" in path)
        entries = (entry for shard in shards for entry in shard["tables"].values())
        return {column["name"]: column for entry in entries for column in entry["columns"]}

    def model(self) -> Model:
        return load_tree(_Files(self.tree), "wh", self.connector.dialect)

    def ask(self, **query: Any) -> Answer:
        return ask(self.model(), query, self.connector, now=NOW)

    def rows(self, **query: Any) -> list[tuple[Any, ...]]:
        return sorted(comparable(self.ask(**query).rows), key=str)


class _Files:
    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def paths(self, prefix: str) -> list[str]:
        return sorted(path for path in self._files if path.startswith(prefix))


Make = Callable[..., Project]


@pytest.fixture
def make(engine: Engine, tmp_path: Path) -> Iterator[Make]:
    made: list[Project] = []

    def project(rows: list[dict[str, Any]] = ROWS) -> Project:
        made.append(Project(tmp_path, engine.driver, engine.make(*creating(rows))))
        return made[-1]

    yield project
    for each in made:
        each.connector.close()


def sums(key: Callable[[dict[str, Any]], Any], value: str = "amount", of: list[dict[str, Any]] = ROWS) -> list[Any]:
    """Return what a query must answer: the sum of a column by a key."""
    found: dict[Any, Decimal] = defaultdict(Decimal)
    for row in of:
        found[key(row)] += Decimal(row[value])
    return sorted(comparable(list(found.items())), key=str)


def month(text: str | None) -> str | None:
    return f"{text[:7]}-01" if text else None


def utc(row: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(row["created_at"], UTC).replace(tzinfo=None)


def test_a_scan_gives_stored_columns_their_type(make: Make) -> None:
    project = make()
    outcome = project.scan()
    columns = project.columns()
    stored = {name: (each["type"], each["stored_as"]) for name, each in columns.items() if "stored_as" in each}
    assert stored == {
        "paid_at": ("time", "iso_timestamp"),
        "due_on": ("time", "iso_date"),
        "booked_at": ("time", "iso_timestamp_tz"),
        "fee": ("number", "number_text"),
        "is_refund": ("boolean", "boolean_text"),
        "created_at": ("time", "epoch_seconds"),
        "changed_at": ("time", "epoch_milliseconds"),
        "details": ("string", "json_text"),
    }
    assert columns["due_on"]["natural_granularity"] == "day"
    assert {columns[name]["type"] for name in ("branch", "written", "noted_at")} == {"string"}
    warnings = {each.code: str(each.message) for each in outcome.all_warnings()}
    assert (
        "payment.noted_at` (200 values, 4 of them not ISO timestamps, for example `soon`)" in warnings["mixed_values"]
    )
    assert "payment.written`" in warnings["unclear_dates"]


def test_sums_by_month_are_those_of_the_values(make: Make) -> None:
    project = make()
    project.scan()
    for name in ("paid_at", "due_on"):
        found = project.rows(measures=["sum(payment.amount)"], dimensions=[f"payment.{name}:month"])
        assert found == sums(lambda row, name=name: month(row[name]))
    for name in ("booked_at", "created_at", "changed_at"):
        found = project.rows(measures=["sum(payment.amount)"], dimensions=[f"payment.{name}:month"])
        assert found == sums(lambda row: month(utc(row).isoformat()))


def test_the_answer_is_that_of_explicit_casts(make: Make) -> None:
    project = make()
    project.scan()
    table = "payment" if project.driver != "postgres" else "public.payment"
    parts = {
        "sqlite": "strftime('%Y-%m-01', nullif(paid_at, ''))",
        "mysql": "date_format(cast(nullif(paid_at, '') AS datetime), '%Y-%m-01')",
    }
    cut = parts.get(project.driver, "cast(date_trunc('month', cast(nullif(paid_at, '') AS timestamp)) AS date)")
    rows = project.connector.query(f"SELECT {cut} AS m, sum(amount) AS s FROM {table} GROUP BY 1").rows
    asked = project.rows(measures=["sum(payment.amount)"], dimensions=["payment.paid_at:month"])
    assert asked == sorted(comparable([(str(key) if key else None, total) for key, total in rows]), key=str)


def test_time_ranges_and_filters_compare_times(make: Make) -> None:
    project = make()
    project.scan()
    lower, upper = datetime(2024, 2, 1), datetime(2024, 3, 15)
    inside = [row for row in ROWS if row["paid_at"] and lower <= datetime.fromisoformat(row["paid_at"]) < upper]
    between = {"time_range": {"field": "payment.paid_at", "start": "2024-02-01", "end": "2024-03-15"}}
    assert project.rows(measures=["count(payment.payment_id)"], **between) == [(len(inside),)]
    for name in ("booked_at", "created_at", "changed_at"):
        filters = [f"payment.{name} >= '2024-02-01' and payment.{name} < '2024-03-15'"]
        wanted = sum(lower <= utc(row) < upper for row in ROWS)
        assert project.rows(measures=["count(payment.payment_id)"], filters=filters) == [(wanted,)]
    answer = project.ask(
        measures=["count(payment.payment_id)"], time_range={"field": "payment.due_on", "last": "30 days"}
    )
    assert answer.asked is not None
    period = answer.asked.plan.time_range
    assert period is not None
    wanted = sum(str(period.start) <= row["due_on"] < str(period.end) for row in ROWS)
    assert answer.rows == [(wanted,)]
    assert 20 < wanted < 40
    missing = sum(not row["paid_at"] for row in ROWS)
    nulls = project.rows(measures=["count(payment.payment_id)"], filters=["payment.paid_at is null"])
    assert nulls == [(missing,)]
    assert project.rows(measures=["count(payment.paid_at)"]) == [(len(ROWS) - missing,)]


def test_numbers_and_booleans_have_their_values(make: Make) -> None:
    project = make()
    project.scan()
    fees = comparable([(sum(Decimal(row["fee"]) for row in ROWS),)])
    assert project.rows(measures=["sum(payment.fee)"]) == fees
    above = sum(Decimal(row["fee"]) > Decimal("3.2") for row in ROWS)
    assert project.rows(measures=["count(payment.payment_id)"], filters=["payment.fee > 3.2"]) == [(above,)]
    refunds = sum(row["is_refund"] == "Y" for row in ROWS)
    for condition in (
        "payment.is_refund = true",
        "payment.is_refund",
        "payment.is_refund = 'Y'",
        "payment.is_refund in ('Y', 'y')",
    ):
        found = project.rows(measures=["count(payment.payment_id)"], filters=[condition])
        assert found == [(refunds,)], condition
    by_refund = project.rows(measures=["sum(payment.amount)"], dimensions=["payment.is_refund"])
    assert by_refund == sums(lambda row: row["is_refund"] == "Y")


def test_texts_are_taken_apart_as_they_are_stored(make: Make) -> None:
    project = make()
    project.scan()
    february = sum((row["paid_at"] or "").startswith("2024-02") for row in ROWS)
    found = project.rows(measures=["count(payment.payment_id)"], filters=["payment.paid_at like '2024-02%'"])
    assert found == [(february,)]
    seconds = sum(row["created_at"] > 1_710_000_000 for row in ROWS)
    found = project.rows(measures=["count(payment.payment_id)"], filters=["payment.created_at > 1710000000"])
    assert found == [(seconds,)]


def test_the_receipt_names_each_conversion_once(make: Make) -> None:
    project = make()
    project.scan()
    answer = project.ask(
        measures=["sum(payment.fee)"], dimensions=["payment.paid_at:month"], filters=["payment.paid_at >= '2024-02-01'"]
    )
    notes = [note for note in answer.receipt["notes"] if "is stored as" in note]
    assert notes == [
        "payment.fee is stored as text (numbers) and read as number",
        "payment.paid_at is stored as text (ISO timestamps) and read as time",
    ]


def test_values_that_do_not_convert_are_no_silent_nulls(make: Make) -> None:
    project = make()
    project.scan()
    project.tree["semantic-layer/wh/payment.yaml"] = (
        b"name: payment\ncolumn_overrides:\n  - {name: noted_at, stored_as: iso_timestamp}\n"
    )
    with pytest.raises(Exception, match=r"noted_at|not an ISO timestamp") as caught:
        project.ask(measures=["sum(payment.amount)"], dimensions=["payment.noted_at:month"])
    if isinstance(caught.value, SemanticError):
        assert (caught.value.code, caught.value.details["values"]) == ("conversion", 4)


@pytest.mark.parametrize("override", ["stored_as: none", "type: string"])
def test_a_person_has_the_last_word(override: str, make: Make) -> None:
    project = make()
    project.scan()
    project.tree["semantic-layer/wh/payment.yaml"] = (
        f"name: payment\ncolumn_overrides:\n  - {{name: due_on, {override}}}\n".encode()
    )
    column = project.model().sources["payment"].columns["due_on"]
    assert (column.type, column.stored_as, column.natural_granularity) == ("string", None, None)
    with pytest.raises(SemanticError):
        project.ask(measures=["sum(payment.amount)"], dimensions=["payment.due_on:month"])
    found = project.rows(measures=["sum(payment.amount)"], dimensions=["payment.due_on"])
    assert found == sums(lambda row: row["due_on"])
    project.scan()
    assert project.columns()["due_on"]["stored_as"] == "iso_date"


def test_a_type_edited_in_the_manifest_stays(make: Make) -> None:
    project = make()
    project.scan()
    for path in [path for path in project.tree if "/_schema/" in path]:
        project.tree[path] = project.tree[path].replace(
            b"- name: due_on\n        type: time", b"- name: due_on\n        type: string"
        )
    project.scan()
    assert project.columns()["due_on"]["type"] == "string"
    column = project.model().sources["payment"].columns["due_on"]
    assert (column.type, column.stored_as) == ("string", None)


def test_both_layouts_have_the_same_types(make: Make) -> None:
    project = make()
    project.scan()
    before = project.model().sources["payment"].columns
    project.scan(layout=ManifestLayout.PER_TABLE)
    after = project.model().sources["payment"].columns
    assert {name: (each.type, each.stored_as) for name, each in after.items()} == {
        name: (each.type, each.stored_as) for name, each in before.items()
    }
    assert project.scan(layout=ManifestLayout.PER_TABLE).unchanged


def test_scans_without_rows_and_of_unchanged_data_keep_the_types(make: Make) -> None:
    project = make()
    project.scan()
    assert project.scan().unchanged
    assert project.scan(depth=Depth.STRUCTURAL).unchanged
    assert project.columns()["paid_at"]["stored_as"] == "iso_timestamp"


def test_rows_outside_the_sample_are_checked(make: Make) -> None:
    rows = [dict(row) for row in (_row(number) for number in range(3000))]
    for row in rows[::100]:
        row["due_on"] = "later"
    project = make(rows)
    settings = Scan.model_validate({"relationships": {"profile_sample_rows": 100}})
    outcome = project.scan(settings=settings)
    assert "stored_as" not in project.columns()["due_on"]
    record = json.loads(project.tree["raw-sources/wh/live-database/stored_columns.json"])
    found = {each["column"]: each for each in record["columns"]}
    assert (found["due_on"]["values"], found["due_on"]["misfits"], found["due_on"]["every_row"]) == (3000, 30, True)
    assert found["fee"]["misfits"] == 0
    assert found["fee"]["every_row"]
    assert any("due_on` (3,000 values, 30 of them not ISO dates" in str(each) for each in outcome.all_warnings())


def test_strict_privacy_shows_no_example(make: Make) -> None:
    outcome = make().scan(settings=Scan.model_validate({"privacy": "strict"}))
    (warning,) = (each for each in outcome.all_warnings() if each.code == "mixed_values")
    assert "noted_at` (200 values, 4 of them not ISO timestamps)" in str(warning.message)
    assert "soon" not in str(warning.message)


def test_csv_files_are_queried_by_month(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    lines = [",".join(COLUMNS), *(",".join(_cell(value) for value in row.values()) for row in ROWS)]
    (tmp_path / "data" / "payment.csv").write_text("\n".join(lines) + "\n")
    project = Project(tmp_path, "files", {"path": str(tmp_path / "data")})
    try:
        project.scan()
        columns = project.columns()
        assert (columns["is_refund"]["type"], columns["is_refund"]["stored_as"]) == ("boolean", StoredAs.BOOLEAN_TEXT)
        for name in ("paid_at", "due_on"):
            found = project.rows(measures=["sum(payment.amount)"], dimensions=[f"payment.{name}:month"])
            assert found == sums(lambda row, name=name: month(row[name]))
        found = project.rows(measures=["sum(payment.amount)"], dimensions=["payment.created_at:month"])
        assert found == sums(lambda row: month(utc(row).isoformat()))
    finally:
        project.connector.close()


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if '"' in text else text
