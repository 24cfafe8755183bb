"""How work units spread over worker processes: wall times and efficiency on 1, 2 and 4 workers over one Postgres.

    python -m benchmarks.bench_workers [--units 64] [--workers 1 2 4] [--latency 0.2]

A model in a process of its own takes the same time for every answer. Efficiency is the time of one worker, divided by
the number of workers times their time; what a run does besides its units (reading, merging, committing) is the time of
the same run in one process minus that of its units. The same final tree must come out every time.

For each number of workers, it also prints the most memory that the run itself had, and how many statements the database
got from all processes during the run, for each unit. `--statements` lists the most frequent ones.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.ingest_model import STEPS, Model, serving
from benchmarks.ingest_project import Project, git
from ktx_cli.testing.servers import PostgresServer
from tests.worlds.kills import installed_ktx


class SharedProject(Project):
    """A project whose state and units are in Postgres."""

    schema = ""
    coordinator = False

    def configure(self, *sources: str, shop: str = "") -> None:
        """Write `ktx.yaml` with the shared state."""
        super().configure(*sources, shop=shop)
        path = self.folder / "ktx.yaml"
        if self.schema:
            workers = f"executor: postgres\n  workers: {{coordinator: {str(self.coordinator).lower()}}}"
            text = path.read_text().replace("ingest:\n", f"ingest:\n  {workers}\n")
            storage = f"{{url: env:KTX_STATE_URL, schema: {self.schema}}}"
            path.write_text(f"storage:\n  state: postgres\n  postgres: {storage}\n{text}")


@contextlib.contextmanager
def workers(project: Project, count: int, concurrency: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run workers in the project's folder."""
    command = [str(installed_ktx()), "worker", "--concurrency", str(concurrency), "--quiet"]
    environ = {**project._environ()}
    log = project.folder.with_suffix(".workers").open("ab")
    processes = [
        subprocess.Popen(command, cwd=project.folder, env=environ, stdout=log, stderr=log) for _ in range(count)
    ]
    try:
        yield processes
    finally:
        for each in processes:
            each.terminate()
        for each in processes:
            each.wait(30)
        log.close()


def tree_of(project: Project) -> str:
    """Return the id of the tree that a run committed."""
    return git(project.folder, "rev-parse", "HEAD:wiki").strip()


_LOGGED: Final = re.compile(rb"[^|]*\|.*?LOG:  (?:statement|execute [^:]*): *(.*)")


def statements_since(log: Path, start: int) -> Counter[str]:
    """Return the beginnings of the statements that the server has logged after a position in its log, with counts."""
    counts: Counter[str] = Counter()
    with log.open("rb") as lines:
        lines.seek(start)
        for line in lines:
            found = _LOGGED.match(line)
            if found is not None:
                words = (found[1].strip() or next(lines, b"")).decode(errors="replace").split()
                counts[" ".join(words[:5])[:70]] += 1
    return counts


@dataclass(frozen=True)
class Measured:
    """A run on workers: its seconds, the most memory it had in MB, its statements, the tree that it committed."""

    wall: float
    peak: float
    statements: Counter[str]
    tree: str


def measure(folder: Path, model: Model, schema: str, units: int, count: int, concurrency: int, log: Path) -> Measured:
    """Measure a run on that many workers (0: without a queue). `log`: that of the database server."""
    SharedProject.schema = schema if count else ""
    project = SharedProject(folder, model, "anthropic", at_once=concurrency)
    project.write("docs", [f"topic{number:03}" for number in range(units)])
    project.configure()
    project.run()  # the database, and the queue's schema with it
    project.configure("docs")
    with workers(project, count, concurrency):
        time.sleep(3.0 if count else 0.0)
        start = log.stat().st_size
        run = project.run()
        statements = statements_since(log, start)
    assert run.asked is not None and run.asked.units == units, run.asked
    requests = run.asked.requests - run.asked.others
    assert requests == units * STEPS, f"{requests} requests for {units} units on {count} workers"
    return Measured(run.wall, run.peak, statements, tree_of(project))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--statements", action="store_true")
    asked = parser.parse_args()
    with PostgresServer() as server, tempfile.TemporaryDirectory(prefix="ktx-bench-") as scratch:
        os.environ["KTX_STATE_URL"] = server.url()
        runs: dict[int, Measured] = {}
        ideal = asked.units * STEPS * asked.latency / asked.concurrency
        print(f"{asked.units} units of {STEPS} requests, {asked.latency * 1000:.0f} ms each, on {os.cpu_count()} cores")
        for count in [0, *asked.workers]:
            with serving(asked.latency) as model:
                place = Path(scratch) / f"run{count}"
                schema, log = f"ktx_bench_{count}", server.folder / "server.log"
                runs[count] = measure(place, model, schema, asked.units, count, asked.concurrency, log)
        fixed = max(0.0, runs[0].wall - ideal)
        print(f"without a queue: {runs[0].wall:6.2f} s, of which {fixed:.2f} s are not units; {runs[0].peak:.0f} MB")
        for count in asked.workers:
            run = runs[count]
            efficiency = (runs[asked.workers[0]].wall - fixed) * asked.workers[0] / (count * (run.wall - fixed))
            expected, number = ideal / count + fixed, run.statements.total() / asked.units
            print(
                f"{count} workers: {run.wall:6.2f} s, ideal {expected:6.2f} s, efficiency {efficiency:.2f}; "
                f"{run.peak:.0f} MB, {number:.1f} statements per unit"
            )
            for text, times in run.statements.most_common(40) if asked.statements else ():
                print(f"  {times / asked.units:8.2f} per unit: {text}")
        trees = {count: run.tree for count, run in runs.items()}
        assert len(set(trees.values())) == 1, f"the trees differ: {trees}"
        print("the final tree is the same in every run")


if __name__ == "__main__":
    main()
