"""The advice of errors as something that can be typed."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from ktx_cli.jobs.health.model import CheckResult, Level, command_to_set, is_command, typed

SETTINGS = {
    "connections": {
        "pg": {"url": "env:PG_URL", "password": "file:secrets/pg", "host": "db"},
        "sf": {"password": "keyring:ktx/snow flake"},
    },
    "llm": {"provider": {"anthropic": {"api_key": "env:ANTHROPIC_API_KEY"}}},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ktx ingest shop", True),
        ("chmod u+rwx '/a, b'", True),
        ("/usr/bin/python -m pip install ktx-cli", True),
        ("export PG_URL=...", True),
        ("rm a && ktx index", True),
        ("git switch BRANCH, or git switch -c NEW-BRANCH to keep what is here", False),
        ("check the network", False),
        ("give this user access, for example: chmod u+r a", False),
        ("GRANT SELECT ON a TO b", False),
        ("say 'when", False),
        ("", False),
    ],
)
def test_what_a_shell_could_run(text: str, expected: bool) -> None:
    assert is_command(text) is expected


@pytest.mark.parametrize(
    ("hint", "command", "told"),
    [
        ("ktx ingest shop", "ktx ingest shop", "broken"),
        ("ktx config set a.b 1; then: ktx scan shop", "ktx config set a.b 1 && ktx scan shop", "broken"),
        ("give this user access, for example: chmod u+r a", "chmod u+r a", None),
        ("wait until it is done; if no git command is running: rm a.lock", "rm a.lock", None),
        ("create a table in it, or correct connections.pg in ktx.yaml; then: ktx ingest pg", "ktx ingest pg", None),
        ("ktx setup --llm-backend x; by rules instead: ktx config set a b", "ktx setup --llm-backend x", None),
        ("start the server, or check the host and the port in connections.pg.url", "export PG_URL=...", None),
        ("check llm.provider.anthropic.api_key", "export ANTHROPIC_API_KEY=...", None),
        ("check connections.pg.host and .port", "ktx config set connections.pg.host HOST", None),
        ("check connections.sf.password", "keyring set ktx 'snow flake'", None),
        ("correct KTX_CLAUDE_CLI_BIN, or remove it", "unset KTX_CLAUDE_CLI_BIN", None),
        ("as the tables' owner: GRANT SELECT ON a TO b", "as the tables' owner: GRANT SELECT ON a TO b", "broken"),
        ("point connections.pg at another database", "point connections.pg at another database", "broken"),
        ("finish it with `git merge --continue`, or give up", "git merge --continue", None),
        ("run `claude` and sign in with /login", "run `claude` and sign in with /login", "broken"),
        ("edit wiki/a.md", "edit wiki/a.md", "broken"),
    ],
)
def test_what_can_be_typed_of_a_hint(hint: str, command: str, told: str | None, tmp_path: Path) -> None:
    """Nothing of a sentence is lost: it joins the message."""
    finding = typed(CheckResult("a", Level.FAIL, "broken", hint), SETTINGS, tmp_path)
    assert (finding.hint, finding.message) == (command, told or f"broken ({hint})")


def test_a_secret_is_given_where_its_reference_looks(tmp_path: Path) -> None:
    message = "the secret reference `file:secrets/pg` of connections.pg.password names x, which is not there"
    finding = typed(CheckResult("secrets", Level.FAIL, message, "write the secret to x"), SETTINGS, tmp_path)
    assert finding.hint is not None
    subprocess.run(["sh", "-c", finding.hint.replace("...", "made-up")], check=True)
    written = tmp_path / "secrets" / "pg"
    assert written.read_text() == "made-up"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert "mkdir" not in command_to_set("connections.pg.password", SETTINGS, tmp_path)


@pytest.mark.parametrize("level", [Level.OK, Level.SKIP])
def test_what_is_well_keeps_its_words(level: Level, tmp_path: Path) -> None:
    finding = CheckResult("a", level, "fine", "give it, for example: chmod u+r a")
    assert typed(finding, {}, tmp_path) is finding
