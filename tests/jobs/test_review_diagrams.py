"""Drawings of what the project's files say."""

from __future__ import annotations

from pathlib import Path

from ktx_cli.jobs.review import draw
from ktx_cli.project.layout import Layout

SHARD = """\
tables:
  parts:
    table: parts
    columns: [{name: part_id, type: number, pk: true}, {name: maker_id, type: number}]
    joins: [{to: makers, "on": maker_id = makers.maker_id, relationship: many_to_one, source: inferred}]
  makers:
    table: makers
    columns: [{name: maker_id, type: number, pk: true}]
"""


def test_a_join_that_an_overlay_disables_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "ktx.yaml").write_text("connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n")
    layout = Layout(tmp_path)
    folder = layout.schema_dir("shop")
    folder.mkdir(parents=True)
    (folder / "main.yaml").write_text(SHARD)
    assert draw(layout)[0].joins == 1
    (folder.parent / "parts.yaml").write_text("name: parts\ndisable_joins:\n  - maker_id = makers.maker_id\n")
    drawing, warnings = draw(layout)
    assert (drawing.joins, drawing.tables, warnings) == (0, 2, [])


def test_links_out_of_the_project_are_named_and_not_drawn(tmp_path: Path) -> None:
    root = tmp_path / "project"
    layout = Layout(root)
    folder = layout.schema_dir("shop")
    folder.mkdir(parents=True)
    (root / "ktx.yaml").write_text("connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n")
    (folder / "main.yaml").write_text(SHARD)
    (tmp_path / "shard.yaml").write_text("tables: {canary: {table: canary, columns: [{name: id, type: number}]}}\n")
    (tmp_path / "overlay.yaml").write_text("name: parts\ndisable_joins:\n  - maker_id = makers.maker_id\n")
    (folder / "more.yaml").symlink_to(tmp_path / "shard.yaml")
    (folder.parent / "parts.yaml").symlink_to(tmp_path / "overlay.yaml")
    drawing, warnings = draw(layout)
    assert "canary" not in drawing.text
    assert (drawing.joins, drawing.tables) == (1, 2)
    assert {warning.details["path"]: "points outside the project" in warning.message for warning in warnings} == {
        "semantic-layer/shop/_schema/more.yaml": True,
        "semantic-layer/shop/parts.yaml": True,
    }
