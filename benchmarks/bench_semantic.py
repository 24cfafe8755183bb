"""The semantic layer: reading and checking a model, compiling questions, asking them; and how it grows.

Prints, for 20, 89, 400 and 1,000 sources (the 89: about 1,200 columns, 300 measures, 150 joins): CPU seconds of reading
and checking all files, nothing remembered; CPU milliseconds of compiling 300 different questions (median and 99th
percentile) with the model in memory. Compared with a process for each question, which reads the model and compiles one.
Then what probing the joins adds to asking, on a million rows in DuckDB. Exit 1 when the 89 sources take 0.3 s to read
and check, 3 ms (median) or 10 ms (99th percentile) to compile a question.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.semantic_models import CONNECTION, Made, layer, questions, write_layer
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model
from ktx_cli.semantic.store.reader import check_model

SIZES = (20, 89, 400, 1000)
THE_SIZE = 89
QUESTIONS = 300
LOAD_SECONDS, MEDIAN_MS, SLOWEST_MS = 0.3, 3.0, 10.0
ROWS = 1_000_000
NOW = datetime(2024, 6, 1)


def cpu(call: Callable[[], Any]) -> float:
    """Return the CPU seconds of one call in this process."""
    started = time.process_time()
    call()
    return time.process_time() - started


def forget() -> None:
    """Drop what functions of the semantic layer remember."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ktx_cli.semantic"):
            for each in vars(module).values():
                if hasattr(each, "cache_clear"):
                    each.cache_clear()


def read_anew(folder: Path) -> float:
    """Return the CPU seconds of reading and checking a folder, nothing remembered."""
    forget()
    return cpu(lambda: loaded(folder))


def loaded(folder: Path) -> Model:
    """Return the model of a folder; everything in it must be right."""
    model = load_model(Layout(folder), CONNECTION, "duckdb")
    problems = [each for each in (*model.problems, *check_model(model)) if each.severity == "error"]
    if problems:
        raise SystemExit(f"the generated layer is wrong: {problems[0].message}")
    return model


def compiled(model: Model, graph: Graph | None, query: dict[str, Any]) -> str:
    """Return the SQL of a question."""
    return compile_query(model, query, now=NOW, graph=graph).sql


def measure(count: int) -> tuple[float, list[float]]:
    """Print the figures of one size; return seconds to load and milliseconds of each question."""
    sources = layer(count)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_layer(folder, sources)
        load = statistics.median(read_anew(folder) for _ in range(3))
        model = loaded(folder)
    graph = Graph(model)
    asked = list(questions(sources, QUESTIONS))
    times = sorted(1000 * cpu(lambda: compiled(model, graph, each)) for each in asked)  # noqa: B023 - called at once
    joins, columns = sum(len(each.joins) for each in sources), sum(len(each.columns) for each in sources)
    measures = sum(len(each.measures) for each in sources)
    print(
        f"{count:>8}{columns:>9}{measures:>10}{joins:>7}{load:>9.3f}s{1e6 * load / columns:>10.0f} µs"
        f"{statistics.median(times):>9.2f} ms{_99th(times):>8.2f} ms{1000 * cpu(lambda: Graph(model)):>9.2f} ms"
    )
    return load, times


def _99th(times: list[float]) -> float:
    return times[int(len(times) * 0.99)]


def alone(folder: Path, query: dict[str, Any]) -> float:
    """Return the CPU seconds of a process that reads the model and compiles one question."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, "--one", str(folder), json.dumps(query)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare_with_a_process(times: list[float]) -> None:
    """Print how a process for each question compares."""
    sources = layer(THE_SIZE)
    with tempfile.TemporaryDirectory() as folder:
        write_layer(Path(folder), sources)
        each = statistics.median(alone(Path(folder), query) for query in questions(sources, 5))
    ratio = 1000 * each / statistics.median(times)
    print(f"a process for each question: {each:.3f} s CPU, {ratio:,.0f} x a question to a model in memory")


def asking() -> None:
    """Print what probing adds to a question over a million rows."""
    import duckdb

    from ktx_cli.warehouses.port import ConnectionSpec
    from ktx_cli.warehouses.registry import connect

    sources = layer(20)
    fact = next(each for each in sources if each.is_fact and len(each.joins) > 2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_layer(folder, sources)
        with duckdb.connect(str(folder / "rows.duckdb")) as database:
            for each in sources:
                database.execute(_table(each, ROWS if each is fact else 10_000))
        model = loaded(folder)
        query = {"measures": [f"{fact.name}.{fact.measures[1]['name']}"], "dimensions": [_dimension(sources, fact)]}
        with connect(ConnectionSpec(CONNECTION, "duckdb", {"path": str(folder / "rows.duckdb")})) as connector:
            ask(model, query, connector, now=NOW)
            runs = [(probed, _seconds_to_ask(model, query, connector, probed)) for probed in (False, True) * 7]
            found = {probed: min(seconds for each, seconds in runs if each is probed) for probed in (False, True)}
    print(
        f"asking over {ROWS:,} rows (the best of 7): {1000 * found[False]:.0f} ms, "
        f"probed {1000 * found[True]:.0f} ms ({found[True] / found[False]:.2f} x)"
    )


def _dimension(sources: list[Made], fact: Made) -> str:
    """Return a text column of the dimension behind a role of a fact."""
    target, alias = next((target, alias) for _, target, alias in fact.joins if alias)
    return f"{alias}.{next(each.texts[0] for each in sources if each.name == target)}"


def _seconds_to_ask(model: Model, query: dict[str, Any], connector: Any, probed: bool) -> float:
    started = time.perf_counter()
    ask(model, query, connector, now=NOW, probed=probed)
    return time.perf_counter() - started


def _table(source: Made, rows: int) -> str:
    keys = [f"i * 7 % 10000 AS {column}" for column, _, _ in source.joins]
    texts = [f"'{name}' || i % {5 + place * 3} AS {name}" for place, name in enumerate(source.texts)]
    numbers = [f"i % 1000 AS {name}" for name in source.numbers]
    times = [
        f"TIMESTAMP '2023-01-01' + to_hours(CAST(i % 12000 AS INTEGER)) AS {n}" for n in ("created_at", "updated_at")
    ]
    columns = ", ".join(["i AS id", *keys, *texts, *numbers, *times])
    return f"CREATE TABLE {source.name} AS SELECT {columns} FROM range({rows}) AS numbers(i)"


def main() -> None:
    """Measure and print everything."""
    print(
        f"{'sources':>8}{'columns':>9}{'measures':>10}{'joins':>7}{'load':>10}{'a column':>13}"
        f"{'compile':>12}{'99th':>11}{'graph':>12}"
    )
    found = {count: measure(count) for count in SIZES}
    load, times = found[THE_SIZE]
    compare_with_a_process(times)
    asking()
    slow = {
        f"{load:.2f} s to read and check": load >= LOAD_SECONDS,
        f"{statistics.median(times):.1f} ms to compile": statistics.median(times) >= MEDIAN_MS,
        f"{_99th(times):.1f} ms to compile the slowest": _99th(times) >= SLOWEST_MS,
    }
    if any(slow.values()):
        sys.exit(f"too slow for {THE_SIZE} sources: {', '.join(name for name, is_slow in slow.items() if is_slow)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(compiled(loaded(Path(sys.argv[2])), None, json.loads(sys.argv[3])))
    else:
        main()
