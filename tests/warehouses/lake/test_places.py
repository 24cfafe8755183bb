"""Connections to the wrong place say what is there instead, and names that need quotes are suggested with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.lake.session import library_message
from ktx_cli.warehouses.port import Connector, Scope
from tests.warehouses.lake.tables import IcebergLake, rows_of
from tests.warehouses.lake.test_delta import PLAIN

Open = Callable[..., Connector]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `ice` and its catalog `ice.db`, `delta` and `empty`."""
    IcebergLake(tmp_path / "ice").append("crm.people", rows_of(PLAIN, [(1, "x")]))
    write_deltalake(tmp_path / "delta" / "sales" / "eu" / "orders", rows_of(PLAIN, [(1, "x")]))
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("driver", "own", "message"),
    [
        ("iceberg", {"path": "delta"}, "there are no Iceberg tables in {}/delta; the folder contains Delta tables"),
        ("delta", {"path": "ice"}, "there are no Delta tables in {}/ice; the folder contains Iceberg tables"),
        ("delta", {"path": "empty"}, "there are no Delta tables in {}/empty"),
        ("iceberg", {"path": "empty"}, "there are no Iceberg tables in {}/empty"),
        (
            "iceberg",
            {"catalog": "sql", "uri": "sqlite:///ice.db", "catalog_name": "nope"},
            "the SQL catalog has no tables under the name `nope`",
        ),
    ],
)
def test_a_place_without_tables(driver: str, own: dict[str, Any], message: str, folder: Path, opened: Open) -> None:
    connector = opened(driver, **own, project_dir=str(folder))
    with pytest.raises(SourceError) as caught:
        connector.test(Scope())
    assert caught.value.problem == message.format(folder)
    assert caught.value.hint is not None


def test_a_right_place_passes(folder: Path, opened: Open) -> None:
    assert opened("delta", path=str(folder / "delta")).test(Scope()).tables == 1
    assert opened("iceberg", path=str(folder / "ice")).test(Scope()).tables == 1


def test_a_suggested_table_can_be_pasted(folder: Path, opened: Open) -> None:
    connector = opened("delta", path=str(folder / "delta"))
    with pytest.raises(SourceError, match="orders does not exist") as caught:
        connector.query("SELECT * FROM orders")
    assert caught.value.hint == 'did you mean `"sales.eu".orders`?'
    assert connector.query('SELECT id FROM "sales.eu".orders').rows == ((1,),)


def test_a_message_of_a_library_without_its_log_and_colours() -> None:
    log = "[2026-01-31T00:22:30Z WARN  aws_config::imds::region] failed to load region"
    text = f"{log}\n\x1b[31mGeneric S3 error\x1b[0m: input_value='canary'\nmore"
    assert library_message(OSError(text)) == "OSError: Generic S3 error:"
