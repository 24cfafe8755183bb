"""Files in `semantic-layer/` that belong to no connection: which are found, and what they are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.project.layout import EmptyTree, WorkingTree
from ktx_cli.semantic.load.load import NO_CONNECTION, read_strays
from ktx_cli.semantic.manifest import is_stray, stray_names, stray_paths

HIDING = "name: orders\ncolumns:\n  - {name: amount, visibility: hidden}\n"
CONNECTIONS = ("shop", "disabled")


def project(root: Path, files: dict[str, str]) -> WorkingTree:
    for path, text in files.items():
        (root / "semantic-layer" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "semantic-layer" / path).write_text(text)
    return WorkingTree(root)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (HIDING, (("orders",), False)),
        (f"{HIDING}table: orders\n", (("orders",), True)),
        ("policies:\n  - filter: x = 1\n", ((), False)),
        ("tables:\n  a: {visibility: hidden}\n  b: {table: b}\n", (("a",), False)),
        ("- visibility: hidden\n", ((), False)),
        (HIDING + "<<<<<<< HEAD\n", (("orders",), False)),
        ("name: orders\ndescription: All orders.\n", None),
        ("name: [orders\n", None),
    ],
)
def test_what_a_stray_file_is_about(text: str, found: tuple[tuple[str, ...], bool] | None, tmp_path: Path) -> None:
    strays = read_strays(project(tmp_path, {"old/orders.yaml": text}), CONNECTIONS)
    assert [(each.names, each.own) for each in strays] == ([] if found is None else [found])
    assert all(each.problem.code == NO_CONNECTION for each in strays)


def test_files_of_connections_are_no_strays(tmp_path: Path) -> None:
    files = ("shop/a.yaml", "disabled/b.yaml", "Shop/c.yaml", "d.yml", "old/below/e.yaml", "old/notes.txt")
    tree = project(tmp_path, dict.fromkeys(files, HIDING))
    assert stray_names(tree, CONNECTIONS) == ["Shop", "d.yml", "old"]
    paths = [f"semantic-layer/{each}" for each in ("Shop/c.yaml", "d.yml", "old/below/e.yaml")]
    assert stray_paths(tree, CONNECTIONS) == paths
    assert [f"semantic-layer/{each}" for each in files if is_stray(f"semantic-layer/{each}", CONNECTIONS)] == [
        paths[0], paths[1], paths[2]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("SHOP/orders.yaml", "move it to semantic-layer/shop/, or remove it"),
        ("old/orders.yaml", "move it to the folder of its connection in semantic-layer/, or remove it"),
    ],
)
def test_the_way_out(path: str, hint: str, tmp_path: Path) -> None:
    (stray,) = read_strays(project(tmp_path, {path: HIDING}), CONNECTIONS)
    assert (stray.problem.path, stray.problem.hint) == (f"semantic-layer/{path}", hint)


def test_an_empty_tree_has_none() -> None:
    assert read_strays(EmptyTree(), CONNECTIONS) == []
