"""Builds the demo company, Pottle & Fern, in a folder: a warehouse, a dbt project, a handbook, measures and a wiki."""

from __future__ import annotations

import csv
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, StorageError, UsageError, load
from ktx_cli.jobs.demo.people import FIRST_DAY, LAST_DAY, Row, calendar_rows, make_clientele, make_staff, region_rows
from ktx_cli.jobs.demo.sales import (
    category_rows,
    inventory_rows,
    make_assortment,
    make_orders,
    payment_rows,
    refund_rows,
    sales_target_rows,
    tag_rows,
    ticket_rows,
)
from ktx_cli.project import DECISIONS_NAME, SEMANTIC_NAME, WIKI_NAME, Layout, storage_error, write_atomic
from ktx_cli.wiki import GLOBAL

if TYPE_CHECKING:
    import duckdb


NAME = "Pottle & Fern"
WAREHOUSE = "warehouse.duckdb"
DBT_PROJECT = "dbt"
HANDBOOK = "handbook"
WAREHOUSE_ID = "warehouse"
"""The id of the warehouse connection."""


@dataclass(frozen=True, slots=True)
class Company:
    """The generated company.

    `rows` counts the rows by `schema.table`, without views. `first_day` and `last_day` are the range of the orders.
    """

    folder: Path
    seed: int
    rows: Mapping[str, int]
    name: str = NAME
    first_day: date = FIRST_DAY
    last_day: date = LAST_DAY

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.folder / WAREHOUSE

    @property
    def dbt_project(self) -> Path:
        """The dbt project folder."""
        return self.folder / DBT_PROJECT

    @property
    def handbook(self) -> Path:
        """The handbook folder."""
        return self.folder / HANDBOOK


def build_company(folder: Path, seed: int, *, half_built: bool = False) -> Company:
    """Write the company for this seed into `folder`, which is created if it does not exist.

    The same seed gives the same rows on every machine. Raises `UsageError` if the folder already contains one of the
    parts and is not `half_built`, and `StorageError` if a file cannot be written. Existing text files of a half-built
    company are kept.
    """
    if not half_built:
        _refuse_to_overwrite(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(folder, error, "create") from error
    tables = make_tables(seed)
    company = Company(folder, seed, {table: len(rows) for table, rows in tables.items()})
    write_warehouse(company.warehouse, tables)
    copy_packaged(DBT_PROJECT, company.dbt_project)
    copy_packaged(HANDBOOK, company.handbook)
    copy_packaged(SEMANTIC_NAME, folder / SEMANTIC_NAME / WAREHOUSE_ID)
    copy_packaged(WIKI_NAME, folder / WIKI_NAME / GLOBAL)
    if not os.path.lexists(folder / DECISIONS_NAME):
        write_atomic(folder / DECISIONS_NAME, packaged_text(DECISIONS_NAME).encode())
    return company


def _refuse_to_overwrite(folder: Path) -> None:
    for name in (WAREHOUSE, DBT_PROJECT, HANDBOOK, SEMANTIC_NAME, WIKI_NAME, DECISIONS_NAME):
        path = folder / name
        if path.exists() or path.is_symlink():
            message = f"{path} already exists"
            raise UsageError(message, hint=Command("demo", "OTHER-FOLDER"), details={"path": str(path)})


_ROOT = "company_files"


def packaged_text(name: str) -> str:
    """Return the text of a packaged file; `name` with `/` between folders."""
    return _at(name).read_text(encoding="utf-8")


def packaged_names(folder: str) -> list[str]:
    """Return the sorted names of all files under a packaged folder, relative to it."""
    return sorted(_walk(_at(folder), ""))


def copy_packaged(folder: str, target: Path) -> list[Path]:
    """Write a packaged folder to `target`, without overwriting existing files; return the written files.

    Raises `StorageError` naming the file that could not be written.
    """
    written = []
    for name in packaged_names(folder):
        path = target / name
        if not os.path.lexists(path):
            write_atomic(path, packaged_text(f"{folder}/{name}").encode())
            written.append(path)
    return written


def _at(name: str) -> Traversable:
    return files("ktx_cli.jobs.demo").joinpath(_ROOT, *name.split("/"))


def _walk(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name


MARTS = {"order_revenue": "finance.order_revenue", "customer_value": "finance.customer_value", "days": "finance.days"}
"""The models that are views in the warehouse, in creation order; the others are ephemeral."""

_CALL = re.compile(r"\{\{\s*(ref|source|var)\(([^)]*)\)\s*\}\}")


def model_files() -> dict[str, str]:
    """Return the path of every model inside the project, by model name."""
    paths = (name for name in packaged_names(DBT_PROJECT) if name.endswith(".sql"))
    return {Path(path).stem: path for path in paths}


def compiled_sql(model: str) -> str:
    """Return the SQL of a model as dbt would run it; ephemeral models that it refers to become subqueries."""
    variables = load(packaged_text(f"{DBT_PROJECT}/dbt_project.yml"), where="dbt_project.yml")["vars"]
    return _compile(model, model_files(), variables)


def _compile(model: str, paths: dict[str, str], variables: dict[str, Any]) -> str:
    def value_of(call: re.Match[str]) -> str:
        arguments = re.findall(r"'([^']*)'", call[2])
        if call[1] == "source":
            return ".".join(arguments)
        if call[1] == "var":
            return str(variables[arguments[0]])
        return MARTS.get(arguments[0]) or f"({_compile(arguments[0], paths, variables)})"

    return _CALL.sub(value_of, packaged_text(f"{DBT_PROJECT}/{paths[model]}")).strip()


_REVENUE: Final = "SELECT sum(net_revenue) FROM finance.order_revenue"

_LATE: Final = """
    SELECT c.month_start, count(*) FILTER (o.ship_date_key > o.due_date_key)
    FROM shop.orders o JOIN finance.calendar c ON c.date_key = o.ship_date_key
    WHERE o.status <> 'cancelled' AND c.calendar_year = 2025 GROUP BY 1 ORDER BY 1"""

_FILE: Final = """\
# Golden questions of the company. `ktx eval` asks them anew and compares. The answers were counted by hand, in SQL.
connection: {connection}
cases:
  - id: net-revenue
    question: What is the net revenue of all orders, in euros?
    query: {{measures: [order_lines.net_revenue]}}
    expect: {{value: {revenue}}}
  - id: late-orders
    question: How many orders were shipped late in 2025, by the month they were shipped in?
    query:
      measures: [orders.late_orders]
      dimensions: [{{field: shipped.month_start, name: month}}]
      filters: [shipped.calendar_year = 2025]
    expect:
      columns: [month, late_orders]
      rows:
{late}
  - id: lines-without-an-order
    question: Which lines belong to no order?
    sql: |
      SELECT lines.order_id, lines.line_number
      FROM shop.order_lines AS lines
      LEFT JOIN shop.orders ON orders.order_id = lines.order_id
      WHERE orders.order_id IS NULL
    expect: {{rows: 0}}
"""


def write_evals(folder: Path) -> Path:
    """Write the company's golden questions to `folder`, whose warehouse exists; raises `StorageError`."""
    import duckdb

    with duckdb.connect(folder / WAREHOUSE, read_only=True) as warehouse:
        ((revenue,),) = warehouse.execute(_REVENUE).fetchall()
        late = warehouse.execute(_LATE).fetchall()
    rows = "\n".join(f'        - ["{month.isoformat()}", {count}]' for month, count in late)
    path = Layout(folder).evals / "company.yaml"
    write_atomic(path, _FILE.format(connection=WAREHOUSE_ID, revenue=revenue, late=rows).encode())
    return path


Tables = Mapping[str, Sequence[Row]]
"""Rows by `schema.table`."""


def make_tables(seed: int) -> Tables:
    """Return the rows of every company table for this seed."""
    staff = make_staff(seed)
    clientele = make_clientele(seed)
    assortment = make_assortment(seed)
    book = make_orders(seed, clientele, assortment, staff.sales_ids)
    return {
        "shop.regions": region_rows(seed, staff),
        "shop.employees": staff.rows,
        "shop.customers": clientele.customer_rows,
        "shop.addresses": clientele.address_rows,
        "shop.categories": category_rows(),
        "shop.products": assortment.product_rows,
        "shop.tags": tag_rows(),
        "shop.product_tags": assortment.product_tag_rows,
        "shop.orders": book.order_rows,
        "shop.order_lines": book.line_rows,
        "shop.inventory_snapshots": inventory_rows(seed, assortment),
        "shop.support_tickets": ticket_rows(seed, book.orders, clientele.customers, staff.support_ids),
        "finance.calendar": calendar_rows(),
        "finance.payments": payment_rows(seed, book.orders),
        "finance.refunds": refund_rows(seed, book.orders),
        "finance.sales_targets": sales_target_rows(seed),
    }


def write_warehouse(path: Path, tables: Tables) -> None:
    """Write the DuckDB file, which gets its name only when it is complete.

    Raises `StorageError` if the folder cannot be written or the disk is full.
    """
    import duckdb

    try:
        with tempfile.TemporaryDirectory(prefix=".ktx-demo-", dir=path.parent) as scratch:
            draft = Path(scratch) / path.name
            with duckdb.connect(draft) as connection:
                connection.execute(packaged_text("schema.sql"))
                for table, rows in tables.items():
                    _load(connection, table, rows, Path(scratch) / "rows.csv")
                for mart, view in MARTS.items():
                    connection.execute(f"CREATE VIEW {view} AS {compiled_sql(mart)}")
            os.replace(draft, path)
    except OSError as error:
        raise storage_error(path, error) from error
    except duckdb.Error as error:
        message = f"cannot write {path}: {str(error).splitlines()[0]}"
        hint = "check the free space of that disk, then run the command again in a new folder"
        raise StorageError(message, hint=hint, details={"path": str(path)}) from error


def _load(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Row], scratch: Path) -> None:
    # Loading a CSV file is twice as fast as list parameters and a hundred times as fast as executemany.
    with scratch.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)
    quoted = str(scratch).replace("'", "''")
    connection.execute(
        f"COPY {table} FROM '{quoted}'"
        " (FORMAT csv, HEADER false, AUTO_DETECT false, DELIM ',', QUOTE '\"', ESCAPE '\"', NULLSTR '')"
    )
