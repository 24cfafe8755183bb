from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core.errors import StorageError, UsageError
from ktx_cli.jobs.demo.company import Company, build_company, make_tables, write_warehouse

Ask = Callable[[str], list[tuple[Any, ...]]]


def contents(path: Path) -> dict[str, tuple[int, int]]:
    """Return the number of rows and a digest of them, whatever their order, for every table and view."""
    with duckdb.connect(path, read_only=True) as connection:
        names = connection.execute("SELECT table_schema || '.' || table_name FROM information_schema.tables").fetchall()
        digests = {}
        for (name,) in names:
            digests[name] = connection.execute(f"SELECT count(*), sum(hash(t)) FROM {name} AS t").fetchall()[0]
        return digests


def test_the_folder_holds_six_parts_and_nothing_else(company: Company) -> None:
    assert sorted(path.name for path in company.folder.iterdir()) == [
        "dbt",
        "decisions.yaml",
        "handbook",
        "semantic-layer",
        "warehouse.duckdb",
        "wiki",
    ]
    assert company.dbt_project.is_dir() and company.handbook.is_dir() and company.warehouse.is_file()


def test_the_facts_are_those_of_the_file(company: Company, ask: Ask) -> None:
    assert company.seed == 7
    assert company.rows == {table: ask(f"SELECT count(*) FROM {table}")[0][0] for table in company.rows}
    tables = ask("SELECT schema_name || '.' || table_name FROM duckdb_tables()")
    assert set(company.rows) == {name for (name,) in tables}
    assert ask("SELECT min(order_date), max(order_date) FROM finance.order_revenue") == [
        (company.first_day, company.last_day)
    ]
    assert company.last_day == date(2025, 12, 31)


@pytest.mark.slow
def test_a_seed_means_the_same_company_everywhere(company: Company, tmp_path: Path) -> None:
    again, other = build_company(tmp_path / "again", 7), build_company(tmp_path / "other", 8)
    before, after = contents(company.warehouse), contents(other.warehouse)
    assert contents(again.warehouse) == before
    changed = {name for name, digest in after.items() if digest != before[name]}
    assert changed >= {"shop.customers", "shop.orders", "shop.order_lines", "finance.payments", "finance.order_revenue"}
    same = {"shop.categories", "shop.tags", "finance.calendar", "finance.days"}
    assert not changed & same
    for name in ("dbt/models/sources.yml", "handbook/net-revenue.md"):
        assert (other.folder / name).read_bytes() == (company.folder / name).read_bytes()


def test_hash_randomisation_changes_nothing() -> None:
    program = (
        "import hashlib; from ktx_cli.jobs.demo.company import make_tables; "
        "print(hashlib.sha256(repr(make_tables(7)).encode()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": "4711"}, capture_output=True, text=True
    )
    assert run.stdout.strip() == hashlib.sha256(repr(make_tables(7)).encode()).hexdigest(), run.stderr


def test_an_existing_folder_is_used_when_it_is_free(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    build_company(tmp_path, 1)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["warehouse.duckdb", "dbt", "handbook"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=name) as caught:
        build_company(tmp_path, 7)
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="file"):
        build_company(tmp_path / "file" / "demo", 7)


def test_a_failed_warehouse_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot write .*warehouse\.duckdb") as caught:
        write_warehouse(tmp_path / "warehouse.duckdb", {"shop.tags": [("not a number", "x")]})
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="warehouse"):
        write_warehouse(tmp_path / "no" / "warehouse.duckdb", {})


def test_a_folder_with_a_quote_in_its_name(tmp_path: Path) -> None:
    write_warehouse(tmp_path / "o'clock.duckdb", {"shop.tags": [(1, "a, \"b\" 'c'\nd")]})
    folder = tmp_path / "it's"
    folder.mkdir()
    write_warehouse(folder / "w.duckdb", {"shop.tags": [(1, "a, \"b\" 'c'\nd")]})
    with duckdb.connect(folder / "w.duckdb", read_only=True) as connection:
        assert connection.execute("FROM shop.tags").fetchall() == [(1, "a, \"b\" 'c'\nd")]
