"""What the pages are run in: an empty home, a demo that is built once, models that are scripted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_script import says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.company_agents import CompanyAgents
from tests.cli.conftest import forked_workers
from tests.docs.running import Page, ktx

__all__ = ["forked_workers"]


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the developer's leaks in; `ktx` is found by a shell."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [each for each in os.environ if each.startswith(("GIT_", "KTX_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (home / ".gitconfig").write_text(
        "[user]\nname = Reader\nemail = reader@example.com\n[init]\ndefaultBranch = main\n"
    )


@pytest.fixture
def entered(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Path], None]]:
    """Return a function that has a backend answer from then on, through its real client: `ok`, or what agents do."""
    with ExitStack() as stack:

        def enter(backend: str, project: Path) -> None:
            model_server.play(CompanyAgents() if backend == "agents" else [says("ok")] * 50)
            if backend == "signed-out":
                monkeypatch.delenv("CLAUDE_CODE_OAUTH_TOKEN")
                return
            if backend == "claude-code":
                for name in ("https_proxy", "http_proxy", "ALL_PROXY", "all_proxy"):
                    monkeypatch.delenv(name, raising=False)
                for name, value in stack.enter_context(offline_session(model_server)).environ.items():
                    if name != "PATH":
                        monkeypatch.setenv(name, value)
                return
            monkeypatch.setenv("ANTHROPIC_API_KEY", "made-up")
            ktx("config", "set", "llm.provider.anthropic.base_url", model_server.url, "--project-dir", str(project))

        yield enter


@pytest.fixture
def page(tmp_path: Path, demo_project: Path, demo_output: str, entered: Callable[[str, Path], None]) -> Page:
    """A page that has not begun."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Page(folder, demo_project, demo_output, entered)
