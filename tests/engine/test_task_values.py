"""Which value lists agents see of a source: samples, or whole code lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.engine.task import MOST_CODES, MOST_VALUES, ValueSamples
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing
from ktx_cli.scan.profile.store import save_values
from ktx_cli.scan.profile.values import Dictionary
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.semantic.model import Column, Source
from ktx_cli.warehouses import SemanticType, TableRef

COLUMNS = ("few", "code", "many", "cut", "none", "computed")
SOURCE = Source(
    "orders",
    {name: Column(name, SemanticType.STRING, expr="upper(few)" if name == "computed" else None) for name in COLUMNS},
    (),
    table=("shop", "orders"),
)


def values(count: int) -> tuple[tuple[str, int], ...]:
    return tuple((f"v{number:02}", count - number) for number in range(count))


LISTS = (
    ("few", 3, True), ("code", MOST_CODES, True), ("many", MOST_CODES + 1, True), ("cut", 3, False), ("none", 0, True),
    ("computed", 2, True), ("gone", 2, True),
)  # fmt: skip


@pytest.mark.parametrize(
    ("codes", "shown"),
    [(False, {"few": 3, "code": MOST_VALUES, "many": MOST_VALUES, "cut": 3}), (True, {"few": 3, "code": MOST_CODES})],
)
def test_code_lists_are_whole_or_not_shown(codes: bool, shown: dict[str, int], tmp_path: Path) -> None:
    lists = [
        ColumnValues(TableRef(schema, "orders"), name, values(count), complete)
        for schema in ("shop", "other")
        for name, count, complete in LISTS
    ]
    with open_for_writing(Layout(tmp_path)) as database:
        save_values(database, "warehouse", [], Dictionary(tuple(lists)), privacy="local")
        samples = ValueSamples(database, codes=codes)
        assert {name: len(found) for name, found in samples("warehouse", SOURCE).items()} == shown
        assert samples("warehouse", SOURCE)["few"] == ("v00", "v01", "v02")
        assert samples("elsewhere", SOURCE) == {}
