"""Packages with warehouses and sources: written into a folder of the test, or examples that pip installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ktx_cli.project.plugins import forget_plugins
from tests.worlds.forks import shared

collect_ignore_glob = ["ktx-*"]
"""Packages of their own: their tests run where they are installed."""

Distribution = Callable[..., None]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Distribution]:
    """Write a distribution: its name, its entry points by driver, and the text of its module of the same name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a module may be written twice in a tick

    def write(name: str, entries: dict[str, str], code: str = "", group: str = "ktx.warehouses") -> None:
        (tmp_path / f"{name}.py").write_text(code)
        info = tmp_path / f"{name}-1.2.dist-info"
        info.mkdir(exist_ok=True)
        monkeypatch.delitem(sys.modules, name, raising=False)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        lines = [f"[{group}]", *(f"{driver} = {place}" for driver, place in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        forget_plugins()

    forget_plugins()
    yield write
    monkeypatch.undo()
    forget_plugins()


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the module's `EXAMPLE` is installed in, by pip, from a copy of it and without a network."""
    folder = tmp_path_factory.mktemp("example")
    source = shutil.copytree(request.module.EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    place = folder / "installed"
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "--target", place, source], check=True)
    return place


@pytest.fixture
def run(installed: Path, tmp_path: Path) -> Run:
    """Run a program in the project, `ktx` in a fork, with the example installed; it must end with `code`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("KTX_", "GIT_"))}
    environ["PYTHONPATH"] = str(installed)

    def run(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        program, *arguments = map(str, words)
        if Path(program).name == "ktx":
            done = shared().run(arguments, folder=tmp_path, environ=environ, timeout=100)
        else:
            done = subprocess.run(
                [program, *arguments], capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=100
            )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run
