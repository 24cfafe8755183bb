from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.core.errors import NoProjectError, UsageError
from ktx_cli.project.layout import find_project, folder_for_setup, require_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "ktx.yaml").write_text("")
    return folder


def test_nearest_parent(project: Path) -> None:
    assert find_project(None, {}, project / "deep" / "er") == project


def test_flag_wins_over_variable_wins_over_parent(project: Path, tmp_path: Path) -> None:
    for name in ("by-flag", "by-env"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ktx.yaml").write_text("")
    environ = {"KTX_PROJECT_DIR": str(tmp_path / "by-env")}
    assert find_project("../by-flag", environ, project) == tmp_path / "by-flag"
    assert find_project(None, environ, project) == tmp_path / "by-env"


@pytest.mark.parametrize(("flag", "environ"), [(" ", {}), (None, {"KTX_PROJECT_DIR": ""})])
def test_blank_is_a_usage_error(flag: str | None, environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        find_project(flag, environ, tmp_path)


def test_a_file_that_is_named_hints_at_its_folder(project: Path) -> None:
    with pytest.raises(NoProjectError, match="which is a file") as caught:
        find_project("ktx.yaml", {}, project)
    assert caught.value.hint == f"ktx status --project-dir {project}"


def test_a_named_folder_without_a_project_is_not_replaced_by_a_parent(project: Path) -> None:
    with pytest.raises(NoProjectError) as caught:
        find_project("deep", {}, project)
    assert caught.value.exit_code == 3
    assert "ktx setup --project-dir" in (caught.value.hint or "")


def test_no_project_anywhere(tmp_path: Path) -> None:
    assert find_project(None, {}, tmp_path) is None
    with pytest.raises(NoProjectError):
        require_project(None, {}, tmp_path)


def test_setup_takes_the_project_around_or_the_current_folder(project: Path, tmp_path: Path) -> None:
    assert folder_for_setup(None, {}, project / "deep") == project
    assert folder_for_setup(None, {}, tmp_path) == tmp_path
    assert folder_for_setup("new", {}, tmp_path) == tmp_path / "new"


@pytest.mark.parametrize("target", ["nowhere", "../gone/ktx.yaml", "ktx.yaml"])
def test_a_link_that_leads_nowhere_is_no_missing_project(project: Path, target: str) -> None:
    link = project / "deep" / "ktx.yaml"
    link.symlink_to(target)
    asked = [
        lambda: find_project(None, {}, project / "deep" / "er"),
        lambda: find_project("deep", {}, project),
        lambda: require_project(None, {"KTX_PROJECT_DIR": "deep"}, project),
        lambda: folder_for_setup(None, {}, project / "deep"),
        lambda: folder_for_setup("deep", {}, project),
    ]
    for ask in asked:
        with pytest.raises(NoProjectError) as caught:
            ask()
        assert caught.value.message == f"{link} is a symbolic link to {target}, which does not exist"
        assert caught.value.hint == f"restore that file, or remove the link: rm {link}"


def test_a_link_to_a_file_is_a_project(project: Path) -> None:
    (project / "deep" / "ktx.yaml").symlink_to("../ktx.yaml")
    assert find_project(None, {}, project / "deep" / "er") == project / "deep"
