"""A project, a home folder of its own, and a `ktx` on a PATH of its own: nothing of the developer's is looked at."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.clients import targets as program
from ktx_cli.jobs.clients.install import InstallReport, Wanted, install, uninstall
from ktx_cli.jobs.clients.targets import Scope, Target, Where

Files = dict[str, bytes]


def tree(*folders: Path) -> Files:
    """Everything in folders but `.ktx/`: contents of files, b"" for folders."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if ".ktx" not in path.relative_to(folder).parts:
                found[f"{path.relative_to(folder.parent)}"] = path.read_bytes() if path.is_file() else b""
    return found


class World:
    """Projects of one user, and what is installed from them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.home, self.bin = folder, folder / "home", folder / "bin"
        self.home.mkdir()
        self.bin.mkdir()
        self.ktx = self.program("ktx")
        monkeypatch.setattr(program.sys, "executable", str(self.bin / "python"))
        self.environ = {"HOME": str(self.home), "PATH": str(self.bin)}

    def program(self, name: str) -> Path:
        path = self.bin / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def project(self, name: str = "shop") -> Path:
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "ktx.yaml").write_text("connections: {}\n")
        return path

    def where(self, project: Path | None = None) -> Where:
        return Where(project or self.project(), self.environ, "linux")

    def install(self, *targets: Target, project: Path | None = None, **wanted: Any) -> InstallReport:
        return install(Wanted(targets, **wanted), self.where(project))

    def uninstall(
        self, *targets: Target, project: Path | None = None, scope: Scope | None = None, dry_run: bool = False
    ) -> InstallReport:
        return uninstall(self.where(project), targets, scope, dry_run=dry_run)

    def everything(self) -> Files:
        return tree(self.home, *(each.parent for each in self.folder.glob("*/ktx.yaml")))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path, monkeypatch)
    made.project()
    return made


@pytest.fixture
def write() -> Callable[[Path, str | bytes], bytes]:
    def write(path: Path, content: str | bytes) -> bytes:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path.read_bytes()

    return write


@pytest.fixture(autouse=True)
def nothing_of_the_developer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "APPDATA", "COPILOT_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert os.environ["HOME"] == str(tmp_path / "home")
