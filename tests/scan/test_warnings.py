"""What a scan could not look at becomes a warning that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import Severity, yaml
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.privacy import ValueKind
from ktx_cli.scan.outcome import decimal_comma_warnings, field_notes, problem_warnings
from ktx_cli.scan.profile.profiler import ColumnProfile, SampleMethod, TableProfile
from ktx_cli.warehouses.port import ObjectProblem, TableRef, matches

Change = Callable[..., None]


def broken(name: str, what: str = "view", message: str = "no such table: x") -> ObjectProblem:
    return ObjectProblem(TableRef(None, name), what, message)


@pytest.mark.table(
    ("problems", "expected"),
    [
        ((), {}),
        ((broken("v"),), {"object_unreadable": ["1 object could not be read", "`v` (no such table: x)"]}),
        (
            tuple(broken(f"v{number}") for number in range(5)),
            {"object_unreadable": ["5 objects", "`v0`", "`v2`", "and 2 more"]},
        ),
        ((broken("f", "file", "bad\nline\x1b[31m"),), {"object_unreadable": ["`f` (bad line [31m)"]}),
        (
            (ObjectProblem(None, "indexes", "permission denied"),),
            {"object_unreadable": ["indexes (permission denied)"]},
        ),
        (
            (ObjectProblem(None, "scope", "`t` in `include` matches no table in scope"),),
            {"scope_unmatched": ["`t` in `include` matches no table"]},
        ),
        (
            (broken("v"), ObjectProblem(None, "schema", "schema `s` has no tables that this role can see")),
            {"object_unreadable": ["1 object "], "scope_unmatched": ["schema `s`"]},
        ),
    ],
)
def test_warnings(problems: tuple[ObjectProblem, ...], expected: dict[str, list[str]]) -> None:
    warnings = problem_warnings("shop", problems)
    assert [warning.code for warning in warnings] == list(expected)
    for warning in warnings:
        assert warning.message.startswith("connection `shop`: ")
        assert warning.details["connection"] == "shop"
        assert warning.hint
        assert all(part in warning.message for part in expected[warning.code])


@pytest.mark.table(
    ("values", "is_named"),
    [
        (["12,34", "1.100,50", "-7,00"], True),
        (["12,34", "n/a"], False),
        (["1,100", "2,000"], False),  # these may be thousands
        (["Berlin, Mitte"], False),
        ([], False),
    ],
)
def test_numbers_with_a_decimal_comma(values: list[str], is_named: bool) -> None:
    column = ColumnProfile("amount", ValueKind.TEXT, len(values), top=tuple((value, 1) for value in values))
    table = TableProfile(TableRef(None, "sales"), SampleMethod.ALL, len(values), None, False, (column,))
    warnings = decimal_comma_warnings("shop", [table])
    assert [each.code for each in warnings] == ["decimal_comma"] * is_named
    if is_named:
        assert "`sales.amount`" in warnings[0].message
        assert "REPLACE(REPLACE(amount, '.', ''), ',', '.')" in (warnings[0].hint or "")


@pytest.mark.parametrize("databases_only", [False, True], ids=["ingest", "scan"])
@pytest.mark.parametrize("dry_run", [False, True], ids=["run", "dry run"])
def test_a_broken_view_and_an_unreadable_file(
    shop_project: Path, change: Change, databases_only: bool, dry_run: bool
) -> None:
    change(shop_project, "CREATE TABLE base (i INT)", "CREATE VIEW v AS SELECT * FROM base", "DROP TABLE base")
    folder = shop_project / "exports"
    folder.mkdir()
    (folder / "good.csv").write_text("id\n1\n")
    (folder / "bad.parquet").write_bytes(b"not parquet")
    with (shop_project / "ktx.yaml").open("a") as config:
        config.write("  exports:\n    driver: files\n    path: exports\n")
    request = IngestRequest(shop_project, {}, databases_only=databases_only, dry_run=dry_run)
    report, warnings = ingest(request)
    assert report.error() is None
    found = {w.details["connection"]: w for w in warnings if w.code == "object_unreadable"}
    assert {name: w.details["objects"] for name, w in found.items()} == {"exports": ["bad"], "shop": ["v"]}
    assert "`bad` (" in found["exports"].message
    if not dry_run:  # an unchanged database says so again
        again, warnings = ingest(request)
        assert again.status == "unchanged"
        assert [w.code for w in warnings].count("object_unreadable") == 2


def test_the_exclude_it_names_ends_the_warning(shop_project: Path, change: Change) -> None:
    change(shop_project, "CREATE TABLE base (i INT)", "CREATE VIEW v AS SELECT * FROM base", "DROP TABLE base")
    with (shop_project / "ktx.yaml").open("a") as config:
        config.write("    exclude: [v]\n")
    assert ingest(IngestRequest(shop_project, {}))[1] == []


@pytest.mark.parametrize("more", ["", "    include: [nothing_like_it]\n"], ids=["empty", "out of scope"])
def test_nothing_to_read_is_a_warning(shop_project: Path, change: Change, more: str) -> None:
    if not more:
        change(shop_project, "DROP TABLE customers", "DROP TABLE orders")
    with (shop_project / "ktx.yaml").open("a") as config:
        config.write(more)
    report, warnings = ingest(IngestRequest(shop_project, {}))
    assert report.error() is None
    found: dict[str, Any] = {w.code: w for w in warnings}
    assert "no tables to read" in found["nothing_to_read"].message
    assert ("`include`" in found["nothing_to_read"].hint) is bool(more)


@pytest.mark.table(
    ("name", "entry"),
    [("main.v", "main.v"), ("pw.csv", "pw.csv"), ("gl*b.csv", '"gl[*]b.csv"'), ("a b", '"a b"'), ('"x', r'"\"x"')],
)
def test_the_hint_gives_the_entry_that_leaves_it_out(name: str, entry: str) -> None:
    (warning,) = problem_warnings("shop", [broken(name)])
    assert (warning.hint or "").endswith(f"in ktx.yaml: {entry}")
    assert matches(yaml.load(f"- {entry}".encode(), where="x")[0], TableRef(None, name))


def test_fields_that_are_no_columns_are_a_note() -> None:
    """The table itself was read, so nothing suggests to exclude it."""
    assert field_notes("shop", ()) == []
    (note,) = field_notes("shop", [broken("t", "field", "`a` is not a column: it differs from `A` only in case")])
    assert (note.code, note.severity, note.hint) == ("fields_skipped", Severity.INFO, None)
    assert note.message.startswith("connection `shop`: 1 field skipped, the rest was read: `a` is not a column")
