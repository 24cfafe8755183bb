"""The page about connections lists every driver of a database, and says on what it has been tested."""

from __future__ import annotations

import re
from pathlib import Path

from ktx_cli.project import WAREHOUSES
from ktx_cli.warehouses import VERIFIED_TEXTS, warehouse_of

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "connections.md"


def test_every_driver_and_what_it_was_tested_on() -> None:
    section = PAGE.read_text().split("## Drivers\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    told = {driver: tested for names, _, tested in rows for driver in re.findall(r"`(\w+)`", names)}
    assert set(told) == set(WAREHOUSES.built_in)
    for driver, tested in told.items():
        warehouse = warehouse_of(driver)
        assert warehouse is not None
        assert tested.partition(" (")[0] == VERIFIED_TEXTS[warehouse.verified], driver
