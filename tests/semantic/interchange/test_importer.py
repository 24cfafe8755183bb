"""Imports from folders and into projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.core.errors import UsageError
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.interchange.importer import import_path, place

VIEW = "view: orders { dimension: id { primary_key: yes type: number } measure: count { type: count } }"


def folder(tmp_path: Path) -> Path:
    for name, text in {
        "models/a.yml": "models: []",
        "target/b.yml": "models: [{name: left_out}]",
        ".hidden/c.yml": "models: [{name: left_out}]",
        "views/orders.view.lkml": VIEW,
    }.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    return tmp_path / "in"


def test_the_files_of_a_format_are_read(tmp_path: Path) -> None:
    assert list(import_path("lookml", folder(tmp_path), None).files) == ["orders.yaml"]
    assert import_path("dbt", folder(tmp_path), None).report == ()
    assert import_path("lookml", folder(tmp_path), None).report[0].to_json() == {
        "kind": "kept",
        "what": "dimension `orders.id`",
        "why": "",
        "path": "views/orders.view.lkml",
        "line": 1,
        "target": "orders.id",
    }
    assert list(import_path("lookml", folder(tmp_path) / "views/orders.view.lkml", None).files) == ["orders.yaml"]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot import the format `lookm`") as unknown:
        import_path("lookm", tmp_path, None)
    assert unknown.value.hint == "use lookml"
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="contains no dbt files"):
            import_path("dbt", path, None)


def test_an_import_is_written_once_and_replaced_by_the_next(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    found = import_path("lookml", folder(tmp_path), None)
    target = "semantic-layer/shop/orders.yaml"
    assert place(found, layout, "shop").written == (target,)
    assert place(found, layout, "shop").same == (target,)
    (tmp_path / target).write_text((tmp_path / target).read_text().replace("count(*)", "count(1)"))
    assert place(found, layout, "shop").written == (target,)
    assert "count(*)" in (tmp_path / target).read_text()


@pytest.mark.parametrize("name", ["orders.yaml", "mine.yml"])
def test_a_file_of_people_is_left_alone(tmp_path: Path, name: str) -> None:
    own = tmp_path / "semantic-layer" / "shop" / name
    own.parent.mkdir(parents=True)
    own.write_text("name: orders\ntable: other\ngrain: [id]\ncolumns: [{name: id, type: number}]\n")
    placed = place(import_path("lookml", folder(tmp_path), None), Layout(tmp_path), "shop")
    assert placed.written == () and list(placed.kept) == [f"semantic-layer/shop/{name}"]
    assert own.read_text().startswith("name: orders\ntable: other")
    assert [path.name for path in own.parent.iterdir()] == [name]
