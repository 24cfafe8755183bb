"""`ktx agents` as a program: what it prints, how it ends, and that what it writes can be started."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.backends.claude.binary import bundled_binary
from ktx_cli.llm.backends.claude.launcher import claude_environment
from tests.cli.conftest import KTX

Run = Callable[..., Any]


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The `ktx` of this environment is the one that PATH has."""
    monkeypatch.setenv("PATH", f"{KTX.parent}:/usr/bin:/bin")


def test_install_list_uninstall(ktx: Run, project: Path, on_path: None) -> None:
    before = (project / "ktx.yaml").read_bytes()
    answer = ktx("agents", "install", "--target", "claude-code", "--json")
    assert (answer.code, answer.err) == (0, "")
    client = answer.data["clients"][0]
    assert (client["action"], client["name"], client["path"]) == ("added", "ktx", str(project / ".mcp.json"))
    assert [each["change"] for each in answer.data["files"]] == ["create"] * 3
    listed = {(each["target"], each["scope"]): each for each in ktx("agents", "list", "--json").data["clients"]}
    assert listed["claude-code", "project"]["state"] == "installed"
    assert listed["claude-code", "user"]["state"] == "not_installed"
    answer = ktx("agents", "uninstall", "--json")
    assert answer.data["clients"][0]["action"] == "removed"
    assert not (project / ".mcp.json").exists()
    assert not (project / ".claude").exists()
    assert (project / "ktx.yaml").read_bytes() == before


def test_a_dry_run_prints_a_diff(ktx: Run, project: Path, on_path: None) -> None:
    config = project / ".mcp.json"
    config.write_text('{\n  "mcpServers": {\n    "a": {"env": {"TOKEN": "sk-other"}} // sk-old\n  }\n}\n')
    answer = ktx("agents", "install", "--target", "claude-code", "--dry-run")
    assert answer.code == 0
    assert f"--- {config}\n+++ {config}\n@@ -3,1 +3,9 @@\n" in answer.out
    assert '+    "ktx": {\n+      "type": "stdio",\n+      "command": "ktx",\n' in answer.out
    assert '-    "a": {"env": {"TOKEN": "…"}} // …\n' in answer.out
    assert "sk-" not in answer.out
    assert "+++ " + str(project / ".claude/skills/ktx-admin/SKILL.md") in answer.out
    assert not (project / ".claude").exists()
    assert ktx("agents", "uninstall", "--dry-run").out == "nothing would change\n"


def test_other_clients_get_an_entry_to_paste(ktx: Run, project: Path) -> None:
    answer = ktx("agents", "install", "--target", "universal", "--plain")
    begin = answer.out.index("{")
    entry = json.loads(answer.out[begin:])["mcpServers"]["ktx"]
    assert entry["args"] == ["--project-dir", str(project), "mcp", "stdio"]
    assert (project / ".agents/skills/ktx-analytics/SKILL.md").is_file()


def test_the_entry_starts_this_ktx_on_this_project(ktx: Run, project: Path) -> None:
    answer = ktx("agents", "install", "--target", "cursor", "--scope", "user", "--json")
    entry = answer.data["clients"][0]["entry"]
    words = [entry["command"], *entry["args"]]
    greeting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
    with subprocess.Popen(words, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        server.stdin.close()
    assert answer["result"]["serverInfo"]["name"] == "ktx"
    alone = subprocess.run([words[0], *words[-2:]], cwd="/", input="", capture_output=True, text=True, check=False)
    assert alone.returncode == 3, "without the folder in the entry there is no project"


def test_the_names_of_secrets_reach_clients_that_filter_them(ktx: Run, project: Path, on_path: None) -> None:
    assert ktx("config", "set", "llm.provider.gateway.api_key", "env:SHOP_KEY").code == 0
    answer = ktx("agents", "install", "--target", "codex", "--target", "claude-desktop", "--json")
    assert answer.code == 0
    assert 'env_vars = ["SHOP_KEY"]' in (project / ".codex/config.toml").read_text()
    assert [each["code"] for each in answer.envelope["warnings"]] == ["variables_unseen"]


def test_claude_code_reads_what_was_written(ktx: Run, project: Path, on_path: None, tmp_path: Path) -> None:
    """The real client, which starts no server of a file that nobody has approved yet."""
    (project / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}}')
    assert ktx("agents", "install", "--target", "claude-code").code == 0
    environ = {**claude_environment(os.environ), "HOME": str(tmp_path / "home"), "DISABLE_AUTOUPDATER": "1"}
    said = {
        name: subprocess.run(
            [bundled_binary(), "mcp", "get", name], cwd=project, env=environ, capture_output=True, text=True, check=True
        ).stdout
        for name in ("ktx", "other")
    }
    assert "Scope: Project config" in said["ktx"]
    assert "Command: ktx\n" in said["ktx"]
    assert "Args: mcp stdio\n" in said["ktx"]
    assert "Command: x\n" in said["other"]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["install"], "--target is required", "add --target with one of claude-code, claude-desktop, codex"),
        (["install", "--target", "emacs"], "`emacs` is not one of claude-code,", "--target claude-code"),
        (["install", "--target", "codex", "--token-env", "A"], "--token-env requires --http", "--http URL"),
        (["install", "--target", "codex", "--http", "https://u:p@h/"], "--http must not contain a user", "--token-env"),
        (["install", "--target", "claude-desktop", "--scope", "project"], "no configuration for a project", "user"),
        (["uninstall", "--target", "claude-desktop", "--scope", "project"], "no configuration for a project", "user"),
    ],
)
def test_usage_errors(ktx: Run, project: Path, words: list[str], message: str, hint: str) -> None:
    answer = ktx("agents", *words)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert hint in answer.err.split("hint: ")[1]


def test_a_folder_whose_name_is_no_text(ktx: Run, project: Path) -> None:
    odd = project / os.fsdecode(b"shop\xff")
    odd.mkdir()
    (odd / "ktx.yaml").write_text("connections: {}\n")
    answer = ktx("agents", "install", "--target", "cursor", "--scope", "user", "--project-dir", str(odd))
    assert answer.code == 2
    assert "client files cannot refer to it" in answer.err


def test_a_broken_client_file_is_named_with_its_line(ktx: Run, project: Path) -> None:
    (project / ".mcp.json").write_text('{\n  "mcpServers": {\n    "a": 1\n    "b": 2\n  }\n}\n')
    answer = ktx("agents", "install", "--target", "claude-code")
    assert answer.code == 2
    assert answer.err.startswith(f"error: {project / '.mcp.json'}, line 4, column 5: expected a comma or `}}`\n")
    assert "nothing was written" in answer.err


def test_what_was_left_alone_ends_in_7(ktx: Run, project: Path, on_path: None) -> None:
    skill = project / ".claude/skills/ktx-admin/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("mine\n")
    answer = ktx("agents", "install", "--target", "claude-code", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (7, "partial")
    assert answer.data["clients"][0]["left"][0]["path"] == str(skill)
    assert skill.read_text() == "mine\n"


def test_hints_name_the_project(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    answer = ktx("agents", "list", "--project-dir", str(project))
    assert f"next: ktx agents install --project-dir {project} --target claude-code" in answer.err


def test_files_in_another_folder(ktx: Run, project: Path, on_path: None) -> None:
    app = project.parent / "app"
    app.mkdir()
    answer = ktx("agents", "install", "--target", "claude-code", "--install-dir", str(app), "--json")
    client = answer.data["clients"][0]
    assert (client["path"], client["install_dir"]) == (str(app / ".mcp.json"), str(app))
    entry = json.loads((app / ".mcp.json").read_text())["mcpServers"]["ktx"]
    assert entry["args"] == ["--project-dir", str(project), "mcp", "stdio"]
    assert not (project / ".mcp.json").exists()
    listed = [each for each in ktx("agents", "list", "--json").data["clients"] if each["install_dir"]]
    assert [(each["target"], each["state"], each["path"]) for each in listed] == [
        ("claude-code", "installed", str(app / ".mcp.json"))
    ]
    assert str(app / ".mcp.json") in ktx("agents", "list").out
    doctor = {each["check"]: each for each in ktx("doctor", "--json").data["findings"]}
    assert f"claude-code ({app})" in doctor["agents"]["message"]
    (app / ".mcp.json").write_text("{}")
    doctor = {each["check"]: each for each in ktx("doctor", "--json").data["findings"]}
    assert f"--install-dir {app}" in doctor["agents:claude-code"]["hint"]
    assert ktx("agents", "uninstall", "--install-dir", str(app)).code == 0
    assert list(app.rglob("SKILL.md")) == []
    assert ktx("agents", "install", "--target", "claude-code", "--install-dir", str(project)).code == 0
    assert json.loads((project / ".mcp.json").read_text())["mcpServers"]["ktx"]["args"] == ["mcp", "stdio"]
