"""Search: how long a query takes as a project grows, how long the index takes to write, and how good the order is.

Speed: 1,000, 3,000 and 10,000 wiki pages with 20,000 columns, queries put to one process one after the other (CPU
milliseconds, median and 99th percentile; the files are looked at once a second), one query in a process of its own,
CPU seconds to write the index anew, with nothing changed and with ten pages changed. Exit 1 when a query takes 10 ms
(median) or 50 ms (99th percentile).

Order: nDCG@10 on made-up collections (600 documents, 240 queries in other words than the documents) of ours, of BM25
with stems and of FTS5 as it is; then with vectors trained on the documents themselves (a truncated SVD, stored as a
Model2Vec model): made here, so they say how well fusion works and nothing of a model somebody would use. The
differences with a 95 % interval by paired bootstrap. Exit 1 when ours is below BM25 with stems.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.search_rivals import PlainBm25, PlainFts5, ndcg, train_vectors
from benchmarks.search_sets import Collection, collection, mean, some_queries, write_project
from ktx_cli.context.search.index.refresh import refresh
from ktx_cli.context.search.index.searching import Searcher
from ktx_cli.jobs.search import contents_of, open_searcher, refresh_index
from ktx_cli.llm.embeddings.model2vec import Model2VecEmbedder
from ktx_cli.llm.embeddings.port import Embedder
from ktx_cli.project.config import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import WorkingTree

PAGES, COLUMNS = (1_000, 3_000, 10_000), 20_000
QUERIES = 1_000
MEDIAN_MS, SLOWEST_MS = 10.0, 50.0
SEEDS = (1, 2, 3)
TOP = 10


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
    with_searcher = open_searcher(layout, config, {})
    first = timed(lambda: with_searcher.search("first"))
    spent = sorted(timed(lambda query=query: with_searcher.search(query)) for query in some_queries(words, queries))
    with_searcher.close()
    median, slowest = (1000 * statistics.quantiles(spent, n=100)[place] for place in (49, 98))
    print(
        f"{pages:>7,} pages: query {median:6.2f} ms median, {slowest:6.2f} ms p99, first {1000 * first:5.0f} ms;"
        f" index {whole:5.1f} s anew, {nothing:5.2f} s unchanged, {ten:5.2f} s ten pages, {size:5.1f} MB"
    )
    return median, slowest


def own_process(folder: Path) -> float:
    """Return the CPU seconds of a query in a process of its own: imports, opening, looking at the files, searching."""
    code = (
        "import sys; from pathlib import Path; from ktx_cli.jobs.search import search;"
        "from ktx_cli.project.config import load_config; from ktx_cli.project.layout import Layout;"
        "from ktx_cli.context.search.model import Scope; layout = Layout(Path(sys.argv[1]));"
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


def graded(made: Collection, search: Callable[[str], Sequence[str]]) -> list[float]:
    """Return the nDCG@10 of every query."""
    return [ndcg(search(query), worth, TOP) for query, worth in made.queries]


def difference(ours: Sequence[float], theirs: Sequence[float], rounds: int = 1000) -> tuple[float, float, float]:
    """Return the mean difference with its 95 % interval: queries drawn anew, pairs kept together."""
    chance = random.Random(5)
    pairs = [one - other for one, other in zip(ours, theirs, strict=True)]
    means = sorted(mean(chance.choices(pairs, k=len(pairs))) for _ in range(rounds))
    return mean(pairs), means[int(rounds * 0.025)], means[int(rounds * 0.975)]


def measure_order(seeds: Sequence[int]) -> float:
    """Print nDCG@10 of all; returns what ours has more than BM25 with stems."""
    scores: dict[str, list[float]] = {}
    for seed in seeds:
        made = collection(seed)
        texts = {text.id: f"{text.id} {text.whole}" for text in made.texts}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            train_vectors(list(texts.values()), folder / "model")
            embedder = Model2VecEmbedder("model", folder, None, 256)
            plain = searcher_of(made, folder / "plain", None)
            fused = searcher_of(made, folder / "fused", embedder)
            ways: dict[str, Callable[[str], Sequence[str]]] = {
                "ours, words": lambda query, s=plain: [hit.id for hit in s.search(query, limit=TOP).found.hits],
                "BM25 with stems": PlainBm25(texts).search,
                "FTS5, any word": PlainFts5(texts).search,
                "ours, words and vectors": lambda query, s=fused: [h.id for h in s.search(query, limit=TOP).found.hits],
            }
            for name_of, way in ways.items():
                scores.setdefault(name_of, []).extend(graded(made, way))
            plain.close()
            fused.close()
    for name_of, values in scores.items():
        print(f"nDCG@10 {mean(values):.4f}  {name_of}")
    for one, other in (("ours, words", "BM25 with stems"), ("ours, words and vectors", "ours, words")):
        found, low, high = difference(scores[one], scores[other])
        print(f"{one} minus {other}: {found:+.4f} [{low:+.4f}, {high:+.4f}]")
    return difference(scores["ours, words"], scores["BM25 with stems"])[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("speed", "order"))
    parser.add_argument("--pages", type=int, action="append", help="Numbers of pages, in place of the usual ones.")
    options = parser.parse_args()
    good = True
    if options.only != "order":
        for pages in options.pages or PAGES:
            with tempfile.TemporaryDirectory() as name:
                median, slowest = measure_speed(Path(name), pages, QUERIES)
                good = good and median < MEDIAN_MS and slowest < SLOWEST_MS
                print(f"{'':>14} one query in its own process: {own_process(Path(name)):.2f} s")
    if options.only != "speed":
        good = measure_order(SEEDS) >= 0 and good
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
