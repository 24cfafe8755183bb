"""The folder `skills/` that skill managers read: its layout, its front matter, and the commands that it names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import ktx_cli
from ktx_cli.cli.app import app
from ktx_cli.cli.settings import COMMON_OPTIONS
from ktx_cli.jobs.clients.targets import NAMES, Target

ROOT = Path(__file__).resolve().parents[2]
SKILLS = sorted((ROOT / "skills").iterdir())
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
CODE = re.compile(r"```sh\n(.*?)```|`(ktx [^`]+)`", re.DOTALL)


def text(skill: Path) -> str:
    return (skill / "SKILL.md").read_text("utf-8")


def commands(skill: Path) -> Iterator[list[str]]:
    """Yield the words of every ktx command that a skill names."""
    for block, inline in CODE.findall(text(skill)):
        for line in (block or inline).splitlines():
            words = shlex.split(line)
            if words[:1] == ["ktx"] and words[1:2] != ["COMMAND"]:
                yield words


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
def test_a_skill_is_a_folder_with_its_name(skill: Path) -> None:
    assert [path.name for path in skill.iterdir()] == ["SKILL.md"]
    _, front, body = text(skill).split("---\n", 2)
    found = yaml.safe_load(front)
    assert set(found) == {"name", "description"}
    assert found["name"] == skill.name and NAME.fullmatch(skill.name) and len(skill.name) <= 64
    assert 100 < len(found["description"]) <= 1024
    assert body.startswith("\n# ") and len(body.splitlines()) < 500


def test_those_of_the_package_and_two_more() -> None:
    assert {skill.name for skill in SKILLS} == {*NAMES, "ktx-setup", "ktx-troubleshooting"}
    for name in NAMES:
        packaged = Path(ktx_cli.__file__).parent / "agent_skills" / f"{name}.md"
        assert (ROOT / "skills" / name / "SKILL.md").read_bytes() == packaged.read_bytes()


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.name)
def test_every_command_exists_with_its_options(skill: Path) -> None:
    found = list(commands(skill))
    assert found or skill.name == "ktx-analytics"  # which uses the MCP tools
    for words in found:
        node: Any = typer.main.get_command(app)
        common = {opt for param in node.params if param.name in COMMON_OPTIONS for opt in param.opts}
        rest = words[1:]
        while rest and rest[0] in getattr(node, "commands", {}):
            node, rest = node.commands[rest[0]], rest[1:]
        node = getattr(node, "own", None) or node
        known = {opt for param in node.params for opt in (*param.opts, *param.secondary_opts)} | {"--help", "--version"}
        options = {word for word in rest if word.startswith("--") and word != "--"}
        assert options <= known | common, words
        assert not getattr(node, "commands", None) or options & {"--version"} or not rest, words


def test_the_targets_that_it_lists_are_all() -> None:
    setup = text(ROOT / "skills" / "ktx-setup")
    assert all(target.value in setup for target in Target)
