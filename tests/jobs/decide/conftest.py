from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.project import KtxConfig, Layout, load_config
from tests.jobs.conftest import Built
from tests.subscription_project import make


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: Built) -> Layout:
    """The project of `tests/subscription_project.py`, without variables of the developer's."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "KTX_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    return Layout(built(folder, make))


@pytest.fixture
def config(layout: Layout) -> Callable[[], KtxConfig]:
    """Return the configuration of the project as its file has it now."""
    return lambda: load_config(layout.config).config
