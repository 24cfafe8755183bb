"""Which agent clients seem to be here, the likeliest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.jobs.clients.install import Wanted, install
from ktx_cli.jobs.clients.listing import agent_offers
from ktx_cli.jobs.clients.targets import Scope, Target, Where
from ktx_cli.project.layout import Layout


@pytest.mark.table(
    ("programs", "files", "targets"),
    [
        ((), (), []),
        (("claude",), (), ["claude-code"]),
        ((), ("home/.claude.json",), ["claude-code"]),
        ((), ("home/.cursor/x",), ["cursor"]),
        ((), ("home/.config/Claude/x",), ["claude-desktop"]),
        ((), ("home/.codex/config.toml",), ["codex"]),
        ((), ("project/.vscode/settings.json",), ["vscode"]),
        ((), ("project/opencode.json",), ["opencode"]),
        (("codex", "claude", "code"), (), ["claude-code", "codex", "vscode"]),
        (("claude",), ("home/.claude.json", "home/.config/Claude/x"), ["claude-code", "claude-desktop"]),
        (("claude",), ("project/.cursor/mcp.json", "home/.codex/x"), ["cursor", "claude-code", "codex"]),
        (
            ("gemini", "copilot", "junie", "windsurf", "zeditor"),
            (),
            ["gemini-cli", "copilot-cli", "junie", "windsurf", "zed"],
        ),
        ((), ("home/.gemini/settings.json",), ["gemini-cli"]),
        ((), ("home/.copilot/config.json",), ["copilot-cli"]),
        ((), ("project/.github/workflows/ci.yml",), []),
        ((), ("project/.github/copilot-instructions.md",), ["copilot-cli"]),
        ((), ("project/.github/mcp.json",), ["copilot-cli"]),
        ((), ("home/.config/github-copilot/intellij/x",), ["copilot-jetbrains"]),
        ((), ("project/.junie/guidelines.md",), ["junie"]),
        ((), ("home/.junie/x",), ["junie"]),
        ((), ("home/.codeium/windsurf/x",), ["windsurf"]),
        ((), ("home/.codeium/x",), []),
        ((), ("project/.zed/settings.json",), ["zed"]),
        ((), ("home/.config/zed/settings.json",), ["zed"]),
    ],
)
def test_what_seems_to_be_here(
    programs: tuple[str, ...], files: tuple[str, ...], targets: list[str], tmp_path: Path
) -> None:
    here = tmp_path / str(len(list(tmp_path.iterdir())))
    for name in (*(f"bin/{program}" for program in programs), *files):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).touch(0o755)
    environ = {"HOME": str(here / "home"), "PATH": str(here / "bin")}
    offers = agent_offers(here / "project", environ)
    assert [offer.target.value for offer in offers] == [*targets, "universal"]
    assert not any(offer.installed for offer in offers)
    assert all("(" in offer.label for offer in offers[:-1])


def test_one_that_has_the_project_comes_first(tmp_path: Path) -> None:
    project, tools = tmp_path / "project", tmp_path / "bin"
    tools.mkdir()
    for program in ("claude", "ktx"):
        (tools / program).touch(0o755)
    project.mkdir()
    (project / "ktx.yaml").write_text("{}\n")
    environ = {"HOME": str(tmp_path / "home"), "PATH": str(tools)}
    install(Wanted((Target.VSCODE,), Scope.PROJECT), Where(project, environ))
    first, second, universal = agent_offers(project, environ)
    assert (first.target, first.installed, first.label) == (Target.VSCODE, True, "VS Code (this project is installed)")
    assert (second.target, second.installed) == (Target.CLAUDE_CODE, False)
    assert universal.target is Target.UNIVERSAL


def test_nothing_to_look_at_is_no_error(tmp_path: Path) -> None:
    manifest = Layout(tmp_path).agents_manifest
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{ broken")
    (tmp_path / ".cursor").mkdir()
    assert [offer.target.value for offer in agent_offers(tmp_path, {"PATH": ""})] == ["cursor", "universal"]
