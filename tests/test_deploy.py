"""The files for containers are not run by the tests, but they are valid, say so, and use options that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from ktx_cli.cli.app import whole_app

DEPLOY = Path(__file__).parent.parent / "deploy"
TEMPLATES = sorted(DEPLOY.glob("helm/templates/*.yaml"))
PROGRAMS = [path for path in TEMPLATES if "image:" in path.read_text()]


def option_names(words: list[str]) -> set[str]:
    """Return the options of the command that words name."""
    command = typer.main.get_command(whole_app())
    for word in words:
        found = getattr(command, "commands", {}).get(word)
        if found is None:
            break
        command = found
    return {name for parameter in command.params for name in parameter.opts}


def commands(text: str) -> list[list[str]]:
    """Return the arguments of ktx in a file: lists of `command:` or `args:`, and `ktx ...` in shell commands."""
    lists = re.findall(r"(?:command|args): \[((?:mcp|worker)[^\]]*)\]", text)
    found = [[word.strip(' "') for word in each.split(",")] for each in lists]
    return found + [each.split() for each in re.findall(r"ktx ((?:ingest|mcp|worker)[^&\"\n`]*)", text)]


@pytest.mark.parametrize("path", [DEPLOY / "compose.yaml", *PROGRAMS], ids=lambda path: path.name)
def test_commands_and_options_exist(path: Path) -> None:
    found = commands(path.read_text())
    assert found
    for words in found:
        known = option_names(words)
        assert {word for word in words if word.startswith("--")} <= known, words


def test_the_files_are_valid_and_say_that_they_are_not_run() -> None:
    for name in ("compose.yaml", "helm/values.yaml", "helm/Chart.yaml", "Dockerfile"):
        text = (DEPLOY / name).read_text()
        assert "Not run in CI" in text, name
        if name.endswith("yaml"):
            assert isinstance(yaml.safe_load(text), dict)
    values = yaml.safe_load((DEPLOY / "helm/values.yaml").read_text())
    for path in TEMPLATES:
        text = path.read_text()
        for name in re.findall(r"\.Values\.([\w.]+)", text):
            found = values
            for part in name.split("."):
                found = found[part]
        assert all(isinstance(each, dict) and each["kind"] for each in documents(text))


def documents(template: str) -> list[dict[str, Any]]:
    """Return the objects of a template, with the template of each value as text."""
    values: list[str] = []

    def place(found: re.Match[str]) -> str:
        values.append(found[1].strip())
        return f"value-{len(values) - 1}"

    def filled(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: filled(each) for key, each in node.items()}
        if isinstance(node, list):
            return [filled(each) for each in node]
        found = re.fullmatch(r"value-(\d+)", str(node))
        return values[int(found[1])] if found else node

    plain = re.sub(r"\{\{(.*?)\}\}", place, template)
    return [filled(each) for each in yaml.safe_load_all(plain)]


def test_a_change_to_the_settings_reaches_the_replicas() -> None:
    """A mounted file never changes in a running container, so other settings have to replace the containers."""
    objects = [each for path in TEMPLATES for each in documents(path.read_text())]
    (settings,) = [each for each in objects if each["kind"] == "ConfigMap"]
    (replica,) = [each for each in objects if each["metadata"]["name"] == "ktx-replica"]
    pod = replica["spec"]["template"]
    volumes = {each["name"]: each.get("configMap", {}).get("name") for each in pod["spec"]["volumes"]}
    (mount,) = [each for each in pod["spec"]["containers"][0]["volumeMounts"] if "subPath" in each]
    assert volumes[mount["name"]] == settings["metadata"]["name"]
    assert ".Values.ktx | toJson" in settings["data"][mount["subPath"]]
    assert pod["metadata"]["annotations"]["checksum/settings"] == ".Values.ktx | sha256sum"
    compose = (DEPLOY / "compose.yaml").read_text()
    mounted = yaml.safe_load(compose)["services"]["replica"]["volumes"]
    assert any("/ktx.yaml:" in each for each in mounted) == ("--force-recreate replica" in compose)
