"""Kills `ktx ingest` 100 times with SIGKILL and prints where the kills fell, what they broke, and how many left a lock.

    python benchmarks/crash.py [--kills 100] [--seed 1] [--database data.sqlite]

Exit 1 when anything was broken, or when fewer than a tenth of the kills fell before, during or after the commit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.worlds.kills import AFTER, BEFORE, DURING, installed_ktx, sweep


def make_database(path: Path) -> None:
    """A database of 16 tables and 89 columns, about the size of a small shop."""
    database = sqlite3.connect(path)
    for table in range(16):
        columns = ", ".join(f"c{n} TEXT" for n in range(5))
        database.execute(f"CREATE TABLE t{table} (id INTEGER PRIMARY KEY, {columns})")
    database.commit()
    database.close()


def make_template(folder: Path, database: Path, environ: dict[str, str], *, update: bool) -> None:
    """A project that was set up; with `update` also ingested once, and the database changed since."""
    folder.mkdir()
    shutil.copy(database, folder / "data.sqlite")
    (folder / ".gitignore").write_text("data.sqlite*\n")
    run = ["--no-input", "--database", "sqlite", "--database-path", "data.sqlite"]
    subprocess.run(["git", "init", "-q"], cwd=folder, env=environ, check=True)
    subprocess.run(["git", "add", ".gitignore"], cwd=folder, env=environ, check=True)
    user = ["-c", "user.name=u", "-c", "user.email=u@example.com"]
    subprocess.run(["git", *user, "commit", "-qm", "start"], cwd=folder, env=environ, check=True)
    subprocess.run(
        [installed_ktx(), "setup", *run, "--quiet"], cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL
    )
    if update:
        subprocess.run(
            [installed_ktx(), "ingest", "--quiet"], cwd=folder, env=environ, check=True, stdout=subprocess.DEVNULL
        )
        change = sqlite3.connect(folder / "data.sqlite")
        tables = [name for (name,) in change.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        change.execute(f'ALTER TABLE "{tables[0]}" ADD COLUMN added_later TEXT')
        change.execute("CREATE TABLE new_table (id INTEGER PRIMARY KEY)")
        change.commit()
        change.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", type=Path)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ktx-crash-") as name:
        scratch = Path(name)
        (scratch / "home").mkdir()
        environ = {"PATH": os.environ["PATH"], "HOME": str(scratch / "home")}
        database = args.database or scratch / "made.sqlite"
        if args.database is None:
            make_database(database)
        total = {BEFORE: 0, DURING: 0, AFTER: 0}
        violations: list[str] = []
        locked = 0
        for update in (False, True):
            what = "update" if update else "first"
            make_template(scratch / what, database, environ, update=update)
            result = sweep(
                scratch / what,
                scratch,
                kills=args.kills // 2,
                seed=args.seed + update,
                environ=environ,
                progress=print if args.verbose else lambda line: None,
            )
            print(f"{what} ingest: {dict(result.fell)}, killed {dict(result.how)}")
            for phase in total:
                total[phase] += result.fell[phase]
            violations += result.violations
            locked += result.locked
            shutil.rmtree(scratch / "undisturbed")
    print(f"fell before the commit {total[BEFORE]}, during {total[DURING]}, after {total[AFTER]} of {args.kills}")
    print(f"left index.lock: {locked} of {args.kills}, {locked / args.kills:.0%}")
    print(f"violations: {len(violations)}")
    print("\n".join(violations))
    if violations or min(total.values()) < args.kills / 10:
        sys.exit(1)


if __name__ == "__main__":
    main()
