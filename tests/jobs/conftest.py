"""What the tests of the jobs share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import forked_workers
from tests.small_project import change_fixture, shop_project

__all__ = ["change_fixture", "forked_workers", "shop_project"]

Built = Callable[[Path, Callable[[Path], object]], Path]
"""Makes of a folder what a function makes of it."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Make of a folder what a function makes of it, which runs once in a session: the others get copies."""
    made: dict[Callable[[Path], object], Path] = {}

    def make(folder: Path, build: Callable[[Path], object]) -> Path:
        if build in made:
            return shutil.copytree(made[build], folder, symlinks=True, dirs_exist_ok=True)
        build(folder)
        made[build] = shutil.copytree(folder, tmp_path_factory.mktemp("built") / "project", symlinks=True)
        return folder

    return make
