"""Programs that stand in for the `claude` binary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """Write an executable shell script; `{folder}` in it is the test's folder."""

    def write(text: str, *, name: str = "claude", mode: int = 0o755) -> Path:
        path = tmp_path / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + text.replace("{folder}", str(tmp_path)))
        path.chmod(mode)
        return path

    return write
