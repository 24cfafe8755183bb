"""Distributions as pip installs them, written into a folder of the test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ktx_cli.project.plugins import forget_plugins

collect_ignore_glob = ["ktx-*"]
"""Packages of their own: their tests run where they are installed."""

Distribution = Callable[..., None]


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
