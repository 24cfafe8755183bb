from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ktx_cli.core.errors import BusyError, UsageError
from ktx_cli.jobs.demo.demo import claimed

HOLD = """
import sys, time
from pathlib import Path
from ktx_cli.jobs.demo.demo import claimed
with claimed(Path(sys.argv[1])) as half_built:
    (Path(sys.argv[1]) / ".ktx-demo-scratch").mkdir()
    (Path(sys.argv[1]) / "dbt").mkdir()
    print(half_built, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("prepare", [lambda folder: None, lambda folder: folder.mkdir()], ids=["new", "empty"])
def test_a_new_folder_is_claimed_and_left_without_a_marker(tmp_path: Path, prepare: object) -> None:
    folder = tmp_path / "demo"
    prepare(folder)  # type: ignore[operator]
    with claimed(folder) as half_built:
        assert half_built is False and len(list(folder.iterdir())) == 1
    assert list(folder.iterdir()) == []


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(UsageError), claimed(folder):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_demo_left_is_recognised_and_a_living_one_too(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with subprocess.Popen([sys.executable, "-c", HOLD, folder], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "False\n"
        with pytest.raises(BusyError), claimed(folder):
            pass
        process.kill()
    with claimed(folder) as half_built:
        assert half_built is True
        assert not (folder / ".ktx-demo-scratch").exists() and (folder / "dbt").exists()
    assert [path.name for path in folder.iterdir()] == ["dbt"]


def test_a_demo_that_failed_goes_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), claimed(tmp_path):
        raise ValueError("no")
    with claimed(tmp_path) as half_built:
        assert half_built is True
