"""The command line of one `claude --print`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktx_cli.llm.backends.claude.binary import Host
from ktx_cli.llm.backends.claude_cli import command_line
from ktx_cli.llm.backends.claude_code.isolation import LOCKDOWN_SETTINGS, MAX_ARGUMENT, needs_file

FILE = Path("/private/system.txt")


def command(*, system: str = "Be exact.", schema: str | None = None, restricted: bool = True) -> list[str]:
    host = Host(Path("/project"), Path("/launcher"), Path("/opt/claude"), restricted, {})
    return command_line(host, model="haiku", system=system, system_file=FILE, schema=schema, max_turns=1)


@pytest.mark.requirement("G4", "G16", "G18")
def test_the_whole_command_line() -> None:
    assert command() == [
        "/opt/claude",
        *("--print", "--output-format", "json", "--verbose", "--model", "haiku", "--disable-slash-commands"),
        *("--system-prompt", "Be exact.", "--tools", "", "--strict-mcp-config", "--setting-sources="),
        *("--no-session-persistence", "--settings", json.dumps(LOCKDOWN_SETTINGS, sort_keys=True)),
        *("--max-turns", "1", "--restricted"),
    ]
    assert "--bare" not in command()


def test_what_an_older_binary_does_not_know_is_left_out() -> None:
    assert "--restricted" not in command(restricted=False)


def test_a_schema_is_the_last_argument() -> None:
    assert command(schema='{"type": "object"}')[-2:] == ["--json-schema", '{"type": "object"}']


@pytest.mark.table(
    ("system", "file"),
    [
        ("", False),
        ("x" * MAX_ARGUMENT, False),
        ("x" * (MAX_ARGUMENT + 1), True),
        ("ä" * (MAX_ARGUMENT // 2 + 1), True),
        ("a\0b", True),
    ],
)
def test_a_system_prompt_that_is_no_argument_is_in_a_file(system: str, file: bool) -> None:
    made = command(system=system)
    assert needs_file(system) is file
    assert ("--system-prompt" in made) is not file
    assert (["--system-prompt-file", str(FILE)] == made[8:10]) is file
    assert (system in made) is not file
