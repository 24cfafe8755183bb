"""Learns the ranker of relationships from generated databases alone, and shows how well its probabilities hold.

    pip install scikit-learn
    python benchmarks/train_ranker.py --count 400 --output ktx_cli/context/scan/relationships/ranker.json

Boosted trees with monotonic constraints over the features of each pair of columns. The calibration is learned from
databases the trees did not see (five folds by database), on the pairs that win their column.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.relationship_fixtures.generate import CORPUS_WEIGHTS, generate
from ktx_cli.connectors.port import ConnectionSpec, Scope, Table
from ktx_cli.connectors.registry import connect
from ktx_cli.context.scan.profiling.profiler import Budget, profile_tables
from ktx_cli.context.scan.relationships.discover import candidate_pairs
from ktx_cli.context.scan.relationships.features import FEATURES
from ktx_cli.context.scan.relationships.ranker import Ranker, read_ranker
from ktx_cli.project.config.scan import Relationships

RISING = {"name_table", "name_key", "name_meaning", "clear_name", "coverage", "span", "chance", "parent_first"}
FALLING = {
    "name_best_elsewhere",
    "name_rank",
    "violations",
    "low_skew",
    "rivals",
    "coverage_rank",
    "measure_word",
    "flag_word",
    "tables_alike",
    "meaning_rank",
}
FOLDS = 5
MORE = {"role_named": 2.5, "tiny": 2.5}
"""Kinds the ranker learns more from than a corpus has of them."""
TREES = {"max_iter": 90, "learning_rate": 0.13, "max_depth": 5, "min_samples_leaf": 40, "l2_regularization": 5.0}


@dataclass(frozen=True)
class Example:
    """The pairs of one database: features, whether each is a reference, and which column it is of."""

    name: str
    values: list[list[float]]
    labels: list[int]
    children: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--corpus", type=Path, help="keep the generated databases here, and use those that are there")
    options = parser.parse_args()
    jobs = [(kind, options.seed + number, options.corpus) for number, kind in enumerate(_kinds(options.count))]
    with ProcessPoolExecutor(options.processes) as pool:
        examples = [each for each in pool.map(example_of, jobs, chunksize=4) if each.values]
    pairs, links = sum(len(e.labels) for e in examples), sum(sum(e.labels) for e in examples)
    print(f"{len(examples)} databases, {pairs:,} pairs, {links:,} of them references")
    held_out = _held_out_winners(examples)
    steps = _calibration(held_out)
    document = {**_trained(examples), "calibration": steps}
    document["reliability"] = _reliability(held_out, steps)
    document["learned_from"] = {"databases": len(examples), "pairs": pairs, "references": links, "seed": options.seed}
    options.output.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    for low, high, count, said, true in document["reliability"]:
        print(f"  said {low:.2f}-{high:.2f}: {count:6,} winners, mean {said:.3f}, true {true:.3f}")


def _kinds(count: int) -> list[str]:
    weights = CORPUS_WEIGHTS | MORE
    total = sum(weights.values())
    kinds = [kind for kind, weight in weights.items() for _ in range(round(count * weight / total))]
    return kinds or ["general"]


def example_of(job: tuple[str, int, Path | None]) -> Example:
    """Generate one database, or take the one that is there, and return its pairs."""
    kind, seed, corpus = job
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if corpus is None else corpus / f"{kind}-{seed}"
        if not (folder / "expected-links.yaml").exists():
            generate(folder, kind, seed)
        with connect(ConnectionSpec("x", "sqlite", {"path": str(folder / "data.sqlite")})) as connector:
            tables = [_hidden(table) for table in connector.introspect(Scope()).tables]
            profiled = profile_tables(connector, tables, Budget())
            pairs = candidate_pairs(connector, tables, profiled.tables, Relationships())
        truth, members = _truth(folder)
    several = {child for child, count in _count(child for child, _ in truth).items() if count > 1}
    left_out = several | members
    kept = [pair for pair in pairs if (pair.child.table.table.ref.name, pair.child.name) not in left_out]
    ends = [((p.child.table.table.ref.name, p.child.name), (p.key.table.table.ref.name, p.key.name)) for p in kept]
    return Example(
        f"{kind}-{seed}",
        [pair.values for pair in kept],
        [int(end in truth) for end in ends],
        [f"{child[0]}.{child[1]}" for child, _ in ends],
    )


def _hidden(table: Table) -> Table:
    return dataclasses.replace(table, primary_key=(), foreign_keys=(), unique_keys=(), indexes=())


def _truth(folder: Path) -> tuple[set[tuple[tuple[str, str], tuple[str, str]]], set[tuple[str, str]]]:
    """Return the references of single columns, and the columns that refer only together with others."""
    import yaml

    document = yaml.safe_load((folder / "expected-links.yaml").read_text("utf-8"))
    links = document["expectedLinks"]
    single = {
        ((link["fromTable"], link["fromColumns"][0]), (link["toTable"], link["toColumns"][0]))
        for link in links
        if len(link["fromColumns"]) == 1
    }
    several = [link for link in links if len(link["fromColumns"]) > 1]
    together = {(link["fromTable"], name) for link in several for name in link["fromColumns"]}
    optional = {(link["fromTable"], name) for link in document.get("optionalLinks", ()) for name in link["fromColumns"]}
    return single, (together | optional) - {child for child, _ in single}


def _count(values: Any) -> dict[Any, int]:
    found: dict[Any, int] = defaultdict(int)
    for value in values:
        found[value] += 1
    return found


def _fit(examples: Sequence[Example]) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    signs = [1 if name in RISING else -1 if name in FALLING else 0 for name in FEATURES]
    model = HistGradientBoostingClassifier(**TREES, monotonic_cst=signs, early_stopping=False, random_state=7)
    values = [row for example in examples for row in example.values]
    labels = [label for example in examples for label in example.labels]
    weights = [60.0 / (60.0 + len(example.labels)) for example in examples for _ in example.labels]
    model.fit(values, labels, sample_weight=weights)
    return model


def _trained(examples: Sequence[Example]) -> dict[str, Any]:
    model = _fit(examples)
    trees = [[_node(node) for node in predictor[0].nodes] for predictor in model._predictors]
    return {"features": list(FEATURES), "base": round(float(model._baseline_prediction[0][0]), 6), "trees": trees}


def _node(node: Any) -> list[float]:
    if node["is_leaf"]:
        return [-1, round(float(node["value"]), 6), 0, 0]
    return [int(node["feature_idx"]), float(node["num_threshold"]), int(node["left"]), int(node["right"])]


def _held_out_winners(examples: Sequence[Example]) -> list[tuple[float, int]]:
    """Return (raw probability, whether true) of each column's best pair, by trees that did not see its database."""
    found = []
    for fold in range(FOLDS):
        others = [example for number, example in enumerate(examples) if number % FOLDS != fold]
        ranker = _read(_trained(others))
        for example in examples[fold::FOLDS]:
            best: dict[str, tuple[float, int]] = {}
            for values, label, child in zip(example.values, example.labels, example.children, strict=True):
                best[child] = max(best.get(child, (-1.0, 0)), (ranker.probability(values), label))
            found += best.values()
    return found


def _read(document: dict[str, Any]) -> Ranker:
    return read_ranker({**document, "calibration": []})


def _calibration(winners: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """Return the isotonic steps from raw to true probability, thinned."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.002, y_max=0.998, out_of_bounds="clip")
    model.fit([raw for raw, _ in winners], [label for _, label in winners])
    grid = [0.0, *(number / 40 for number in range(1, 40)), 0.985, 0.99, 0.995, 0.998, 1.0]
    fitted = [float(each) for each in model.predict(grid)]
    smooth = [sum(fitted[max(0, at - 1) : at + 2]) / len(fitted[max(0, at - 1) : at + 2]) for at in range(len(fitted))]
    return [(point, round(value, 4)) for point, value in zip(grid, smooth, strict=True)]


def _reliability(winners: Sequence[tuple[float, int]], steps: Sequence[tuple[float, float]]) -> list[tuple[float, ...]]:
    """Return (from, to, count, mean said, share true) of the calibrated probabilities."""
    ranker = Ranker(0.0, (), tuple(steps))
    said = [(ranker._calibrated(raw), label) for raw, label in winners]
    edges = [0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95, 0.99, 1.01]
    rows = []
    for low, high in pairwise(edges):
        group = [each for each in said if low <= each[0] < high]
        if group:
            mean, true = (sum(each[at] for each in group) / len(group) for at in (0, 1))
            rows.append((low, min(high, 1.0), len(group), round(mean, 4), round(true, 4)))
    return rows


if __name__ == "__main__":
    main()
