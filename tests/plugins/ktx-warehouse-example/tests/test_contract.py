"""The contract of a warehouse, run on quackbase."""

import duckdb
import pytest

from ktx_cli.testing.warehouse_contract import PreparedDatabase, WarehouseContract, statements


class TestQuackbase(WarehouseContract):
    """What ktx needs of every connector."""

    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, tmp_path_factory: pytest.TempPathFactory) -> PreparedDatabase:
        """A quackbase file with the tables of the contract."""
        path = tmp_path_factory.mktemp("pond") / "shop.pond"
        with duckdb.connect(str(path)) as session:
            for statement in statements():
                session.execute(statement)
        return PreparedDatabase(
            "quackbase",
            {"path": str(path), "pond": "main"},
            schema="main",
            refused=("ATTACH 'beside.pond' AS b", "COPY customers TO 'beside.csv'", "SET threads = 1"),
            endless="SELECT count(*) FROM range(100000000) a, range(100000000) b",
            missing={"path": str(path.with_name("missing.pond"))},
        )
