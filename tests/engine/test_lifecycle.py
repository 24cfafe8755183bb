"""The base of a run: what is committed, and what git ignores of the generated files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.engine.lifecycle import ProjectBase
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository.store import Repository

FOLDER = "raw-sources/shop/live-database"


def test_an_ignored_link_out_of_the_project_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / FOLDER).mkdir(parents=True)
    (tmp_path / "canary.json").write_text("canary")
    (root / ".gitignore").write_text("raw-sources/\n")
    (root / FOLDER / "manifest.yaml").write_text("format: 1\n")
    base = ProjectBase.of_head(Layout(root), Repository.create(root))
    assert list(base.blobs(FOLDER)) == [f"{FOLDER}/manifest.yaml"]
    assert base.read(f"{FOLDER}/manifest.yaml") == b"format: 1\n"
    (root / FOLDER / "relationships.json").symlink_to(tmp_path / "canary.json")
    with pytest.raises(StorageError, match="points outside the project"):
        base.blobs(FOLDER)
