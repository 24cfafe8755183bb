"""The contract of a source, run on data dictionaries."""

from pathlib import Path

import pytest

from ktx_cli.testing.source_contract import CONNECTION, SourceCase, SourceContract

ORDERS = "column,description\n,One row for each order.\nstatus,Where the order stands.\n"


class TestDictionary(SourceContract):
    """What ktx needs of every source."""

    @pytest.fixture
    def case(self, tmp_path: Path) -> SourceCase:
        """A dictionary of two tables."""
        folder = tmp_path / "dictionary"
        folder.mkdir()
        (folder / "orders.csv").write_text(ORDERS)
        (folder / "customers.csv").write_text("column,description\nname,As they sign.\n")
        return SourceCase(
            {"driver": "dictionary", "path": str(folder), "database": CONNECTION},
            change=lambda: (folder / "orders.csv").write_text(ORDERS.replace("stands", "is")),
            remove=(folder / "customers.csv").unlink,
            breaks=lambda: folder.rename(tmp_path / "moved"),
        )
