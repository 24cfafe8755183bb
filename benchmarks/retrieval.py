"""Which tables does a question need? Ranks of the needed tables in searches and in context packs of some sizes.

Run it with `python benchmarks/retrieval.py FOLDER`, a folder with two files of JSON lines:

* `tables.jsonl`: `schema`, `table`, `columns` (`name`, `type`), `primary_key` (names of columns), and `foreign_keys`
  (`column_name`, `referenced_table_name`, `referenced_column_name`; what stands before `#sep#` is left out).
* `questions.jsonl`: `question`, and `tables` (`schema.table`) that its answer needs.

The tables become a project with one connection and no rows, their keys declared joins. all@k is the share of questions
all of whose tables are among the first k, recall@k the share of their tables. Nothing of the folder is kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ktx_cli.agent_tools.searcher import contents_of
from ktx_cli.core import yaml
from ktx_cli.jobs.index import refresh_index
from ktx_cli.jobs.pack.pack import PackRequest, context_pack
from ktx_cli.project import Layout, WorkingTree, load_config
from ktx_cli.search import Scope, Searcher
from ktx_cli.semantic import load_layer
from ktx_cli.semantic.lookup import lookup_of

CONNECTION = "warehouse"
BUDGETS = (2_000, 4_000, 8_000)
_TYPES = {"number": ("int", "dec", "num", "float", "double", "real"), "time": ("date", "time"), "boolean": ("bool",)}


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def write_project(root: Path, tables: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write tables as a scan does, a shard for each schema; returns `schema.table` -> the name of its source."""
    counts = Counter(each["table"] for each in tables)
    names = {
        f"{each['schema']}.{each['table']}".lower(): each["table"]
        if counts[each["table"]] == 1
        else f"{each['schema']}_{each['table']}"
        for each in tables
    }
    shards: dict[str, dict[str, Any]] = defaultdict(dict)
    for each in tables:
        joins = []
        for key in each["foreign_keys"]:
            target = f"{each['schema']}.{key['referenced_table_name'].rpartition('#sep#')[2]}".lower()
            if target in names:
                on = f"{key['column_name']} = {names[target]}.{key['referenced_column_name']}"
                joins.append({"to": names[target], "on": on, "relationship": "many_to_one"})
        keys = set(each["primary_key"] or ())
        columns = [
            {"name": column["name"], "type": _type(column["type"])} | ({"pk": True} if column["name"] in keys else {})
            for column in each["columns"]
        ]
        name = names[f"{each['schema']}.{each['table']}".lower()]
        shards[each["schema"]][name] = {
            "table": f"{each['schema']}.{each['table']}",
            "columns": columns,
            "joins": _labelled(joins),
        }
    folder = root / "semantic-layer" / CONNECTION / "_schema"
    folder.mkdir(parents=True)
    for schema, entries in shards.items():
        (folder / f"{schema}.yaml").write_text(yaml.dump({"tables": entries}), encoding="utf-8")
    (root / "ktx.yaml").write_text(f"connections:\n  {CONNECTION}: {{driver: sqlite, path: warehouse.sqlite}}\n")
    return names


def _type(text: str) -> str:
    lower = text.lower()
    return next((name for name, parts in _TYPES.items() if any(part in lower for part in parts)), "string")


def _labelled(joins: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return joins of which several lead to one table with an alias each: the column they go over."""
    counts = Counter(each["to"] for each in joins)
    return [each | ({"alias": each["on"].partition(" ")[0]} if counts[each["to"]] > 1 else {}) for each in joins]


def ranks_of(order: Sequence[str], needed: Sequence[str]) -> list[int]:
    """Return the rank of each needed source, from 1; one that is not there is further away than any."""
    places = {name: place for place, name in enumerate(order, 1)}
    return [places.get(name, 10**9) for name in needed]


def print_ranks(title: str, ranks: Sequence[Sequence[int]], spent: Sequence[float]) -> None:
    """Print the shares of one way of finding."""

    def share_of_all(k: int) -> float:
        return statistics.mean(all(rank <= k for rank in each) for each in ranks)

    def recall(k: int) -> float:
        return statistics.mean(statistics.mean(rank <= k for rank in each) for each in ranks)

    shares = f"all@10 {share_of_all(10):.2f}  all@20 {share_of_all(20):.2f}  recall@10 {recall(10):.2f}"
    slowest = statistics.quantiles(spent, n=20)[-1]
    print(
        f"{title:24} {shares}  recall@20 {recall(20):.2f}   CPU p50 {1000 * statistics.median(spent):.1f} ms,"
        f" p95 {1000 * slowest:.1f} ms"
    )


def main() -> None:
    """Print the figures of one folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    tables, questions = lines(folder / "tables.jsonl"), lines(folder / "questions.jsonl")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        names = write_project(root, tables)
        layout = Layout(root)
        layout.private.mkdir()
        config = load_config(layout.config).config
        refresh_index(layout, config, {})
        searcher = Searcher(layout.search_index, lambda: contents_of(layout, config), WorkingTree(root))
        for title, scope in (("search, every kind", Scope()), ("search, sources alone", Scope(("source",)))):
            ranks, spent = [], []
            for each in questions:
                begun = time.process_time()
                hits = searcher.search(each["question"], scope, limit=200).found.hits
                spent.append(time.process_time() - begun)
                sources = dict.fromkeys(hit.id.partition(".")[0] for hit in hits if hit.kind != "page")
                ranks.append(ranks_of(list(sources), [names[table] for table in each["tables"]]))
            print_ranks(title, ranks, spent)
        model = load_layer(layout, config, CONNECTION)
        lookup = lookup_of(model)

        def neighbors(connection: str, source: str) -> list[str]:
            return [join.to if owner == source else owner for owner, join in lookup.joins_of(source)]

        ranks, spent = [], []
        for each in questions:
            begun = time.process_time()
            tables_found, _ = searcher.tables(each["question"], neighbors, limit=200)
            spent.append(time.process_time() - begun)
            ranks.append(ranks_of([one.name for one in tables_found], [names[table] for table in each["tables"]]))
        print_ranks("tables", ranks, spent)
        for budget in BUDGETS:
            shares, spent = [], []
            for each in questions:
                request = PackRequest(each["question"], budget)
                begun = time.process_time()
                pack = context_pack(layout, config, request, searcher=searcher, load=lambda *_: model)
                spent.append(time.process_time() - begun)
                held = {source.partition("/")[2] for source in pack.sources}
                shares.append([names[table] in held for table in each["tables"]])
            recall = statistics.mean(statistics.mean(each) for each in shares)
            print(
                f"{f'pack of {budget:,} tokens':24} all {statistics.mean(map(all, shares)):.2f}  recall {recall:.2f}"
                f"   CPU p50 {1000 * statistics.median(spent):.1f} ms"
            )


if __name__ == "__main__":
    main()
