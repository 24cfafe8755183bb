"""Makes the demo company, Pottle & Fern, in a folder: a warehouse, a dbt project, a handbook and measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.demo.days import FIRST_DAY, LAST_DAY
from ktx_cli.jobs.demo.dbt_project import write_dbt_project
from ktx_cli.jobs.demo.handbook import write_handbook
from ktx_cli.jobs.demo.semantic_layer import write_overlays
from ktx_cli.jobs.demo.warehouse import make_tables, write_warehouse
from ktx_cli.project.files import storage_error
from ktx_cli.project.layout import SEMANTIC_NAME

NAME = "Pottle & Fern"
WAREHOUSE = "warehouse.duckdb"
DBT_PROJECT = "dbt"
HANDBOOK = "handbook"
WAREHOUSE_ID = "warehouse"
"""The id of the connection to the warehouse."""


@dataclass(frozen=True, slots=True)
class Company:
    """What was made.

    `rows` counts the rows by `schema.table`, views left out. `first_day` and `last_day` bound the orders.
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
        """The folder of the dbt project."""
        return self.folder / DBT_PROJECT

    @property
    def handbook(self) -> Path:
        """The folder of the handbook."""
        return self.folder / HANDBOOK


def build_company(folder: Path, seed: int, *, half_built: bool = False) -> Company:
    """Write the company of this seed into `folder`, which is created when it is not there.

    The same seed gives the same rows on every machine. Raises `UsageError` when the folder already holds one of
    the parts and is not `half_built`, and `StorageError` when a file cannot be written. Of a half-built company
    the texts that are there stay.
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
    write_dbt_project(company.dbt_project)
    write_handbook(company.handbook)
    write_overlays(folder / SEMANTIC_NAME / WAREHOUSE_ID)
    return company


def _refuse_to_overwrite(folder: Path) -> None:
    for path in (folder / WAREHOUSE, folder / DBT_PROJECT, folder / HANDBOOK, folder / SEMANTIC_NAME):
        if path.exists() or path.is_symlink():
            raise UsageError(
                f"there is already something at {path}",
                hint="ktx demo OTHER-FOLDER",
                details={"path": str(path)},
            )
