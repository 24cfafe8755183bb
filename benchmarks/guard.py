"""What stops the hostile statements of the corpus: the filter, the session, both; and what the filter costs.

Runs the statements of SQLite, DuckDB, Postgres and MariaDB without the filter, by a role that may only SELECT, and
compares database and files before and after; then Postgres again by its superuser. Prints tables. Exit 1 when a
statement passes the filter that no session ends, when a session alone leaves an effect, when an honest statement is
refused, or when a check takes 20 ms at the median.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.core.errors import KtxError
from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses import base
from ktx_cli.warehouses.duckdb import connector as duckdb
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.functions import EITHER
from tests.worlds.guard_corpus import Case, read_corpus
from tests.worlds.guard_world import DuckDbWorld, MySqlWorld, PostgresWorld, SqliteWorld, World

CORPUS = Path(__file__).parents[1] / "tests" / "warehouses" / "guard" / "corpus"
TOO_LARGE_TO_RUN = {"h191"}
ENDED_SESSIONS = {"f002"}
"""What ends another session of the same role, which no session that only reads is kept from."""

ROUNDS = 5


def passes(case: Case) -> bool:
    try:
        check(case.sql, case.dialect, max_rows=100, server=EITHER)
    except KtxError:
        return False
    return True


def outcomes(world: World, cases: Sequence[Case]) -> dict[str, str]:
    """Return by id how each statement of the world's dialect ended: `refused`, `no effect` or `EFFECT`."""
    found: dict[str, str] = {}
    before = world.state()
    with world.open() as connector:
        for case in cases:
            if case.dialect != world.dialect or case.id in TOO_LARGE_TO_RUN:
                continue
            ended = "no effect"
            try:
                connector.query(world.here(case.sql), max_rows=100)
            except KtxError:
                ended = "refused"
            after = world.state()
            found[case.id], before = "EFFECT" if after != before else ended, after
    return found


def seconds_per_check(cases: Sequence[Case]) -> list[float]:
    times = []
    for case in cases:
        started = time.perf_counter()
        for _ in range(ROUNDS):
            passes(case)
        times.append((time.perf_counter() - started) / ROUNDS)
    return times


def print_filter(title: str, cases: Sequence[Case]) -> None:
    stopped = Counter(case.dialect for case in cases if not passes(case))
    print(f"{title}: the filter stops {sum(stopped.values())} of {len(cases)}")
    for dialect, count in sorted(Counter(case.dialect for case in cases).items()):
        print(f"  {dialect:<12}{stopped[dialect]:>4} of {count}")


def print_sessions(found: dict[str, dict[str, str]], cases: Sequence[Case]) -> None:
    print(f"{'sessions alone':<16}{'refused':>9}{'no effect':>11}{'EFFECT':>8}{'both stop':>11}{'session only':>14}")
    by_id = {case.id: case for case in cases}
    for name, ended in found.items():
        counts = Counter(ended.values())
        both = sum(1 for key, how in ended.items() if how == "refused" and not passes(by_id[key]))
        only = [key for key in ended if passes(by_id[key])]
        print(
            f"{name:<16}{counts['refused']:>9}{counts['no effect']:>11}{counts['EFFECT']:>8}{both:>11}{len(only):>14}"
        )


def print_statements(title: str, cases: Sequence[Case]) -> None:
    print(f"{title}: {len(cases)}")
    for case in cases:
        print(f"  {case.id}  {case.dialect:<11}{case.kind:<11}{case.sql[:90]}")


def run_sessions(cases: Sequence[Case]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    base.STATEMENT_SECONDS, base.LOCK_SECONDS, base.MAX_RESULT_BYTES = 0.3, 1, 8_000_000
    duckdb.CLOSED_SETTINGS["memory_limit"] = "256MiB"
    with ExitStack() as stack:
        postgres, mariadb = PostgresServer(), MariaDBServer()
        stack.enter_context(postgres)
        stack.enter_context(mariadb)
        worlds = (SqliteWorld(), DuckDbWorld(), PostgresWorld(postgres), MySqlWorld(mariadb))
        found = {world.dialect: outcomes(stack.enter_context(world), cases) for world in worlds}
        root = outcomes(stack.enter_context(PostgresWorld(postgres, superuser=True)), cases)
    return found, root


def main() -> None:
    design = [
        case
        for path in sorted(CORPUS.glob("hostile*.jsonl"))
        if path.stem != "hostile_held_out"
        for case in read_corpus(path)
    ]
    held_out = read_corpus(CORPUS / "hostile_held_out.jsonl")
    honest = [case for path in sorted(CORPUS.glob("honest*.jsonl")) for case in read_corpus(path)]
    hostile = design + held_out
    check("SELECT 1", "sqlite", max_rows=1)  # imports
    times = seconds_per_check(honest)
    print_filter("hostile, written with the filter", design)
    print_filter("hostile, held out", held_out)
    first = [case for case in held_out if case.missed]
    print(f"  when it was finished, the filter stopped {len(held_out) - len(first)} of these {len(held_out)}")
    print_filter("honest (none may be stopped)", honest)
    classes: dict[str, int] = defaultdict(int)
    for case in hostile:
        classes[case.kind] += 1
    print("classes:", ", ".join(f"{name} {count}" for name, count in sorted(classes.items())))
    missed = [case for case in hostile if passes(case)]
    print_statements("the filter's misses, which the session has to end", missed)
    found, root = run_sessions(hostile)
    print_sessions(found, hostile)
    effects = [case for case in hostile if any(ended.get(case.id) == "EFFECT" for ended in found.values())]
    print_statements("effects by a role that may only SELECT", effects)
    refused = found["postgres"]
    ran = [case for case in hostile if root.get(case.id, "refused") != "refused"]
    more = [case for case in ran if refused[case.id] == "refused"]
    print_statements("what a superuser of Postgres could do besides, without the filter", more)
    print_statements("of these, what stays", [case for case in more if root[case.id] == "EFFECT"])
    ordered = sorted(times)
    median, most = statistics.median(ordered), ordered[-1]
    p95 = ordered[int(len(ordered) * 0.95)]
    print(
        f"a check takes {median * 1000:.2f} ms at the median, {p95 * 1000:.2f} ms at p95, {most * 1000:.2f} ms at most"
    )
    unstopped = [case for case in missed if case.dialect not in found]
    unexpected = [case for case in effects if case.id not in ENDED_SESSIONS or passes(case)]
    if unexpected or unstopped or median > 0.02 or not all(map(passes, honest)):
        sys.exit("not as promised")


if __name__ == "__main__":
    main()
