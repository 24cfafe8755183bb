"""Writes the demo warehouse: one DuckDB file with the tables of a seed and the views of the dbt project."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.core.errors import StorageError
from ktx_cli.jobs.demo.assortment import category_rows, inventory_rows, make_assortment, tag_rows
from ktx_cli.jobs.demo.days import Row, calendar_rows
from ktx_cli.jobs.demo.dbt_project import MARTS, compiled_sql
from ktx_cli.jobs.demo.files import packaged_text
from ktx_cli.jobs.demo.money import payment_rows, refund_rows, sales_target_rows
from ktx_cli.jobs.demo.orders import make_orders
from ktx_cli.jobs.demo.people import make_clientele, make_staff, region_rows
from ktx_cli.jobs.demo.support import ticket_rows
from ktx_cli.project.files import storage_error

if TYPE_CHECKING:
    import duckdb

Tables = Mapping[str, Sequence[Row]]
"""Rows by `schema.table`."""


def make_tables(seed: int) -> Tables:
    """Return the rows of every table of the company this seed stands for."""
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
    """Write the DuckDB file; it appears under its name only when it is complete.

    Raises `StorageError` when the folder cannot be written or the disk is full.
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
        raise StorageError(
            f"cannot write {path}: {str(error).splitlines()[0]}",
            hint="check the free space of that disk, then run the command again in a new folder",
            details={"path": str(path)},
        ) from error


def _load(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Row], scratch: Path) -> None:
    # Loading a CSV file is twice as fast as list parameters and a hundred times as fast as executemany.
    with scratch.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)
    connection.execute(
        f"COPY {table} FROM {_literal(scratch)}"
        " (FORMAT csv, HEADER false, AUTO_DETECT false, DELIM ',', QUOTE '\"', ESCAPE '\"', NULLSTR '')"
    )


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
