"""`ktx scan diagram`."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.cli.commands.scan import Format
from ktx_cli.scan.diagram import DIAGRAM_WRITERS

Run = Callable[..., Any]

NEEDS_DOT = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")

SHOP = """\
erDiagram
    "Order Lines" {
        number order_id PK, FK
        number line PK
        number amount
    }
    "customers" {
        number id PK
        string name
        string country
    }
    "orders" {
        number id PK
        number customer_id FK
        time placed_on
    }
    "Order Lines" }o--|| "orders" : "order_id = id"
    "orders" }o--o| "customers" : "customer_id = id"
"""


SHARD = """\
tables:
  customers:
    table: customers
    columns:
      - {name: id, type: number, pk: true}
      - {name: name, type: string, nullable: false}
      - {name: country, type: string}
    joins:
      - {to: orders, on: id = orders.customer_id, relationship: one_to_many, source: formal}
  orders:
    table: orders
    columns:
      - {name: id, type: number, pk: true}
      - {name: customer_id, type: number}
      - {name: placed_on, type: time}
    joins:
      - {to: customers, on: customer_id = customers.id, relationship: many_to_one, source: formal}
      - {to: Order Lines, on: 'id = "Order Lines".order_id', relationship: one_to_many, source: formal}
  Order Lines:
    table: '"Order Lines"'
    columns:
      - {name: order_id, type: number, pk: true}
      - {name: line, type: number, pk: true}
      - {name: amount, type: number}
    joins:
      - {to: orders, on: order_id = orders.id, relationship: many_to_one, source: formal}
"""


def scan(project: Path, connection: str = "warehouse") -> None:
    """Leave the manifest of the shop that a scan writes."""
    folder = project / "semantic-layer" / connection / "_schema"
    folder.mkdir(parents=True)
    (folder / "main.yaml").write_text(SHARD)


@pytest.fixture
def scanned(project: Path) -> Path:
    """A project with the manifest of its shop."""
    scan(project)
    return project


def test_after_a_real_scan(ktx: Run, project: Path) -> None:
    assert ktx("scan").code == 0
    assert ktx("scan", "diagram").out == SHOP


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("words", [(), ("warehouse",), ("--format", "mermaid"), ("--plain",)])
def test_prints_mermaid_and_changes_nothing(ktx: Run, scanned: Path, words: tuple[str, ...]) -> None:
    before = tree(scanned)
    answer = ktx("scan", "diagram", *words)
    assert (answer.code, answer.out, answer.err) == (0, SHOP, "")
    assert tree(scanned) == before


def test_the_envelope_holds_the_diagram(ktx: Run, scanned: Path) -> None:
    answer = ktx("scan", "diagram", "--json")
    assert answer.envelope["schema"] == "ktx/scan-diagram/v1"
    assert answer.data == {
        "connection": "warehouse", "format": "mermaid", "tables": 3, "joins": 2, "hidden_columns": 0,
        "output": None, "diagram": SHOP,
    }  # fmt: skip


def test_a_file_is_written_where_the_command_was_typed(
    ktx: Run, scanned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    before = tree(scanned)
    answer = ktx("scan", "diagram", "--project-dir", str(scanned), "--output", "er.mmd", "--json")
    assert (answer.code, answer.data["diagram"], answer.data["output"]) == (0, None, str(elsewhere / "er.mmd"))
    assert (elsewhere / "er.mmd").read_text() == SHOP
    assert tree(scanned) == before
    again = ktx("scan", "diagram", "--project-dir", str(scanned), "-o", "er.mmd", "--tables", "orders")
    assert again.out == f"written: {elsewhere / 'er.mmd'}\ndrawn: 1 table, 0 joins\n"
    assert '"customers"' not in (elsewhere / "er.mmd").read_text()


def test_patterns_and_keys_only(ktx: Run, scanned: Path) -> None:
    out = ktx("scan", "diagram", "--keys-only", "--tables", "order*", "--tables", "customers").out
    assert "placed_on" not in out
    assert '"orders" }o--o| "customers"' in out
    assert "Order Lines" not in out
    answer = ktx("scan", "diagram", "--tables", "nothing*")
    assert (answer.code, answer.err.splitlines()[0]) == (2, "error: no table matches `nothing*`")


@pytest.mark.parametrize("format", [each.value for each in Format])
def test_every_format_has_a_writer(format: str) -> None:
    assert format in DIAGRAM_WRITERS
    assert len(DIAGRAM_WRITERS) == len(Format)


def test_dot(ktx: Run, scanned: Path) -> None:
    assert ktx("scan", "diagram", "--format", "dot").out.startswith("digraph ktx {\n")


@NEEDS_DOT
def test_svg(ktx: Run, scanned: Path) -> None:
    answer = ktx("scan", "diagram", "--format", "svg", "--json")
    assert answer.data["diagram"].startswith("<?xml")
    assert "Order Lines" in answer.data["diagram"]
    assert ktx("scan", "diagram", "--format", "svg").out.strip() == answer.data["diagram"].strip()


def test_svg_without_graphviz_says_how_to_get_it(
    ktx: Run, scanned: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    monkeypatch.setenv("PATH", str(bare))
    answer = ktx("scan", "diagram", "--format", "svg", "--output", "er.svg")
    assert (answer.code, answer.err.splitlines()[1]) == (3, "hint: apt-get install graphviz")
    assert not (scanned / "er.svg").exists()


@pytest.mark.parametrize("words", [("scan", "diagram"), ("scan", "diagram", "warehouse")])
def test_before_the_first_scan_it_is_not_ready(ktx: Run, project: Path, words: tuple[str, ...]) -> None:
    answer = ktx(*words, "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (3, "not_ready")
    assert answer.envelope["error"]["hint"] == " ".join(("ktx scan", *words[2:]))


def test_with_several_scanned_databases_one_has_to_be_named(ktx: Run, scanned: Path) -> None:
    shutil.copy(scanned / "shop.sqlite", scanned / "mart.sqlite")
    assert ktx("connection", "add", "mart", "--driver", "sqlite", "--path", "mart.sqlite").code == 0
    assert ktx("scan", "diagram").out == SHOP, "only one was scanned"
    scan(scanned, "mart")
    answer = ktx("scan", "diagram", "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (2, "ktx scan diagram mart")
    assert ktx("scan", "diagram", "mart").out == SHOP


def test_a_broken_shard_is_a_warning_and_the_rest_is_drawn(ktx: Run, scanned: Path) -> None:
    folder = scanned / "semantic-layer" / "warehouse" / "_schema"
    (folder / "broken.yaml").write_text("tables: [")
    answer = ktx("scan", "diagram", "--json")
    assert answer.data["diagram"] == SHOP
    assert [warning["code"] for warning in answer.envelope["warnings"]] == ["broken_shard"]


def test_what_mermaid_does_not_draw_is_said(ktx: Run, scanned: Path) -> None:
    columns = "\n".join(f"  - {{name: a_column_of_a_table_{number}, type: string, pk: true}}" for number in range(1500))
    folder = scanned / "semantic-layer" / "warehouse" / "_schema"
    (folder / "wide.yaml").write_text(f"tables:\n wide:\n  columns:\n{columns}\n")
    (warning,) = ktx("scan", "diagram", "--json").envelope["warnings"]
    assert warning["code"] == "large_diagram"
    assert warning["message"].startswith("Mermaid draws at most 50,000 characters")
    assert ktx("scan", "diagram", "--format", "dot", "--json").envelope["warnings"] == []


def test_an_output_that_cannot_be_written_names_the_path(ktx: Run, scanned: Path) -> None:
    (scanned / "folder").mkdir()
    answer = ktx("scan", "diagram", "--output", "folder")
    assert (answer.code, answer.out) == (1, "")
    assert os.fspath(scanned / "folder") in answer.err
