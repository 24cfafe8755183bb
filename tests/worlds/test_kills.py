"""A sweep of SIGKILLs over `ktx ingest`; 5 kills of forks by default, 100 of the installed one with KTX_TEST_FULL."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.worlds.forks import shared, start_installed
from tests.worlds.kills import AFTER, BEFORE, CYCLE, DURING, TOO_LATE, broken_files, judge, sweep

FULL = bool(os.environ.get("KTX_TEST_FULL"))
KILLS = 100 if FULL else len(CYCLE)
"""One cycle aims at every phase, and with both kinds of kill; two aim at every phase with both."""


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, environ: dict[str, str]) -> Path:
    """A project that was ingested once and whose database changed since."""
    folder = tmp_path_factory.mktemp("template")
    database = sqlite3.connect(folder / "data.sqlite")
    for number in range(16):
        database.execute(f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, a TEXT, b REAL)")
    subprocess.run(["git", "init", "-q"], cwd=folder, env=environ, check=True)
    (folder / ".git" / "info" / "exclude").write_text("data.sqlite*\n")
    flags = ["--database", "sqlite", "--database-path", "data.sqlite", "--quiet"]
    for command in (["setup", *flags], ["ingest", "--quiet"]):
        shared().run(command, folder=folder, environ=environ).check_returncode()
    database.execute("ALTER TABLE t1 ADD COLUMN later TEXT")
    database.execute("CREATE TABLE extra (id INTEGER)")
    database.execute("DROP TABLE t2")
    database.close()
    return folder


@pytest.fixture
def template(made: Path, tmp_path: Path) -> Path:
    """That project, for one test."""
    return Path(shutil.copytree(made, tmp_path / "template"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_at_any_moment(template: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    start = start_installed if FULL else shared()
    fell: Counter[str] = Counter()
    for seed in (11,) if FULL else (11, 12, 13):  # where others work, few kills may all miss the commit's moment
        scratch = tmp_path / f"scratch-{seed}"
        result = sweep(template, scratch, kills=KILLS, seed=seed, environ=environ, start=start)
        assert result.violations == []
        assert sum(result.fell.values()) == KILLS
        assert set(result.how) == {"process", "group"}
        fell += result.fell
        late = fell[AFTER] + (0 if FULL else fell[TOO_LATE])  # few kills may all come after the end
        if all((fell[BEFORE], fell[DURING], late)):
            return
    raise AssertionError(f"no kill fell in each phase: {fell}")


LEFT: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "journal": (".ktx/journal.json",),
    "marker": (".git/ktx-0123456789abcdef.marker",),
    "marker-and-lock": (".git/ktx-0123456789abcdef.marker", ".git/index.lock"),
    "temporary-index": (".git/ktx-0123456789abcdef.index",),
}


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("left", LEFT)
def test_a_kill_is_judged_by_what_it_left(tmp_path: Path, left: str, moved: bool) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".ktx").mkdir()
    for name in LEFT[left]:
        (tmp_path / name).touch()
    untouched = AFTER if moved else BEFORE
    assert judge(tmp_path, moved=moved) == (DURING if LEFT[left] else untouched)


@pytest.mark.parametrize("kills", [10, 100])
def test_every_phase_is_aimed_at_by_both_kinds_of_kill(kills: int) -> None:
    aimed = Counter((CYCLE[number % len(CYCLE)], number % 2) for number in range(kills))
    assert set(aimed) == {(phase, kind) for phase in (BEFORE, DURING, AFTER) for kind in (0, 1)}


@pytest.mark.slow
def test_the_sweep_notices_a_broken_file(template: Path, environ: dict[str, str]) -> None:
    assert list(broken_files(template, environ)) == []
    (template / "semantic-layer" / "warehouse" / "_schema" / "main.yaml").write_text("tables: {")
    objects = sorted((template / ".git" / "objects").glob("??/*"))
    objects[0].chmod(0o644)
    objects[0].write_bytes(b"broken")
    found = list(broken_files(template, environ))
    assert any("main.yaml" in problem for problem in found)
    assert any("fsck" in problem for problem in found)
