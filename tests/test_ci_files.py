"""The files that other repositories use: the GitHub Action, the GitLab template, pre-commit hooks, the image."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = {
    "action.yml": "vendor.github-actions",
    ".github/workflows/release.yml": "vendor.github-workflows",
    "templates/gitlab-ci.yml": "vendor.gitlab-ci",
}


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_file_has_the_form_its_service_takes(name: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[name], str(ROOT / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def company(tmp_path: Path, demo_project: Path) -> Path:
    """Return a copy of the demo."""
    return Path(shutil.copytree(demo_project, tmp_path / "company", symlinks=True))


def run(script: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a script of a CI service, where `ktx` is the one under test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder, env={**os.environ, "PATH": path, **environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_action_checks_the_demo(company: Path, tmp_path: Path) -> None:
    action = load("action.yml")
    reports = tmp_path / "ktx-reports"
    reports.mkdir()
    steps = [step for step in action["runs"]["steps"] if re.search(r"^ktx ", step.get("run", ""), re.M)]
    assert len(steps) == 2
    for step in steps:
        given = {name: _given(text, action["inputs"], company) for name, text in step["env"].items()}
        done = run(step["run"], tmp_path, RUNNER_TEMP=str(tmp_path), **given)
        assert done.returncode == 0, done.stdout + done.stderr
    for name in ("doctor", "check"):
        assert ElementTree.parse(reports / f"{name}.xml").getroot().get("failures") == "0"


def _given(text: str, inputs: dict[str, Any], company: Path) -> str:
    """Return the value of an expression such as `${{ inputs.check }}`: the default, but for the project."""
    found = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", text)
    assert found is not None
    return str(company) if found[1] == "project-dir" else str(inputs[found[1]]["default"])


def test_no_step_of_the_action_puts_an_input_into_a_script() -> None:
    for step in load("action.yml")["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_the_jobs_for_gitlab_check_the_demo(company: Path) -> None:
    template = load("templates/gitlab-ci.yml")
    variables = {name: str(value) for name, value in template["variables"].items()}
    for job in ("ktx-doctor", "ktx-check"):
        done = run("\n".join(template[job]["script"]), company, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in company.glob("ktx-*.xml")) == ["ktx-check.xml", "ktx-doctor.xml"]


@pytest.mark.parametrize("hook", load(".pre-commit-hooks.yaml"), ids=lambda hook: hook["id"])
def test_a_hook_passes_the_demo_and_stops_a_broken_definition(hook: dict[str, Any], company: Path) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=company, capture_output=True, text=True, check=True).stdout
    assert any(re.search(hook["files"], name) for name in tracked.split("\n"))
    assert run(hook["entry"], company).returncode == 0
    broken = company / "semantic-layer/warehouse/tags.yaml"
    assert re.search(hook["files"], str(broken.relative_to(company)))
    broken.write_text("name: tags\nmeasures: [{name: weight, expr: sum(no_such_column)}]\n", "utf-8")
    assert run(hook["entry"], company).returncode == 1


def test_the_image_installs_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    image = (ROOT / "Dockerfile").read_text("utf-8")
    named = re.search(r'"\.\[([a-z,-]+)\]"', image)
    assert named is not None
    assert set(named[1].split(",")) <= set(extras)
    assert re.search(r"^USER ktx$", image, re.M)
