"""The process that forks runs of `ktx`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.worlds.forks import shared


@pytest.mark.slow
def test_an_id_given_out_again_has_the_status_of_its_new_process(tmp_path: Path) -> None:
    forks = shared()
    first = forks.piped(["--version"], folder=tmp_path, environ=os.environ)
    first.communicate()
    assert first.returncode == 0
    parent = forks._parent
    assert parent is not None
    parent._ended.update(dict.fromkeys(range(first.pid, first.pid + 10_000), 77))
    try:
        assert forks.run(["--version"], folder=tmp_path, environ=os.environ).returncode == 0
        assert first.returncode == 0
    finally:
        parent._ended.clear()
