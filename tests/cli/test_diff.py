"""`ktx diff` on databases: what it prints, how it ends, what it leaves alone."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, _make_shop, done

Git = Callable[..., str]
CONFIG = "connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n"


def build_scanned(folder: Path) -> None:
    """Build a project whose database was scanned."""
    _make_shop(folder)
    (folder / "ktx.yaml").write_text(CONFIG)
    done("scan", "--depth", "structural")


@pytest.fixture
def scanned(work: Path, copies: Callable[..., Path]) -> Path:
    copies(build_scanned, work)
    overlay = work / "semantic-layer" / "shop" / "customers.yaml"
    overlay.write_text("name: customers\nsegments: [{name: nordic, expr: \"country = 'NO'\"}]\n")
    return work


def change(folder: Path, *statements: str) -> None:
    database = sqlite3.connect(folder / "shop.sqlite")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


DROP = "ALTER TABLE customers DROP COLUMN country"


def test_nothing_changed(ktx: Run, scanned: Path) -> None:
    answer = ktx("diff")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[1:] == [
        "shop\tunchanged\t3 tables, 9 columns; unchanged since the scan",
        "changes: none",
    ]


def test_a_change_is_printed_with_what_refers_to_it(ktx: Run, scanned: Path) -> None:
    change(scanned, DROP, "CREATE TABLE coupons (code TEXT)")
    answer = ktx("diff")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert "table_added warning: table `coupons` was added: table of 1 column" in lines
    manifest = (scanned / "semantic-layer/shop/_schema/main.yaml").read_text().splitlines()
    line = next(number for number, text in enumerate(manifest, 1) if "name: country" in text)
    message = "column_removed error: column `customers.country` was removed: TEXT (string)"
    at = lines.index(f"semantic-layer/shop/_schema/main.yaml:{line}: {message}")
    assert lines[at + 1] == "  used by segment customers.nordic (semantic-layer/shop/customers.yaml:2)"
    assert answer.err.splitlines() == [
        "error: 2 changes since the last scan: connection `shop`",
        "hint: edit segment customers.nordic (semantic-layer/shop/customers.yaml:2); then: ktx ingest shop",
    ]


def test_the_envelope_has_every_change_and_use(ktx: Run, scanned: Path) -> None:
    change(scanned, DROP)
    answer = ktx("diff", "shop", "--json")
    assert (answer.code, answer.envelope["schema"], answer.envelope["error"]["code"]) == (1, "ktx/diff/v1", "drift")
    (connection,) = answer.data["connections"]
    assert (connection["status"], connection["compared_with"], connection["tables"]) == ("drift", "snapshot", 3)
    (changed,) = connection["changes"]
    assert changed.pop("line") > 1
    assert connection["changes"] == [
        {
            "message": "column `customers.country` was removed: TEXT (string)",
            "path": "semantic-layer/shop/_schema/main.yaml",
            "kind": "column_removed",
            "table": "customers",
            "columns": ["country"],
            "before": "TEXT (string)",
            "after": None,
            "breaking": True,
            "used_by": [
                {
                    "kind": "segment",
                    "name": "customers.nordic",
                    "connection": "shop",
                    "path": "semantic-layer/shop/customers.yaml",
                    "line": 2,
                    "via": None,
                }
            ],
        }
    ]
    assert answer.data["counts"] == {"changes": 1, "breaking": 1, "column_removed": 1}


@pytest.mark.parametrize(("statement", "plain", "breaking"), [(DROP, 1, 1), ("CREATE TABLE coupons (code TEXT)", 1, 0)])
def test_breaking_ends_with_1_only_for_what_breaks(
    ktx: Run, scanned: Path, statement: str, plain: int, breaking: int
) -> None:
    change(scanned, statement)
    assert (ktx("diff").code, ktx("diff", "--breaking").code) == (plain, breaking)


def test_a_database_that_was_never_scanned_is_not_ready(ktx: Run, shop: Path, work: Path) -> None:
    (work / "ktx.yaml").write_text(CONFIG)
    answer = ktx("diff", "--json")
    assert answer.code == 3
    assert answer.envelope["error"]["hint"] == "ktx ingest shop"
    assert ktx("diff", "nothing").code == 2


def test_an_unreachable_database_ends_with_4_and_beside_another_with_7(ktx: Run, scanned: Path) -> None:
    other = CONFIG + "  more:\n    driver: sqlite\n    path: more.sqlite\n"
    for folder in ("semantic-layer", "raw-sources"):
        shutil.copytree(scanned / folder / "shop", scanned / folder / "more")
    (scanned / "ktx.yaml").write_text(other)
    assert ktx("diff", "more").code == 4
    change(scanned, DROP)
    answer = ktx("diff", "--json")
    assert (answer.code, answer.envelope["error"]["details"]["left_out"]) == (7, ["more"])
    assert [each["status"] for each in answer.data["connections"]] == ["failed", "drift"]
    (scanned / "shop.sqlite").unlink()
    assert ktx("diff").code == 4


def test_a_database_that_shows_nothing_is_taken_for_unreachable(ktx: Run, scanned: Path) -> None:
    (scanned / "shop.sqlite").write_bytes(b"")
    answer = ktx("diff")
    assert (answer.code, "has no visible tables" in answer.err) == (4, True)


def test_nothing_of_the_project_or_its_repository_is_written(ktx: Run, scanned: Path) -> None:
    change(scanned, DROP)
    before = {path: path.stat().st_mtime_ns for path in scanned.rglob("*")}
    assert ktx("diff").code == 1
    assert {path: path.stat().st_mtime_ns for path in scanned.rglob("*")} == before


def test_after_a_scan_there_is_no_drift(ktx: Run, scanned: Path) -> None:
    change(scanned, DROP)
    assert ktx("diff").code == 1
    scan = ktx("scan", "--depth", "structural")
    assert scan.code == 7  # The definitions in customers.yaml no longer compile, and they are not committed.
    assert "hint: edit semantic-layer/shop/customers.yaml" in scan.err
    assert ktx("diff").code == 0
