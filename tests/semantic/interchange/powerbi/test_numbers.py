"""The measures of a Power BI model in ktx have the numbers of Power BI, or a reason why they are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.interchange.powerbi.importer import import_powerbi
from ktx_cli.semantic.interchange.report import Imported, Kind
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic.interchange.conftest import errors
from tests.semantic.interchange.powerbi.market import CASES, DATA, MANIFEST, REFUSED, Case, tmdl

FLAT = {
    "sales": "fct_sales AS s LEFT JOIN dim_product AS p USING (product_key)"
    " LEFT JOIN dim_customer USING (customer_key)",
    "stock": "(SELECT *, max(day) OVER (PARTITION BY {over}) AS last FROM stock) AS s"
    " LEFT JOIN dim_product AS p USING (product_key)",
}
GROUPS = {
    "sales": {"category": ("category", "dim_product.category"),
              "month": ("date_trunc('month', ordered_on)", "fct_sales.ordered_on:month")},
    "stock": {"month": ("date_trunc('month', day)", "stock.day:month")},
}  # fmt: skip
Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("market")
    with duckdb.connect(str(root / "market.duckdb")) as connection:
        connection.execute(DATA)
    write(root, {"_schema/main.yaml": MANIFEST})
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / "semantic-layer" / "market" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(scope="module")
def made(folder: Path) -> Imported:
    return import_powerbi(tmdl(), load_model(Layout(folder), "market", "duckdb"), known_only=True)


@pytest.fixture(scope="module")
def model(folder: Path, made: Imported) -> Model:
    write(folder, dict(made.files))
    return load_model(Layout(folder), "market", "duckdb")


@pytest.fixture(scope="module")
def connector(folder: Path) -> Iterator[Connector]:
    opened = connect(ConnectionSpec("market", "duckdb", {"path": str(folder / "market.duckdb")}))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def database(folder: Path) -> Query:
    def query(sql: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(folder / "market.duckdb"), read_only=True) as connection:
            return connection.execute(sql).fetchall()

    return query


def plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()[:10]
    return value if value is None or isinstance(value, str) else round(float(value), 6)


def targets(made: Imported) -> dict[str, str]:
    """Return the ktx measure of each measure in Power BI."""
    return {
        item.what.removeprefix("measure `_Measures[").removesuffix("]`"): str(item.target)
        for item in made.report
        if item.what.startswith("measure ") and item.kind is not Kind.DROPPED
    }


def expected(case: Case, by: str, database: Query) -> dict[Any, Any]:
    if case.monthly is not None:
        return {plain(month): plain(value) for month, value in database(case.monthly)}
    group = GROUPS[case.rows][by][0] if by else "NULL"
    rows = FLAT[case.rows].format(over=group)
    return {plain(key): plain(value) for key, value in database(f"SELECT {group}, {case.sql} FROM {rows} GROUP BY 1")}


def answered(case: Case, by: str, target: str, model: Model, connector: Connector) -> dict[Any, Any]:
    query: dict[str, Any] = {"measures": [target], "include_empty": False}
    if by:
        query["dimensions"] = [GROUPS[case.rows][by][1]]
    rows = ask(model, query, connector).rows
    return {plain(row[0]) if by else None: plain(row[-1]) for row in rows}


def test_the_model_loads(model: Model) -> None:
    assert errors(model) == []


def shown(values: dict[Any, Any]) -> dict[Any, Any]:
    """Return the values without rows that have none, which neither program has to show."""
    return {key: value for key, value in values.items() if value is not None}


WANTED = [(case, by) for case in CASES if not case.why for by in (("month",) if case.monthly else case.by)]


@pytest.mark.table(("case", "by"), WANTED)
def test_equal_numbers(
    case: Case, by: str, made: Imported, model: Model, connector: Connector, database: Query
) -> None:
    target = targets(made)[case.name]
    notes = {item.why for item in made.report if item.target == target}
    wanted, found = expected(case, by, database), answered(case, by, target, model, connector)
    if any("0 instead of blank" in note for note in notes):
        wanted, found = ({key: value or None for key, value in each.items()} for each in (wanted, found))
    assert shown(found) == shown(wanted), target


@pytest.mark.table("case", REFUSED)
def test_refused_with_a_reason(case: Case, made: Imported) -> None:
    (item,) = [each for each in made.report if each.what == f"measure `_Measures[{case.name}]`"]
    assert item.kind is Kind.DROPPED and case.why in item.why and item.place.path.endswith("_Measures.tmdl")


def test_share_translated(made: Imported, record_property: Callable[[str, object], None]) -> None:
    done = len(targets(made))
    exact = sum(1 for target in targets(made).values() if not [i for i in made.report if i.target == target and i.why])
    share = f"{done} of {len(CASES)} measures translated ({done / len(CASES):.0%}), {exact} without any difference"
    record_property("share", share)
    print(f"\n{share}")
    assert len(CASES) >= 40 and set(targets(made)) == {case.name for case in CASES if not case.why}
