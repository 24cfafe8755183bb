from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.project.layout import WorkingTree


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "project"
    (folder / "wiki").mkdir(parents=True)
    (tmp_path / "secret").write_text("canary")
    (tmp_path / "repository" / "shared.md").write_text("shared")
    return folder


@pytest.mark.parametrize("of_folder", [False, True])
def test_a_link_out_of_the_project_is_not_read(project: Path, tmp_path: Path, of_folder: bool) -> None:
    link = project / "wiki" / ("out" if of_folder else "secret")
    link.symlink_to(tmp_path if of_folder else tmp_path / "secret")
    path = "wiki/out/secret" if of_folder else "wiki/secret"
    with pytest.raises(StorageError, match="leads out of the project") as caught:
        WorkingTree(project).read(path)
    assert "canary" not in str(caught.value.to_json())
    hint = caught.value.hint or ""
    assert hint.startswith("remove the link: rm ")
    assert not {"cp", "realpath"} & set(hint.split()), "a planted link would bring somebody's file into the repository"


def test_a_link_within_the_repository_is_read(project: Path) -> None:
    (project / "wiki/shared.md").symlink_to("../../shared.md")
    with pytest.raises(StorageError):
        WorkingTree(project).read("wiki/shared.md")
    (project.parent / ".git").mkdir()
    assert WorkingTree(project).read("wiki/shared.md") == b"shared"


def test_a_home_folder_that_is_a_repository_is_not_the_project(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    (project / "wiki/secret").symlink_to(tmp_path / "secret")
    with pytest.raises(StorageError):
        WorkingTree(project).read("wiki/secret")


def test_a_project_that_is_reached_through_a_link_is_read(project: Path, tmp_path: Path) -> None:
    (project / "wiki/a.md").write_text("a")
    (tmp_path / "way").symlink_to(project)
    assert WorkingTree(tmp_path / "way").read("wiki/a.md") == b"a"
    assert WorkingTree(tmp_path / "way").read("wiki/none.md") is None
