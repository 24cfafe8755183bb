"""What may be mounted: a project of its own beside or below the root, once, and reached by no link that leads out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.core.errors import ConfigError, ResultWarning
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.project.mounts import Mounts, load_mounts

EMPTY = "connections: {}\n"


def folder(root: Path, path: str, config: str = EMPTY) -> None:
    (root / path).mkdir(parents=True, exist_ok=True)
    (root / path / "ktx.yaml").write_text(config)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a root, in a repository, with two projects below it and one beside it."""
    made = tmp_path / "company" / "root"
    for path in ("domains/sales", "domains/finance", "../beside"):
        folder(made, path)
    (made / ".git").mkdir()
    return made


def mounted(root: Path, mounts: str) -> Mounts:
    (root / "ktx.yaml").write_text(f"mounts: {{{mounts}}}\n")
    layout = Layout(root)
    return load_mounts(layout, load_config(layout.config).config)


def test_projects_below_and_beside_the_root_are_mounted_in_their_order(root: Path) -> None:
    found = mounted(root, "sales: domains/sales, beside: ../beside/, finance: domains/../domains/finance")
    assert list(found.usable) == ["sales", "beside", "finance"] and not found.broken
    assert found.usable["beside"].layout.root == root.parent / "beside"
    assert found.usable["finance"].layout.root == root / "domains/finance"
    assert found.usable["finance"].shown_path("wiki/global/x.md") == "domains/finance/wiki/global/x.md"
    assert found.usable["sales"].qualified("warehouse") == "sales/warehouse"


def into_wiki(root: Path) -> str:
    folder(root, "wiki/sales")
    return "wiki/sales"


def linked_out(root: Path) -> str:
    folder(root, "../../elsewhere")
    (root / "domains/out").symlink_to(root.parent.parent / "elsewhere")
    return "domains/out"


def linked_to_root(root: Path) -> str:
    (root / "domains/self").symlink_to(root)
    return "domains/self"


def linked_again(root: Path) -> str:
    (root / "domains/again").symlink_to(root / "domains/sales")
    return "domains/again"


def around(root: Path) -> str:
    folder(root, "..")
    return ".."


def without_settings(root: Path) -> str:
    (root / "domains/empty").mkdir()
    return "domains/empty"


def broken_settings(root: Path) -> str:
    folder(root, "domains/broken", "connections: [\n")
    return "domains/broken"


@pytest.mark.table(
    ("path", "message"),
    [
        (lambda root: ".", "is this project itself"),
        (linked_to_root, "is this project itself"),
        (around, "contains this project"),
        (into_wiki, "is inside `wiki`, which contains files of this project"),
        (linked_out, "goes through a link that points outside the project"),
        (linked_again, "is already mounted as `sales`"),
        (lambda root: "domains/sales", "is already mounted as `sales`"),
        (lambda root: "domains/gone", "does not exist"),
        (without_settings, "contains no ktx.yaml"),
        (broken_settings, "ktx.yaml:"),
    ],
)
def test_a_mount_that_cannot_be_read_says_why_and_disturbs_no_other(
    root: Path, path: Callable[[Path], str], message: str
) -> None:
    found = mounted(root, f"sales: domains/sales, other: {path(root)}, finance: domains/finance")
    assert list(found.usable) == ["sales", "finance"]
    error = found.broken["other"]
    assert error.message.startswith("mount `other`: ") and message in error.message
    assert error.hint and error.details["mount"] == "other" and error.exit_code == 2
    (warning,) = found.warnings()
    assert isinstance(warning, ResultWarning) and warning.details["mount"] == "other"
    with pytest.raises(ConfigError, match="mount `other`"):
        found.split("other/warehouse")


def test_a_link_within_the_repository_may_be_mounted(root: Path) -> None:
    (root / "sales").symlink_to(root / "domains/sales")
    assert list(mounted(root, "sales: sales").usable) == ["sales"]


def test_a_broken_file_of_a_mount_hints_at_that_project(root: Path) -> None:
    found = mounted(root, f"other: {broken_settings(root)}")
    assert found.broken["other"].hint == f"ktx config validate --project-dir {root / 'domains/broken'}"


def test_a_reference_names_the_mount_and_what_is_in_it(root: Path) -> None:
    found = mounted(root, "sales: domains/sales")
    sales = found.usable["sales"]
    assert found.split("sales/warehouse") == (sales, "warehouse")
    assert found.split("sales") == (sales, "")
    assert found.split("warehouse") == (None, "warehouse")
    assert found.split("other/warehouse") == (None, "other/warehouse")


@pytest.mark.table(
    ("text", "message"),
    [
        ("mounts: {a/b: x}", "`mounts.a/b` is not a valid mount name"),
        ("mounts: {'': x}", "is not a valid mount name"),
        ("mounts: {a: ''}", "`mounts.a` is empty"),
        ("mounts: {a: 1}", "`mounts.a` must be a text"),
        ("mounts: [a]", "`mounts` must be a mapping"),
        (
            "mounts: {shop: x}\nconnections: {shop: {driver: sqlite, path: x}}",
            "has the same name as another mount or a",
        ),
        (
            "mounts: {shop: x}\nconnections: {SHOP: {driver: sqlite, path: x}}",
            "has the same name as another mount or a",
        ),
        ("mounts: {shop: x, Shop: y}", "has the same name as another mount or a"),
    ],
)
def test_names_and_paths_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path / "ktx.yaml", text.encode())
    assert message in refused.value.message
