"""Structural scan of wide schemas through the installed `ktx`, and loading what it wrote.

Prints, for 1,000, 5,000 and 20,000 columns: the first and the unchanged run (wall seconds), the introspection alone,
the manifest from its parsed copy and from YAML. Exit 1 when 20,000 columns take 5 s, an unchanged run 1.5 s or a load
0.3 s.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.manifest import load_manifest
from ktx_cli.warehouses.port import ConnectionSpec, Scope
from ktx_cli.warehouses.registry import connect
from tests.worlds.kills import installed_ktx

SIZES = ((20, 50), (100, 50), (400, 50))


def make_database(path: Path, tables: int, columns: int) -> None:
    database = sqlite3.connect(path)
    for number in range(tables):
        names = ", ".join(f"column_{c} {('INTEGER', 'TEXT', 'DATE', 'REAL')[c % 4]}" for c in range(columns - 1))
        database.execute(f"CREATE TABLE table_{number} (id INTEGER PRIMARY KEY, {names})")
    database.commit()
    database.close()


def seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def measure(folder: Path, tables: int, columns: int) -> dict[str, float]:
    make_database(folder / "data.sqlite", tables, columns)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent)}

    def ktx(*args: str) -> None:
        subprocess.run([installed_ktx(), *args], cwd=folder, env=environ, check=True, capture_output=True)

    def introspect() -> None:
        with connect(ConnectionSpec("w", "sqlite", {"path": str(folder / "data.sqlite")})) as connector:
            assert len(connector.introspect(Scope()).tables) == tables

    ktx("setup", "--database", "sqlite", "--database-path", "data.sqlite")
    layout = Layout(folder)
    result = {"scan": seconds(lambda: ktx("scan", "--depth", "structural"))}
    result["unchanged"] = seconds(lambda: ktx("scan", "--depth", "structural"))
    result["introspect"] = seconds(introspect)
    result["load"] = min(seconds(lambda: load_manifest(layout, "warehouse")) for _ in range(3))
    for copy in layout.cache.iterdir():
        copy.unlink()
    result["load yaml"] = seconds(lambda: load_manifest(layout, "warehouse"))
    return result


def main() -> None:
    names = ("scan", "unchanged", "introspect", "load", "load yaml")
    print(f"{'columns':>8}" + "".join(f"{name:>12}" for name in names) + "   copy is faster by")
    for tables, columns in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder, "project")  # setup takes no home folder for a project
            project.mkdir()
            row = measure(project, tables, columns)
        ratio = row["load yaml"] / row["load"]
        print(f"{tables * columns:>8}" + "".join(f"{row[name]:>11.2f}s" for name in names) + f"   {ratio:.0f} x")
    if row["scan"] > 5 or row["unchanged"] > 1.5 or row["load"] > 0.3:
        sys.exit("slower than promised")


if __name__ == "__main__":
    main()
