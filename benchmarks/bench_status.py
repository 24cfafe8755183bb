"""Seconds of `ktx status` as a whole process, on 20 and 2,000 tables, without and with the local Claude Code session.

Prints wall and CPU seconds (median and least of 9) and the ratio to an interpreter that does nothing and to
`ktx --help`, all taken in turns, for this machine may be busy. The session is asked of the real binary, which talks to
a scripted server. Exit 1 where the least exceeds 0.3 s, with the session 0.6 s, of wall and of CPU time: on a busy
machine a process waits for others, on an idle one for none of its own that run beside it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_script import says
from ktx_cli.testing.model_server import ModelServer
from tests.worlds.kills import installed_ktx

SIZES = (20, 2_000)
ROUNDS = 9
LIMIT, WITH_SESSION = 0.3, 0.6
KTX = str(installed_ktx())


@dataclass
class Measured:
    """A command with its times, and the most the least of them may be; None: it is only compared with."""

    name: str
    command: list[str]
    folder: Path
    environ: Mapping[str, str]
    limit: float | None = None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, *, keep: bool = True) -> None:
        """Run it once."""
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(self.command, cwd=self.folder, env=dict(self.environ), stdout=subprocess.DEVNULL, check=True)
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        if keep:
            self.wall.append(wall)
            self.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def made(folder: Path, tables: int, environ: Mapping[str, str]) -> Path:
    """Return a new project over a SQLite database of that many tables, ingested."""
    project = folder / f"tables-{tables}"
    project.mkdir()
    with contextlib.closing(sqlite3.connect(project / "shop.sqlite")) as database, database:
        for number in range(tables):
            refers = f"REFERENCES t{number // 2}(id)" if number else ""
            database.execute(f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, parent_id INTEGER {refers}, name TEXT)")
    setup = ("setup", "--no-input", "--database", "sqlite", "--database-path", "shop.sqlite")
    for words in (setup, ("ingest", "--no-input", "--quiet")):
        subprocess.run([KTX, *words], cwd=project, env=dict(environ), check=True, capture_output=True)
    return project


@contextlib.contextmanager
def session(project: Path) -> Iterator[Mapping[str, str]]:
    """Have the project's roles on a local session that was probed, and yield the environment it is in."""
    settings = project / "ktx.yaml"
    text = settings.read_text()
    with ModelServer() as server, offline_session(server) as offline:
        server.play([says("ok")])
        settings.write_text(text.replace("backend: none", "backend: claude-code"))
        environ = {**os.environ, **offline.environ}
        subprocess.run([KTX, "status", "--probe"], cwd=project, env=environ, check=True, capture_output=True)
        yield environ
    settings.write_text(text)


def in_turns(measured: list[Measured]) -> None:
    """Run all, one after another, again and again; what the first run reads from disk does not count."""
    for each in measured:
        each.run(keep=False)
    for _ in range(ROUNDS):
        for each in measured:
            each.run()


def shown(measured: list[Measured], bare: Measured, help: Measured) -> list[str]:
    """Print the times and return the names of what took too long."""
    print(f"{'':34} {'wall median':>12} {'least':>8} {'CPU median':>12} {'least':>8} {'/ bare':>7} {'/ --help':>8}")
    for each in measured:
        cpu = statistics.median(each.cpu)
        to_bare, to_help = (cpu / statistics.median(other.cpu) for other in (bare, help))
        wall = f"{statistics.median(each.wall):10.3f} s {min(each.wall):6.3f} s"
        print(f"{each.name:34} {wall} {cpu:10.3f} s {min(each.cpu):6.3f} s {to_bare:7.1f} {to_help:8.2f}")
    return [each.name for each in measured if each.limit is not None and min(*each.wall, *each.cpu) > each.limit]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environ = {**os.environ, "HOME": name, "XDG_CONFIG_HOME": f"{name}/.config"}
        projects = {tables: made(folder, tables, environ) for tables in SIZES}
        bare = Measured("python -c pass", [sys.executable, "-c", "pass"], folder, environ)
        help = Measured("ktx --help", [KTX, "--help"], folder, environ)
        settings = Measured("ktx config validate", [KTX, "config", "validate"], projects[SIZES[0]], environ)
        measured = [bare, help, settings]
        for tables, project in projects.items():
            measured.append(Measured(f"ktx status, {tables:,} tables", [KTX, "status"], project, environ, LIMIT))
        in_turns(measured)
        with session(projects[SIZES[0]]) as signed_in:
            asking = Measured(
                f"with a session, {SIZES[0]} tables", [KTX, "status"], projects[SIZES[0]], signed_in, WITH_SESSION
            )
            in_turns([asking])
        slow = shown([*measured, asking], bare, help)
    small, large = (statistics.median(each.cpu) for each in measured[-2:])
    print(f"growth from {SIZES[0]} to {SIZES[1]:,} tables: {large / small:.2f} x, {(large - small) * 1000:.0f} ms")
    if slow:
        sys.exit(f"longer than allowed: {', '.join(slow)}")


if __name__ == "__main__":
    main()
