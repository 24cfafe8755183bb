from __future__ import annotations

import os
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
    with pytest.raises(StorageError, match="points outside the project") as caught:
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


@pytest.mark.table("target", ["../.ktx/secrets/key", "../../.env", "../../other/.ktx/secrets/key", "../../.git/config"])
def test_a_link_to_a_hidden_file_is_not_read(project: Path, target: str) -> None:
    """What is hidden there is not of the repository but of this machine: secrets, states of other projects."""
    (project.parent / ".git").mkdir(exist_ok=True)
    real = Path(os.path.normpath(project / "wiki" / target))
    real.parent.mkdir(parents=True, exist_ok=True)
    real.write_text("canary")
    for link in ("page.md", "folder"):
        (project / "wiki" / link).unlink(missing_ok=True)
    (project / "wiki/page.md").symlink_to(target)
    (project / "wiki/folder").symlink_to(real.parent)
    for path in ("wiki/page.md", f"wiki/folder/{real.name}"):
        with pytest.raises(StorageError, match="points to a hidden file") as caught:
            WorkingTree(project).read(path)
        assert "canary" not in str(caught.value.to_json())


def test_a_project_in_a_hidden_folder_is_read_and_its_links(tmp_path: Path) -> None:
    project = tmp_path / ".context" / "project"
    (project / "wiki").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (project.parent / "shared.md").write_text("shared")
    (project / "wiki/page.md").symlink_to("../../shared.md")
    (project / "wiki/.own.md").write_text("own")
    assert WorkingTree(project).read("wiki/page.md") == b"shared"
    assert WorkingTree(project).read("wiki/.own.md") == b"own"


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
