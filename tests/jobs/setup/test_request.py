"""What is typed next runs as it stands."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from ktx_cli.jobs.setup.request import first_database


@pytest.mark.parametrize(
    ("made", "flags"),
    [
        (("sales.csv", "returns.csv"), "--database files --database-path ."),
        (("my data.duckdb",), "--database duckdb --database-path 'my data.duckdb'"),
    ],
)
def test_the_nearest_database_is_named(made: tuple[str, ...], flags: str, tmp_path: Path) -> None:
    for name in made:
        if name.endswith(".duckdb"):
            duckdb.connect(str(tmp_path / name)).close()
        else:
            (tmp_path / name).write_text("a,b\n1,2\n")
    assert first_database(tmp_path) == f"ktx setup {flags}"


def test_no_database_is_made_up(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert first_database(tmp_path) is None
