"""The advice of errors as something that can be typed."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from ktx_cli.core import Command, Hint, SecretError, SettingPath, Statement, Variable
from ktx_cli.jobs.health.model import CheckResult, Level, command_to_set, failed, typed
from ktx_cli.project.secrets import resolve

SETTINGS = {
    "connections": {
        "pg": {"url": "env:PG_URL", "password": "file:secrets/pg", "host": "db"},
        "sf": {"password": "keyring:ktx/snow flake"},
    },
    "llm": {"provider": {"anthropic": {"api_key": "env:ANTHROPIC_API_KEY"}}},
}


def git(*words: str) -> Command:
    return Command(*words, program="git")


PG, INGEST = SettingPath("connections.pg"), Command("ingest", "pg")
CHMOD, RM = Command("u+r", "a", program="chmod"), Command("a.lock", program="rm")


@pytest.mark.parametrize(
    ("hint", "command", "told"),
    [
        (INGEST, "ktx ingest pg", "broken"),
        (Hint("{} && {}", RM, INGEST), "rm a.lock && ktx ingest pg", "broken"),
        (Hint.steps(Command("config", "set", "a.b", "1"), INGEST), "ktx config set a.b 1 && ktx ingest pg", "broken"),
        (Hint("give this user access, for example with {}", CHMOD), "chmod u+r a", None),
        (Hint("wait until it is done; if no git command is running: {}", RM), "rm a.lock", None),
        (Hint("create a table in it, or correct {} in ktx.yaml; then: {}", PG, INGEST), "ktx ingest pg", None),
        (
            Hint("{}; by rules instead: {}", Command("setup"), Command("config", "set", "a", "b")),
            "ktx setup",
            "broken (by rules instead: ktx config set a b)",
        ),
        (Hint("check the port in {}", SettingPath("connections.pg.url")), "export PG_URL=...", None),
        (Hint("check {}", SettingPath("llm.provider.anthropic.api_key")), "export ANTHROPIC_API_KEY=...", None),
        (
            Hint("check {} and .port", SettingPath("connections.pg.host")),
            "ktx config set connections.pg.host HOST",
            None,
        ),
        (Hint("check {}", SettingPath("connections.sf.password")), "keyring set ktx 'snow flake'", None),
        (Hint("correct {}, or remove it", Variable("KTX_BIN")), "unset KTX_BIN", None),
        (
            Hint("as an administrator: {}; then: {}", Statement("GRANT SELECT ON a TO b"), INGEST),
            "as an administrator: GRANT SELECT ON a TO b; then: ktx ingest pg",
            "broken",
        ),
        (Hint("point {} at another database", PG), "point connections.pg at another database", "broken"),
        (Hint("finish it with `{}`, or give up", git("merge", "--continue")), "git merge --continue", None),
        ("run `claude` and sign in with /login", "run `claude` and sign in with /login", "broken"),
        ("did you mean `rm -rf ~`, or: ktx demo ~", "did you mean `rm -rf ~`, or: ktx demo ~", "broken"),
        ("edit wiki/a.md", "edit wiki/a.md", "broken"),
    ],
)
def test_what_can_be_typed_of_a_hint(hint: str, command: str, told: str | None, tmp_path: Path) -> None:
    """Nothing of a sentence is lost: it joins the message, without the command if it begins with it."""
    finding = typed(CheckResult("a", Level.FAIL, "broken", hint), SETTINGS, tmp_path)
    assert (finding.hint, finding.message) == (command, told or f"broken ({hint})")


def test_a_secret_is_given_where_its_reference_looks(tmp_path: Path) -> None:
    with pytest.raises(SecretError) as raised:
        resolve("file:secrets/pg", project_dir=tmp_path, environ={}, where="connections.pg.password")
    finding = typed(failed("secrets", raised.value), SETTINGS, tmp_path)
    assert finding.hint is not None
    subprocess.run(["sh", "-c", finding.hint.replace("...", "made-up")], check=True)
    written = tmp_path / "secrets" / "pg"
    assert written.read_text() == "made-up"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert "mkdir" not in command_to_set("connections.pg.password", SETTINGS, tmp_path)


@pytest.mark.parametrize("level", [Level.OK, Level.SKIP])
def test_what_is_well_keeps_its_words(level: Level, tmp_path: Path) -> None:
    finding = CheckResult("a", level, "fine", Hint("give it, for example: {}", CHMOD))
    assert typed(finding, {}, tmp_path) is finding
