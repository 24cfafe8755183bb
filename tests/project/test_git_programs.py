"""No program of the project is run, however the PATH leads to it."""

from __future__ import annotations

import collections
import os
import shutil
from pathlib import Path

import pytest

from ktx_cli.core.errors import GitMissingError, NotReadyError
from ktx_cli.project.git import find_git, find_program
from ktx_cli.project.repository.commit_plan import merge_lines
from ktx_cli.project.repository.store import Repository
from ktx_cli.scan.diagram import draw_svg


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with a project in it, the current folder, whose programs leave a mark."""
    monkeypatch.delenv("KTX_GIT_BIN", raising=False)
    monkeypatch.setattr("ktx_cli.project.git._PROJECTS", collections.deque())
    folder = tmp_path / "clone" / "analytics"
    for place in (tmp_path / "clone" / ".git", folder / "bin", tmp_path / "clone" / "tools", tmp_path / "mine"):
        place.mkdir(parents=True)
    for place in (folder, folder / "bin", tmp_path / "clone" / "tools"):
        for name in ("git", "dot", "claude"):
            (place / name).write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\necho 'git version 2.99.0'\n")
            (place / name).chmod(0o755)
    monkeypatch.chdir(folder)
    return folder


ENTRIES = [".", "", "bin", "./bin", "{project}", "{project}/bin", "../tools", "{project}/../tools", "{link}"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_the_path_finds_in_the_project_is_passed_over(
    entry: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(project / "bin")
    path = entry.format(project=project, link=tmp_path / "link")
    monkeypatch.setenv("PATH", path)
    for name in ("git", "dot", "claude"):
        found, passed = find_program(name, project_dir=project)
        assert found is None
        assert passed is not None
    with pytest.raises(GitMissingError, match="is inside the project") as caught:
        Repository.discover(project)
    assert (caught.value.hint or "").startswith("if it is yours: export KTX_GIT_BIN=")
    with pytest.raises(NotReadyError, match="is inside the project"):
        draw_svg("digraph {}", project_dir=project)
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{Path(shutil.which('git', path=os.defpath) or '').parent}")
    assert find_git(project_dir=project).path.parent != project / "bin"
    assert not (tmp_path / "ran").exists()


def test_from_another_folder_too(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.setenv("PATH", str(project / "bin"))
    assert find_program("git", project_dir=project)[0] is None


def test_a_merge_runs_no_git_of_the_project_either(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = Path(shutil.which("git", path=os.defpath) or "").parent
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.setenv("PATH", f"{project / 'bin'}{os.pathsep}{system}")
    assert find_git(project_dir=project).path.parent == system
    assert merge_lines(b"a\nb\nc\nd\n", b"a\nb\nc\nD\n", b"A\nb\nc\nd\n") == b"A\nb\nc\nD\n"
    assert not (tmp_path / "ran").exists()


def test_a_link_of_the_project_to_a_program_of_the_system_is_passed_over_too(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "bin" / "git").unlink()
    (project / "bin" / "git").symlink_to("/bin/rm")
    assert find_program("git", project_dir=project, search_path="bin")[0] is None


def test_programs_of_the_user_are_found_also_in_a_home_folder_that_is_a_repository(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    shutil.copy(project / "bin" / "git", tmp_path / "mine" / "git")
    assert find_program("git", project_dir=tmp_path / "other", search_path=str(tmp_path / "mine"))[0] is not None


def test_the_environment_may_name_a_git_of_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTX_GIT_BIN", str(project / "bin" / "git"))
    assert find_git(project_dir=project).version == "2.99.0"


def test_a_trace_of_the_user_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_TRACE", "GIT_TRACE2_EVENT", "GIT_TRACE_SETUP", "GIT_TRACE_PERFORMANCE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    git = Path(shutil.which("git") or "")
    copy = tmp_path / "git"  # another path: what git said of itself is remembered by it
    copy.symlink_to(git)
    assert find_git(str(tmp_path), project_dir=tmp_path / "elsewhere").version
    assert Repository.discover(tmp_path) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["git"]
